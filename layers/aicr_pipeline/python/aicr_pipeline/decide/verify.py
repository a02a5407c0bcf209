"""Verifying a binding offline: bytes first, then meaning. Fails closed.

What is not known is refused (payload type, predicate type, versions); fields not known are ignored.
"""

import base64
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from aicr_pipeline.decide.dsse import (
    Envelope,
    as_der,
    fingerprint,
    is_signed,
    once,
    pae_digest,
    read_envelope,
    read_key,
)
from aicr_pipeline.decide.evidence import outdated, unpinned, unrecorded
from aicr_pipeline.decide.people import UNKNOWN
from aicr_pipeline.decide.plan import read_plan
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import describe
from aicr_pipeline.model.evidence import PAYLOAD_TYPE, Binding, BoundAicrEvidence, BoundApproval, Statement
from aicr_pipeline.model.plan import Plan

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


def verify(
    evidence: bytes,
    public_key: bytes,
    plan: bytes | None,
    *,
    require_qualifying: bool,
    fingerprints: Collection[str] = (),
) -> Verdict:
    """Verify an envelope against a public key (PEM or DER), and against the plan when given.

    With ``fingerprints`` the key has to be one of those. Without the plan the result is ``incomplete``: the
    signature holds, but what it is about was not seen.
    """
    looks = Looks()
    try:
        found = look_at_envelope(looks, evidence, public_key, plan, fingerprints)
    except Stop:
        return looks.verdict(None)
    looks.enough(found.statement.predicate, require_qualifying)
    return looks.verdict(found.statement.predicate)


def look_at_envelope(
    looks: "Looks", evidence: bytes, public_key: bytes, plan: bytes | None, fingerprints: Collection[str]
) -> "SignedStatement":
    """The checks of an envelope. Raises Stop at the first that fails."""
    found = signed_statement(looks, evidence, public_key, fingerprints)
    if plan is None:
        looks.unseen("plan", "not given: pass --plan to check what the statement is about")
    else:
        looks.at("plan", lambda: check_plan(found.statement, plan))
    return found


class Stop(Exception):  # noqa: N818 - ends the looking, nothing else
    """Something does not hold, and what comes after it would prove nothing."""


class Looks:
    """The checks that were made, in order. The first that fails is the last."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def at(self, name: str, look: Callable[[], tuple[T, str]]) -> T:
        """Make a check: it returns what was found and says so, or raises saying what is wrong."""
        try:
            value, detail = look()
        except (ValueError, PipelineError, RecursionError) as error:
            self.checks.append(Check(name, False, getattr(error, "message", str(error))))
            raise Stop from None
        self.checks.append(Check(name, True, detail))
        return value

    def unseen(self, name: str, why: str) -> None:
        """Something that could not be looked at."""
        self.checks.append(Check(name, None, why))

    def lacking(self, name: str, why: str) -> None:
        """Authentic, but not enough."""
        self._lacking = True
        self.checks.append(Check(name, False, why))

    _lacking = False

    def enough(self, binding: Binding, require_qualifying: bool) -> None:
        """Whether the rollout succeeded, and with ``require_qualifying`` whether it qualifies."""
        if binding.outcome == "Succeeded":
            self.checks.append(Check("outcome", True, "the rollout succeeded"))
        else:
            self.lacking("outcome", f"the rollout {binding.outcome.lower()}")
        if not require_qualifying:
            return
        # Of earlier versions: they said nothing about what is missing there.
        absent = [
            *outdated(binding),
            *unrecorded(binding.pipeline, binding.validation, binding.validators, binding.tuple_),
            *unpinned(binding.validator_images, binding.validators),
        ]
        why = "; ".join(binding.not_qualifying_because) or "; ".join(absent)
        if why:
            self.lacking("qualifying", why)
        else:
            self.checks.append(Check("qualifying", True, "it qualifies"))

    def verdict_without(self) -> Verdict:
        """Nothing could be looked at."""
        return Verdict(INCOMPLETE, tuple(self.checks), None)

    def verdict(self, binding: Binding | None) -> Verdict:
        """None: something does not hold."""
        if binding is None:
            return Verdict(INVALID, tuple(self.checks), None)
        if any(check.ok is None for check in self.checks):
            return Verdict(INCOMPLETE, tuple(self.checks), binding)
        return Verdict(NOT_ENOUGH if self._lacking else VALID, tuple(self.checks), binding)


@dataclass(frozen=True)
class SignedStatement:
    """What an envelope holds, once its signature was seen to be the key's."""

    envelope: Envelope
    statement: Statement
    #: Of the key.
    fingerprint: str
    #: The one that is by the key; an envelope may bring others.
    signature: bytes


def signed_statement(
    looks: Looks, evidence: bytes, public_key: bytes, fingerprints: Collection[str]
) -> SignedStatement:
    """Bytes first: the key, the envelope, the signature; the statement's meaning afterwards."""
    key, mark = looks.at("key", lambda: _key(public_key, fingerprints))
    envelope = looks.at("envelope", lambda: _envelope(evidence))
    signature = looks.at("signature", lambda: _signature(envelope, key, mark))
    statement = looks.at("statement", lambda: _statement(envelope))
    looks.at("subjects", lambda: _subjects(statement))
    return SignedStatement(envelope, statement, mark, signature)


