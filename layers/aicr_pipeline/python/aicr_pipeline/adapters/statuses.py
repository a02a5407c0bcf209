"""The status as the coordination table keeps it, and the wish for a fresh one."""

from typing import Any

from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.clock import parse_time
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.status import ConditionType, Status

#: The fact's name. It is made anew when it is lost.
STATUS = "status"
_TRIES = 5
#: Somebody asks for a fresh look.
STATUS_WANTED = "Status Wanted"


def read_status(coordination: Coordination) -> Status | None:
    """The document that was kept last; None when there is none, or it is of another version."""
    return _parsed(coordination.fact(STATUS))


def _parsed(found: dict[str, Any] | None) -> Status | None:
    try:
        return None if found is None else parse(Status, found, Reason.PlanUnreadable, "the status")
    except PipelineError:
        return None


def is_drifted(coordination: Coordination) -> bool:
    """Whether the last look found the cluster to differ from the active plan, which is then news again."""
    status = read_status(coordination)
    return status is not None and status.condition(ConditionType.Ready).reason is Reason.InventoryDrift


def keep_status(coordination: Coordination, status: Status) -> Status:
    """Put it in place of an older one; returns the one that stands then.

    Two looks may be at it at once: that of the one which began later stays, whoever comes last.
    """
    for _ in range(_TRIES):
        fact = coordination.fact(STATUS)
        kept = _parsed(fact)
        if kept is not None and parse_time(kept.observed_at) > parse_time(status.observed_at):
            return kept
        if coordination.change_fact(STATUS, fact, status.wire()):
            return status
    # Written by hand, or in another way than ours: it never compares equal.
    coordination.put_fact(STATUS, status.wire())
    return status
