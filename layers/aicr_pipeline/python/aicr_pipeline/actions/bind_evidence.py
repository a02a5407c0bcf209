"""State "Bind evidence": one signed statement ties plan, approval, charts and validation together."""

import json
from datetime import UTC, datetime
from typing import Any

from aicr_pipeline import __version__
from aicr_pipeline.actions.validate_deployment import evidence_repository
from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.artifact import pull_files, push_document
from aicr_pipeline.adapters.http import Counters
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.rollouts import (
    load_acknowledgement,
    load_plan,
    load_report,
    load_request,
    load_rollout,
    refuse_over,
    refuse_revoked,
    standing_decision,
)
from aicr_pipeline.adapters.signer import Signer
from aicr_pipeline.clock import Clock, parse_time, rfc3339
from aicr_pipeline.decide.acknowledgement import acknowledgement_missing
from aicr_pipeline.decide.approval import check_decision
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.canonical import digest, sha256
from aicr_pipeline.decide.dsse import envelope, fingerprint, pae_digest
from aicr_pipeline.decide.evidence import Bound, statement
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.decide.validation import judge
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.evidence import (
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    BoundAicrEvidence,
    BoundPipeline,
    BoundValidation,
)
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Acknowledgement, Decision, Rollout, rollout_key
from aicr_pipeline.model.step import StepEvent

ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"


def bind_evidence(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    registry: Destination,
    signer: Signer,
    clock: Clock,
    local_engine: bool,
) -> dict[str, Any]:
    """Read every record again, state them, sign the statement, store it and push it beside AICR's evidence.

    A second run finds the first one's binding and returns it: evidence is bound once.

    Returns
    -------
    dict
        ``key`` in the ledger, ``reference`` and ``digest`` in the registry, ``fingerprint``, ``qualifying``.

    Raises
    ------
    PipelineError
        ``RolloutFailed`` when a record that the evidence needs is missing or does not hold.
    """
    name = str(step.input["rollout"])
    refuse_over(ledger, name)
    bound_key = rollout_key(name, "binding")
    found = ledger.get_json(bound_key)
    if found is None:
        refuse_revoked(ledger, name)
        text, qualifying = _statement(step, config, ledger, registry, clock, local_engine)
        mark = fingerprint(signer.public_key())
        sealed = envelope(PAYLOAD_TYPE, text, mark, signer.sign_digest(pae_digest(PAYLOAD_TYPE, text)))
        key = f"evidence/{config.cluster.name}/{name}/{sha256(sealed).removeprefix('sha256:')}.intoto.json"
        ledger.put_same(key, sealed)
        pointer = {"key": key, "fingerprint": mark, "qualifying": qualifying}
        ledger.put_once(bound_key, json.dumps(pointer, sort_keys=True).encode())
        # ECDSA signatures differ each time: whoever wrote the pointer first is the binding.
        found = ledger.get_json(bound_key)
    bound = ledger.get(found["key"])
    if bound is None:
        raise PipelineError(Reason.RolloutFailed, f"The evidence {found['key']} is gone from the ledger.")
    repository = registry.repository("evidence", f"{name.lower()}-binding", Counters())
    annotations = {"in-toto.io/predicate-type": PREDICATE_TYPE}
    pushed = push_document(repository, bound, ENVELOPE_TYPE, ENVELOPE_TYPE, annotations, "binding")
    return {**found, "reference": f"{repository.reference}:binding", "digest": pushed}


def _statement(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    registry: Destination,
    clock: Clock,
    local_engine: bool,
) -> tuple[bytes, bool]:
    rollout = load_rollout(ledger, str(step.input["rollout"]))
    plan = load_plan(ledger, rollout.to_plan)
    snapshot = ledger.get(f"rollouts/{rollout.name}/snapshot.yaml")
    if snapshot is None:
        raise PipelineError(Reason.RolloutFailed, "The post-install snapshot is not in the ledger.")
    validation, evidence = _validation(step, plan, ledger, registry)
    text = statement(
        Bound(
            config=config,
            rollout=rollout,
            plan=plan,
            decision=_decision(ledger, rollout),
            request=load_request(ledger, rollout.name),
            acknowledgements=_acknowledgements(ledger, rollout),
            validation=validation,
            aicr_evidence=evidence,
            post_install_snapshot_digest=read_snapshot(snapshot).digest,
            execution=step.execution,
            machine_version=step.machine_version,
            pipeline=BoundPipeline(version=__version__),
            local_engine=local_engine,
            bound_at=rfc3339(clock()),
        )
    )
    return text, bool(json.loads(text)["predicate"]["qualifying"])


