"""Verifying a binding offline: bytes first, then meaning. Fails closed.

What is not known is refused (payload type, predicate type, versions); fields not known are ignored.
"""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from aicr_pipeline.decide.dsse import Envelope, fingerprint, pae, read_envelope
from aicr_pipeline.decide.plan import read_plan
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import describe
from aicr_pipeline.model.evidence import PAYLOAD_TYPE, Binding, Statement

T = TypeVar("T")

VALID, NOT_ENOUGH, INVALID, INCOMPLETE = 0, 1, 2, 3


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; ``ok`` is None when it could not be, for want of a file."""

    name: str
    ok: bool | None
    detail: str


@dataclass(frozen=True)
class Verdict:
    """``code`` is the exit status: 0 valid, 1 valid but not enough, 2 invalid, 3 incomplete."""

    code: int
    checks: tuple[Check, ...]
    binding: Binding | None


class _Stop(Exception):  # noqa: N818 - carries the failed check, nothing else
    def __init__(self, check: Check) -> None:
        super().__init__(check.name)
        self.check = check


def verify(evidence: bytes, public_key: bytes, plan: bytes | None, *, require_qualifying: bool) -> Verdict:
    """Verify an envelope against a public key (PEM or DER), and against the plan when given.

    Without the plan the result is ``incomplete``: the signature holds, but what it is about was not seen.
    """
    done: list[Check] = []
    binding: Binding | None = None
    try:
        key, mark = _key(public_key)
        envelope = _step(done, "envelope", lambda: _envelope(evidence))
        _step(done, "signature", lambda: _signature(envelope, key, mark))
        statement = _step(done, "statement", lambda: _statement(envelope))
        binding = statement.predicate
        _step(done, "subjects", lambda: _subjects(statement))
        if plan is None:
            done.append(Check("plan", None, "not given: pass --plan to check what the statement is about"))
        else:
            _step(done, "plan", lambda: _plan(statement, plan))
    except _Stop as stop:
        return Verdict(INVALID, (*done, stop.check), None)
    enough = list(_enough(binding, require_qualifying))
    if plan is None:
        return Verdict(INCOMPLETE, (*done, *enough), binding)
    code = VALID if all(check.ok for check in enough) else NOT_ENOUGH
    return Verdict(code, (*done, *enough), binding)


def _step(done: list[Check], name: str, look: Callable[[], tuple[T, str]]) -> T:
    try:
        value, detail = look()
    except (ValueError, PipelineError, RecursionError) as error:
        raise _Stop(Check(name, False, getattr(error, "message", str(error)))) from None
    done.append(Check(name, True, detail))
    return value


def _key(data: bytes) -> tuple[ec.EllipticCurvePublicKey, str]:
    try:
        if data.lstrip().startswith(b"-----"):
            key = serialization.load_pem_public_key(data)
        else:
            key = serialization.load_der_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _Stop(Check("key", False, "the public key is neither PEM nor DER")) from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise _Stop(Check("key", False, "the public key is not ECDSA P-256"))
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key, fingerprint(der)


def _envelope(data: bytes) -> tuple[Envelope, str]:
    envelope = read_envelope(data)
    if envelope.payload_type != PAYLOAD_TYPE:
        raise ValueError(f"payload type {envelope.payload_type!r} is not known; only {PAYLOAD_TYPE} is")
    return envelope, f"DSSE, {len(envelope.payload)} bytes of {envelope.payload_type}"


def _signature(envelope: Envelope, key: ec.EllipticCurvePublicKey, mark: str) -> tuple[None, str]:
    signed = pae(envelope.payload_type, envelope.payload)
    for _, signature in envelope.signatures:
        try:
            key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            continue
        return None, f"ECDSA P-256 by the key with fingerprint {mark}"
    raise ValueError(f"no signature is by the key with fingerprint {mark}")


def _statement(envelope: Envelope) -> tuple[Statement, str]:
    try:
        statement = Statement.model_validate_json(envelope.payload)
    except ValidationError as error:
        raise ValueError(f"not a binding statement this version knows: {describe(error)}") from None
    return statement, f"{statement.predicate_type}, rollout {statement.predicate.rollout.name}"


def _subjects(statement: Statement) -> tuple[None, str]:
    """Subjects are what other tools match on; they must say what the predicate says."""
    binding = statement.predicate
    _agrees_with_itself(binding)
    expected = {"plan": binding.plan.digest}
    expected |= {f"chart/{release.name}": release.manifest_digest for release in binding.releases}
    if binding.aicr_evidence is not None:
        expected["aicr-evidence"] = binding.aicr_evidence.digest
    found = {subject.name: f"sha256:{subject.digest.get('sha256', '')}" for subject in statement.subject}
    if found != expected or len(found) != len(statement.subject):
        raise ValueError("the subjects are not those of the predicate")
    return None, f"{len(found)} subjects agree with the predicate"


def _agrees_with_itself(binding: Binding) -> None:
    """A statement whose parts contradict each other proves nothing, whoever signed it."""
    validation, approval = binding.validation, binding.approval
    if binding.qualifying != (not binding.not_qualifying_because):
        raise ValueError("it qualifies and says why it does not, or the other way round")
    if approval is not None and (approval.decision != "Approved" or not approval.by):
        raise ValueError("its approval approves nothing")
    if validation.mode == "Disabled":
        if binding.qualifying:
            raise ValueError("it qualifies without validation")
        return
    if validation.failed or validation.other or not validation.passed:
        raise ValueError("the rollout succeeded, but its validation did not pass")
    if validation.tests != validation.passed + validation.skipped or validation.report_digest is None:
        raise ValueError("the counts of its validation do not add up")
    if binding.aicr_evidence is None:
        raise ValueError("its validation left no evidence of AICR's")


def _plan(statement: Statement, text: bytes) -> tuple[None, str]:
    binding = statement.predicate
    plan = read_plan(text, binding.plan.digest)
    planned = {release.name: release.chart for release in plan.desired_state.releases}
    bound = {release.name: (release.content_digest, release.manifest_digest) for release in binding.releases}
    if bound != {name: (chart.content_digest, chart.manifest_digest) for name, chart in planned.items()}:
        raise ValueError("the plan's charts are not those of the statement")
    state = plan.desired_state
    named = {
        "AICR image": (binding.aicr_image_digest, state.aicr.image_digest),
        "AICR version": (binding.aicr_version, state.aicr.version),
        "validator images": (binding.validator_images, state.validator_images),
        "validation mode": (binding.validation.mode, state.validation),
        "recipe": (binding.plan.recipe, state.recipe),
        "releases": (
            [
                (release.name, release.namespace, release.chart, release.version)
                for release in binding.releases
            ],
            [(r.name, r.namespace, r.chart.name, r.chart.version) for r in state.releases],
        ),
    }
    for what, (said, planned_as) in named.items():
        if said != planned_as:
            raise ValueError(f"the plan's {what} and the statement's differ")
    return None, f"{binding.plan.digest}, recomputed from the file; {len(planned)} charts agree"


def _enough(binding: Binding, require_qualifying: bool) -> Iterator[Check]:
    yield Check("outcome", binding.outcome == "Succeeded", f"the rollout {binding.outcome.lower()}")
    if require_qualifying:
        why = "; ".join(binding.not_qualifying_because) or "it qualifies"
        yield Check("qualifying", binding.qualifying, why)


def pem(der: bytes) -> bytes:
    """A DER SubjectPublicKeyInfo as PEM."""
    body = base64.encodebytes(der).decode().replace("\n", "")
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return ("-----BEGIN PUBLIC KEY-----\n" + "\n".join(lines) + "\n-----END PUBLIC KEY-----\n").encode()


def as_json(verdict: Verdict) -> str:
    """The verdict for machines."""
    return json.dumps(
        {
            "code": verdict.code,
            "checks": [vars(check) for check in verdict.checks],
            "binding": verdict.binding.wire() if verdict.binding else None,
        },
        indent=1,
        sort_keys=True,
    )
