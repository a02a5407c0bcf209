"""Server-side apply: who owns a field, conflicts, and what becomes of fields no longer applied."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from local.kube.fieldsets import decode, encode
from tests.functional.kube.helpers import APPLY, MERGE, pod, refused


class Applier:
    """Applies ConfigMaps and Pods as one field manager."""

    def __init__(self, core: client.CoreV1Api, namespace: str, manager: str) -> None:
        self._core, self._namespace, self._manager = core, namespace, manager

    def config(
        self, data: dict[str, str], *, metadata: dict[str, Any] | None = None, force: bool = False
    ) -> Any:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", **(metadata or {})},
            **({"data": data} if data else {}),
        }
        return self._core.patch_namespaced_config_map(
            "c", self._namespace, body, field_manager=self._manager, force=force or None, _content_type=APPLY
        )

    def pod(self, containers: list[dict[str, Any]]) -> Any:
        spec = pod("p")["spec"]
        base = spec["containers"][0]
        spec["containers"] = [{**base, **container} for container in containers]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        return self._core.patch_namespaced_pod(
            "p", self._namespace, body, field_manager=self._manager, _content_type=APPLY
        )


@pytest.fixture
def first(core: client.CoreV1Api, namespace: str) -> Applier:
    return Applier(core, namespace, "first")


@pytest.fixture
def second(core: client.CoreV1Api, namespace: str) -> Applier:
    return Applier(core, namespace, "second")


def entries(obj: Any) -> dict[tuple[str, str], Any]:
    return {(m.manager, m.operation): m.fields_v1 for m in obj.metadata.managed_fields}


def test_apply_creates_and_records_ownership(first: Applier) -> None:
    created = first.config({"k": "v"})
    assert created.data == {"k": "v"}
    assert entries(created) == {("first", "Apply"): {"f:data": {"f:k": {}}}}


def test_applying_the_same_changes_nothing(first: Applier) -> None:
    created = first.config({"k": "v"})
    assert first.config({"k": "v"}).metadata.resource_version == created.metadata.resource_version


def test_another_value_is_a_conflict_that_names_owner_and_field(first: Applier, second: Applier) -> None:
    first.config({"k": "v", "l": "v"})
    with refused(409, "Conflict") as refusal:
        second.config({"k": "w"})
    assert refusal.message == 'Apply failed with 1 conflict: conflict with "first": .data.k'
    assert refusal.body is not None
    assert refusal.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "first"', "field": ".data.k"}
    ]
    with refused(409, "Conflict") as refusal:
        second.config({"k": "w", "l": "w"})
    assert refusal.message == 'Apply failed with 2 conflicts: conflicts with "first":\n- .data.k\n- .data.l'


def test_force_takes_the_field_over(first: Applier, second: Applier) -> None:
    first.config({"k": "v", "l": "v"})
    taken = second.config({"k": "w"}, force=True)
    assert taken.data == {"k": "w", "l": "v"}
    assert entries(taken) == {
        ("first", "Apply"): {"f:data": {"f:l": {}}},
        ("second", "Apply"): {"f:data": {"f:k": {}}},
    }
    with refused(409, "Conflict"):
        first.config({"k": "v", "l": "v"})


def test_the_same_value_is_shared(first: Applier, second: Applier) -> None:
    first.config({"k": "v"})
    second.config({"k": "v"})
    kept = first.config({})
    assert kept.data == {"k": "v"}  # second still applies it
    assert ("first", "Apply") not in entries(kept)
    gone = second.config({})
    assert not gone.data


def test_a_field_no_longer_applied_goes(first: Applier) -> None:
    first.config({"k": "v", "l": "v"}, metadata={"labels": {"a": "1", "b": "2"}})
    left = first.config({"k": "v"}, metadata={"labels": {"a": "1"}})
    assert left.data == {"k": "v"} and left.metadata.labels == {"a": "1"}


def test_an_update_owns_what_it_changed(core: client.CoreV1Api, namespace: str, first: Applier) -> None:
    first.config({"k": "v", "l": "v"})
    patched = core.patch_namespaced_config_map(
        "c", namespace, {"data": {"k": "w"}}, field_manager="editor", _content_type=MERGE
    )
    assert entries(patched)[("first", "Apply")] == {"f:data": {"f:l": {}}}
    assert "f:k" in entries(patched)[("editor", "Update")]["f:data"]
    with refused(409, "Conflict") as refusal:
        first.config({"k": "v", "l": "v"})
    assert 'conflict with "editor" using v1' in refusal.message and refusal.message.endswith(": .data.k")


def test_what_nobody_applied_stays(core: client.CoreV1Api, namespace: str, first: Applier) -> None:
    first.config({"k": "v"})
    core.patch_namespaced_config_map("c", namespace, {"data": {"other": "x"}}, _content_type=MERGE)
    assert first.config({"k": "w"}).data == {"k": "w", "other": "x"}


def test_list_items_are_owned_by_key(first: Applier, second: Applier) -> None:
    env = [{"name": "A", "value": "1"}]
    created = first.pod([{"name": "c", "env": env}])
    fields = entries(created)[("first", "Apply")]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert fields["f:env"] == {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}
    with refused(409, "Conflict") as refusal:
        second.pod([{"name": "c", "image": "other", "env": env}])
    assert '.spec.containers[name="c"].image' in refusal.message


def test_finalizers_are_a_set(
    core: client.CoreV1Api, namespace: str, first: Applier, second: Applier
) -> None:
    first.config({}, metadata={"finalizers": ["x.io/a"]})
    both = second.config({}, metadata={"finalizers": ["x.io/b"]})
    assert sorted(both.metadata.finalizers) == ["x.io/a", "x.io/b"]
    assert first.config({}).metadata.finalizers == ["x.io/b"]
    assert not second.config({}).metadata.finalizers


def test_requests_that_are_not_an_apply(core: client.CoreV1Api, namespace: str, first: Applier) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    with refused(422, "Invalid") as refusal:
        core.patch_namespaced_config_map("c", namespace, body, _content_type=APPLY)
    assert "fieldManager" in refusal.message
    managed = [
        {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}
    ]
    with refused(400, "BadRequest") as refusal:
        first.config({}, metadata={"managedFields": managed})
    assert "managedFields must be nil" in refusal.message


def test_field_sets_survive_their_encoding() -> None:
    fields = frozenset(
        {
            ("f:data", "f:k"),
            ("f:spec", 'k:{"name":"c"}'),
            ("f:spec", 'k:{"name":"c"}', "f:image"),
            ("f:metadata", "f:finalizers", 'v:"x"'),
        }
    )
    assert decode(encode(fields)) == fields
    assert encode({("f:a",), ("f:a", "f:b")}) == {"f:a": {".": {}, "f:b": {}}}
