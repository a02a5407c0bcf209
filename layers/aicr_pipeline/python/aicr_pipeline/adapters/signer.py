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
