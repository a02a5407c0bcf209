"""Ready at the current revision: one pure function over an Argo CD Application.

Argo CD writes no ``observedGeneration``, so every piece of status may be of the revision before.
The order of the checks is the order in which status becomes true after a sync.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aicr_pipeline.decide.application import carries, same_but_nulls

REFRESH = "argocd.argoproj.io/refresh"
_ERRORS = ("InvalidSpecError", "ComparisonError", "SyncError", "UnknownError")


@dataclass(frozen=True)
class Readiness:
    """``ready``; ``waiting`` with what for; ``failed`` with Argo CD's own words."""

    state: Literal["ready", "waiting", "failed"]
    message: str


def readiness(application: Mapping[str, Any], digest: str, request_id: str | None) -> Readiness:
    """Judge an Application.

    Parameters
    ----------
    digest:
        The wanted manifest digest (``sha256:…``).
    request_id:
        Of our operation while its step waits; None for drift checks and Unchanged releases, since
        self-heal starts operations of its own later.
    """
    name = application["metadata"]["name"]
    spec, status = application.get("spec") or {}, application.get("status") or {}
    state = status.get("operationState") or {}
    condition = _condition(status)
    if REFRESH in (application["metadata"].get("annotations") or {}):
        return _waiting(name, "a refresh is asked for and not done")
    if application.get("operation"):
        return _waiting(name, "its operation has not started")
    phase = state.get("phase")
    if request_id is not None and not carries(state, request_id):
        if condition and condition[0] == "InvalidSpecError":
            return Readiness("failed", f"{name}: {condition[1]}")
        return _waiting(name, "our operation is not the one Argo CD reports")
    if phase in ("Running", "Terminating"):
        return _waiting(name, f"sync is running: {state.get('message', '')}".rstrip(": "))
    if request_id is not None and phase in ("Failed", "Error"):
        return Readiness("failed", f"{name}: {_sync_failure(state, condition)}")
    if condition:
        return (
            _waiting(name, condition[1])
            if condition[0] != "InvalidSpecError"
            else Readiness("failed", f"{name}: {condition[1]}")
        )
    sync = status.get("sync") or {}
    compared = sync.get("comparedTo") or {}
    if not all(same_but_nulls(compared.get(part), spec.get(part)) for part in ("source", "destination")):
        return _waiting(name, "Argo CD has not compared the current spec yet")
    if sync.get("status") != "Synced" or sync.get("revision") != digest:
        return _waiting(
            name,
            f"{sync.get('status', 'Unknown')} at {_short(sync.get('revision'))}, not at {_short(digest)}",
        )
    if request_id is not None and not _operation_done(state, digest):
        return _waiting(name, "the operation is not finished at the wanted digest")
    health = (status.get("health") or {}).get("status")
    if health != "Healthy":
        words = (status.get("health") or {}).get("message", "")
        return _waiting(name, f"{health or 'health unknown'} {words}".rstrip())
    if request_id is not None and str(status.get("reconciledAt", "")) < str(state["finishedAt"]):
        return _waiting(name, "health is from before the sync")
    return Readiness("ready", f"{name}: Synced and Healthy at {_short(digest)}")


def _operation_done(state: Mapping[str, Any], digest: str) -> bool:
    result = state.get("syncResult") or {}
    asked = (state.get("operation") or {}).get("sync") or {}
    return (
        state.get("phase") == "Succeeded"
        and bool(state.get("finishedAt"))
        and result.get("revision") == digest
        # Fields of an older operation leak into a new one in some releases: a selective sync is not ours.
        and not asked.get("resources")
        and asked.get("revision") == digest
    )


def _condition(status: Mapping[str, Any]) -> tuple[str, str] | None:
    for wanted in _ERRORS:
        for condition in status.get("conditions") or []:
            if condition.get("type") == wanted:
                return wanted, str(condition.get("message", wanted))
    return None


def _sync_failure(state: Mapping[str, Any], condition: tuple[str, str] | None) -> str:
    """The first failed resource's words say more than 'one or more tasks failed'."""
    for resource in (state.get("syncResult") or {}).get("resources") or []:
        failed = resource.get("status") == "SyncFailed" or resource.get("hookPhase") in ("Failed", "Error")
        if failed and resource.get("message"):
            return f"{resource.get('kind')} {resource.get('name')}: {resource['message']}"
    return str(state.get("message") or (condition[1] if condition else "the sync failed"))


def _waiting(name: str, what: str) -> Readiness:
    return Readiness("waiting", f"{name}: {what}")


def _short(digest: object) -> str:
    return str(digest)[:19] if digest else "no revision"
