"""What Argo CD writes next, from an Application, what it should be, and the time. Pure: all merge patches.

Source: controller/appcontroller.go, controller/state.go and controller/sync.go at v3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from local.argocd.lies import unwell
from local.argocd.manifests import Resource, Target
from local.argocd.scenario import Fault

Object = dict[str, Any]

REFRESH = "argocd.argoproj.io/refresh"
COMPLETED = frozenset({"Succeeded", "Failed", "Error"})
ALL_RUN = "successfully synced (all tasks run)"
NOT_VALID = "one or more synchronization tasks are not valid"
BLOCKED = "Sync operation blocked by sync window"
_HISTORY = 10


@dataclass(frozen=True)
class Live:
    """What is in the cluster for an Application: the render that was applied, and when that changed it."""

    digest: str
    changed_at: datetime
    resources: tuple[Resource, ...]


def refresh_reason(
    application: Object, *, forced: bool, due: bool
) -> Literal["annotation", "spec", "forced", "due"] | None:
    """Why the Application has to be compared now, or None.

    ``forced`` after an operation or for health, ``due`` when the poll interval has passed.
    """
    if (application["metadata"].get("annotations") or {}).get(REFRESH):
        return "annotation"
    compared = ((application.get("status") or {}).get("sync") or {}).get("comparedTo") or {}
    spec = application["spec"]
    if compared.get("source") != spec.get("source") or compared.get("destination") != spec.get("destination"):
        return "spec"
    if forced:
        return "forced"
    return "due" if due else None


def invalid(application: Object, messages: Sequence[str], now: datetime) -> Object:
    """Patch for a spec that is refused: conditions only. reconciledAt and comparedTo stay, as in Argo CD."""
    found = [("InvalidSpecError", message) for message in messages]
    status = {
        "conditions": _conditions(application, found, now),
        "sync": {"status": "Unknown"},
        "health": _health(application, "Unknown", "", now),
    }
    return _with_annotation_removed(application, {"status": status})


def not_loaded(application: Object, message: str, now: datetime) -> Object:
    """Patch for a target state that could not be loaded: ComparisonError, sync Unknown; health stays."""
    text = (
        "Failed to load target state: failed to generate manifest for source 1 of 1: "
        f"rpc error: code = Unknown desc = {message}"
    )
    before = ((application.get("status") or {}).get("health") or {}).get("status", "Healthy")
    status = {
        "conditions": _conditions(application, [("ComparisonError", text)], now),
        "sync": {"status": "Unknown", "revision": None, "comparedTo": _compared_to(application)},
        "health": _health(application, before, "", now),
        "reconciledAt": stamp(now),
    }
    return _with_annotation_removed(application, {"status": status})


def compared(
    application: Object,
    target: Target,
    live: Live | None,
    now: datetime,
    *,
    settled: bool,
    fault: Fault,
    sync_error: str = "",
) -> Object:
    """Patch after a comparison.

    Parameters
    ----------
    live
        What is applied, or None.
    settled
        Whether new workloads have had their time to become healthy.
    sync_error
        Why the controller does not sync by itself although it should, or nothing.
    """
    synced = live is not None and live.digest == target.digest
    health, words = _health_of(target, live, settled=settled, fault=fault)
    namespace = str((application["spec"].get("destination") or {}).get("namespace", ""))
    status = {
        "conditions": _conditions(application, [("SyncError", sync_error)] if sync_error else [], now),
        "sync": {
            "status": "Synced" if synced else "OutOfSync",
            "revision": target.revision,
            "comparedTo": _compared_to(application),
        },
        "health": _health(application, health, words, now),
        "resources": [*_resources(target, live, synced=synced, health=health), *unwell(fault, namespace)],
        "summary": {"images": list(target.images)},
        "sourceType": "Helm",
        "controllerNamespace": application["metadata"].get("namespace"),
        "reconciledAt": stamp(now),
    }
    return _with_annotation_removed(application, {"status": status})


def _health_of(target: Target, live: Live | None, *, settled: bool, fault: Fault) -> tuple[str, str]:
    if live is None:
        return ("Missing", "") if target.resources else ("Healthy", "")
    if fault.health:
        return fault.health, "" if fault.resource else fault.message
    moving = not settled and any(resource.has_health for resource in live.resources)
    return ("Progressing", "") if moving else ("Healthy", "")


def begin(application: Object, now: datetime) -> Object:
    """Patch that takes an operation up. What an older operation left in operationState is not removed."""
    state = {"operation": application["operation"], "phase": "Running", "startedAt": stamp(now)}
    return {"status": {"operationState": state}}


def refused(application: Object) -> list[str]:
    """Why the spec was refused when it was last looked at.

    An operation that is taken up then is not carried out, whatever the spec is by now: Argo CD's sync asks
    the conditions (``SyncAppState``), and only its refresh looks anew. That has a queue of its own and is the
    first as a rule; here it never is.
    """
    conditions = (application.get("status") or {}).get("conditions") or []
    return [str(item.get("message")) for item in conditions if item.get("type") == "InvalidSpecError"]


def blocked(done: Target | None) -> Object:
    """Patch of an operation that a sync window holds; ``done`` of one that has begun to apply it."""
    state: Object = {"phase": "Running", "message": BLOCKED}
    if done is not None:
        state["syncResult"] = {"revision": done.revision, "resources": applied(done, {})[:1]}
    return {"status": {"operationState": state}}


def ended(
    application: Object,
    operation: Object,
    source: Object,
    phase: str,
    message: str,
    revision: str,
    results: list[Object],
    now: datetime,
) -> Object:
    """Patch of an operation's end: the operation goes, operationState stays; success enters the history."""
    state = (application.get("status") or {}).get("operationState") or {}
    patch: Object = {
        "operation": None,
        "status": {
            "operationState": {
                "operation": operation,
                "phase": phase,
                "message": message,
                "startedAt": state.get("startedAt") or stamp(now),
                "finishedAt": stamp(now),
                "syncResult": {"revision": revision, "source": source, "resources": results},
            }
        },
    }
    # Only whole syncs that were carried out are history.
    asked = operation.get("sync") or {}
    if phase == "Succeeded" and not asked.get("resources") and not asked.get("dryRun"):
        patch["status"]["history"] = _history(application, operation, source, revision, now)
    return patch


