"""How a stored object looks from outside: its key, its version, and a change as one watcher sees it."""

from __future__ import annotations

from local.kube.objects import Object
from local.kube.resources import Ref, Resource
from local.kube.selectors import Predicate
from local.kube.storage import Change, ObjectKey, WatchEvent


def object_key(resource: Resource, name: str, namespace: str | None) -> ObjectKey:
    """Where an object of this resource is kept."""
    return (namespace or "" if resource.namespaced else "", name)


def as_version(obj: Object, ref: Ref) -> Object:
    """The object under the requested version of its group (versions of a custom resource share one form)."""
    return obj if obj.get("apiVersion") == ref.api_version else {**obj, "apiVersion": ref.api_version}


def event_of(change: Change, namespace: str | None, test: Predicate) -> WatchEvent | None:
    """What a change means to a watcher that sees only what `test` takes."""
    if namespace is not None and change.key[0] != namespace:
        return None
    before = change.before is not None and test(change.before)
    after = change.after is not None and test(change.after)
    if after:
        return WatchEvent("MODIFIED" if before else "ADDED", change.final)
    return WatchEvent("DELETED", change.final) if before else None
