"""The signature on AICR's evidence, by a key that we know: a Sigstore bundle around a DSSE envelope.

AICR attaches the bundle to the pushed evidence as an OCI referrer of type ``BUNDLE_TYPE``. What is signed is
the statement of the evidence, but about the artifact: its subject is the digest of the pushed manifest, so
that the signature is found there and belongs to nothing else.
"""

import json
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from aicr_pipeline.decide.canonical import equal
from aicr_pipeline.decide.dsse import Envelope, fingerprint, pae, read_envelope
from aicr_pipeline.decide.fields import Fields, unsupported
from aicr_pipeline.decide.strict_json import read_json
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.evidence import PAYLOAD_TYPE
from aicr_pipeline.model.reasons import Reason

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
#: A bundle with its log entry has a few kilobytes more than the statement.
MOST_BUNDLE_BYTES = 1 << 20
_BUNDLE_TYPES = frozenset(
    {BUNDLE_TYPE, *(f"application/vnd.dev.sigstore.bundle+json;version=0.{n}" for n in (1, 2, 3))}
)
_WHAT = "signature of AICR's evidence"


def verify_key_signature(
    bundle: bytes, statement: bytes, public_key_der: bytes, artifact: str | None = None
) -> str:
    """Check that the key signed this statement.

    Bytes are verified first and parsed afterwards. What the bundle says about the key, certificates and log
    entries is not asked: the key is the one that the configuration names.

    Parameters
    ----------
    bundle
        What the referrer, or ``attestation.intoto.jsonl``, holds.
    statement
        ``statement.intoto.json`` of the evidence.
    public_key_der
        SubjectPublicKeyInfo of ECDSA P-256 or RSA-2048, the two that AICR reads.
    artifact
        ``sha256:<hex>`` of the evidence's manifest in the registry. None for evidence that was never pushed;
        the subject then has to be the statement's own.

    Returns
    -------
    str
        The key's fingerprint: lower-case hex SHA-256 of the SubjectPublicKeyInfo.

    Raises
    ------
    PipelineError
        ``RolloutFailed`` when the signature is not this key's, or is about something else;
        ``AICRArtifactUnsupported`` for a bundle or a key of an unknown kind; ``ContentTooLarge``.
    """
    envelope = _envelope(bundle)
    if not any(_signed(public_key_der, signature, envelope) for _, signature in envelope.signatures):
        raise PipelineError(
            Reason.RolloutFailed,
            "AICR's evidence is not signed by the key in validation.signingKey (fingerprint "
            f"{fingerprint(public_key_der)}). Look at who changed the key or its alias, then start a fresh "
            "rollout.",
        )
    _check_about(envelope.payload, statement, artifact)
    return fingerprint(public_key_der)


def _envelope(bundle: bytes) -> Envelope:
    found = Fields(read_json(bundle, _WHAT, most_bytes=MOST_BUNDLE_BYTES), "the signature's bundle")
    if found.text("mediaType") not in _BUNDLE_TYPES:
        raise unsupported("the signature's bundle.mediaType", f"is {found.text('mediaType')[:80]!r}")
    try:
        envelope = read_envelope(json.dumps(dict(found.inner("dsseEnvelope").raw())).encode())
    except ValueError as error:
        raise unsupported("the signature's bundle.dsseEnvelope", f"cannot be read: {error}") from None
    if envelope.payload_type != PAYLOAD_TYPE:
        raise unsupported(
            "the signature's bundle.dsseEnvelope.payloadType", f"is {envelope.payload_type[:80]!r}"
        )
    return envelope


def _signed(public_key_der: bytes, signature: bytes, envelope: Envelope) -> bool:
    message = pae(envelope.payload_type, envelope.payload)
    try:
        key = serialization.load_der_public_key(public_key_der)
    except (ValueError, UnsupportedAlgorithm):
        raise _wrong_key("is not a public key") from None
    try:
        if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, rsa.RSAPublicKey) and key.key_size == 2048:
            key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
        else:
            raise _wrong_key("is neither ECDSA P-256 nor RSA-2048")
    except InvalidSignature:
        return False
    return True


def _check_about(payload: bytes, statement: bytes, artifact: str | None) -> None:
    """What was signed is this evidence's predicate, about this artifact."""
    signed, ours = (_statement(text) for text in (payload, statement))
    for field in ("_type", "predicateType", "predicate"):
        if not equal(signed.get(field), ours.get(field)):
            raise PipelineError(
                Reason.RolloutFailed,
                f"The signature on AICR's evidence is of another statement: its {field} is not the one of "
                "statement.intoto.json. Start a fresh rollout.",
            )
    subject = signed.get("subject")
    wanted = (
        ours.get("subject")
        if artifact is None
        # AICR names the artifact as it likes; the digest is what counts.
        else [{**_first(subject), "digest": {"sha256": artifact.removeprefix("sha256:")}}]
    )
    if not equal(subject, wanted):
        raise PipelineError(
            Reason.RolloutFailed,
            "The signature on AICR's evidence is about another artifact than "
            f"{artifact or 'its own recipe'}; it does not count. Start a fresh rollout.",
        )


def _first(subject: Any) -> dict[str, Any]:
    return dict(subject[0]) if isinstance(subject, list) and subject and isinstance(subject[0], dict) else {}


def _statement(text: bytes) -> dict[str, Any]:
    return dict(
        Fields(read_json(text, "statement of AICR's evidence", most_bytes=MOST_BUNDLE_BYTES), "it").raw()
    )


def _wrong_key(problem: str) -> PipelineError:
    return PipelineError(
        Reason.AICRArtifactUnsupported,
        f"The key in validation.signingKey {problem}; AICR signs with one of these two kinds. Make such a "
        "key, change the configuration, then start a fresh rollout.",
    )
