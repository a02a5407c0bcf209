"""Merge, strategic merge and JSON patches."""

from __future__ import annotations

import pytest
from kubernetes import client

from local.kube.errors import ApiError
from local.kube.patches import json_patch, merge_patch, strategic_merge
from tests.functional.kube.helpers import MERGE, STRATEGIC, pod, refused


def test_merge_patch_removes_with_null(core: client.CoreV1Api, namespace: str) -> None:
    body = {"metadata": {"name": "c", "labels": {"a": "1", "b": "2"}}}
    core.create_namespaced_config_map(namespace, body)
    patch = {"metadata": {"labels": {"b": None, "c": "3"}}}
    patched = core.patch_namespaced_config_map("c", namespace, patch, _content_type=MERGE)
    assert patched.metadata.labels == {"a": "1", "c": "3"}


def test_strategic_merge_adds_to_sets_and_maps(core: client.CoreV1Api, namespace: str) -> None:
    body = {"metadata": {"name": "c", "finalizers": ["x.io/a"]}, "data": {"k": "v"}}
    core.create_namespaced_config_map(namespace, body)
    patch = {"data": {"k2": "v2"}, "metadata": {"finalizers": ["x.io/b"]}}
    patched = core.patch_namespaced_config_map("c", namespace, patch, _content_type=STRATEGIC)
    assert patched.data == {"k": "v", "k2": "v2"}
    assert sorted(patched.metadata.finalizers) == ["x.io/a", "x.io/b"]
    core.patch_namespaced_config_map("c", namespace, {"metadata": {"finalizers": None}}, _content_type=MERGE)


def test_strategic_merge_finds_containers_and_conditions_by_key(
    core: client.CoreV1Api, namespace: str
) -> None:
    core.create_namespaced_pod(namespace, pod("p"))
    core.patch_namespaced_pod("p", namespace, {"spec": {"containers": [{"name": "c", "image": "i:2"}]}})
    for kind, status in (("Ready", "False"), ("PodScheduled", "True"), ("Ready", "True")):
        condition = {"type": kind, "status": status}
        core.patch_namespaced_pod_status("p", namespace, {"status": {"conditions": [condition]}})
    read = core.read_namespaced_pod("p", namespace)
    assert [c.image for c in read.spec.containers] == ["i:2"]
    assert {c.type: c.status for c in read.status.conditions} == {"Ready": "True", "PodScheduled": "True"}


def test_json_patch_with_a_test_operation(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}, "data": {"k": "v"}})
    replace = {"op": "replace", "path": "/data/k", "value": "w"}
    assert core.patch_namespaced_config_map("c", namespace, [replace]).data == {"k": "w"}
    with refused(422, "Invalid"):
        core.patch_namespaced_config_map(
            "c",
            namespace,
            [{"op": "test", "path": "/data/k", "value": "v"}, {"op": "remove", "path": "/data/k"}],
        )
    assert core.read_namespaced_config_map("c", namespace).data == {"k": "w"}


def test_a_patch_cannot_rename_or_move_in_time(core: client.CoreV1Api, namespace: str) -> None:
    created = core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}})
    patch = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}}
    patched = core.patch_namespaced_config_map("c", namespace, patch, _content_type=MERGE)
    assert patched.metadata.creation_timestamp == created.metadata.creation_timestamp
    with refused(409, "Conflict"):
        core.patch_namespaced_config_map("c", namespace, {"metadata": {"uid": "other"}}, _content_type=MERGE)


# RFC 7386, appendix A
@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_does_what_its_rfc_shows(target: object, patch: object, result: object) -> None:
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/l/1", "value": 9}], {"l": [1, 9, 2], "m": {"x/y": 0}}),
        ([{"op": "add", "path": "/l/-", "value": 9}], {"l": [1, 2, 9], "m": {"x/y": 0}}),
        ([{"op": "remove", "path": "/l/0"}], {"l": [2], "m": {"x/y": 0}}),
        ([{"op": "replace", "path": "/m/x~1y", "value": 5}], {"l": [1, 2], "m": {"x/y": 5}}),
        ([{"op": "move", "from": "/m/x~1y", "path": "/n"}], {"l": [1, 2], "m": {}, "n": 0}),
        ([{"op": "copy", "from": "/l", "path": "/k"}], {"l": [1, 2], "m": {"x/y": 0}, "k": [1, 2]}),
        ([{"op": "test", "path": "/l", "value": [1, 2]}], {"l": [1, 2], "m": {"x/y": 0}}),
    ],
)
def test_json_patch_operations(operations: object, result: object) -> None:
    target = {"l": [1, 2], "m": {"x/y": 0}}
    assert json_patch(target, operations) == result
    assert target == {"l": [1, 2], "m": {"x/y": 0}}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "remove", "path": "/nope"}], 422),
        ([{"op": "replace", "path": "/l/7", "value": 1}], 422),
        ([{"op": "replace", "path": "nope", "value": 1}], 422),
        ([{"op": "dance", "path": "/l"}], 400),
        ([{"path": "/l"}], 400),
        ({"op": "remove", "path": "/l"}, 400),
    ],
)
def test_json_patches_that_do_not_apply(operations: object, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"l": [1]}, operations)
    assert caught.value.code == code


def test_strategic_directives() -> None:
    target = {
        "env": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}],
        "finalizers": ["x", "y"],
        "strategy": {"type": "R", "rolling": {"max": 1}},
    }
    patch = {
        "env": [{"name": "a", "$patch": "delete"}, {"name": "b", "value": "3"}],
        "$deleteFromPrimitiveList/finalizers": ["x"],
        "$setElementOrder/env": [{"name": "b"}],
        "strategy": {"$retainKeys": ["type"], "type": "S"},
    }
    assert strategic_merge(target, patch) == {
        "env": [{"name": "b", "value": "3"}],
        "finalizers": ["y"],
        "strategy": {"type": "S"},
    }
    assert strategic_merge({"m": {"a": 1}}, {"m": {"$patch": "replace", "b": 2}}) == {"m": {"b": 2}}
