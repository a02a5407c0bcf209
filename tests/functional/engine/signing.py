"""Signing helpers of the shim tests."""

from __future__ import annotations

import hashlib
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

DIGEST = hashlib.sha256(b"pae" * 5000).digest()


def verify(kms: Any, key: str, digest: bytes, signature: bytes) -> None:
    """As an offline verifier does: over the digest, with the public key alone."""
    public = serialization.load_der_public_key(kms.get_public_key(KeyId=key)["PublicKey"])
    assert isinstance(public, ec.EllipticCurvePublicKey)
    public.verify(signature, digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))


def signed(kms: Any, key: str, digest: bytes) -> bytes:
    answer = kms.sign(KeyId=key, Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256")
    return bytes(answer["Signature"])
