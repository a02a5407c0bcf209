"""May this step run now? What the gate read goes in, the first thing that forbids the step comes out.

Three looks, in this order: at the records, at the engine, at the release. What ends the rollout is raised
with its reason; what a person lifts, or a sync window's end, is a ``Hold``, and the step waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aicr_pipeline.decide.acknowledgement import acknowledgement_missing
from aicr_pipeline.decide.application import SKIP, is_applied, is_ours, is_skipped
from aicr_pipeline.decide.approval import check_bypass, check_deadline, check_decision, check_revocation
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.inventory import installed_digest, is_installed
from aicr_pipeline.decide.sync_windows import denial
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig, Engine
from aicr_pipeline.model.plan import Plan, PlannedRelease
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import (
    Acknowledgement,
    Action,
    ApprovalRequest,
    Decision,
    Report,
    Revocation,
    Rollout,
    RolloutOutcome,
    Step,
)
from aicr_pipeline.model.runtime import Wish

_AGAIN = "Submit the runtime again: the fresh rollout asks, and applies every release."


@dataclass(frozen=True)
class Hold:
    """Why a step waits, for a person or for the end of a sync window. ``message`` says what lifts it."""

    reason: Reason
    message: str

    def wire(self) -> dict[str, str]:
        """As the state machine and the waiter carry it."""
        return {"reason": str(self.reason), "message": self.message}


@dataclass(frozen=True)
class Records:
    """What ledger, inbox and table say of the rollout."""

    rollout: Rollout
    report: Report | None
    request: ApprovalRequest | None
    decision: Decision | None
    revocation: Revocation | None
    outcome: RolloutOutcome | None
    wish: Wish
    #: Who holds the rollout lock; None also when the table was lost.
    holder: str | None = None


@dataclass(frozen=True)
class EngineSeen:
    """Argo CD, as far as the gate looks at it."""

    installed: bool
    project: Mapping[str, Any] | None
    #: Empty when no workload has the controller's usual label, or AWS runs it: then nothing is known.
    controllers: Sequence[Mapping[str, Any]] = ()


def check_over(outcome: RolloutOutcome | None) -> None:
    """Raises PipelineError ``RolloutSuperseded`` for a rollout that has its outcome, redriven or not."""
    if outcome is not None:
        raise PipelineError(Reason.RolloutSuperseded, f"Rollout {outcome.rollout} is over: {outcome.message}")


def check_records(
    seen: Records, said: Mapping[str, Any], item: Mapping[str, Any], bypass: bool, now: datetime
) -> Step:
    """The step as the report has it, when the records allow it.

    Parameters
    ----------
    said, item:
        What the execution's state says. It is not trusted: the records must say the same of everything.
    bypass:
        Whether the configuration still allows what a development cluster's bypass decided.

    Raises
    ------
    PipelineError
        ``RolloutSuperseded``, ``RolloutRevoked``, ``PlanUnreadable``, ``StepUnknown``, ``RolloutExpired``,
        ``RolloutRejected``, ``RolloutFailed``, ``Deleting``.
    """
    rollout = seen.rollout
    check_over(seen.outcome)
    check_revocation(seen.revocation)
    if seen.holder not in (None, rollout.name):
        raise PipelineError(
            Reason.RolloutSuperseded, f"Rollout {seen.holder} is the active one, not {rollout.name}."
        )
    if seen.report is None:
        raise PipelineError(Reason.PlanUnreadable, f"Rollout {rollout.name} has lost its report.")
    found = _step_of(said, item, rollout, seen.report)
    check_deadline(rollout.deadline, now)
    if seen.report.approval_needed:
        check_bypass(seen.decision, bypass)
        check_decision(seen.decision, seen.request, request_digest(seen.report, rollout.deadline), now)
    check_wish(seen.wish)
    return found


def check_wish(wish: Wish) -> None:
    """Raises PipelineError ``Deleting`` once the runtime was deleted from the inbox."""
    if wish.version is None:
        raise PipelineError(
            Reason.Deleting,
            "The runtime was deleted from the inbox, so no further step starts. What is installed stays, and "
            "nothing is removed. Submit a runtime to go on.",
        )


def pause(wish: Wish) -> Hold | None:
    """A paused runtime holds every step that has not begun."""
    if not wish.paused:
        return None
    return Hold(
        Reason.Paused,
        "The runtime is paused. Set spec.paused to false and submit it: the rollout goes on where it is.",
    )


def check_engine(engine: Engine, seen: EngineSeen) -> None:
    """Whether Argo CD is there and works. A sync window is ``window``'s.

    Raises
    ------
    PipelineError
        ``EngineMissing``, ``ProjectMissing``, ``EngineSuspended``.
    """
    if not seen.installed:
        raise PipelineError(
            Reason.EngineMissing,
            "Argo CD is gone: the Application CRD is missing. Install it again; then a fresh rollout.",
        )
    if seen.project is None:
        raise PipelineError(
            Reason.ProjectMissing,
            f"AppProject {engine.project} is gone from {engine.namespace}. Apply the cluster manifests; then "
            "a fresh rollout.",
        )
    stopped = controllers_stopped(seen.controllers)
    if stopped is not None:
        raise PipelineError(Reason.EngineSuspended, f"{stopped} Scale it up; then a fresh rollout.")


def window(
    engine: Engine, project: Mapping[str, Any] | None, application: Mapping[str, Any], now: datetime
) -> Hold | None:
    """A sync window that denies our step, too, holds it: unlike all else that stops Argo CD, it was planned,
    and it ends by itself."""
    denied = denial(project or {}, application, now)
    if denied is None or not denied.manual_too:
        return None
    return Hold(
        Reason.EngineSuspended,
        f"A sync window of AppProject {engine.project} denies syncs now: {denied.words}. The step begins "
        "when it is over, or when manualSync is set in it.",
    )


def controllers_stopped(controllers: Sequence[Mapping[str, Any]]) -> str | None:
    """A sentence when every controller that is known is scaled to nothing."""
    if not controllers or any((found.get("spec") or {}).get("replicas", 1) for found in controllers):
        return None
    names = ", ".join(str(found["metadata"]["name"]) for found in controllers)
    return f"Argo CD's application controller ({names}) is scaled to zero, so nothing is synced."


def planned(plan: Plan, step: Step) -> PlannedRelease:
    """The release of a step. Raises PipelineError ``StepUnknown`` when the plan has none of that name."""
    release = plan.release(step.release)
    if release is None:
        raise PipelineError(
            Reason.StepUnknown,
            f"Plan {plan.desired_state_digest} has no release {step.release}; start a fresh rollout.",
        )
    return release


def check_release(
    step: Step,
    release: PlannedRelease,
    before: PlannedRelease | None,
    application: Mapping[str, Any] | None,
    config: ClusterConfig,
) -> None:
    """Whether the cluster holds what the step starts from.

    Parameters
    ----------
    before:
        The release as the from-plan has it; None when it has none, or when an earlier rollout ended half-way
        and nothing is known. The step's own work of an earlier try is what it starts from, too.

    Raises
    ------
    PipelineError
        ``ForeignObject``, ``EngineSuspended``, ``MovedReleaseMissing``, ``InventoryDrift``.
    """
    name = step.release
    if application is not None and not is_ours(application):
        raise PipelineError(
            Reason.ForeignObject,
            f"Application {name} is not the pipeline's; it never adopts. Remove or rename it; then a fresh "
            "rollout.",
        )
    if application is not None and is_skipped(application):
        raise PipelineError(
            Reason.EngineSuspended,
            f"Argo CD leaves Application {name} alone, by its annotation {SKIP}. Take it off; then a fresh "
            "rollout.",
        )
    if step.action is Action.Unchanged:
        if not (is_applied(application, release, config) and is_installed(application, release)):
            raise PipelineError(
                Reason.InventoryDrift,
                f"Application {name} is not what the active plan installed: somebody changed or removed it. "
                f"{_AGAIN}",
            )
        return
    if before is None or is_installed(application, before) or is_installed(application, release):
        return
    if application is None and step.action is Action.Move:
        raise PipelineError(
            Reason.MovedReleaseMissing,
            f"Release {name} was to move from namespace {before.namespace}, but its Application is gone. "
            f"{_AGAIN}",
        )
    if application is None:
        raise PipelineError(
            Reason.InventoryDrift,
            f"Application {name} was installed by the active plan, and is gone: somebody removed "
            f"it. {_AGAIN}",
        )
    raise PipelineError(
        Reason.InventoryDrift,
        f"Application {name} is at {_short(installed_digest(application))} by what Argo CD last compared, "
        f"and the active plan has {before.chart.version} at {_short(before.chart.manifest_digest)}, with its "
        f"values, in {before.namespace}: somebody changed it. {_AGAIN}",
    )


def unacknowledged(
    step: Step, report: Report, rollout: Rollout, record: Acknowledgement | None
) -> Hold | None:
    """A ``manual`` step waits until somebody said that its upgrade record was followed."""
    missing = acknowledgement_missing(step, record, request_digest(report, rollout.deadline))
    return None if missing is None else Hold(Reason.AwaitingAcknowledgement, missing)


def _step_of(said: Mapping[str, Any], item: Mapping[str, Any], rollout: Rollout, report: Report) -> Step:
    """The step as the report has it. The state's input says which, and must say the same of everything."""
    execution = (said.get("fromPlan"), said["toPlan"], said["deadline"])
    if (
        execution != (rollout.from_plan, rollout.to_plan, rollout.deadline)
        or report.to_plan != rollout.to_plan
    ):
        raise PipelineError(
            Reason.StepUnknown,
            f"The execution is not for what rollout {rollout.name} recorded; nothing is written.",
        )
    wanted = (item["index"], item["release"], item["action"])
    for found in report.steps:
        if (found.index, found.release, str(found.action)) == wanted:
            return found
    raise PipelineError(
        Reason.StepUnknown,
        f"The report of rollout {rollout.name} has no step {item['index']} {item['release']}.",
    )


def _short(digest: str | None) -> str:
    return digest[:19] if digest else "nothing"
