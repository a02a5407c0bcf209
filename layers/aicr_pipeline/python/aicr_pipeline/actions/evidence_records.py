"""What "Bind evidence" reads beside AICR's evidence: records, validators, and the image of the workload."""

from collections.abc import Iterable

from aicr_pipeline.adapters.approvals import load_approvals
from aicr_pipeline.adapters.artifact import pull_files
from aicr_pipeline.adapters.http import Counters
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.rollouts import (
    load_acknowledgement,
    load_plan,
    load_report,
    load_request,
    load_rollout,
    standing_decision,
)
from aicr_pipeline.decide.bound_records import BoundRecords, check_records
from aicr_pipeline.decide.tuple_reader import runtime_images
from aicr_pipeline.decide.validation import Report
from aicr_pipeline.decide.validators_record import read_validators_record
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.evidence import BoundValidator
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason

#: AICR's component whose wrapper chart has the runtimes that training jobs name.
_TRAINER = "kubeflow-trainer"


def read_records(ledger: Ledger, name: str, cluster: str) -> BoundRecords:
    """A rollout's records, which fit each other.

    Raises
    ------
    PipelineError
        ``RolloutFailed`` when one is missing or of something else; ``PlanUnreadable`` when one was changed.
    """
    rollout, report = load_rollout(ledger, name), load_report(ledger, name)
    if report is None:
        raise PipelineError(Reason.RolloutFailed, f"Rollout {name} has lost its report.")
    decision = standing_decision(ledger, rollout)
    given = {
        step.release: load_acknowledgement(ledger, name, step.release)
        for step in report.steps
        if step.must_be_acknowledged
    }
    together = decision is not None and len(decision.by) > 1
    records = BoundRecords(
        rollout=rollout,
        plan=load_plan(ledger, rollout.to_plan),
        report=report,
        request=load_request(ledger, name),
        decision=decision,
        decisions=load_approvals(ledger, decision.rollout, decision.by) if decision and together else (),
        acknowledgements={release: one for release, one in given.items() if one is not None},
    )
    check_records(records, name, cluster)
    return records


def read_validators(ledger: Ledger, name: str, report: Report) -> tuple[BoundValidator, ...] | None:
    """The validators that ran, as the sweeper saw their pods; None where nobody wrote them down.

    Raises
    ------
    PipelineError
        ``RolloutFailed`` when they are not those of the report's checks.
    """
    text = ledger.get(f"rollouts/{name}/validators.json")
    return None if text is None else read_validators_record(text, report)


def workload_images(plan: Plan, registry: Destination) -> Iterable[str]:
    """What training jobs run in, as the plan's own wrapper charts say; nothing where they cannot be read."""
    found: set[str] = set()
    for release in plan.desired_state.releases:
        if release.kind == "wrapper" and release.component == _TRAINER:
            repository = registry.repository("wrappers", release.name, Counters())
            try:
                files = pull_files(repository, release.chart.manifest_digest, f"Wrapper chart {release.name}")
            except PipelineError as error:
                if error.retry:
                    raise
                continue  # not recorded: it is evidence that lacks something, never a rollout that failed
            found.update(runtime_images(files))
    return sorted(found)
