"""The status as the coordination table keeps it, and the wish for a fresh one."""

from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.status import ConditionType, Status

#: The fact's name. It is made anew when it is lost.
STATUS = "status"
#: Somebody asks for a fresh look.
STATUS_WANTED = "Status Wanted"


def read_status(coordination: Coordination) -> Status | None:
    """The document that was kept last; None when there is none, or it is of another version."""
    found = coordination.fact(STATUS)
    try:
        return None if found is None else parse(Status, found, Reason.PlanUnreadable, "the status")
    except PipelineError:
        return None


def is_drifted(coordination: Coordination) -> bool:
    """Whether the last look found the cluster to differ from the active plan, which is then news again."""
    status = read_status(coordination)
    return status is not None and status.condition(ConditionType.Ready).reason is Reason.InventoryDrift


def keep_status(coordination: Coordination, status: Status) -> None:
    """Put it in place of the one before."""
    coordination.put_fact(STATUS, status.wire())
