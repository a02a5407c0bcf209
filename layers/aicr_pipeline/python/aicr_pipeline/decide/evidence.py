"""The binding statement: what is tied together, and whether it may count as a qualification."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aicr_pipeline.decide.canonical import canonical
from aicr_pipeline.decide.deployed import NOT_RECORDED as DEPLOYED_NOT_RECORDED
from aicr_pipeline.decide.deployed import deployed_problem
from aicr_pipeline.decide.people import four_eyes_missing
from aicr_pipeline.decide.versions import is_development
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.evidence import (
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    Binding,
    BoundAcknowledgement,
    BoundAicrEvidence,
    BoundApproval,
    BoundDecision,
    BoundFourEyes,
    BoundPipeline,
    BoundPlan,
    BoundRelease,
    BoundRollout,
    BoundTuple,
    BoundValidation,
    BoundValidator,
    Statement,
    Subject,
)
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.rollout import (
    Acknowledgement,
    ApprovalRequest,
    Decision,
    Deployed,
    Rollout,
    rollout_key,
)

#: Of evidence of earlier versions, which never qualifies.
RESOLVE_NOT_RECORDED = "the resolve that wrote the plan is not recorded"
RECORDS_NOT_NAMED = "the records that it was made from are not named"
#: The layers of the functions: our program and what it imports.
LAYERS = ("program", "dependencies")
#: Of the tuple, in the support policy's words.
_PARTS: Mapping[str, str] = {
    "instance_types": "instance type",
    "node_images": "node image",
    "kernels": "kernel",
    "drivers": "driver",
    "fabrics": "fabric",
    "workload_images": "workload image",
}


@dataclass(frozen=True)
class Bound:
    """Everything that a binding ties together."""

    config: ClusterConfig
    rollout: Rollout
    plan: Plan
    decision: Decision | None
    request: ApprovalRequest | None
    validation: BoundValidation
    aicr_evidence: BoundAicrEvidence | None
    post_install_snapshot_digest: str
    execution: str
    machine_version: str
    pipeline: BoundPipeline
    local_engine: bool
    bound_at: str
    acknowledgements: tuple[Acknowledgement, ...] = ()
    #: Each person's own record, where several had to approve.
    decisions: tuple[BoundDecision, ...] = ()
    #: What ran, None where nothing says so.
    validators: tuple[BoundValidator, ...] | None = None
    tuple_: BoundTuple | None = None
    #: Ledger key -> digest of every record that was read for this.
    documents: Mapping[str, str] = field(default_factory=dict)
    decision_digest: str | None = None
    #: What was deployed when the rollout began, and by digest at each of its steps.
    deployed: Deployed | None = None
    steps: tuple[str | None, ...] = ()


def statement(bound: Bound) -> bytes:
    """The in-toto Statement as canonical JSON. The same facts give the same bytes."""
    plan, state = bound.plan, bound.plan.desired_state
    because = tuple(not_qualifying(bound))
    binding = Binding(
        cluster=bound.rollout.cluster,
        runtime_version=bound.rollout.runtime_version,
        runtime_digest=plan.recorded.runtime_digest,
        submitter=bound.rollout.submitter,
        rollout=BoundRollout(
            name=bound.rollout.name, execution=bound.execution, machine_version=bound.machine_version
        ),
        plan=BoundPlan(
            digest=plan.desired_state_digest,
            from_digest=bound.rollout.from_plan,
            recipe=state.recipe,
            resolved_by=plan.recorded.run,
        ),
        pipeline=bound.pipeline,
        aicr_image_digest=state.aicr.image_digest,
        aicr_version=state.aicr.version,
        snapshot_digest=plan.recorded.snapshot_digest,
        post_install_snapshot_digest=bound.post_install_snapshot_digest,
        releases=tuple(
            BoundRelease(
                name=release.name,
                namespace=release.namespace,
                chart=release.chart.name,
                version=release.chart.version,
                content_digest=release.chart.content_digest,
                manifest_digest=release.chart.manifest_digest,
            )
            for release in state.releases
        ),
        validator_images=state.validator_images,
        validators=_validators(bound.validators),
        tuple=bound.tuple_,
        aicr_evidence=bound.aicr_evidence,
        approval=_approval(bound),
        acknowledgements=tuple(
            BoundAcknowledgement.model_validate_json(given.model_dump_json(by_alias=True, exclude_none=True))
            for given in bound.acknowledgements
        )
        or None,
        four_eyes=_four_eyes(bound),
        validation=bound.validation,
        outcome="Succeeded",
        created_at=bound.rollout.created_at,
        bound_at=bound.bound_at,
        documents=dict(bound.documents) or None,
        qualifying=not because,
        not_qualifying_because=because,
    )
    document = Statement(
        **{"_type": STATEMENT_TYPE},  # type: ignore[arg-type]  # not a Python name
        predicate_type=PREDICATE_TYPE,
        subject=tuple(sorted(_subjects(bound), key=lambda subject: subject.name)),
        predicate=binding,
    )
    return canonical(document.wire(), "the binding statement")


def not_qualifying(bound: Bound) -> Iterable[str]:
    """Why this evidence never counts as a qualification; empty when it does.

    The words are a closed set, which ``docs/evidence.md`` lists.
    """
    if bound.local_engine:
        yield "it ran in the local engine"
    # Marked at the start or now: either way safeguards were relaxed for a part of it.
    if bound.config.development or (bound.deployed is not None and bound.deployed.development):
        yield "the cluster is marked development: true"
    if _is_bypassed(bound):
        yield "approval was bypassed: nobody was asked"
    if is_development(bound.plan.desired_state.aicr.version, bound.config.aicr):
        yield f"AICR {bound.plan.desired_state.aicr.version} is a development version"
    if bound.validation.mode == "Disabled":
        yield "deployment validation is Disabled"
    problem = deployed_problem(bound.pipeline, bound.deployed, bound.steps)
    if problem is not None:
        yield problem
    yield from unrecorded(bound.pipeline, bound.validation, bound.validators, bound.tuple_)
    yield from unpinned(bound.plan.desired_state.validator_images, bound.validators)


def unrecorded(
    pipeline: BoundPipeline,
    validation: BoundValidation,
    validators: tuple[BoundValidator, ...] | None,
    ran_on: BoundTuple | None,
) -> Iterable[str]:
    """What a qualification is about and nobody wrote down; evidence of earlier versions lacks all of it."""
    missing = [
        *([] if pipeline.functions else ["functions"]),
        *([] if all(layer in pipeline.layers for layer in LAYERS) else ["layers"]),
        *([] if pipeline.manifests else ["manifests"]),
        *([] if pipeline.configuration else ["configuration"]),
    ]
    if missing:
        yield f"the digests of the pipeline's {', '.join(missing)} are not recorded"
    if validation.mode == "Required" and not validators:
        yield "which validators ran is not recorded"
    if ran_on is None:
        yield "the hardware and software tuple is not recorded"
    elif absent := [words for name, words in _PARTS.items() if not getattr(ran_on, name)]:
        yield f"the hardware and software tuple lacks: {', '.join(absent)}"


def unpinned(pinned: Iterable[str], ran: tuple[BoundValidator, ...] | None) -> Iterable[str]:
    """What is wrong where a validator ran that the plan does not name by its digest."""
    digests = {image.partition("@")[2] for image in pinned}
    if any(validator.digest not in digests for validator in ran or ()):
        yield "a validator ran with an image that the plan does not pin"


def outdated(binding: Binding) -> Iterable[str]:
    """Why a statement that says it qualifies counts no longer: earlier versions asked for less."""
    if binding.plan.resolved_by is None:
        yield RESOLVE_NOT_RECORDED
    if binding.documents is None:
        yield RECORDS_NOT_NAMED
    elif rollout_key(binding.rollout.name, "deployed") not in binding.documents:
        yield DEPLOYED_NOT_RECORDED


def _is_bypassed(bound: Bound) -> bool:
    """Whoever says so: the decision, what was asked, or a person's own record."""
    said = [bound.decision, bound.request, *bound.decisions]
    return any(record is not None and record.identity == "bypass" for record in said)


