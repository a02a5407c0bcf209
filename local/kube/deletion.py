"""Deletion and what follows from it: finalizers, owners, namespaces and definitions that empty.

Does at once what the real cluster's garbage collector and namespace controller do a moment later.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from local.kube import errors
from local.kube.objects import Object, copy_json, meta, name_of, rfc3339
from local.kube.options import DeleteOptions, Propagation
from local.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBS, NAMESPACES, PODS, Resource
from local.kube.storage import ObjectKey, StorageKey

if TYPE_CHECKING:
    from local.kube.store import Store

FOREGROUND = "foregroundDeletion"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_GRACE = 30  # seconds, of a Pod that says nothing
_KEPT = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)


class Collector:
    """Deletes for one store, whose lock callers hold."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._storage = store.storage

    def delete(self, resource: Resource, live: Object, options: DeleteOptions) -> Object:
        """Delete an object, or mark it while something holds it; returns its last state. Raises ApiError."""
        _check_preconditions(resource, live, options)
        if options.dry_run:
            return copy_json(live)
        propagation = options.propagation
        if propagation is None and resource.ref == JOBS:
            options.warn(_KEPT)
            propagation = "Orphan"  # what batch/v1 has always done
        if propagation == "Orphan":
            self._orphan_dependents(str(meta(live)["uid"]))
        obj = copy_json(live)
        self._mark(resource, obj, options, propagation)
        if not _held(resource, obj):
            self._remove(resource, live)
            return obj
        stored = live
        if obj != live:
            stored = self._storage.put(resource.storage_key, _key(obj), obj)
        self._follow_up(resource, stored, propagation)
        current = self._storage.get(resource.storage_key, _key(stored))
        return copy_json(stored if current is None else current)

    def released(self, resource: Resource, obj: Object) -> bool:
        """Whether a written object was only waiting for its last finalizer: then it is removed now."""
        return bool(meta(obj).get("deletionTimestamp")) and not _held(resource, obj)

    def remove(self, resource: Resource, live: Object) -> None:
        """Remove a stored object for good, with everything that follows."""
        self._remove(resource, live)

    def collect_if_orphan(self, resource: Resource, obj: Object) -> None:
        """A new object whose owners do not exist is garbage, which shows after its creation."""
        owners = meta(obj).get("ownerReferences") or []
        if owners and not any(self._owner_exists(obj, owner) for owner in owners):
            self.delete(resource, obj, DeleteOptions(propagation="Background"))

    # -- marking

    def _mark(
        self, resource: Resource, obj: Object, options: DeleteOptions, propagation: Propagation | None
    ) -> None:
        metadata = meta(obj)
        grace = _grace(resource, obj, options)
        if "deletionTimestamp" not in metadata:
            moment = self._store.clock() + timedelta(seconds=grace)
            metadata["deletionTimestamp"] = rfc3339(moment)
            metadata["deletionGracePeriodSeconds"] = grace
            if "generation" in metadata:
                metadata["generation"] += 1
        elif grace < int(metadata.get("deletionGracePeriodSeconds") or 0):
            metadata["deletionGracePeriodSeconds"] = grace
        finalizers = list(metadata.get("finalizers") or ())
        if propagation == "Foreground" and FOREGROUND not in finalizers:
            if self._blocking(str(metadata["uid"])):
                finalizers.append(FOREGROUND)
        elif propagation in ("Background", "Orphan") and FOREGROUND in finalizers:
            finalizers.remove(FOREGROUND)
        if resource.ref == CUSTOM_RESOURCE_DEFINITIONS and self._storage.items(_served(obj)):
            finalizers = [*(f for f in finalizers if f != CLEANUP), CLEANUP]
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        if resource.ref == NAMESPACES:
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def _follow_up(self, resource: Resource, obj: Object, propagation: Propagation | None) -> None:
        if FOREGROUND in (meta(obj).get("finalizers") or ()):
            self._delete_dependents(str(meta(obj)["uid"]), "Foreground")
        if resource.ref == NAMESPACES:
            self._delete_all(self._storage.in_namespace(name_of(obj)))
            self._finish_namespace(name_of(obj))
        if resource.ref == CUSTOM_RESOURCE_DEFINITIONS:
            key = _served(obj)
            self._delete_all([(key, place) for place, _ in self._storage.items(key)])

    # -- removing

    def _remove(self, resource: Resource, live: Object) -> None:
        place = _key(live)
        if self._storage.get(resource.storage_key, place) is None:
            return
        self._storage.remove(resource.storage_key, place)
        self._store.removed(resource, live)
        self._delete_dependents(str(meta(live)["uid"]), "Background")
        for owner in meta(live).get("ownerReferences") or ():
            self._finish_owner(live, owner)
        if place[0]:
            self._finish_namespace(place[0])
        if resource.custom:
            self._finish_definition(resource)

    def _delete_all(self, places: list[tuple[StorageKey, ObjectKey]]) -> None:
        for storage, place in places:
            obj = self._storage.get(storage, place)
            resource = None if obj is None else self._store.resource_of(obj)
            if obj is not None and resource is not None and "deletionTimestamp" not in meta(obj):
                self.delete(resource, obj, DeleteOptions(propagation="Background"))

    def _finish_namespace(self, name: str) -> None:
        resource = self._store.registry.get(NAMESPACES)
        live = self._storage.get(resource.storage_key, ("", name))
        if live is None or "deletionTimestamp" not in meta(live) or self._storage.in_namespace(name):
            return
        if meta(live).get("finalizers"):
            if (live.get("spec") or {}).get("finalizers"):
                self._storage.put(resource.storage_key, ("", name), {**copy_json(live), "spec": {}})
            return
        self._remove(resource, live)

    def _finish_definition(self, instance: Resource) -> None:
        resource = self._store.registry.get(CUSTOM_RESOURCE_DEFINITIONS)
        live = self._storage.get(resource.storage_key, ("", instance.qualified))
        if live is None or "deletionTimestamp" not in meta(live) or self._storage.items(instance.storage_key):
            return
        self._drop_finalizer(resource, live, CLEANUP)

    def _drop_finalizer(self, resource: Resource, live: Object, finalizer: str) -> None:
        obj = copy_json(live)
        left = [name for name in meta(obj).get("finalizers") or () if name != finalizer]
        if left:
            meta(obj)["finalizers"] = left
        else:
            meta(obj).pop("finalizers", None)
        if _held(resource, obj):
            self._storage.put(resource.storage_key, _key(obj), obj)
        else:
            self._remove(resource, live)

    # -- owners and dependents

    def _dependents(self, uid: str) -> list[tuple[Resource, Object]]:
        found = []
        for storage, place in self._storage.owned_by(uid):
            obj = self._storage.get(storage, place)
            resource = None if obj is None else self._store.resource_of(obj)
            if obj is not None and resource is not None:
                found.append((resource, obj))
        return found

    def _blocking(self, uid: str) -> bool:
        """Whether a dependent holds up the foreground deletion of its owner."""
        return any(
            owner.get("uid") == uid and owner.get("blockOwnerDeletion")
            for _, obj in self._dependents(uid)
            for owner in meta(obj).get("ownerReferences") or ()
        )

    def _delete_dependents(self, uid: str, propagation: Propagation) -> None:
        for resource, obj in self._dependents(uid):
            others = [o for o in meta(obj).get("ownerReferences") or () if o.get("uid") != uid]
            kept = [owner for owner in others if self._owner_exists(obj, owner)]
            if kept:
                self._set_owners(resource, obj, kept)
            elif "deletionTimestamp" not in meta(obj):
                self.delete(resource, obj, DeleteOptions(propagation=propagation))

    def _orphan_dependents(self, uid: str) -> None:
        for resource, obj in self._dependents(uid):
            kept = [o for o in meta(obj).get("ownerReferences") or () if o.get("uid") != uid]
            self._set_owners(resource, obj, kept)

    def _set_owners(self, resource: Resource, live: Object, owners: list[Any]) -> None:
        obj = copy_json(live)
        if owners:
            meta(obj)["ownerReferences"] = owners
        else:
            meta(obj).pop("ownerReferences", None)
        self._storage.put(resource.storage_key, _key(obj), obj)

    def _owner(self, dependent: Object, owner: Object) -> tuple[Resource, Object] | None:
        resource = self._store.registry.of_kind(str(owner.get("apiVersion")), str(owner.get("kind")))
        if resource is None:
            return None
        namespace = str(meta(dependent).get("namespace") or "") if resource.namespaced else ""
        live = self._storage.get(resource.storage_key, (namespace, str(owner.get("name"))))
        return None if live is None or meta(live)["uid"] != owner.get("uid") else (resource, live)

    def _owner_exists(self, dependent: Object, owner: Object) -> bool:
        """An owner of a kind that is not served counts as there: the collector cannot look it up."""
        known = self._store.registry.of_kind(str(owner.get("apiVersion")), str(owner.get("kind")))
        return known is None or self._owner(dependent, owner) is not None

    def _finish_owner(self, dependent: Object, owner: Object) -> None:
        found = self._owner(dependent, owner)
        if found is None:
            return
        resource, live = found
        if FOREGROUND in (meta(live).get("finalizers") or ()) and not self._blocking(str(owner["uid"])):
            self._drop_finalizer(resource, live, FOREGROUND)


