"""What Argo CD says of a release, in the words of what failed: for the person who has to do something."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from aicr_pipeline.decide.application import BLOCKED, request_of

#: Of an error that repo-server only remembers: nothing is tried again for an hour, but for a hard refresh.
CACHED = "(cached)"
_PULL = re.compile(r"ErrImagePull|ImagePullBackOff|pulling image|pull image|InvalidImageName")
_MOST = 3


def sync_failure(state: Mapping[str, Any], digest: str, condition: tuple[str, str, Any] | None) -> str:
    """Why an operation failed: each failed resource's and hook's own words, else the operation's.

    "one or more tasks failed" helps nobody. Results of another revision leaked from an older operation.
    """
    found = [_said(resource) for resource in _results(state, digest) if _failed(resource)]
    if found:
        return _first(found)
    return str(state.get("message") or (condition[1] if condition else "the sync failed"))


def running(state: Mapping[str, Any], digest: str) -> str:
    """What a running operation waits for; a hook that has something to say is heard."""
    hooks = [
        _said(resource)
        for resource in _results(state, digest)
        if _failed(resource) or (resource.get("hookPhase") == "Running" and _PULL.search(_message(resource)))
    ]
    message = str(state.get("message") or "")
    return "; ".join(part for part in (message, _first(hooks)) if part)


def unhealthy(status: Mapping[str, Any]) -> str:
    """Which resource is not healthy, and why; an image that cannot be pulled first.

    Argo CD 3 keeps the health of single resources out of the Application unless it is told otherwise.
    """
    health = status.get("health") or {}
    wanted = health.get("status")
    found = [
        resource
        for resource in status.get("resources") or []
        if (resource.get("health") or {}).get("status") in {wanted, "Degraded"} - {"Healthy", None}
    ]
    found.sort(key=lambda resource: (not _PULL.search(_message(resource)), not _message(resource)))
    own = str(health.get("message") or "")
    said = [_said(resource) if _message(resource) else _named(resource) for resource in found]
    return "; ".join(part for part in (own, _first(said)) if part)


def out_of_sync(status: Mapping[str, Any]) -> str:
    """Which resources differ."""
    found = [_named(item) for item in status.get("resources") or [] if item.get("status") == "OutOfSync"]
    return f": {_first(found, ', ')} differ" if found else ""


def initiator(state: Mapping[str, Any]) -> str:
    """Who asked for an operation; of the pipeline's own, which rollout."""
    operation = state.get("operation") or {}
    asked = request_of(operation)
    if asked is not None:
        return f"rollout {asked.partition('/')[0]}"
    by = operation.get("initiatedBy") or {}
    if by.get("automated"):
        return "Argo CD's automated sync"
    return str(by.get("username") or "somebody else")


def is_blocked(state: Mapping[str, Any]) -> bool:
    """Whether a sync window holds the operation; its phase stays Running."""
    return BLOCKED in str(state.get("message") or "")


def has_begun(state: Mapping[str, Any], digest: str) -> bool:
    """Whether the operation has applied something: from then on it has results."""
    return any(True for _ in _results(state, digest))


def short(digest: object) -> str:
    """A digest as people can compare it."""
    return str(digest)[:19] if digest else "no revision"


def minutes(time: timedelta) -> str:
    """``12 min``, or seconds below one minute."""
    whole = int(time.total_seconds())
    return f"{whole // 60} min" if whole >= 60 else f"{whole} s"


def _results(state: Mapping[str, Any], digest: str) -> Iterable[Mapping[str, Any]]:
    result = state.get("syncResult") or {}
    return (result.get("resources") or []) if result.get("revision") in (None, "", digest) else []


def _failed(resource: Mapping[str, Any]) -> bool:
    failed = resource.get("status") == "SyncFailed" or resource.get("hookPhase") in ("Failed", "Error")
    return failed and bool(_message(resource))


def _message(resource: Mapping[str, Any]) -> str:
    return str(resource.get("message") or (resource.get("health") or {}).get("message") or "")


def _named(resource: Mapping[str, Any]) -> str:
    return f"{resource.get('kind')} {resource.get('name')}"


def _said(resource: Mapping[str, Any]) -> str:
    return f"{_named(resource)}: {_message(resource)}"


def _first(found: list[str], joint: str = "; ") -> str:
    more = f"{joint}and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return joint.join(found[:_MOST]) + more
