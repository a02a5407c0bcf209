"""The pipeline's KMS key: ECC_NIST_P256, ECDSA_SHA_256, always over a digest."""

from typing import Any


class Signer:
    """Signs digests. Only ``bind_evidence`` may."""

    def __init__(self, kms: Any, key_id: str) -> None:
        self._kms = kms
        self._key_id = key_id

    def sign_digest(self, digest: bytes) -> bytes:
        """DER ECDSA signature of a SHA-256 digest (32 bytes)."""
        answer = self._kms.sign(
            KeyId=self._key_id, Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256"
        )
        signature: bytes = answer["Signature"]
        return signature

    def public_key(self) -> bytes:
        """DER SubjectPublicKeyInfo."""
        key: bytes = self._kms.get_public_key(KeyId=self._key_id)["PublicKey"]
        return key


def public_key_of(kms: Any, key_uri: str) -> bytes:
    """DER SubjectPublicKeyInfo of a key that is named as Sigstore names one: ``awskms:///<alias or ARN>``.

    What KMS refuses is not the domain's to judge: the state fails there, and can be redriven.
    """
    key: bytes = kms.get_public_key(KeyId=key_uri.removeprefix("awskms:///"))["PublicKey"]
    return key


def region_of(key_uri: str) -> str | None:
    """The region in which a key lives when its URI says so; an alias is looked for in the cluster's own."""
    found = key_uri.removeprefix("awskms:///")
    return found.split(":")[3] if found.startswith("arn:") else None
