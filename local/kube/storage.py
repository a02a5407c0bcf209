"""Versioned objects in memory: what etcd is to the real server, with its history and its watches.

Objects in here are never changed in place: a write puts a new one. So the history, a page of a list and an
event all share them, and whoever hands one to the outside copies it.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from local.kube import errors
from local.kube.objects import Object, copy_json, meta

StorageKey = tuple[str, str]  # group, plural
ObjectKey = tuple[str, str]  # namespace (empty when cluster-scoped), name
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


@dataclass(frozen=True)
class WatchEvent:
    """One change, as a watcher sees it."""

    type: EventType
    object: Object


@dataclass(frozen=True)
class Change:
    """One write: what was there before, what is there after (None: nothing)."""

    version: int
    storage: StorageKey
    key: ObjectKey
    before: Object | None
    after: Object | None
    final: Object  # the object as the event shows it; of a deletion the last state with the new version


class Subscription:
    """A registered listener; `close` stops it, from any thread."""

    def __init__(self, storage: Storage, key: StorageKey, deliver: Callable[[Change], None]) -> None:
        self._storage = storage
        self.storage_key = key
        self.deliver = deliver

    def close(self) -> None:
        """Deliver nothing more."""
        self._storage.unsubscribe(self)


class Storage:
    """All objects, by resource and key. Thread-safe; callers that read before they write hold `lock`."""

    def __init__(self, history: int = 4096) -> None:
        self.lock = threading.RLock()
        self._objects: dict[StorageKey, dict[ObjectKey, Object]] = {}
        self._version = 1
        self._changes: deque[Change] = deque(maxlen=history)
        self._subscriptions: dict[StorageKey, list[Subscription]] = {}
        self._owned: dict[str, set[tuple[StorageKey, ObjectKey]]] = {}

    @property
    def version(self) -> int:
        """The resourceVersion of the last write."""
        return self._version

    def get(self, storage: StorageKey, key: ObjectKey) -> Object | None:
        """The stored object itself: do not change it."""
        return self._objects.get(storage, {}).get(key)

    def items(self, storage: StorageKey, namespace: str | None = None) -> list[tuple[ObjectKey, Object]]:
        """Keys and stored objects in the order of etcd's keys."""
        with self.lock:
            found = self._objects.get(storage, {})
            return sorted(
                (item for item in found.items() if namespace is None or item[0][0] == namespace),
                key=lambda item: item[0],
            )

    def items_at(
        self, storage: StorageKey, namespace: str | None, version: int
    ) -> list[tuple[ObjectKey, Object]]:
        """The same, as it was at `version`. Raises ApiError 410 when the history no longer reaches back."""
        with self.lock:
            self.require_history(version)
            then = dict(self._objects.get(storage, {}))
            for change in reversed(self._changes):
                if change.version <= version:
                    break
                if change.storage != storage:
                    continue
                if change.before is None:
                    then.pop(change.key, None)
                else:
                    then[change.key] = change.before
            return sorted(
                (item for item in then.items() if namespace is None or item[0][0] == namespace),
                key=lambda item: item[0],
            )

    def require_history(self, version: int) -> None:
        """Raise ApiError 410 unless every change after `version` is still known."""
        complete = len(self._changes) < (self._changes.maxlen or 0)
        oldest = 1 if complete else self._changes[0].version - 1
        if version < oldest:
            raise errors.expired(f"too old resource version: {version} ({oldest})")

    def put(self, storage: StorageKey, key: ObjectKey, obj: Object) -> Object:
        """Store `obj`, which becomes this storage's own, under a new resourceVersion."""
        with self.lock:
            before = self.get(storage, key)
            self._version += 1
            meta(obj)["resourceVersion"] = str(self._version)
            self._objects.setdefault(storage, {})[key] = obj
            self._index_owners(storage, key, before, obj)
            self._publish(Change(self._version, storage, key, before, obj, obj))
            return obj

    def remove(self, storage: StorageKey, key: ObjectKey) -> Object:
        """Remove an object that exists; returns its last state."""
        with self.lock:
            before = self._objects[storage].pop(key)
            self._version += 1
            final: Object = copy_json(before)
            meta(final)["resourceVersion"] = str(self._version)
            self._index_owners(storage, key, before, None)
            self._publish(Change(self._version, storage, key, before, None, final))
            return before

    def owned_by(self, uid: str) -> list[tuple[StorageKey, ObjectKey]]:
        """Where the objects are that name `uid` as an owner."""
        with self.lock:
            return sorted(self._owned.get(uid, ()))

    def in_namespace(self, namespace: str) -> list[tuple[StorageKey, ObjectKey]]:
        """Where all objects of a namespace are."""
        with self.lock:
            return [
                (storage, key)
                for storage, objects in self._objects.items()
                for key in objects
                if key[0] == namespace
            ]

    def subscribe(self, storage: StorageKey, since: int, deliver: Callable[[Change], None]) -> Subscription:
        """Call `deliver` for every change after `since`, past ones first, in order, under the lock.

        `deliver` must return at once. Raises ApiError 410 when the history no longer reaches back.
        """
        with self.lock:
            self.require_history(since)
            subscription = Subscription(self, storage, deliver)
            recent: list[Change] = []
            for change in reversed(self._changes):
                if change.version <= since:
                    break
                if change.storage == storage:
                    recent.append(change)
            for change in reversed(recent):
                deliver(change)
            self._subscriptions.setdefault(storage, []).append(subscription)
            return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscription; forgetting it twice is no error."""
        with self.lock:
            active = self._subscriptions.get(subscription.storage_key, [])
            if subscription in active:
                active.remove(subscription)

    def _publish(self, change: Change) -> None:
        self._changes.append(change)
        for subscription in list(self._subscriptions.get(change.storage, ())):
            subscription.deliver(change)

    def _index_owners(
        self, storage: StorageKey, key: ObjectKey, before: Object | None, after: Object | None
    ) -> None:
        old, new = _owner_uids(before), _owner_uids(after)
        for uid in old - new:
            places = self._owned.get(uid)
            if places is not None:
                places.discard((storage, key))
                if not places:
                    del self._owned[uid]
        for uid in new - old:
            self._owned.setdefault(uid, set()).add((storage, key))


def _owner_uids(obj: Object | None) -> set[str]:
    if obj is None:
        return set()
    return {str(owner.get("uid")) for owner in meta(obj).get("ownerReferences") or ()}


class Watch:
    """Events for a thread: iterate, or wait for one. A context manager; `close` ends it from any thread."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[WatchEvent | None] = queue.SimpleQueue()
        self._closed = False
        self._on_close: list[Callable[[], None]] = []

    def push(self, event: WatchEvent) -> None:
        """Hand an event to the reader; called by the store."""
        self._events.put(event)

    def on_close(self, action: Callable[[], None]) -> None:
        """Call `action` when the watch is closed."""
        self._on_close.append(action)

    def close(self) -> None:
        """End the iteration, also one that is waiting."""
        if not self._closed:
            self._closed = True
            for action in self._on_close:
                action()
            self._events.put(None)

    def next(self, timeout: float | None = None) -> WatchEvent | None:
        """The next event; None when none came within `timeout` seconds or the watch is closed."""
        if self._closed:
            return None
        try:
            event = self._events.get(timeout=timeout)
        except queue.Empty:
            return None
        return event and _own(event)

    def __iter__(self) -> Iterator[WatchEvent]:
        while not self._closed:
            event = self._events.get()
            if event is None:
                return
            yield _own(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _own(event: WatchEvent) -> WatchEvent:
    """The event with an object that its reader may change."""
    return WatchEvent(event.type, copy_json(event.object))
