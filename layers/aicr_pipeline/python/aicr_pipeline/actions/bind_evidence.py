"""State "Bind evidence": one signed statement ties plan, approval, charts and validation together."""

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from aicr_pipeline.actions.evidence_records import read_records, read_validators, workload_images
from aicr_pipeline.actions.validate_deployment import evidence_repository
from aicr_pipeline.actions.validation_record import load_attempt
from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.aicr_evidence import FetchedEvidence, fetch_aicr_evidence
from aicr_pipeline.adapters.approvals import approval_record_key
from aicr_pipeline.adapters.artifact import push_document
from aicr_pipeline.adapters.http import Counters
from aicr_pipeline.adapters.ledger import Ledger, NotingLedger
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.rollouts import load_deployed, load_step, refuse_over, refuse_revoked
from aicr_pipeline.adapters.signer import Signer
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.aicr_evidence import check_made_by, check_same_report
from aicr_pipeline.decide.bound_records import BoundRecords, check_same_recipe
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.dsse import envelope, fingerprint, pae_digest, read_envelope
from aicr_pipeline.decide.evidence import Bound, statement
from aicr_pipeline.decide.evidence_archive import aicr_key_in_ledger, key_in_ledger
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.decide.tuple_reader import read_tuple
from aicr_pipeline.decide.validation import judge, read_report
from aicr_pipeline.decide.verify import pem
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.evidence import (
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    BoundAicrEvidence,
    BoundDecision,
    BoundPipeline,
    BoundValidation,
    BoundValidator,
    Statement,
)
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Validated, rollout_key
from aicr_pipeline.model.step import StepEvent

ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"


@dataclass(frozen=True)
class Binder:
    """What binding takes beside the step.

    ``pipeline`` is what is deployed, by digest; ``public_key_of`` gives the public key (DER) of the key that
    AICR signs with, by its URI.
    """

    config: ClusterConfig
    ledger: Ledger
    registry: Destination
    signer: Signer
    pipeline: BoundPipeline
    public_key_of: Callable[[str], bytes]
    clock: Clock
    local_engine: bool


def bind_evidence(step: StepEvent, binder: Binder) -> dict[str, Any]:
    """Read every record again, state them, sign the statement, store it and push it beside AICR's evidence.

    A second run finds the first one's binding and returns it: evidence is bound once.

    Returns
    -------
    dict
        ``key`` in the ledger, ``reference`` and ``digest`` in the registry, ``fingerprint``, ``qualifying``,
        and with validation ``aicrSigned``.

    Raises
    ------
    PipelineError
        ``RolloutFailed`` when a record that the evidence needs is missing, does not hold, or is of something
        else. ``SigningKeyUnavailable`` as ``Signer.sign``.
    """
    name, ledger = str(step.input["rollout"]), binder.ledger
    refuse_over(ledger, name)
    pointer_key = rollout_key(name, "binding")
    pointer = ledger.get_json(pointer_key)
    if pointer is None:
        refuse_revoked(ledger, name)
        written = _bind(step, binder)
        ledger.put_once(pointer_key, json.dumps(written, sort_keys=True).encode())
        # ECDSA signatures differ each time: whoever wrote the pointer first is the binding.
        pointer = ledger.get_json(pointer_key)
    bound = _bound(pointer, name, str(step.input["toPlan"]), binder)
    repository = binder.registry.repository("evidence", f"{name.lower()}-binding", Counters())
    annotations = {"in-toto.io/predicate-type": PREDICATE_TYPE}
    pushed = push_document(repository, bound, ENVELOPE_TYPE, ENVELOPE_TYPE, annotations, "binding")
    return {**pointer, "reference": f"{repository.reference}:binding", "digest": pushed}


