"""Signatures of clear-signed messages, by Sequoia.

Importing this costs time; only what meets a keyring does.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pysequoia
from pysequoia import Cert
from pysequoia.packet import HashAlgorithm, Packet, PacketPile, SignatureType, Tag

from aicr_pipeline.model.armor import blocks_of

_UNSAFE = ((HashAlgorithm.MD5, "MD5"), (HashAlgorithm.RipeMD, "RIPEMD-160"), (HashAlgorithm.SHA1, "SHA-1"))
#: By how much the signer's clock may be ahead. Sequoia's own tolerance.
_AHEAD = timedelta(minutes=30)
_UNDATED = datetime.min.replace(tzinfo=UTC)


class SignatureError(ValueError):
    """The message is not signed as asked. The text completes "the provenance file …"."""


class KeyringError(ValueError):
    """The keys cannot be used."""


@dataclass(frozen=True)
class Verified:
    """What was signed, and by whom: fingerprint of the primary key (upper case) and user id."""

    text: bytes
    fingerprint: str
    user_id: str


def verify(message: bytes, signature: bytes, keys: str, now: datetime) -> Verified:
    """Verify a clear-signed message.

    Parameters
    ----------
    message:
        The whole message.
    signature:
        Its signature block alone, to say why it is refused.
    keys:
        ASCII-armored public keys.
    now:
        The key must not be expired at this time.

    Raises
    ------
    SignatureError
        One sound signature by a key that is good today is needed, and was not found.
    KeyringError
        For keys that cannot be read.
    """
    certs = _certs(keys)
    asked: list[str] = []

    def store(handles: list[str]) -> list[Cert]:
        asked.extend(handles)
        return list(certs.values())

    try:
        found = pysequoia.verify(bytes=message, store=store)
    except RuntimeError as error:
        raise SignatureError(_why(asked, certs.values(), signature, now, error)) from None
    problems = []
    for good in found.valid_sigs:
        cert = certs[good.certificate]
        problem = _not_good_today(cert, good.signing_key, now)
        if problem is None:
            return Verified(found.bytes or b"", cert.fingerprint.upper(), str(next(iter(cert.user_ids), "")))
        problems.append(problem)
    raise SignatureError(problems[0] if problems else "has no signature")


def _certs(keys: str) -> dict[str, Cert]:
    """By fingerprint. One key that stands twice is one: the second may bring a revocation."""
    certs: dict[str, Cert] = {}
    for number, block in enumerate(blocks_of(keys), 1):
        try:
            found = Cert.split_bytes(block.encode())
            for cert in found:
                held = certs.get(cert.fingerprint)
                merged = held.merge(cert) if held else cert
                _packets(merged)  # what cannot be written again must show here
                certs[cert.fingerprint] = merged
        except (RuntimeError, ValueError) as error:
            raise KeyringError(f"block {number} cannot be read ({_plain(error)})") from None
        if not found:
            raise KeyringError(f"block {number} holds no key")
    if not certs:
        raise KeyringError("they hold no key")
    return certs


def _why(
    asked: list[str], certs: Iterable[Cert], signature: bytes, now: datetime, error: RuntimeError
) -> str:
    """The library says only that nothing was sound; people need to know which key, and what about it."""
    if not asked:
        return f"is no signed message that can be read ({_plain(error)})"
    for handle in asked:
        for cert in certs:
            key = next((key for key in _keys(cert) if key.endswith(handle.lower())), None)
            if key is not None:
                problem = _not_good_today(cert, key, now) or _unsound(signature, now)
                return problem or f"has a signature of key {key.upper()} that does not match its text"
    others = ", ".join(sorted({handle.upper() for handle in asked})[:3])
    return f"is signed by key {others}, which registry.provenance does not name for this source"


def _not_good_today(cert: Cert, key: str, now: datetime) -> str | None:
    about = f"is signed by key {key.upper()}, which"
    try:
        revoked, expires = cert.is_revoked, cert.expiration
        if key != cert.fingerprint:
            bindings = list(_signatures_on(cert, key))
            revoked = revoked or any(one.signature_type == SignatureType.SubkeyRevocation for one in bindings)
            expires = min(filter(None, (expires, _expiration(cert, key, bindings))), default=None)
    except (
        RuntimeError
    ) as error:  # shorter than what is safe today, or in a form that the library does not know
        return f"{about} is not accepted ({_plain(error)})"
    if revoked:
        return f"{about} is revoked"
    if expires is not None and expires <= now:
        return f"{about} expired on {expires:%Y-%m-%d}"
    return None


def _expiration(cert: Cert, key: str, bindings: list[Packet]) -> datetime | None:
    """When a subkey expires, by its newest binding."""
    created = next(packet.key_created for packet in _packets(cert) if packet.fingerprint == key)
    bound = [one for one in bindings if one.signature_type == SignatureType.SubkeyBinding]
    newest = max(bound, key=lambda one: one.signature_created or _UNDATED, default=None)
    if created is None or newest is None or not newest.key_validity_period:
        return None
    return created + newest.key_validity_period


def _unsound(signature: bytes, now: datetime) -> str | None:
    try:
        packets = list(PacketPile.from_bytes(signature))
        return next(filter(None, (_flaw(one, now) for one in packets if one.tag == Tag.Signature)), None)
    except (RuntimeError, ValueError):  # this only looks for a better message
        return None


def _flaw(packet: Packet, now: datetime) -> str | None:
    weak = next((name for algorithm, name in _UNSAFE if packet.hash_algorithm == algorithm), None)
    created, expires = packet.signature_created, packet.signature_expiration_time
    if weak:
        return f"has a signature over {weak}, which is not safe any more"
    if created and created > now + _AHEAD:
        return f"has a signature dated {created:%Y-%m-%d}, which is in the future"
    if expires and expires <= now:
        return f"has a signature that expired on {expires:%Y-%m-%d}"
    return None


def _keys(cert: Cert) -> list[str]:
    return [packet.fingerprint for packet in _packets(cert) if packet.fingerprint]


def _signatures_on(cert: Cert, key: str) -> Iterator[Packet]:
    current = None
    for packet in _packets(cert):
        current = packet.fingerprint or current
        if packet.tag == Tag.Signature and current == key:
            yield packet


def _packets(cert: Cert) -> list[Packet]:
    return list(PacketPile.from_bytes(bytes(cert)))


def _plain(error: Exception) -> str:
    """Without the library's stack backtrace."""
    return " ".join(str(error).partition("Stack backtrace")[0].split())[:200]
