"""What the sweeper sees when a step is held: lifted, ended, or still for a person to lift."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from aicr_pipeline.actions.gate_records import gate_records, waits_for_acknowledgement
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import load_plan, load_rollout
from aicr_pipeline.decide.application import new_application
from aicr_pipeline.decide.gate import Hold, check_records, pause, planned, window
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Rollout, Step


def look_at_hold(
    wanted: Mapping[str, Any],
    ledger: Ledger,
    inbox: Inbox,
    coordination: Coordination,
    argocd: Callable[[], ArgoCd],
    config: ClusterConfig,
    now: datetime,
) -> Hold | None:
    """Why the step is still held, by what stands in ledger and inbox now; None once a person lifted it.

    A pause is lifted by the runtime, a missing acknowledgement by its record, a sync window by the AppProject
    or the clock. What else the gate looks at is
    the gate's: it opens only there.

    Raises
    ------
    PipelineError
        What ends the rollout meanwhile: ``RolloutRevoked``, ``RolloutExpired``, ``RolloutSuperseded``,
        ``Deleting``, ``PlanUnreadable``.
    """
    rollout = load_rollout(ledger, str(wanted["rollout"]))
    records = gate_records(rollout, ledger, inbox, coordination)
    try:
        # Whether a bypass still counts needs the configuration: the gate asks that.
        step = check_records(records, wanted["input"], wanted["item"], True, now)
    except PipelineError as error:
        if error.reason is not Reason.RolloutExpired:
            raise
        why = str(wanted["message"]).removeprefix(f"{wanted['step']}: ")
        raise PipelineError(error.reason, f"it still waited for a person. {why} {error.message}") from None
    if wanted["reason"] == Reason.Paused:
        return pause(records.wish)
    if wanted["reason"] == Reason.EngineSuspended:
        return _window(step, rollout, ledger, argocd(), config, now)
    report = records.report
    assert report is not None  # check_records saw to it
    return waits_for_acknowledgement(step, report, rollout, ledger)


def _window(
    step: Step, rollout: Rollout, ledger: Ledger, argocd: ArgoCd, config: ClusterConfig, now: datetime
) -> Hold | None:
    plan = load_plan(ledger, rollout.to_plan)
    wanted = new_application(planned(plan, step), config, plan.desired_state_digest, "")
    return window(config.engine, argocd.project(), wanted, now)
