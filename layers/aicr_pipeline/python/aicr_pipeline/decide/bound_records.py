"""Whether the records that evidence is made of are about each other, and about nothing else.

Asked twice: before the statement is signed, and by whoever verifies an archive years later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn

from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.acknowledgement import acknowledgement_missing
from aicr_pipeline.decide.approval import check_decision
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.canonical import equal, sha256
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Acknowledgement, ApprovalRequest, Decision, Report, Rollout


@dataclass(frozen=True)
class BoundRecords:
    """A rollout's records as they stand in the ledger."""

    rollout: Rollout
    plan: Plan
    report: Report
    request: ApprovalRequest | None = None
    #: Its own, or the one it inherits.
    decision: Decision | None = None
    #: Each person's, where several approved.
    decisions: tuple[Decision, ...] = ()
    #: By release.
    acknowledgements: Mapping[str, Acknowledgement] = field(default_factory=dict)


def check_records(records: BoundRecords, name: str, cluster: str) -> None:
    """Every record is of this rollout, to this plan, in this cluster, and the approval holds.

    Raises
    ------
    PipelineError
        ``RolloutFailed`` naming the record; ``RolloutRejected`` or ``RolloutExpired`` for an approval that
        never held.
    """
    rollout, plan, report = records.rollout, records.plan, records.report
    if rollout.name != name:
        _refuse(name, f"rollout.json is of rollout {rollout.name}")
    if rollout.cluster != cluster:
        _refuse(name, f"rollout.json is of cluster {rollout.cluster}, not {cluster}")
    if rollout.to_plan != plan.desired_state_digest:
        _refuse(name, f"it goes to plan {rollout.to_plan}, not {plan.desired_state_digest}")
    if (report.from_plan, report.to_plan) != (rollout.from_plan, rollout.to_plan):
        _refuse(name, "report.json is of another transition")
    if report.validation != plan.desired_state.validation:
        _refuse(name, "report.json and the plan differ about validation")
    if records.request is not None and records.request.rollout != name:
        _refuse(name, f"request.json is of rollout {records.request.rollout}")
    _check_approval(records, name)
    asked = request_digest(report, rollout.deadline)
    for step in report.steps:
        given = records.acknowledgements.get(step.release)
        if given is not None and (given.rollout, given.release) != (name, step.release):
            _refuse(name, f"the acknowledgement of {step.release} is of another rollout or release")
        missing = acknowledgement_missing(step, given, asked) if step.must_be_acknowledged else None
        if missing is not None:
            _refuse(name, f"an acknowledgement is missing. {missing}")


def check_same_recipe(evidence: bytes, own: bytes, plan: Plan) -> None:
    """Evidence of another plan never satisfies this one: the recipe inside must be the plan's.

    AICR writes the recipe anew, with other indents, so documents are compared and not bytes.

    Raises
    ------
    PipelineError
        ``RolloutFailed``.
    """
    if sha256(own) != plan.recorded.recipe_digest:
        raise PipelineError(
            Reason.RolloutFailed, "The ledger's recipe is not the one the plan recorded. Nothing is bound."
        )
    if evidence != own and not equal(_recipe(evidence, "evidence"), _recipe(own, "plan")):
        raise PipelineError(
            Reason.RolloutFailed, "AICR's evidence is for another recipe than the plan's; it does not count."
        )


def _recipe(text: bytes, whose: str) -> Any:
    return yaml.load(text, Reason.RolloutFailed, f"the recipe of the {whose}", most_bytes=4 << 20)


def _check_approval(records: BoundRecords, name: str) -> None:
    decision, report = records.decision, records.report
    if decision is not None and decision.rollout not in (name, records.rollout.inherits):
        _refuse(name, f"the decision is of rollout {decision.rollout}")
    if not report.approval_needed:
        return
    # It may have expired since the last step; it has to have held when it was given.
    given = parse_time(decision.at) if decision else datetime.min.replace(tzinfo=UTC)
    check_decision(decision, records.request, request_digest(report, records.rollout.deadline), given)
    if decision is not None and len(decision.by) > 1:
        _check_each(decision, records.decisions, name)


def _check_each(decision: Decision, each: Iterable[Decision], name: str) -> None:
    """Who approved together: each one's own record says the same, and nobody else's is among them."""
    found: dict[str, Decision] = {}
    for one in each:
        if len(one.by) != 1 or one.by[0] in found:
            _refuse(name, "a person's record of the approval is of several people, or there twice")
        found[one.by[0]] = one
    for person in decision.by:
        if person not in found:
            _refuse(name, f"the record of {person}'s approval is missing")
    if set(found) != set(decision.by):
        _refuse(name, "there is a record of an approval that the decision does not count")
    for person, one in found.items():
        if one.decision != "Approved" or one.rollout != decision.rollout:
            _refuse(name, f"{person}'s record is no approval of this rollout")
        if one.request_digest != decision.request_digest:
            _refuse(name, f"{person} approved another request")


def _refuse(name: str, problem: str) -> NoReturn:
    raise PipelineError(
        Reason.RolloutFailed,
        f"The records of rollout {name} do not fit: {problem}. Nothing is bound; start a fresh rollout.",
    )
