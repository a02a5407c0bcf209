"""One look at a release that is waited for: what it has come to, and what Argo CD is asked meanwhile."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import ObjectConflictError, ObjectMissingError
from aicr_pipeline.adapters.coordination import Waiter
from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.application import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    is_automated,
    is_ours,
    ready_again,
    refresh_request,
    spec_digest,
    was_ready,
    withdrawal,
)
from aicr_pipeline.decide.readiness import Graces, Readiness, readiness
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

_CONFLICTS = 3


def look_at_application(waiter: Waiter, argocd: ArgoCd, now: datetime, graces: Graces) -> Readiness:
    """Judge the Application that a step waits for.

    A ready one gets self-heal back before anybody hears of it. Where readiness says so a refresh is asked
    for. When the step ends otherwise, an operation of ours that changed nothing yet is taken back: it would
    run later, without a gate before it.

    Raises
    ------
    TransientError
        ``Conflict``: Argo CD writes faster than we can read. The next look tries again.
    """
    name, request = str(waiter.wanted["release"]), waiter.wanted["requestId"]
    for _ in range(_CONFLICTS):
        application = argocd.application(name)
        found = _judge(application, waiter, now, graces)
        try:
            if application is not None and is_ours(application):
                _act(found, application, request, waiter, argocd, now)
        except (ObjectConflictError, ObjectMissingError):
            continue  # it is another one by now
        return found
    raise TransientError(Reason.Conflict, f"Application {name} is being written by somebody else.")


def take_back(waiter: Waiter, argocd: ArgoCd) -> None:
    """Take back the operation of a step that nobody waits for any more, unless it may have changed something.

    Raises
    ------
    TransientError
        ``Conflict``, as above.
    """
    name, request = str(waiter.wanted["release"]), waiter.wanted["requestId"]
    for _ in range(_CONFLICTS):
        application = argocd.application(name) if request is not None else None
        back = withdrawal(application, request) if application is not None and is_ours(application) else None
        if back is None:
            return
        with suppress(ObjectConflictError, ObjectMissingError):  # it is another one by now
            argocd.change_application(name, back)
            return
    raise TransientError(Reason.Conflict, f"Application {name} is being written by somebody else.")


def _judge(application: Mapping[str, Any] | None, waiter: Waiter, now: datetime, graces: Graces) -> Readiness:
    wanted = waiter.wanted
    name, request = str(wanted["release"]), wanted["requestId"]
    if application is None:
        return Readiness("failed", f"Application {name} is gone; somebody deleted it.")
    if not is_ours(application):
        return Readiness(
            "failed",
            f"Application {name} has lost its label {MANAGED_BY_LABEL}: {MANAGED_BY}, and the pipeline "
            "leaves it alone. Give it back if it is ours, else remove or rename the Application; then a "
            "fresh rollout.",
            Reason.ForeignObject,
        )
    if application["metadata"].get("deletionTimestamp"):
        return Readiness("failed", f"Application {name} is being deleted; somebody deleted it.")
    if wanted.get("spec") is not None and _asks_for_else(application, str(wanted["spec"])):
        return Readiness(
            "failed",
            f"Application {name} no longer asks for what the plan says: somebody changed its spec "
            "during the step. Submit the runtime again.",
            Reason.InventoryDrift,
        )
    since = parse_time(waiter.registered_at) if waiter.registered_at else None
    found = readiness(application, str(wanted["digest"]), request, now, graces, since)
    waits = request is not None and found.state == "waiting"
    if waits and is_automated(application) and not was_ready(application, request):
        return Readiness(
            "failed",
            f"{name}: automated sync could not be taken off: somebody put spec.syncPolicy.automated back "
            "during the step, so Argo CD would start syncs of its own. Find who writes this Application.",
            Reason.EngineSuspensionRefused,
        )
    return found


def _asks_for_else(application: Mapping[str, Any], wanted: str) -> bool:
    try:
        return spec_digest(application.get("spec") or {}) != wanted
    except PipelineError:
        return True  # a number that no plan can have


def _act(
    found: Readiness,
    application: Mapping[str, Any],
    request: str | None,
    waiter: Waiter,
    argocd: ArgoCd,
    now: datetime,
) -> None:
    name = str(application["metadata"]["name"])
    if found.state == "ready":
        if request is not None and not (was_ready(application, request) and is_automated(application)):
            argocd.change_application(name, ready_again(application, request))
        return
    ends = found.state == "failed" or parse_time(waiter.deadline) <= now
    back = withdrawal(application, request) if ends and request is not None else None
    if back is not None:
        argocd.change_application(name, back)
    elif found.refresh is not None:
        argocd.change_application(name, refresh_request(found.refresh, now))
