"""Keys that take a while to make, once each and only when a test wants one."""

from functools import cache

from cryptography.hazmat.primitives.asymmetric import rsa


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    """The RSA key of this many bits in this process."""
    return rsa.generate_private_key(65537, bits)