def _bind(step: StepEvent, binder: Binder) -> dict[str, Any]:
    """Sign the statement and store it with the key that signed it; returns the pointer to it."""
    name, cluster = str(step.input["rollout"]), binder.config.cluster.name
    text = _statement(step, binder)
    signed = binder.signer.sign(pae_digest(PAYLOAD_TYPE, text))
    mark = fingerprint(signed.public_key)
    sealed = envelope(PAYLOAD_TYPE, text, mark, signed.signature)
    key = f"evidence/{cluster}/{name}/{sha256(sealed).removeprefix('sha256:')}.intoto.json"
    binder.ledger.put_same(key_in_ledger(cluster, mark), pem(signed.public_key), "application/x-pem-file")
    binder.ledger.put_same(key, sealed)
    predicate = json.loads(text)["predicate"]
    pointer = {"key": key, "fingerprint": mark, "qualifying": predicate["qualifying"]}
    aicr = predicate.get("aicrEvidence")
    return pointer if aicr is None else {**pointer, "aicrSigned": aicr["signed"]}


def _bound(pointer: Any, name: str, plan: str, binder: Binder) -> bytes:
    """The envelope that a pointer names: this cluster's, this rollout's, to this plan."""
    cluster = re.escape(binder.config.cluster.name)
    key = str(pointer.get("key")) if isinstance(pointer, dict) else ""
    found = re.fullmatch(rf"evidence/{cluster}/{re.escape(name)}/([0-9a-f]{{64}})\.intoto\.json", key)
    if found is None:
        _refuse(f"The binding of rollout {name} names {key[:200] or 'nothing'}, which is none of its own.")
    sealed = binder.ledger.get(key)
    if sealed is None:
        _refuse(f"The evidence {key} is gone from the ledger.")
    if sha256(sealed) != f"sha256:{found[1]}":
        _refuse(f"The evidence {key} is not what its key says.")
    try:
        predicate = Statement.model_validate_json(read_envelope(sealed).payload).predicate
    except ValueError as error:
        _refuse(f"The evidence {key} is no statement ({type(error).__name__}).")
    about = (predicate.cluster, predicate.rollout.name, predicate.plan.digest)
    if about != (binder.config.cluster.name, name, plan):
        _refuse(f"The evidence {key} is about rollout {predicate.rollout.name} to {predicate.plan.digest}.")
    return sealed


def _statement(step: StepEvent, binder: Binder) -> bytes:
    name, noting = str(step.input["rollout"]), NotingLedger(binder.ledger)
    records = read_records(noting, name, binder.config.cluster.name)
    plan = records.plan
    if plan.desired_state_digest != str(step.input["toPlan"]):
        _refuse(f"Rollout {name} goes to {plan.desired_state_digest}, not to {step.input['toPlan']}.")
    snapshot = read_snapshot(_kept(noting, f"rollouts/{name}/snapshot.yaml", "The post-install snapshot"))
    validation, evidence, validators = _validation(step, plan, noting, binder)
    return statement(
        Bound(
            config=binder.config,
            rollout=records.rollout,
            plan=plan,
            decision=records.decision,
            request=records.request,
            acknowledgements=tuple(
                records.acknowledgements[one.release]
                for one in records.report.steps
                if one.release in records.acknowledgements
            ),
            validation=validation,
            aicr_evidence=evidence,
            post_install_snapshot_digest=snapshot.digest,
            execution=step.execution,
            machine_version=step.machine_version,
            pipeline=binder.pipeline,
            local_engine=binder.local_engine,
            bound_at=rfc3339(binder.clock()),
            decisions=_decisions(records, noting.digests),
            validators=validators,
            tuple_=read_tuple(snapshot, plan.desired_state, workload_images(plan, binder.registry)),
            documents=noting.digests,
            decision_digest=_decision_digest(records, noting.digests),
            deployed=load_deployed(noting, name),
            steps=tuple(_ran_with(noting, name, one.index) for one in records.report.steps),
        )
    )


def _ran_with(ledger: Ledger, name: str, index: int) -> str | None:
    started = load_step(ledger, name, index)
    return started.pipeline if started is not None else None


def _decision_digest(records: BoundRecords, digests: Mapping[str, str]) -> str | None:
    if records.decision is None:
        return None
    kind = "bypass" if records.decision.identity == "bypass" else "decision"
    return digests[rollout_key(records.decision.rollout, kind)]


