"""Answers that go on: watches, and logs that are followed. Nothing polls; a write wakes the stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator

from local.kube import errors
from local.kube.objects import Object, meta
from local.kube.requests import Call
from local.kube.resources import PODS
from local.kube.storage import WatchEvent
from local.kube.store import Store

_LONGEST = 1800  # seconds of a watch that asks for no time-out
_END = b""
Queue = asyncio.Queue[bytes]


class Streams:
    """The open streams of one server, so that stopping it ends them."""

    def __init__(self) -> None:
        self._open: set[Queue] = set()

    def close_all(self) -> None:
        """End every stream; called in the server's event loop."""
        for waiting in self._open:
            waiting.put_nowait(_END)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Queue]:
        """A queue whose end `close_all` brings about."""
        waiting: Queue = asyncio.Queue()
        self._open.add(waiting)
        try:
            yield waiting
        finally:
            self._open.discard(waiting)


def _line(kind: str, obj: Object) -> bytes:
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"


def _bookmark(store: Store, call: Call, annotations: Object) -> bytes:
    resource = store.registry.get(call.target.ref)
    metadata: Object = {"resourceVersion": str(store.storage.version), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    bookmark = {"kind": resource.kind, "apiVersion": call.target.ref.api_version, "metadata": metadata}
    return _line("BOOKMARK", bookmark)


def _since(call: Call) -> str | None:
    text = call.query("resourceVersion")
    if call.asks("sendInitialEvents") or text in ("", "0"):
        return None
    if not text.isdigit():
        raise errors.bad_request(f'Invalid value: "{text}": resourceVersion must be a number')
    return text


def _field_selector(call: Call) -> str:
    if call.target.name is None:
        return call.query("fieldSelector")
    return f"metadata.name={call.target.name}"


async def watch(store: Store, streams: Streams, call: Call) -> AsyncIterator[bytes]:
    """The lines of a watch. A resourceVersion before the history is an ERROR event, as on real servers."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (call.number("timeoutSeconds") or _LONGEST)
    with streams.opened() as waiting:

        def deliver(event: WatchEvent) -> None:
            line = _line(event.type, event.object)
            loop.call_soon_threadsafe(waiting.put_nowait, line)

        try:
            with store.storage.lock:
                subscription = store.subscribe(
                    call.target.ref,
                    deliver,
                    call.target.namespace,
                    _since(call),
                    call.query("labelSelector"),
                    _field_selector(call),
                )
                if call.asks("sendInitialEvents"):
                    mark = _bookmark(store, call, {"k8s.io/initial-events-end": "true"})
                    loop.call_soon_threadsafe(waiting.put_nowait, mark)
        except errors.ApiError as error:
            yield _line("ERROR", error.body())
            return
        try:
            while True:
                try:
                    line = await asyncio.wait_for(waiting.get(), deadline - loop.time())
                except TimeoutError:
                    break
                if line == _END:
                    return
                yield line
            if call.asks("allowWatchBookmarks"):
                yield _bookmark(store, call, {})
        finally:
            subscription.close()


async def follow_log(
    store: Store, streams: Streams, namespace: str, pod: str, container: str
) -> AsyncIterator[bytes]:
    """What a container prints, until its pod is finished or gone."""
    loop = asyncio.get_running_loop()
    with streams.opened() as waiting:

        def push(data: bytes) -> None:
            loop.call_soon_threadsafe(waiting.put_nowait, data)

        def deliver(event: WatchEvent) -> None:
            phase = (event.object.get("status") or {}).get("phase")
            if event.type == "DELETED" or phase in ("Succeeded", "Failed"):
                push(_END)

        with store.storage.lock:  # all that is printed, then the end of a pod that is over already
            stop: Callable[[], None] = store.logs.follow(
                namespace, pod, container, lambda t: push(t.encode())
            )
            subscription = store.subscribe(
                PODS, deliver, namespace, None, field_selector=f"metadata.name={pod}"
            )
        try:
            while (data := await waiting.get()) != _END:
                yield data
        finally:
            stop()
            subscription.close()


def log_container(pod: Object, wanted: str) -> str:
    """Which container's log a request means. Raises ApiError 400 as the real server does."""
    name = str(meta(pod)["name"])
    spec = pod.get("spec") or {}
    names = [c["name"] for c in spec.get("containers") or ()]
    everything = [c["name"] for c in spec.get("initContainers") or ()] + names
    if not wanted:
        if len(everything) > 1:
            listed = " ".join(names)
            init = " ".join(everything[: len(everything) - len(names)])
            also = f" or one of the init containers: [{init}]" if init else ""
            raise errors.bad_request(
                f"a container name must be specified for pod {name}, choose one of: [{listed}]{also}"
            )
        wanted = names[0]
    if wanted not in everything:
        raise errors.bad_request(f"container {wanted} is not valid for pod {name}")
    return wanted