def _decision(ledger: Ledger, rollout: Rollout) -> Decision | None:
    """The approval that every step's gate let through. It may have expired since the last step."""
    report = load_report(ledger, rollout.name)
    if report is None:
        raise PipelineError(Reason.RolloutFailed, f"Rollout {rollout.name} has lost its report.")
    decision = standing_decision(ledger, rollout)
    if report.approval_needed:
        given = parse_time(decision.at) if decision else datetime.min.replace(tzinfo=UTC)
        digest = request_digest(report, rollout.deadline)
        check_decision(decision, load_request(ledger, rollout.name), digest, given)
    return decision


def _acknowledgements(ledger: Ledger, rollout: Rollout) -> tuple[Acknowledgement, ...]:
    """What was said before each manual step, which its gate waited for."""
    report = load_report(ledger, rollout.name)
    if report is None:
        return ()
    found = []
    for step in report.steps:
        given = (
            load_acknowledgement(ledger, rollout.name, step.release) if step.must_be_acknowledged else None
        )
        missing = acknowledgement_missing(step, given, request_digest(report, rollout.deadline))
        if missing is not None:
            raise PipelineError(
                Reason.RolloutFailed, f"An acknowledgement is gone from the ledger. {missing}"
            )
        found += [given] if given is not None else []
    return tuple(found)


def _validation(
    step: StepEvent, plan: Plan, ledger: Ledger, registry: Destination
) -> tuple[BoundValidation, BoundAicrEvidence | None]:
    if plan.desired_state.validation == "Disabled":
        return BoundValidation(mode="Disabled"), None
    report = ledger.get(f"rollouts/{step.input['rollout']}/validation.json")
    if report is None:
        raise PipelineError(Reason.RolloutFailed, "The validation report is not in the ledger.")
    result, problem = judge(report)
    if problem is not None:
        raise PipelineError(Reason.RolloutFailed, problem)
    repository = registry.repository("evidence", _own_repository(step), Counters())
    tags = repository.tags()
    if len(tags) != 1:
        raise PipelineError(
            Reason.RolloutFailed,
            f"{repository.reference} should hold the one evidence of this attempt, but has {len(tags)} tags.",
        )
    found = repository.head_manifest(tags[0])
    if found is None:
        raise PipelineError(
            Reason.RolloutFailed, f"AICR's evidence {repository.reference}:{tags[0]} is gone."
        )
    _require_same_recipe(pull_files(repository, found, "AICR's evidence"), plan, ledger)
    reference = f"{repository.reference}@{found}"
    return result, BoundAicrEvidence(reference=reference, digest=found, signed=False)


def _own_repository(step: StepEvent) -> str:
    """Where an attempt of this very rollout pushed; the state says which, and nothing else is taken."""
    named, rollout = str(step.input["validation"]["repository"]), str(step.input["rollout"])
    if named not in {evidence_repository(rollout, attempt) for attempt in range(1, jobs.MOST_ATTEMPTS + 1)}:
        raise PipelineError(Reason.RolloutFailed, f"evidence/{named} is of no attempt of rollout {rollout}.")
    return named


def _require_same_recipe(files: dict[str, bytes], plan: Plan, ledger: Ledger) -> None:
    """Evidence of another plan never satisfies this one: the recipe inside must be the plan's.

    AICR writes the recipe anew, with other indents, so documents are compared and not bytes.
    """
    own = ledger.get(f"resolves/{plan.recorded.run}/recipe.yaml") or b""
    if sha256(own) != plan.recorded.recipe_digest:
        raise PipelineError(Reason.RolloutFailed, "The ledger's recipe is not the one the plan recorded.")
    if _document(files.get("recipe.yaml", b""), "evidence") != _document(own, "plan"):
        raise PipelineError(
            Reason.RolloutFailed, "AICR's evidence is for another recipe than the plan's; it does not count."
        )


def _document(text: bytes, whose: str) -> str:
    recipe = yaml.load(text, Reason.RolloutFailed, f"the recipe of the {whose}", most_bytes=4 << 20)
    return digest(recipe, f"the recipe of the {whose}")
