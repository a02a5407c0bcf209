"""Watches: what they show, from when, how fast, and how they end."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
import urllib3
from kubernetes import client, watch

from local.kube import CONFIG_MAPS, ApiError, KubeServer, Store
from tests.functional.kube.helpers import MERGE, Cluster


def collect(core: client.CoreV1Api, namespace: str, count: int, **options: Any) -> list[tuple[str, str]]:
    """The first `count` events as (type, name)."""
    events = []
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, namespace, timeout_seconds=10, _request_timeout=15, **options
    )
    for event in stream:
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == count:
            break
    return events


def test_a_watch_shows_what_happens_after_its_version(core: client.CoreV1Api, namespace: str) -> None:
    version = core.list_namespaced_config_map(namespace).metadata.resource_version

    def later() -> None:
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "w"}})
        core.patch_namespaced_config_map("w", namespace, {"data": {"a": "b"}}, _content_type=MERGE)
        core.delete_namespaced_config_map("w", namespace)

    timer = threading.Timer(0.2, later)
    timer.start()
    events = collect(core, namespace, 3, resource_version=version)
    timer.join()
    assert events == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]


def test_a_watch_replays_what_came_between_list_and_watch(core: client.CoreV1Api, namespace: str) -> None:
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "b"}})
    assert collect(core, namespace, 2, resource_version=version) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_without_a_version_begins_with_what_is_there(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})
    assert collect(core, namespace, 1, field_selector="metadata.name=a") == [("ADDED", "a")]


def test_an_object_enters_and_leaves_a_selector(core: client.CoreV1Api, namespace: str) -> None:
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}})
    for label in ("x", "y", None):
        patch = {"metadata": {"labels": {"l": label}}}
        core.patch_namespaced_config_map("c", namespace, patch, _content_type=MERGE)
    events = collect(core, namespace, 2, resource_version=version, label_selector="l=x")
    assert events == [("ADDED", "c"), ("DELETED", "c")]


def test_a_watch_ends_with_its_time_out(core: client.CoreV1Api, namespace: str) -> None:
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    began = time.monotonic()
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=1
    )
    assert [event for event in stream if event["type"] != "BOOKMARK"] == []
    assert 0.8 < time.monotonic() - began < 5


def test_streaming_lists_end_with_a_bookmark(
    cluster: Cluster, core: client.CoreV1Api, namespace: str
) -> None:
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}})
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    url = f"{cluster.url}/api/v1/namespaces/{namespace}/configmaps?{query}&timeoutSeconds=1"
    headers = {"Authorization": "Bearer admin-token"}
    with urllib3.PoolManager(cert_reqs="CERT_NONE") as pool:
        lines = pool.request("GET", url, headers=headers, timeout=10).data.splitlines()
    events = [json.loads(line) for line in lines]
    assert events[0]["type"] == "ADDED" and events[0]["object"]["metadata"]["name"] == "c"
    assert events[1]["type"] == "BOOKMARK"
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_version_before_the_history_is_410() -> None:
    store = Store(history=2)
    for number in range(5):
        store.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, "default")
    with pytest.raises(ApiError) as caught:
        store.watch(CONFIG_MAPS, since="2")
    assert caught.value.code == 410


def test_an_event_over_http_arrives_within_milliseconds(embedded: Cluster) -> None:
    assert embedded.store is not None
    core = client.CoreV1Api(embedded.client())
    version = core.list_namespaced_config_map("default").metadata.resource_version
    sent: dict[str, float] = {}

    def write() -> None:
        for number in range(10):
            sent[f"fast-{number}"] = time.monotonic()
            embedded.store.create(CONFIG_MAPS, {"metadata": {"name": f"fast-{number}"}}, "default")  # type: ignore[union-attr]
            time.sleep(0.02)

    timer = threading.Timer(0.2, write)
    timer.start()
    delays = []
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=10
    )
    for event in stream:
        delays.append(time.monotonic() - sent[event["object"].metadata.name])
        if len(delays) == 10:
            break
    timer.join()
    assert sorted(delays)[5] < 0.1, delays


def test_stopping_the_server_ends_its_watches() -> None:
    server = KubeServer()
    server.start()
    ended = threading.Event()
    in_process = server.store.watch(CONFIG_MAPS)

    def read() -> None:
        for _ in in_process:
            pass
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    with urllib3.PoolManager() as pool:
        answer = pool.request(
            "GET", f"{server.url}/api/v1/configmaps?watch=1", preload_content=False, timeout=10
        )
        began = time.monotonic()
        server.stop()
        assert answer.read() == b""
    assert ended.wait(5) and time.monotonic() - began < 5
    reader.join()
