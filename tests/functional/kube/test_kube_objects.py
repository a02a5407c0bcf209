"""Creating and replacing built-in kinds: what is filled in, what is refused, in which words."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from tests.functional.kube.helpers import MERGE, Cluster, job, pod, refused, unique


def test_a_namespace_is_active_and_carries_what_the_server_sets(core: client.CoreV1Api) -> None:
    name = unique()
    core.create_namespace({"metadata": {"name": name, "labels": {"a": "b"}}})
    read = core.read_namespace(name)
    assert read.status.phase == "Active"
    assert read.metadata.uid and read.metadata.resource_version and read.metadata.creation_timestamp
    assert read.metadata.labels == {"a": "b", "kubernetes.io/metadata.name": name}
    with refused(409, "AlreadyExists") as refusal:
        core.create_namespace({"metadata": {"name": name}})
    assert refusal.message == f'namespaces "{name}" already exists'


def test_what_is_not_there_is_not_found(core: client.CoreV1Api, namespace: str) -> None:
    with refused(404, "NotFound") as refusal:
        core.read_namespaced_secret("nope", namespace)
    assert refusal.message == 'secrets "nope" not found'
    with refused(404, "NotFound") as refusal:
        core.create_namespaced_secret("no-such-namespace", {"metadata": {"name": "s"}})
    assert refusal.message == 'namespaces "no-such-namespace" not found'
    with refused(404, "NotFound"):
        core.replace_namespaced_secret("nope", namespace, {"metadata": {"name": "nope"}})
    with refused(404, "NotFound"):
        core.delete_namespaced_secret("nope", namespace)


def test_string_data_of_a_secret_becomes_data(core: client.CoreV1Api, namespace: str) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"password": "tok"}, "data": {"user": "QVdT"}}
    core.create_namespaced_secret(namespace, body)
    read = core.read_namespaced_secret("s", namespace)
    assert base64.b64decode(read.data["password"]) == b"tok"
    assert read.data["user"] == "QVdT" and read.string_data is None and read.type == "Opaque"
    core.patch_namespaced_secret("s", namespace, {"stringData": {"password": "new"}}, _content_type=MERGE)
    patched = core.read_namespaced_secret("s", namespace)
    assert base64.b64decode(patched.data["password"]) == b"new" and patched.data["user"] == "QVdT"


def test_secrets_are_checked(core: client.CoreV1Api, namespace: str) -> None:
    with refused(422, "Invalid"):
        core.create_namespaced_secret(
            namespace, {"metadata": {"name": "d"}, "type": "kubernetes.io/dockerconfigjson", "data": {}}
        )
    with refused(400, "BadRequest"):
        core.create_namespaced_secret(namespace, {"metadata": {"name": "b"}, "data": {"k": "not base64!"}})
    core.create_namespaced_secret(namespace, {"metadata": {"name": "t"}, "type": "Opaque"})
    with refused(422, "Invalid") as refusal:
        core.patch_namespaced_secret("t", namespace, {"type": "other"}, _content_type=MERGE)
    assert "field is immutable" in refusal.message


def test_an_immutable_config_map_stays_as_it_is(core: client.CoreV1Api, namespace: str) -> None:
    body = {"metadata": {"name": "c"}, "immutable": True, "data": {"k": "v"}}
    core.create_namespaced_config_map(namespace, body)
    with refused(422, "Invalid"):
        core.patch_namespaced_config_map("c", namespace, {"data": {"k": "w"}}, _content_type=MERGE)
    labelled = core.patch_namespaced_config_map(
        "c", namespace, {"metadata": {"labels": {"a": "b"}}}, _content_type=MERGE
    )
    assert labelled.metadata.labels == {"a": "b"}


@pytest.mark.parametrize(
    ("metadata", "part"),
    [
        ({"name": "Bad_Name"}, "a lowercase RFC 1123 subdomain must consist of"),
        ({"name": "ok", "labels": {"a": "not valid!"}}, "metadata.labels: Invalid value"),
        ({"name": "ok", "labels": {"a b": "x"}}, "metadata.labels: Invalid value"),
        ({}, "name or generateName is required"),
    ],
)
def test_invalid_metadata_is_refused(
    core: client.CoreV1Api, namespace: str, metadata: dict[str, object], part: str
) -> None:
    with refused(422, "Invalid") as refusal:
        core.create_namespaced_config_map(namespace, {"metadata": metadata})
    assert part in refusal.message


def test_a_config_map_over_a_mebibyte_is_refused(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(
        namespace, {"metadata": {"name": "fits"}, "data": {"k": "x" * 1_000_000}}
    )
    with refused(422, "Invalid") as refusal:
        core.create_namespaced_config_map(
            namespace, {"metadata": {"name": "big"}, "data": {"k": "x" * 1_048_577}}
        )
    assert "Too long" in refusal.message


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "c"}, "data": {"k": 1}},
        {"metadata": {"name": "c", "labels": {"k": 1}}},
        {"metadata": {"name": "c"}, "data": ["k"]},
        {"kind": "Secret", "metadata": {"name": "c"}},
        {"metadata": {"name": "c", "namespace": "other"}},
        ["no", "object"],
        b"{not json",
    ],
)
def test_bodies_that_cannot_be_read_are_refused(cluster: Cluster, namespace: str, body: Any) -> None:
    answer = cluster.send("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")


def test_unknown_fields_go_or_are_refused_on_request(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "dta": {"typo": "x"}}
    strict = cluster.send("POST", f"{path}?fieldValidation=Strict", body)
    assert strict.status == 400 and 'unknown field "dta"' in strict.body["message"]
    warned = cluster.send("POST", f"{path}?fieldValidation=Warn", body)
    assert warned.status == 201 and "dta" not in warned.body
    assert "unknown field" in warned.warning and "dta" in warned.warning


def test_media_types_that_are_not_spoken(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    cluster.send("POST", path, {"metadata": {"name": "c"}})
    answer = cluster.send("PATCH", f"{path}/c", {"data": {}}, "application/json")
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


def test_methods_and_paths_that_do_not_exist(cluster: Cluster, namespace: str) -> None:
    assert cluster.send("PUT", f"/api/v1/namespaces/{namespace}/configmaps", {}).status == 405
    assert cluster.send("GET", f"/api/v1/namespaces/{namespace}/nothings").status == 404
    assert cluster.send("GET", "/apis/no.such.group/v1/things").status == 404


def test_names_are_generated(core: client.CoreV1Api, namespace: str) -> None:
    names = {
        core.create_namespaced_config_map(namespace, {"metadata": {"generateName": "g-"}}).metadata.name
        for _ in range(3)
    }
    assert len(names) == 3 and all(name.startswith("g-") and len(name) == 7 for name in names)


def test_a_dry_run_leaves_nothing(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "dry"}}, dry_run="All")
    with refused(404, "NotFound"):
        core.read_namespaced_config_map("dry", namespace)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "wet"}})
    core.patch_namespaced_config_map(
        "wet", namespace, {"data": {"a": "b"}}, dry_run="All", _content_type=MERGE
    )
    core.delete_namespaced_config_map("wet", namespace, dry_run="All")
    assert core.read_namespaced_config_map("wet", namespace).data is None


def test_a_stale_replace_is_a_conflict(core: client.CoreV1Api, namespace: str) -> None:
    created = core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}})
    core.patch_namespaced_config_map("c", namespace, {"data": {"a": "1"}}, _content_type=MERGE)
    created.data = {"b": "2"}
    with refused(409, "Conflict") as refusal:
        core.replace_namespaced_config_map("c", namespace, created)
    assert refusal.message == (
        'Operation cannot be fulfilled on configmaps "c": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    with refused(409, "Conflict"):
        core.patch_namespaced_config_map(
            "c", namespace, {"metadata": {"resourceVersion": "1"}, "data": {}}, _content_type=MERGE
        )


def test_no_increment_is_lost_between_optimistic_writers(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}, "data": {"n": "0"}})

    def increment(_: int) -> int:
        conflicts = 0
        while True:
            read = core.read_namespaced_config_map("c", namespace)
            read.data["n"] = str(int(read.data["n"]) + 1)
            try:
                core.replace_namespaced_config_map("c", namespace, read)
                return conflicts
            except ApiException as error:
                assert error.status == 409
                conflicts += 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(increment, range(40)))
    assert core.read_namespaced_config_map("c", namespace).data == {"n": "40"}


def test_a_write_that_changes_nothing_keeps_the_version(core: client.CoreV1Api, namespace: str) -> None:
    created = core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}, "data": {"k": "v"}})
    again = core.patch_namespaced_config_map("c", namespace, {"data": {"k": "v"}}, _content_type=MERGE)
    assert again.metadata.resource_version == created.metadata.resource_version


def test_a_job_selects_its_own_pods(api: client.ApiClient, namespace: str) -> None:
    created = client.BatchV1Api(api).create_namespaced_job(namespace, job("j"))
    uid = created.metadata.uid
    assert created.spec.selector.match_labels == {"batch.kubernetes.io/controller-uid": uid}
    labels = created.spec.template.metadata.labels
    assert labels["batch.kubernetes.io/job-name"] == "j" and labels["controller-uid"] == uid
    assert (created.spec.completions, created.spec.parallelism) == (1, 1)
    assert created.metadata.generation == 1


def test_jobs_are_checked(api: client.ApiClient, namespace: str) -> None:
    batch = client.BatchV1Api(api)
    always = job("j")
    always["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    with refused(422, "Invalid") as refusal:
        batch.create_namespaced_job(namespace, always)
    assert "spec.template.spec.restartPolicy" in refusal.message
    unmounted = job("j")
    unmounted["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "v", "mountPath": "/v"}
    ]
    with refused(422, "Invalid") as refusal:
        batch.create_namespaced_job(namespace, unmounted)
    assert 'volumeMounts[0].name: Not found: "v"' in refusal.message
    batch.create_namespaced_job(namespace, job("j"))
    with refused(422, "Invalid") as refusal:
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}
        batch.patch_namespaced_job("j", namespace, patch)
    assert "field is immutable" in refusal.message


def test_a_job_status_is_written_apart(api: client.ApiClient, namespace: str) -> None:
    batch = client.BatchV1Api(api)
    body = job("j")
    body["status"] = {"succeeded": 1}
    assert batch.create_namespaced_job(namespace, body).status.succeeded is None
    batch.patch_namespaced_job_status("j", namespace, {"status": {"active": 1}}, _content_type=MERGE)
    read = batch.read_namespaced_job("j", namespace)
    assert read.status.active == 1 and read.metadata.generation == 1


def test_a_pod_keeps_its_spec(core: client.CoreV1Api, namespace: str) -> None:
    created = core.create_namespaced_pod(namespace, pod("p"))
    assert created.status.phase == "Pending" and created.spec.restart_policy == "Always"
    with refused(422, "Invalid") as refusal:
        core.patch_namespaced_pod("p", namespace, {"spec": {"hostname": "other"}}, _content_type=MERGE)
    assert "pod updates may not change fields other than" in refusal.message
    core.create_namespaced_pod(namespace, pod("placed", nodeName="n"))
    with refused(422, "Invalid"):
        core.patch_namespaced_pod("placed", namespace, {"spec": {"nodeName": "m"}}, _content_type=MERGE)


def test_a_node_reports_its_capacity(core: client.CoreV1Api) -> None:
    name = unique("node")
    core.create_node({"metadata": {"name": name, "labels": {"kubernetes.io/arch": "amd64"}}})
    try:
        core.patch_node_status(name, {"status": {"capacity": {"cpu": "4", "nvidia.com/gpu": "8"}}})
        assert core.read_node(name).status.capacity == {"cpu": "4", "nvidia.com/gpu": "8"}
    finally:
        core.delete_node(name)