def _key(obj: Object) -> ObjectKey:
    return (str(meta(obj).get("namespace") or ""), name_of(obj))


def _served(crd: Object) -> StorageKey:
    return (crd["spec"]["group"], crd["spec"]["names"]["plural"])


def _held(resource: Resource, obj: Object) -> bool:
    """Whether a marked object stays for now."""
    if meta(obj).get("finalizers"):
        return True
    if resource.ref == NAMESPACES:
        return bool((obj.get("spec") or {}).get("finalizers"))
    return resource.ref == PODS and int(meta(obj).get("deletionGracePeriodSeconds") or 0) > 0


def _grace(resource: Resource, obj: Object, options: DeleteOptions) -> int:
    """Only a Pod that a kubelet runs is ended gracefully (pkg/registry/core/pod, CheckGracefulDelete)."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource.ref != PODS or not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        return max(options.grace_seconds, 0)
    return int(spec.get("terminationGracePeriodSeconds", _GRACE))


def _check_preconditions(resource: Resource, live: Object, options: DeleteOptions) -> None:
    ref, name = resource.ref, name_of(live)
    if options.uid is not None and options.uid != meta(live)["uid"]:
        uid = meta(live)["uid"]
        why = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {uid}"
        raise errors.conflict(ref.group, ref.plural, name, why)
    if options.resource_version is not None and options.resource_version != meta(live)["resourceVersion"]:
        why = (
            f"Precondition failed: ResourceVersion in precondition: {options.resource_version}, "
            f"ResourceVersion in object meta: {meta(live)['resourceVersion']}"
        )
        raise errors.conflict(ref.group, ref.plural, name, why)
