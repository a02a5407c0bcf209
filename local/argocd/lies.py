"""What Argo CD says that is not so, and what others do in between: patches for faults. Pure."""

from __future__ import annotations

from typing import Any

from local.argocd.manifests import Target
from local.argocd.scenario import Fault

Object = dict[str, Any]

AWAY = "dial tcp: lookup registry.example on 10.100.0.10:53: no such host"
NOT_COMPLETE = "one or more synchronization tasks completed unsuccessfully"
_PERSON = {"username": "alice"}


def from_before(application: Object, target: Target) -> Object:
    """Synced at the new revision and Healthy, although nothing was compared since: reconciledAt tells."""
    spec = application["spec"]
    compared = {"source": spec["source"], "destination": spec["destination"]}
    return {
        "status": {
            "sync": {"status": "Synced", "revision": target.revision, "comparedTo": compared},
            "health": {"status": "Healthy"},
            "reconciledAt": "2026-01-01T00:00:00Z",
        }
    }


def leaked(target: Target) -> Object:
    """What an older, selective operation left in operationState, merged into the one that begins."""
    first = target.resources[0]
    one = {"group": first.group, "kind": first.kind, "name": first.name}
    older = {"revision": "sha256:" + "0" * 64, "resources": []}
    return {"status": {"operationState": {"operation": {"sync": {"resources": [one]}}, "syncResult": older}}}


def somebodys(kind: str, target: Target) -> Object:
    """A person's sync, asked for when ours has ended: whole, of one resource, or one that will fail."""
    sync: Object = {"revision": target.revision, "syncStrategy": {"hook": {}}}
    if kind == "selective":
        first = target.resources[0]
        sync["resources"] = [{"group": first.group, "kind": first.kind, "name": first.name}]
    return {
        "operation": {"initiatedBy": dict(_PERSON), "sync": sync},
        "status": {"operationState": None},
    }


def is_persons(operation: Object) -> bool:
    """Whether the person of ``somebodys`` asked for it."""
    return bool((operation.get("initiatedBy") or {}) == _PERSON)


def blamed(fault: Fault, namespace: str) -> list[Object]:
    """syncResult.resources of an operation that a hook or a resource ended."""
    entry: Object = {"group": "", "version": "v1", "namespace": namespace}
    if fault.hook:
        return [
            entry
            | {
                "group": "batch",
                "kind": "Job",
                "name": fault.hook,
                "syncPhase": "PostSync",
                "hookType": "PostSync",
                "hookPhase": "Failed",
                "status": "Synced",
                "message": fault.message or "Job has reached the specified backoff limit",
            }
        ]
    if fault.resource:
        kind, _, name = fault.resource.partition("/")
        failed = {"kind": kind, "name": name, "syncPhase": "Sync", "status": "SyncFailed"}
        return [entry | failed | {"message": fault.message}]
    return []


def unwell(fault: Fault, namespace: str) -> list[Object]:
    """status.resources of what is not healthy, where the fault names it."""
    if not (fault.health and fault.resource):
        return []
    kind, _, name = fault.resource.partition("/")
    health = {"status": fault.health, "message": fault.message}
    return [{"version": "v1", "kind": kind, "namespace": namespace, "name": name, "health": health}]