def sync_source(application: Object, operation: Object) -> tuple[Object, str]:
    """Source and revision of an operation: its own where it names them, else the spec's."""
    sync = operation.get("sync") or {}
    source = sync.get("source") or application["spec"].get("source") or {}
    return source, str(sync.get("revision") or source.get("targetRevision") or "")


def applied(target: Target, errors: dict[Resource, str]) -> list[Object]:
    """syncResult.resources: all synced, or the refused ones when there are any."""
    results = []
    for resource in target.resources:
        error = errors.get(resource, "")
        if errors and not error:
            continue
        entry: Object = {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
            "namespace": resource.namespace,
            "name": resource.name,
            "syncPhase": resource.hook or "Sync",
            "status": "SyncFailed" if error else "Synced",
            "message": error or "serverside-applied",
        }
        if resource.hook:
            entry |= {"hookType": resource.hook, "hookPhase": "Failed" if error else "Succeeded"}
        results.append(entry)
    return results


def is_automated(application: Object) -> bool:
    """Whether the controller may start operations of its own."""
    automated = (application["spec"].get("syncPolicy") or {}).get("automated")
    return automated is not None and automated.get("enabled") is not False


def auto_sync(application: Object, target: Target, *, synced: bool) -> tuple[Object | None, str]:
    """The operation automated sync starts, or why it does not (a SyncError), or neither.

    An operation that is under way is left alone, and a revision that was tried is not tried again, unless
    it succeeded and ``selfHeal`` asks for repair.
    """
    automated = (application["spec"].get("syncPolicy") or {}).get("automated")
    state = (application.get("status") or {}).get("operationState") or {}
    idle = not application.get("operation") and state.get("phase", "Succeeded") in COMPLETED
    if automated is None or not is_automated(application) or synced or not idle:
        return None, ""
    source = application["spec"].get("source") or {}
    result = state.get("syncResult") or {}
    if result.get("revision") == target.revision and result.get("source") == source:
        if state.get("phase") != "Succeeded":
            return None, f"Failed last sync attempt to [{target.revision}]: {state.get('message', '')}"
        if not automated.get("selfHeal"):
            return None, ""
    policy = application["spec"].get("syncPolicy") or {}
    sync: Object = {"revision": target.revision, "prune": bool(automated.get("prune"))}
    if options := policy.get("syncOptions"):
        sync["syncOptions"] = options
    operation = {
        "initiatedBy": {"automated": True},
        "retry": policy.get("retry") or {"limit": 5},
        "sync": sync,
    }
    return operation, ""


def stamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, as Kubernetes times are."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _compared_to(application: Object) -> Object:
    """What was compared, as a merge patch made from old to new, as Argo CD's: what is gone goes."""
    spec = application["spec"]
    new = {"source": spec.get("source"), "destination": spec.get("destination")}
    old = ((application.get("status") or {}).get("sync") or {}).get("comparedTo")
    return _patch_between(old, new)


def _patch_between(old: object, new: Object) -> Object:
    before = old if isinstance(old, dict) else {}
    patch: Object = {key: None for key in before if key not in new}
    for key, value in new.items():
        patch[key] = _patch_between(before.get(key), value) if isinstance(value, dict) else value
    return patch


def _with_annotation_removed(application: Object, patch: Object) -> Object:
    if (application["metadata"].get("annotations") or {}).get(REFRESH):
        patch["metadata"] = {"annotations": {REFRESH: None}}
    return patch


def _conditions(application: Object, found: list[tuple[str, str]], now: datetime) -> list[Object]:
    """Condition entries; one that says the same as before keeps its time."""
    before = {
        (item.get("type"), item.get("message")): item.get("lastTransitionTime")
        for item in (application.get("status") or {}).get("conditions") or []
    }
    return [
        {"type": kind, "message": message, "lastTransitionTime": before.get((kind, message)) or stamp(now)}
        for kind, message in found
    ]


def _health(application: Object, status: str, message: str, now: datetime) -> Object:
    before = (application.get("status") or {}).get("health") or {}
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {"status": status, "message": message or None, "lastTransitionTime": since or stamp(now)}


def _resources(target: Target, live: Live | None, *, synced: bool, health: str) -> list[Object]:
    present = set(live.resources) if live else set()
    entries = []
    for resource in target.resources:
        if resource.hook:
            continue
        entry: Object = {
            "version": resource.version,
            "kind": resource.kind,
            "name": resource.name,
            "status": "Synced" if synced else "OutOfSync",
        }
        if resource.group:
            entry["group"] = resource.group
        if resource.namespace:
            entry["namespace"] = resource.namespace
        if resource.has_health or resource not in present:
            entry["health"] = {"status": health if resource in present else "Missing"}
        entries.append(entry)
    return entries


def _history(
    application: Object, operation: Object, source: Object, revision: str, now: datetime
) -> list[Object]:
    status = application.get("status") or {}
    before: list[Object] = list(status.get("history") or [])
    started = (status.get("operationState") or {}).get("startedAt") or stamp(now)
    entry = {
        "id": (before[-1]["id"] + 1) if before else 0,
        "revision": revision,
        "source": source,
        "deployStartedAt": started,
        "deployedAt": stamp(now),
        "initiatedBy": operation.get("initiatedBy") or {},
    }
    return [*before, entry][-_HISTORY:]
