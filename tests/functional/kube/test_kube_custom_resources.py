"""CustomResourceDefinitions: registration, schemas, defaults, pruning, rules, the status subresource."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes import client, dynamic
from kubernetes.client.rest import ApiException

from tests.functional.kube.helpers import MERGE, Cluster, refused, unique

SPEC = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}],
        },
        "n": {"type": "integer", "minimum": 0},
        "m": {"type": "integer", "default": 7},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "items": {
            "type": "array",
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {
                "type": "object",
                "required": ["key"],
                "properties": {"key": {"type": "string"}, "value": {"type": "string", "default": "none"}},
            },
        },
    },
    "x-kubernetes-validations": [{"rule": "!has(self.n) || self.n <= self.m", "message": "n must be <= m"}],
}


def definition(group: str, *, status: bool) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": SPEC,
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }


@dataclass
class Things:
    """The custom resource of one test module."""

    api: client.ApiClient
    group: str
    namespace: str = ""

    @property
    def custom(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.api)

    @property
    def place(self) -> tuple[str, str, str, str]:
        return (self.group, "v1", self.namespace, "things")

    def body(self, object_name: str, **spec: Any) -> dict[str, Any]:
        metadata = {"name": object_name}
        return {
            "apiVersion": f"{self.group}/v1",
            "kind": "Thing",
            "metadata": metadata,
            "spec": {"name": "q", **spec},
        }

    def create(self, object_name: str, **spec: Any) -> Any:
        return self.custom.create_namespaced_custom_object(*self.place, self.body(object_name, **spec))

    def merge(self, object_name: str, patch: dict[str, Any]) -> Any:
        return self.custom.patch_namespaced_custom_object(
            *self.place, object_name, patch, _content_type=MERGE
        )

    def merge_status(self, object_name: str, patch: dict[str, Any]) -> Any:
        return self.custom.patch_namespaced_custom_object_status(
            *self.place, object_name, patch, _content_type=MERGE
        )


def establish(api: client.ApiClient, body: dict[str, Any]) -> None:
    extensions = client.ApiextensionsV1Api(api)
    extensions.create_custom_resource_definition(body)
    custom, spec = client.CustomObjectsApi(api), body["spec"]
    for _ in range(100):  # a real server needs a moment after Established
        try:
            custom.list_cluster_custom_object(spec["group"], "v1", spec["names"]["plural"])
            return
        except ApiException as error:
            assert error.status == 404
            time.sleep(0.1)
    pytest.fail("the definition is not served")


@pytest.fixture(scope="module", params=["with status", "without status"])
def registered(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Things]:
    api, group = cluster.client(), f"{unique('g')}.example.com"
    establish(api, definition(group, status=request.param == "with status"))
    yield Things(api, group)
    client.ApiextensionsV1Api(api).delete_custom_resource_definition(f"things.{group}")


@pytest.fixture
def things(registered: Things, namespace: str) -> Things:
    return Things(registered.api, registered.group, namespace)


@pytest.fixture
def has_status(registered: Things) -> bool:
    read = client.ApiextensionsV1Api(registered.api).read_custom_resource_definition(
        f"things.{registered.group}"
    )
    return read.spec.versions[0].subresources is not None


def test_defaults_and_generation(things: Things) -> None:
    created = things.create("a", n=1, items=[{"key": "k"}])
    assert created["spec"]["m"] == 7 and created["spec"]["items"] == [{"key": "k", "value": "none"}]
    assert created["metadata"]["generation"] == 1
    assert things.merge("a", {"metadata": {"labels": {"x": "y"}}})["metadata"]["generation"] == 1
    assert things.merge("a", {"spec": {"n": 2}})["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ({"n": -1}, "spec.n in body should be greater than or equal to 0"),
        ({"n": "one"}, "spec.n in body must be of type integer"),
        ({"mode": "c"}, 'supported values: "a", "b"'),
        ({"code": "A1"}, "spec.code in body should match '^[a-z]+$'"),
        ({"code": "abcdef"}, "spec.code: Too long"),
        ({"labels": {"a": 1}}, "spec.labels.a in body must be of type string"),
        ({"items": [{"value": "x"}]}, "spec.items[0].key: Required value"),
        ({"items": [{"key": "k"}, {"key": "k"}]}, "spec.items[1]: Duplicate value"),
        ({"items": [{"key": str(i)} for i in range(4)]}, "spec.items: Too many"),
        ({"n": 99}, "n must be <= m"),
        ({"port": True}, "spec.port"),
    ],
)
def test_what_does_not_fit_is_refused(things: Things, spec: dict[str, Any], part: str) -> None:
    with refused(422, "Invalid") as refusal:
        things.create("b", **spec)
    assert part in refusal.message
    assert refusal.message.startswith(f'Thing.{things.group} "b" is invalid: ')


def test_required_fields_are_required(things: Things) -> None:
    body = things.body("b")
    del body["spec"]["name"]
    with refused(422, "Invalid") as refusal:
        things.custom.create_namespaced_custom_object(*things.place, body)
    assert "spec.name: Required value" in refusal.message


def test_a_transition_rule_holds_from_the_second_write_on(things: Things) -> None:
    things.create("a")
    with refused(422, "Invalid") as refusal:
        things.merge("a", {"spec": {"name": "other"}})
    assert "fixed" in refusal.message


def test_unknown_fields_are_pruned_but_not_where_the_schema_keeps_them(things: Things) -> None:
    created = things.create("a", zzz=1, free={"any": {"thing": [1]}}, labels={"k": "v"}, port="http")
    assert "zzz" not in created["spec"]
    assert created["spec"]["free"] == {"any": {"thing": [1]}}
    assert created["spec"]["labels"] == {"k": "v"} and created["spec"]["port"] == "http"


def test_nulls_of_fields_that_may_not_be_null_go(things: Things) -> None:
    created = things.create("a", mode=None, m=None)
    assert "mode" not in created["spec"] and created["spec"]["m"] == 7


def test_status_is_apart_only_when_the_definition_says_so(things: Things, has_status: bool) -> None:
    things.create("a", n=1)
    if not has_status:
        with refused(404, "NotFound"):
            things.merge_status("a", {"status": {"phase": "Ok"}})
        written = things.merge("a", {"status": {"phase": "Ok"}})
        assert written["status"] == {"phase": "Ok"} and written["metadata"]["generation"] == 2
        return
    written = things.merge_status("a", {"status": {"phase": "Ok"}, "spec": {"n": 5}})
    assert (written["status"], written["spec"]["n"]) == ({"phase": "Ok"}, 1)
    assert written["metadata"]["generation"] == 1
    written = things.merge("a", {"status": {"phase": "Bad"}, "spec": {"n": 2}})
    assert written["status"] == {"phase": "Ok"} and written["metadata"]["generation"] == 2


def test_a_strategic_merge_is_not_for_custom_resources(things: Things) -> None:
    things.create("a")
    with refused(415, "UnsupportedMediaType"):
        things.custom.patch_namespaced_custom_object(
            *things.place, "a", {"spec": {"n": 1}}, _content_type="application/strategic-merge-patch+json"
        )


def test_a_replace_needs_a_version(things: Things) -> None:
    created = things.create("a")
    del created["metadata"]["resourceVersion"]
    with refused(422, "Invalid") as refusal:
        things.custom.replace_namespaced_custom_object(*things.place, "a", created)
    assert "must be specified for an update" in refusal.message


def test_the_dynamic_client_applies(things: Things) -> None:
    found = dynamic.DynamicClient(things.api)
    resource = found.resources.get(api_version=f"{things.group}/v1", kind="Thing")
    body = things.body("d", items=[{"key": "k", "value": "v"}])
    applied = found.server_side_apply(
        resource, body=body, name="d", namespace=things.namespace, field_manager="pipeline"
    )
    assert applied.spec.m == 7
    other = things.body("d", items=[{"key": "k", "value": "w"}])
    with pytest.raises(dynamic.exceptions.ConflictError) as caught:
        found.server_side_apply(
            resource, body=other, name="d", namespace=things.namespace, field_manager="other"
        )
    assert '.spec.items[key=\\"k\\"].value' in str(caught.value.body)
    resource.delete(name="d", namespace=things.namespace)


def test_definitions_are_checked(api: client.ApiClient) -> None:
    group = f"{unique('g')}.example.com"
    for change, part in (
        (lambda d: d["metadata"].update(name="other.example.com"), "metadata.name"),
        (lambda d: d["spec"]["versions"][0].update(storage=False), "storage version"),
        (lambda d: d["spec"]["versions"][0].pop("schema"), "schemas are required"),
        (lambda d: spec_of(d).update(bad={}), "must not be empty for specified object fields"),
        (
            lambda d: spec_of(d).update(
                bad={"type": "string", "x-kubernetes-validations": [{"rule": "nosuch(self)"}]}
            ),
            "undeclared reference to 'nosuch'",
        ),
    ):
        body = definition(group, status=True)
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
            "type": "object",
            "properties": {"ok": {"type": "string"}},
        }
        change(body)
        with refused(422, "Invalid") as refusal:
            client.ApiextensionsV1Api(api).create_custom_resource_definition(body)
        assert part in refusal.message


def spec_of(body: dict[str, Any]) -> dict[str, Any]:
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties: dict[str, Any] = schema["properties"]["spec"]["properties"]
    return properties


def test_a_definition_takes_its_objects_with_it(cluster: Cluster, namespace: str) -> None:
    api, group = cluster.client(), f"{unique('g')}.example.com"
    establish(api, definition(group, status=True))
    things = Things(api, group, namespace)
    things.create("a")
    extensions = client.ApiextensionsV1Api(api)
    extensions.delete_custom_resource_definition(f"things.{group}")
    for _ in range(100):
        try:
            extensions.read_custom_resource_definition(f"things.{group}")
            time.sleep(0.1)
        except ApiException as error:
            assert error.status == 404
            break
    else:
        pytest.fail("the definition is still there")
    with pytest.raises(ApiException) as caught:
        things.custom.get_namespaced_custom_object(*things.place, "a")
    assert caught.value.status == 404