def _validators(ran: tuple[BoundValidator, ...] | None) -> tuple[BoundValidator, ...] | None:
    return tuple(sorted(ran, key=lambda one: (one.check, one.image, one.digest))) if ran else None


def _subjects(bound: Bound) -> Iterable[Subject]:
    yield Subject(name="plan", digest=_hex(bound.plan.desired_state_digest))
    for release in bound.plan.desired_state.releases:
        yield Subject(name=f"chart/{release.name}", digest=_hex(release.chart.manifest_digest))
    if bound.aicr_evidence is not None:
        yield Subject(name="aicr-evidence", digest=_hex(bound.aicr_evidence.digest))


def _hex(digest: str) -> dict[str, str]:
    return {"sha256": digest.removeprefix("sha256:")}


def _four_eyes(bound: Bound) -> BoundFourEyes | None:
    if bound.decision is None:
        return None
    missing = four_eyes_missing(bound.config.approvals, bound.rollout.submitter, bound.decision.by)
    return BoundFourEyes(enforced=not missing, because=missing or None)


def _approval(bound: Bound) -> BoundApproval | None:
    decision, request = bound.decision, bound.request
    if decision is None:
        return None
    return BoundApproval(
        by=decision.by,
        identity=decision.identity,
        identity_reason=request.identity_reason if request and decision.identity == "link" else None,
        issuer=decision.issuer,
        principals=decision.principals,
        decision=decision.decision,
        reason=decision.reason,
        at=decision.at,
        expires_at=decision.expires_at,
        request_digest=decision.request_digest,
        digest=bound.decision_digest,
        inherited_from=decision.rollout if decision.rollout != bound.rollout.name else None,
        decisions=bound.decisions or None,
    )
