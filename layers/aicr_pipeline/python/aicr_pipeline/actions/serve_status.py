"""The signed routes that tell how things are: the status that was kept last, and what is deployed."""

from aicr_pipeline.actions.operators_desk import Caller, Reply
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.statuses import STATUS_WANTED, read_status
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.people import principal
from aicr_pipeline.decide.running import running_of
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.evidence import BoundPipeline
from aicr_pipeline.model.reasons import Reason


def tell_status(caller: Caller, coordination: Coordination) -> Reply:
    """The status as it was seen last.

    Returns
    -------
    Reply
        200 with the document; 404 when none was kept yet, or the table was lost; 403 for who is nobody.
    """
    if principal(caller.arn) is None:
        return _NOBODY
    status = read_status(coordination)
    if status is None:
        message = "No status is kept: the pipeline is new, or its table was lost. Ask for one with --rebuild."
        return Reply(404, _refusal(Reason.NoActivePlan, message), "no-status")
    return Reply(200, status.wire(), "status")


def renew_status(caller: Caller, bus: Bus, clock: Clock) -> Reply:
    """Have the status made anew from ledger and cluster; it is there when its time is not before ``at``.

    Returns
    -------
    Reply
        202 with ``at``; 503 when the bus did not take the wish; 403 for who is nobody.
    """
    if principal(caller.arn) is None:
        return _NOBODY
    at = rfc3339(clock())
    try:
        bus.announce(STATUS_WANTED, {"at": at})
    except TransientError as error:
        body = {"status": "transient", "reason": str(error.reason), "message": error.message}
        return Reply(503, body, "busy")
    return Reply(202, {"status": "asked", "at": at}, "status-asked")


def tell_running(caller: Caller, config: ClusterConfig, assets: BoundPipeline) -> Reply:
    """What is deployed, by digest, and with which AICR; 403 for who is nobody."""
    if principal(caller.arn) is None:
        return _NOBODY
    return Reply(200, running_of(config, assets).wire(), "running")


def _refusal(reason: Reason, message: str) -> dict[str, str]:
    return {"status": "refused", "reason": str(reason), "message": message}


_NOBODY = Reply(
    403,
    _refusal(Reason.Unauthorized, "Only users and roles are people here; use one of those."),
    "refused-403",
)
