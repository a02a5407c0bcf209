"""What the sweeper sees when a step is held: lifted, ended, or still for a person to lift."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aicr_pipeline.actions.gate_records import gate_records, waits_for_acknowledgement
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import load_rollout
from aicr_pipeline.decide.gate import Hold, check_records, pause
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason


def look_at_hold(
    wanted: Mapping[str, Any], ledger: Ledger, inbox: Inbox, coordination: Coordination, now: datetime
) -> Hold | None:
    """Why the step is still held, by what stands in ledger and inbox now; None once a person lifted it.

    A pause is lifted by the runtime, a missing acknowledgement by its record. What else the gate looks at is
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
    report = records.report
    assert report is not None  # check_records saw to it
    return waits_for_acknowledgement(step, report, rollout, ledger)
