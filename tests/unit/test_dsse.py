"""DSSE: the specification's own vectors, strict reading, and other implementations' opinions."""

import base64
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.dsse import envelope, fingerprint, pae, pae_digest, read_envelope
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from hypothesis import given
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope as OtherEnvelope
from securesystemslib.signer import SSlibKey

KIND = "application/vnd.in-toto+json"
KEY = ec.derive_private_key(0xA1C2, ec.SECP256R1())
DER = KEY.public_key().public_bytes(
    serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
)
PEM = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


def sign(digest: bytes) -> bytes:
    """As KMS does with MessageType DIGEST."""
    return KEY.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))


@pytest.mark.parametrize(
    ("kind", "payload", "encoded"),
    [
        # From the protocol's README and its test vectors.
        (
            "http://example.com/HelloWorld",
            b"hello world",
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world",
        ),
        ("", b"", b"DSSEv1 0  0 "),
        ("é", "ü".encode(), b"DSSEv1 2 \xc3\xa9 2 \xc3\xbc"),
        ("a b", b"\x00\xff 1 ", b"DSSEv1 3 a b 5 \x00\xff 1 "),
    ],
)
def test_pae(kind: str, payload: bytes, encoded: bytes) -> None:
    assert pae(kind, payload) == encoded
    assert pae_digest(kind, payload) == hashlib.sha256(encoded).digest()


@given(st.text(max_size=9), st.binary(max_size=9), st.text(max_size=9), st.binary(max_size=9))
def test_pae_tells_everything_apart(kind: str, payload: bytes, other: str, more: bytes) -> None:
    assert (pae(kind, payload) == pae(other, more)) == ((kind, payload) == (other, more))


@given(st.binary(max_size=99), st.binary(max_size=80))
def test_round_trip(payload: bytes, signature: bytes) -> None:
    found = read_envelope(envelope(KIND, payload, "k", signature))
    assert (found.payload_type, found.payload, found.signatures) == (KIND, payload, (("k", signature),))


@given(st.binary(max_size=40))
def test_pae_is_what_securesystemslib_signs(payload: bytes) -> None:
    assert OtherEnvelope(payload, KIND, {}).pae() == pae(KIND, payload)


def test_securesystemslib_verifies_our_envelope() -> None:
    payload = b'{"a": 1}' * 700
    sealed = envelope(KIND, payload, fingerprint(DER), sign(pae_digest(KIND, payload)))
    found = OtherEnvelope.from_dict(json.loads(sealed))
    key = SSlibKey(fingerprint(DER), "ecdsa", "ecdsa-sha2-nistp256", {"public": PEM.decode()})
    assert set(found.verify([key], threshold=1)) == {fingerprint(DER)}
    other = OtherEnvelope.from_dict(
        json.loads(envelope(KIND, payload + b" ", fingerprint(DER), sign(b"1" * 32)))
    )
    with pytest.raises(Exception, match="1"):
        other.verify([key], threshold=1)


def test_openssl_verifies_our_signature(tmp_path: Path) -> None:
    payload = b"x" * 5000
    (tmp_path / "pae").write_bytes(pae(KIND, payload))
    (tmp_path / "sig").write_bytes(sign(pae_digest(KIND, payload)))
    (tmp_path / "key.pem").write_bytes(PEM)
    command = ["openssl", "dgst", "-sha256", "-verify", "key.pem", "-signature", "sig", "pae"]
    good = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (good.returncode, good.stdout.strip()) == (0, "Verified OK")
    (tmp_path / "pae").write_bytes(pae(KIND, payload + b"x"))
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode != 0


def test_the_fingerprint_is_openssls(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(PEM)
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", "key.pem", "-outform", "DER"],
        cwd=tmp_path, capture_output=True, check=True,
    ).stdout  # fmt: skip
    assert fingerprint(DER) == hashlib.sha256(der).hexdigest()


GOOD = json.loads(envelope(KIND, b"hello world", "k", b"sig"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"signatures": []}, "no signatures"),
        ({"signatures": None}, "no signatures"),
        ({"signatures": {"keyid": "k"}}, "no signatures"),
        ({"signatures": ["x"]}, "a signature is not an object"),
        ({"signatures": [{}]}, "a signature is missing"),
        ({"signatures": [{"sig": 1}]}, "a signature is missing"),
        ({"signatures": [{"sig": "%%"}]}, "a signature is not base64"),
        ({"signatures": [{"sig": "aa"}]}, "a signature is not base64"),
        ({"signatures": [{"sig": "QR=="}]}, "a signature is not canonical base64"),
        ({"payloadType": None}, "no payloadType"),
        ({"payloadType": 1}, "no payloadType"),
        ({"payload": None}, "the payload is missing"),
        ({"payload": "aGk"}, "the payload is not base64"),
        ({"payload": "aGk=\n"}, "the payload is not base64"),
        ({"payload": " aGk="}, "the payload is not base64"),
        ({"payload": "a-_="}, "the payload is not base64"),
        ({"payload": "aGl="}, "the payload is not canonical base64"),
        ({"payload": "aGk=aGk="}, "the payload is not base64"),
    ],
)
def test_nothing_is_read_leniently(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_envelope(json.dumps({**GOOD, **change}).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b'"x"', b"{", b"\xff"])
def test_no_envelope(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_envelope(data)


def test_unknown_fields_and_more_signatures_are_taken() -> None:
    more = {**GOOD, "extra": 1, "signatures": [*GOOD["signatures"], {"sig": base64.b64encode(b"2").decode()}]}
    assert read_envelope(json.dumps(more).encode()).signatures == (("k", b"sig"), ("", b"2"))
