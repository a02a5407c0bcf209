"""The store: every way of reading and writing the cluster's objects, with the server's admission.

Requests over HTTP and the stand-ins of the local engine use the same methods. The package's docstring lists
them. All of it is thread-safe; a write and everything that follows from it (garbage collection, namespaces
that empty) happen at once, under one lock.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from local.kube import admission, crds, errors, fieldmanager, podsecurity, quota
from local.kube.deletion import Collector
from local.kube.fieldmanager import Writer
from local.kube.fieldsets import Shape
from local.kube.logs import PodLogs
from local.kube.objects import Object, copy_json, meta, name_of, rfc3339
from local.kube.options import DeleteOptions, WriteOptions
from local.kube.patches import merge_patch
from local.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    Ref,
    Registry,
    Resource,
)
from local.kube.selectors import predicate
from local.kube.storage import Change, Storage, Subscription, Watch, WatchEvent
from local.kube.views import as_version, event_of, object_key

_DEFAULT = WriteOptions()
_DELETE = DeleteOptions()


class Store:
    """The objects of one cluster. `clock` gives the times that are written into them."""

    def __init__(
        self, history: int = 4096, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.storage = Storage(history)
        self.registry = Registry()
        self.logs = PodLogs()
        self.clock = clock
        self._collector = Collector(self)
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        for name in ("default", "kube-node-lease", "kube-public", "kube-system"):
            self.create(
                NAMESPACES, {"metadata": {"name": name}}, options=WriteOptions(manager="kube-apiserver")
            )

    # -- reading

    def get(self, ref: Ref, name: str, namespace: str | None = None) -> Object:
        """The object called `name`. Raises ApiError 404 when there is none, or nothing serves `ref`."""
        with self.storage.lock:
            resource = self.registry.get(ref)
            return as_version(copy_json(self.require(resource, name, namespace)), ref)

    def find(self, ref: Ref, name: str, namespace: str | None = None) -> Object | None:
        """The object called `name`, or None."""
        with self.storage.lock:
            resource = self.registry.find(ref)
            stored = resource and self.storage.get(
                resource.storage_key, object_key(resource, name, namespace)
            )
            return as_version(copy_json(stored), ref) if stored else None

    def list(
        self, ref: Ref, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> list[Object]:
        """All objects of a kind (of one namespace, or of all) that both selectors take, ordered by name."""
        with self.storage.lock:
            resource = self.registry.get(ref)
            test = predicate(resource, label_selector, field_selector)
            found = self.storage.items(resource.storage_key, namespace)
            return [as_version(copy_json(obj), ref) for _, obj in found if test(obj)]

    def watch(
        self,
        ref: Ref,
        namespace: str | None = None,
        since: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Watch:
        """Events of a kind from resourceVersion `since` on; without it, an ADDED for everything there is
        comes first.

        Raises ApiError 410 when `since` is older than the history.
        """
        watch = Watch()
        with self.storage.lock:
            subscription = self.subscribe(ref, watch.push, namespace, since, label_selector, field_selector)
            watch.on_close(subscription.close)
            self._watches.add(watch)
        return watch

    def close_watches(self) -> None:
        """End every watch that is open; what a server does when it stops."""
        with self.storage.lock:
            watches, self._watches = list(self._watches), weakref.WeakSet()
        for watch in watches:
            watch.close()

    def subscribe(
        self,
        ref: Ref,
        deliver: Callable[[WatchEvent], None],
        namespace: str | None = None,
        since: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Subscription:
        """Like `watch`; `deliver` runs in the thread that writes: it returns at once and changes nothing."""
        with self.storage.lock:
            resource = self.registry.get(ref)
            test = predicate(resource, label_selector, field_selector)
            if since is None:
                for _, obj in self.storage.items(resource.storage_key, namespace):
                    if test(obj):
                        deliver(WatchEvent("ADDED", as_version(obj, ref)))
            start = self.storage.version if since is None else int(since)

            def forward(change: Change) -> None:
                event = event_of(change, namespace, test)
                if event is not None:
                    deliver(WatchEvent(event.type, as_version(event.object, ref)))

            return self.storage.subscribe(resource.storage_key, start, forward)

    # -- writing

    def create(
        self, ref: Ref, body: Object, namespace: str | None = None, options: WriteOptions = _DEFAULT
    ) -> Object:
        """Create an object. Raises ApiError: 409 AlreadyExists, 422 Invalid, 403, 404 (no such namespace)."""
        with self.storage.lock:
            resource = self.registry.get(ref)
            obj = admission.decode(resource, body, namespace, options)
            if meta(obj).get("resourceVersion"):
                raise errors.bad_request("resourceVersion should not be set on objects to be created")
            meta(obj).pop("managedFields", None)
            writer = Writer(options.manager, "Update", ref.api_version)

            def record(new: Object) -> None:
                fieldmanager.track(None, new, Shape(resource.schema), writer, self._now())

            return self._insert(resource, obj, options, record)

    def replace(
        self, ref: Ref, body: Object, namespace: str | None = None, options: WriteOptions = _DEFAULT
    ) -> Object:
        """Replace an object (not a status that is a subresource). Raises ApiError: 404, 409, 422."""
        return self._replace(ref, body, namespace, options, "")

    def replace_status(
        self, ref: Ref, body: Object, namespace: str | None = None, options: WriteOptions = _DEFAULT
    ) -> Object:
        """Replace only the status. Raises ApiError 404 also for kinds without a status subresource."""
        return self._replace(ref, body, namespace, options, "status")

    def merge(
        self,
        ref: Ref,
        name: str,
        patch: Object,
        namespace: str | None = None,
        options: WriteOptions = _DEFAULT,
    ) -> Object:
        """A JSON merge patch (None removes, a resourceVersion makes it conditional). Raises ApiError."""
        return self.patch(ref, name, lambda live: merge_patch(live, patch), namespace, options)

    def merge_status(
        self,
        ref: Ref,
        name: str,
        patch: Object,
        namespace: str | None = None,
        options: WriteOptions = _DEFAULT,
    ) -> Object:
        """A JSON merge patch of the status subresource. Raises ApiError, 404 for kinds without one."""
        return self.patch(ref, name, lambda live: merge_patch(live, patch), namespace, options, "status")

    def patch(
        self,
        ref: Ref,
        name: str,
        change: Callable[[Object], Any],
        namespace: str | None = None,
        options: WriteOptions = _DEFAULT,
        subresource: str = "",
    ) -> Object:
        """Write what `change` (pure: from the old object to the new) makes of an object. Raises ApiError."""
        with self.storage.lock:
            resource = self.registry.get(ref)
            _require_subresource(resource, subresource)
            live = self.require(resource, name, namespace)
            changed = change(as_version(live, ref))
            if isinstance(changed, dict) and name_of(changed) != name:
                why = errors.invalid_value(name_of(changed), "field is immutable")
                causes = [errors.Cause("metadata.name", why)]
                raise errors.invalid(ref.group, resource.kind, name, causes)
            obj = admission.decode(resource, changed, namespace, options)
            return self._update_tracked(resource, live, obj, options, subresource)

    def apply(
        self,
        body: Object,
        namespace: str | None = None,
        options: WriteOptions = _DEFAULT,
        subresource: str = "",
    ) -> Object:
        """Server-side apply of a manifest, found by its apiVersion and kind; creates what is not there.

        Raises ApiError: 409 for fields that another manager owns unless `options.force`, 422, 403, 404.
        """
        with self.storage.lock:
            resource = self.registry.of_kind(str(body.get("apiVersion")), str(body.get("kind")))
            if resource is None:
                raise errors.unknown_path()
            _require_subresource(resource, subresource)
            if meta(body).get("managedFields"):
                raise errors.bad_request("metadata.managedFields must be nil")
            applied = admission.decode(resource, body, namespace, options)
            if not name_of(applied):
                raise errors.bad_request("name is required for apply")
            if resource.status and not subresource:
                applied.pop("status", None)
            place = object_key(resource, name_of(applied), meta(applied).get("namespace"))
            live = self.storage.get(resource.storage_key, place)
            if live is None and subresource:
                raise errors.not_found(resource.ref.group, resource.ref.plural, place[1])
            obj = fieldmanager.apply(
                None if live is None else as_version(live, resource.ref),
                applied,
                Shape(resource.schema),
                Writer(options.manager, "Apply", resource.ref.api_version, subresource),
                self._now(),
                fieldmanager.take_over if options.force else fieldmanager.refuse,
            )
            if live is None:
                return self._insert(resource, obj, options, _recorded)
            return self._update(resource, live, copy_json(obj), options, subresource, _recorded)

    def delete(
        self, ref: Ref, name: str, namespace: str | None = None, options: DeleteOptions = _DELETE
    ) -> Object:
        """Delete an object, or mark it while finalizers or a kubelet hold it; returns its last state.

        Raises ApiError 404, and 409 when a precondition does not hold.
        """
        with self.storage.lock:
            resource = self.registry.get(ref)
            live = self.require(resource, name, namespace)
            return as_version(self._collector.delete(resource, live, options), ref)

    def append_log(self, namespace: str, pod: str, container: str, text: str) -> None:
        """Add what a container printed. Raises ApiError 404 when there is no such pod."""
        with self.storage.lock:
            self.require(self.registry.get(PODS), pod, namespace)
            self.logs.append(namespace, pod, container, text)

    # -- for the other modules of this package; callers hold the lock

    def require(self, resource: Resource, name: str, namespace: str | None) -> Object:
        """The stored object itself (not a copy). Raises ApiError 404."""
        live = self.storage.get(resource.storage_key, object_key(resource, name, namespace))
        if live is None:
            raise errors.not_found(resource.ref.group, resource.ref.plural, name)
        return live

    def resource_of(self, obj: Object) -> Resource | None:
        """The resource a stored object belongs to."""
        return self.registry.of_kind(str(obj.get("apiVersion")), str(obj.get("kind")))

    def removed(self, resource: Resource, obj: Object) -> None:
        """Told by the collector after an object is gone."""
        if resource.ref == PODS:
            self.logs.forget(str(meta(obj).get("namespace")), name_of(obj))
        elif resource.ref == CUSTOM_RESOURCE_DEFINITIONS:
            self.registry.replace_custom(obj["spec"]["group"], obj["spec"]["names"]["plural"], ())

    # -- internals

    def _now(self) -> str:
        return rfc3339(self.clock())

    def _replace(
        self, ref: Ref, body: Object, namespace: str | None, options: WriteOptions, subresource: str
    ) -> Object:
        with self.storage.lock:
            resource = self.registry.get(ref)
            _require_subresource(resource, subresource)
            obj = admission.decode(resource, body, namespace, options)
            live = self.require(resource, name_of(obj), meta(obj).get("namespace"))
            if resource.custom and not meta(obj).get("resourceVersion"):
                why = "Invalid value: 0x0: must be specified for an update"
                causes = [errors.Cause("metadata.resourceVersion", why)]
                raise errors.invalid(ref.group, resource.kind, name_of(obj), causes)
            return self._update_tracked(resource, live, obj, options, subresource)

    def _update_tracked(
        self, resource: Resource, live: Object, obj: Object, options: WriteOptions, subresource: str
    ) -> Object:
        meta(obj)["managedFields"] = copy_json(meta(live).get("managedFields") or [])
        writer = Writer(options.manager, "Update", resource.ref.api_version, subresource)

        def record(new: Object) -> None:
            fieldmanager.track(live, new, Shape(resource.schema), writer, self._now())

        return self._update(resource, live, obj, options, subresource, record)

    def _insert(
        self, resource: Resource, obj: Object, options: WriteOptions, record: Callable[[Object], None]
    ) -> Object:
        admission.complete_new(resource, obj, str(uuid.uuid4()), self._now())
        self._admit(resource, obj)
        ref, place = resource.ref, object_key(resource, name_of(obj), meta(obj).get("namespace"))
        if self.storage.get(resource.storage_key, place) is not None:
            raise errors.already_exists(ref.group, ref.plural, place[1])
        record(obj)
        if options.dry_run:
            return copy_json(obj)
        stored = self.storage.put(resource.storage_key, place, obj)
        self._written(resource, stored)
        answer = copy_json(stored)
        self._collector.collect_if_orphan(resource, stored)
        return answer

    def _update(
        self,
        resource: Resource,
        live: Object,
        obj: Object,
        options: WriteOptions,
        subresource: str,
        record: Callable[[Object], None],
    ) -> Object:
        new = admission.complete_changed(resource, live, obj, subresource, self._now())
        if new == live:
            return copy_json(new)
        record(new)
        if options.dry_run:
            return copy_json(new)
        if self._collector.released(resource, new):
            self._collector.remove(resource, live)
            return copy_json(new)
        place = object_key(resource, name_of(new), meta(new).get("namespace"))
        stored = self.storage.put(resource.storage_key, place, new)
        self._written(resource, stored)
        return copy_json(stored)

    def _written(self, resource: Resource, obj: Object) -> None:
        if resource.ref == CUSTOM_RESOURCE_DEFINITIONS:
            spec = obj["spec"]
            self.registry.replace_custom(spec["group"], spec["names"]["plural"], crds.resources_of(obj))

    def _admit(self, resource: Resource, obj: Object) -> None:
        if not resource.namespaced:
            return
        ref, name = resource.ref, str(meta(obj)["namespace"])
        namespace = self.require(self.registry.get(NAMESPACES), name, None)
        if "deletionTimestamp" in meta(namespace):
            why = f"unable to create new content in namespace {name} because it is being terminated"
            raise errors.forbidden(ref.group, ref.plural, name_of(obj), why)
        if ref == PODS:
            account = str(obj["spec"].get("serviceAccountName") or "default")
            if account != "default" and self.find(SERVICE_ACCOUNTS, account, name) is None:
                why = (
                    f'error looking up service account {name}/{account}: serviceaccount "{account}" not found'
                )
                raise errors.forbidden("", ref.plural, name_of(obj), why)
            podsecurity.admit(obj, namespace)
        if ref in quota.COUNTED:
            for _, limit in self.storage.items(self.registry.get(RESOURCE_QUOTAS).storage_key, name):
                others = [other for _, other in self.storage.items(resource.storage_key, name)]
                quota.admit(ref, obj, limit, others)


def _recorded(obj: Object) -> None:
    """Server-side apply has recorded ownership already."""


def _require_subresource(resource: Resource, subresource: str) -> None:
    if subresource == "status" and not resource.status:
        raise errors.unknown_path()