def _key(data: bytes, fingerprints: Collection[str]) -> tuple[tuple[ec.EllipticCurvePublicKey, str], str]:
    key = read_key(data)
    mark = fingerprint(as_der(key))
    if fingerprints and mark not in fingerprints:
        raise ValueError(f"the key has the fingerprint {mark}, which is none of those that were named")
    return (key, mark), f"ECDSA P-256, {'pinned' if fingerprints else 'given'}: {mark}"


def _envelope(data: bytes) -> tuple[Envelope, str]:
    envelope = read_envelope(data)
    if envelope.payload_type != PAYLOAD_TYPE:
        raise ValueError(f"payload type {envelope.payload_type!r} is not known; only {PAYLOAD_TYPE} is")
    return envelope, f"DSSE, {len(envelope.payload)} bytes of {envelope.payload_type}"


def _signature(envelope: Envelope, key: ec.EllipticCurvePublicKey, mark: str) -> tuple[bytes, str]:
    digest = pae_digest(envelope.payload_type, envelope.payload)
    for _, signature in envelope.signatures:
        if is_signed(key, signature, digest):
            return signature, f"ECDSA P-256 by the key with fingerprint {mark}"
    raise ValueError(f"no signature is by the key with fingerprint {mark}")


def _statement(envelope: Envelope) -> tuple[Statement, str]:
    json.loads(envelope.payload, object_pairs_hook=once)
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
    approval = binding.approval
    if binding.qualifying != (not binding.not_qualifying_because):
        raise ValueError("it qualifies and says why it does not, or the other way round")
    if approval is not None and (approval.decision != "Approved" or not approval.by):
        raise ValueError("its approval approves nothing")
    if approval is not None and binding.qualifying and "bypass" in _identities(approval):
        raise ValueError("it qualifies, but nobody was asked")
    each = None if approval is None else approval.decisions
    if approval is not None and each is not None and sorted(d.by for d in each) != sorted(approval.by):
        raise ValueError("its approval is not by those whose decisions it names")
    eyes = binding.four_eyes
    if eyes is not None and (eyes.enforced == (eyes.because is not None) or approval is None):
        raise ValueError("it says that four eyes was enforced, and why it was not")
    if eyes is not None and eyes.enforced and binding.submitter == UNKNOWN:
        raise ValueError("it says that four eyes was enforced, but knows no submitter")
    _agrees_about_validation(binding)
    if binding.aicr_evidence is not None:
        _agrees_about_aicr(binding.aicr_evidence, binding.rollout.name)


def _agrees_about_validation(binding: Binding) -> None:
    """What failed is authentic all the same: whether it is enough is asked later."""
    validation = binding.validation
    if validation.mode == "Disabled":
        if binding.qualifying:
            raise ValueError("it qualifies without validation")
        return
    counted = validation.passed + validation.failed + validation.skipped + validation.other
    if validation.tests != counted or validation.report_digest is None:
        raise ValueError("the counts of its validation do not add up")
    if binding.outcome != "Succeeded":
        return
    if validation.failed or validation.other or not validation.passed:
        raise ValueError("the rollout succeeded, but its validation did not pass")
    if binding.aicr_evidence is None:
        raise ValueError("its validation left no evidence of AICR's")


def _agrees_about_aicr(aicr: BoundAicrEvidence, rollout: str) -> None:
    if aicr.signed != (aicr.key_fingerprint is not None):
        raise ValueError("AICR's evidence is signed without a key, or has a key without being signed")
    where, _, digest = aicr.reference.partition("@")
    if digest != aicr.digest:
        raise ValueError("the reference of AICR's evidence is to another digest than the one it names")
    if not re.fullmatch(rf".+/evidence/{re.escape(rollout.lower())}-[1-9]", where):
        raise ValueError("the reference of AICR's evidence is to no attempt of this rollout")


def _identities(approval: BoundApproval) -> set[str]:
    return {approval.identity, *(one.identity for one in approval.decisions or ())}


def check_plan(statement: Statement, text: bytes) -> tuple[Plan, str]:
    """The plan is the one that the statement names, and says what the statement says of it."""
    binding = statement.predicate
    plan = read_plan(text, binding.plan.digest)
    json.loads(text, object_pairs_hook=once)  # a person may read the one, and the digest be of the other
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
        "recipe's run": (binding.plan.resolved_by or plan.recorded.run, plan.recorded.run),
        "snapshot": (binding.snapshot_digest, plan.recorded.snapshot_digest),
        "runtime": (binding.runtime_digest or plan.recorded.runtime_digest, plan.recorded.runtime_digest),
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
    return plan, f"{binding.plan.digest}, recomputed from the file; {len(planned)} charts agree"


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
