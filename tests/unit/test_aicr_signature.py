"""The signature on AICR's evidence: by the configured key, over this statement, about this artifact."""

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from aicr_pipeline.decide.aicr_signature import BUNDLE_TYPE, verify_key_signature
from aicr_pipeline.decide.dsse import pae
from aicr_pipeline.model.reasons import Reason
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.keys import rsa_key
from tests.unit.samples import refused

PAYLOAD_TYPE = "application/vnd.in-toto+json"
ARTIFACT = "sha256:" + "a" * 64
PREDICATE = {"schemaVersion": "1.0.0", "recipe": {"name": "r", "digest": "b" * 64}}
KIND = "https://aicr.run/recipe-evidence/v1"
KEY = ec.generate_private_key(ec.SECP256R1())


def statement(about: str = "b" * 64, **changes: Any) -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "recipe:r", "digest": {"sha256": about}}],
        "predicateType": KIND,
        "predicate": PREDICATE,
        **changes,
    }


OURS = json.dumps(statement()).encode()


def der(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def signed(payload: bytes, key: Any = KEY, kind: str = PAYLOAD_TYPE) -> bytes:
    """As Sigstore's bundle of a key that is no certificate's."""
    message = pae(kind, payload)
    if isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(message, padding.PKCS1v15(), hashes.SHA256())
    else:
        signature = key.sign(message, ec.ECDSA(hashes.SHA256()))
    return json.dumps(
        {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {"publicKey": {"hint": "x"}, "tlogEntries": []},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": kind,
                "signatures": [{"sig": base64.b64encode(signature).decode()}],
            },
        }
    ).encode()


PUSHED = json.dumps(statement("a" * 64)).encode()


@pytest.mark.parametrize("made", [lambda: KEY, rsa_key], ids=["P-256", "RSA-2048"])
def test_the_keys_signature_holds(made: Callable[[], Any]) -> None:
    key = made()
    mark = hashlib.sha256(der(key)).hexdigest()
    assert verify_key_signature(signed(PUSHED, key), OURS, der(key), ARTIFACT) == mark
    assert verify_key_signature(signed(OURS, key), OURS, der(key)) == mark


def test_another_keys_signature_is_none() -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    mark = hashlib.sha256(der(KEY)).hexdigest()
    with refused(
        Reason.RolloutFailed, f"not signed by the key in validation.signingKey (fingerprint {mark})"
    ):
        verify_key_signature(signed(PUSHED, other), OURS, der(KEY), ARTIFACT)


@pytest.mark.parametrize(
    "made",
    [lambda: ec.generate_private_key(ec.SECP384R1()), lambda: rsa_key(3072)],
    ids=["P-384", "RSA-3072"],
)
def test_keys_that_aicr_does_not_read(made: Callable[[], Any]) -> None:
    key = made()
    with refused(Reason.AICRArtifactUnsupported, "neither ECDSA P-256 nor RSA-2048"):
        verify_key_signature(signed(PUSHED, key), OURS, der(key), ARTIFACT)


def test_a_key_that_is_none() -> None:
    with refused(Reason.AICRArtifactUnsupported, "is not a public key"):
        verify_key_signature(signed(PUSHED), OURS, b"x", ARTIFACT)


@pytest.mark.parametrize(
    ("payload", "artifact", "words"),
    [
        (statement("c" * 64), ARTIFACT, "about another artifact than sha256:aaaa"),
        (statement(), ARTIFACT, "about another artifact"),
        (statement("a" * 64), None, "about another artifact than its own recipe"),
        (statement("a" * 64, subject=[]), ARTIFACT, "about another artifact"),
        (
            statement("a" * 64, subject=[*statement("a" * 64)["subject"]] * 2),
            ARTIFACT,
            "about another artifact",
        ),
        (statement("a" * 64, predicate={**PREDICATE, "more": 1}), ARTIFACT, "its predicate is not"),
        (statement("a" * 64, predicateType=KIND + "0"), ARTIFACT, "its predicateType is not"),
        (statement("a" * 64, _type="x"), ARTIFACT, "its _type is not"),
    ],
)
def test_a_good_signature_about_something_else(
    payload: dict[str, Any], artifact: str | None, words: str
) -> None:
    with refused(Reason.RolloutFailed, words):
        verify_key_signature(signed(json.dumps(payload).encode()), OURS, der(KEY), artifact)


def test_every_flipped_bit_of_what_is_signed_is_found() -> None:
    """Payload, its type and the signature; the rest of the bundle is not asked."""
    bundle = json.loads(signed(PUSHED))
    envelope = bundle["dsseEnvelope"]
    for place, text in (("payload", envelope["payload"]), ("sig", envelope["signatures"][0]["sig"])):
        raw = base64.b64decode(text)
        for index in range(0, len(raw), 3):
            flipped = base64.b64encode(raw[:index] + bytes([raw[index] ^ 4]) + raw[index + 1 :]).decode()
            changed = json.loads(json.dumps(bundle))
            target = (
                changed["dsseEnvelope"] if place == "payload" else changed["dsseEnvelope"]["signatures"][0]
            )
            target[place] = flipped
            with refused(Reason.RolloutFailed, "is not signed by the key"):
                verify_key_signature(json.dumps(changed).encode(), OURS, der(KEY), ARTIFACT)


def test_what_the_bundle_says_of_keys_and_logs_is_not_asked() -> None:
    bundle = json.loads(signed(PUSHED))
    bundle["verificationMaterial"] = {"certificate": {"rawBytes": "AA=="}, "tlogEntries": [{"logIndex": "1"}]}
    verify_key_signature(json.dumps(bundle).encode(), OURS, der(KEY), ARTIFACT)


def _bundle(**changes: Any) -> bytes:
    return json.dumps({**json.loads(signed(PUSHED)), **changes}).encode()


@pytest.mark.parametrize(
    ("bundle", "reason", "words"),
    [
        (b"", Reason.AICRArtifactUnsupported, "is not JSON"),
        (b"[]", Reason.AICRArtifactUnsupported, "is not an object"),
        (b"[" * 10_000, Reason.AICRArtifactUnsupported, "nested"),
        (b" " * (2 << 20), Reason.ContentTooLarge, "are read at most"),
        (
            _bundle(mediaType="application/vnd.dev.sigstore.bundle.v9+json"),
            Reason.AICRArtifactUnsupported,
            "mediaType is",
        ),
        (_bundle(dsseEnvelope=None), Reason.AICRArtifactUnsupported, "dsseEnvelope is not an object"),
        (_bundle(dsseEnvelope={}), Reason.AICRArtifactUnsupported, "has no signatures"),
        (signed(PUSHED, kind="text/plain"), Reason.AICRArtifactUnsupported, "payloadType is 'text/plain'"),
        (signed(b"not json"), Reason.AICRArtifactUnsupported, "is not JSON"),
    ],
    ids=[
        "empty",
        "a list",
        "nested",
        "too large",
        "another media type",
        "no envelope",
        "no signatures",
        "another payload type",
        "no JSON in it",
    ],
)
def test_bundles_that_are_none(bundle: bytes, reason: Reason, words: str) -> None:
    with refused(reason, words):
        verify_key_signature(bundle, OURS, der(KEY), ARTIFACT)
