"""DSSE envelopes (secure-systems-lab/dsse, protocol 1.0): PAE, assembly and strict reading."""

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils


@dataclass(frozen=True)
class Envelope:
    """A read envelope; ``signatures`` are (keyid, bytes). The keyid is a hint, never trusted."""

    payload_type: str
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]


def pae(payload_type: str, payload: bytes) -> bytes:
    """Pre-authentication encoding: what is signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def pae_digest(payload_type: str, payload: bytes) -> bytes:
    """SHA-256 of the PAE: what KMS signs with ``MessageType=DIGEST`` (RAW stops at 4,096 bytes)."""
    return hashlib.sha256(pae(payload_type, payload)).digest()


def envelope(payload_type: str, payload: bytes, keyid: str, signature: bytes) -> bytes:
    """The envelope as JSON bytes."""
    document = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": payload_type,
        "signatures": [{"keyid": keyid, "sig": base64.b64encode(signature).decode()}],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def read_envelope(data: bytes) -> Envelope:
    """Raises ValueError saying what is wrong; nothing is decoded leniently."""
    document = json.loads(data, object_pairs_hook=once)
    if not isinstance(document, dict):
        raise ValueError("the envelope is not an object")
    signatures = document.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise ValueError("the envelope has no signatures")
    found = []
    for item in signatures:
        if not isinstance(item, dict):
            raise ValueError("a signature is not an object")
        found.append((str(item.get("keyid", "")), _decode(item.get("sig"), "a signature")))
    kind = document.get("payloadType")
    if not isinstance(kind, str):
        raise ValueError("the envelope has no payloadType")
    return Envelope(kind, _decode(document.get("payload"), "the payload"), tuple(found))


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON whose names stand once: with one twice, two readers may read two documents."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def read_key(data: bytes) -> ec.EllipticCurvePublicKey:
    """An ECDSA P-256 public key, as PEM or DER. Raises ValueError saying what it is instead."""
    try:
        if data.lstrip().startswith(b"-----"):
            key = serialization.load_pem_public_key(data)
        else:
            key = serialization.load_der_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("the public key is neither PEM nor DER") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("the public key is not ECDSA P-256")
    return key


def public_der(data: bytes) -> bytes:
    """The SubjectPublicKeyInfo of a public key of any kind, as PEM or DER. Raises ValueError."""
    try:
        load = serialization.load_pem_public_key
        key = load(data) if data.lstrip().startswith(b"-----") else serialization.load_der_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("the public key is neither PEM nor DER") from None
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def as_der(key: ec.EllipticCurvePublicKey) -> bytes:
    """Its SubjectPublicKeyInfo."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def is_signed(key: ec.EllipticCurvePublicKey, signature: bytes, digest: bytes) -> bool:
    """Whether the key made this signature of a SHA-256 digest."""
    try:
        key.verify(signature, digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))
    except InvalidSignature:
        return False
    return True


def fingerprint(public_key_der: bytes) -> str:
    """Lowercase hex SHA-256 of the DER SubjectPublicKeyInfo."""
    return hashlib.sha256(public_key_der).hexdigest()


def _decode(value: object, what: str) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{what} is missing")
    try:
        decoded = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{what} is not base64") from None
    if base64.b64encode(decoded).decode() != value:  # bits that the padding hides
        raise ValueError(f"{what} is not canonical base64")
    return decoded