def _decisions(records: BoundRecords, digests: Mapping[str, str]) -> tuple[BoundDecision, ...]:
    return tuple(
        BoundDecision(
            by=one.by[0],
            identity=one.identity,
            issuer=one.issuer,
            principal=one.principals[0] if one.principals else None,
            reason=one.reason,
            at=one.at,
            expires_at=one.expires_at,
            digest=digests[approval_record_key(one.rollout, one.by[0])],
        )
        for one in records.decisions
    )


def _validation(
    step: StepEvent, plan: Plan, ledger: Ledger, binder: Binder
) -> tuple[BoundValidation, BoundAicrEvidence | None, tuple[BoundValidator, ...] | None]:
    if plan.desired_state.validation == "Disabled":
        return BoundValidation(mode="Disabled"), None, None
    name = str(step.input["rollout"])
    report = _kept(ledger, f"rollouts/{name}/validation.json", "The validation report")
    result, problem = judge(report)
    if problem is not None:
        _refuse(problem)
    named = _own_repository(step)
    repository = binder.registry.repository("evidence", named, Counters())
    signing_key, public_key_of = _signed_with(load_attempt(ledger, name, named), report, binder)
    fetched = fetch_aicr_evidence(repository, signing_key, public_key_of)
    check_same_report(fetched.evidence, report)
    validators = read_validators(ledger, name, read_report(report))
    ran = [item.image for item in validators or ()]
    check_made_by(fetched.evidence, plan.desired_state.aicr.version, ran)
    recipe = _kept(ledger, f"resolves/{plan.recorded.run}/recipe.yaml", "The plan's recipe")
    check_same_recipe(fetched.files.get("recipe.yaml", b""), recipe, plan)
    _keep_aicr_key(fetched, binder)
    return result, _aicr_evidence(fetched), validators


def _signed_with(
    attempt: Validated | None, report: bytes, binder: Binder
) -> tuple[str | None, Callable[[str], bytes]]:
    """By what the Job was started with: today's configuration says nothing about it."""
    if attempt is None:
        return binder.config.validation.signing_key, binder.public_key_of
    if attempt.report != sha256(report):
        _refuse(f"evidence/{attempt.repository} is of another report than the rollout's.")
    if attempt.public_key is None:
        return attempt.signing_key, binder.public_key_of
    public_key = base64.b64decode(attempt.public_key)
    return attempt.signing_key, lambda _uri: public_key


def _aicr_evidence(fetched: FetchedEvidence) -> BoundAicrEvidence:
    signature, evidence = fetched.signature, fetched.evidence
    return BoundAicrEvidence(
        reference=fetched.reference,
        digest=fetched.digest,
        signed=signature is not None,
        key_fingerprint=signature.fingerprint if signature else None,
        statement_digest=evidence.statement_digest,
        manifest_digest=evidence.manifest_digest,
        attested_at=evidence.attested_at,
    )


def _keep_aicr_key(fetched: FetchedEvidence, binder: Binder) -> None:
    """AICR's key is kept as ours is, but apart: whoever verifies later has it, and takes it for no pin."""
    if fetched.signature is not None:
        key = aicr_key_in_ledger(binder.config.cluster.name, fetched.signature.fingerprint)
        binder.ledger.put_same(key, pem(fetched.signature.public_key), "application/x-pem-file")


def _own_repository(step: StepEvent) -> str:
    """Where an attempt of this very rollout pushed; the state says which, and nothing else is taken."""
    named, rollout = str(step.input["validation"]["repository"]), str(step.input["rollout"])
    if named not in {evidence_repository(rollout, attempt) for attempt in range(1, jobs.MOST_ATTEMPTS + 1)}:
        _refuse(f"evidence/{named} is of no attempt of rollout {rollout}.")
    return named


def _kept(ledger: Ledger, key: str, what: str) -> bytes:
    found = ledger.get(key)
    if found is None:
        _refuse(f"{what} is not in the ledger ({key}).")
    return found


def _refuse(problem: str) -> NoReturn:
    raise PipelineError(Reason.RolloutFailed, problem)
