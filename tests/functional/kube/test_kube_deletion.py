"""Deletion: finalizers, preconditions, what owners take with them, namespaces, Pods that end gracefully.

What a real cluster's controllers do is tested on the embedded cluster only: a bare API server has none.
"""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from tests.functional.kube.helpers import MERGE, Cluster, job, make_namespace, owner, pod, refused


@pytest.fixture
def embedded_core(embedded: Cluster) -> client.CoreV1Api:
    return client.CoreV1Api(embedded.client())


@pytest.fixture
def batch(embedded: Cluster) -> client.BatchV1Api:
    return client.BatchV1Api(embedded.client())


@pytest.fixture
def space(embedded: Cluster) -> str:
    return make_namespace(embedded.client())


def test_finalizers_hold_an_object(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "c", "finalizers": ["x.io/a"]}})
    core.delete_namespaced_config_map("c", namespace)
    held = core.read_namespaced_config_map("c", namespace)
    assert held.metadata.deletion_timestamp
    with refused(422, "Invalid"):
        more = {"metadata": {"finalizers": ["x.io/a", "x.io/b"]}}
        core.patch_namespaced_config_map("c", namespace, more, _content_type=MERGE)
    core.patch_namespaced_config_map("c", namespace, {"metadata": {"finalizers": None}}, _content_type=MERGE)
    with refused(404, "NotFound"):
        core.read_namespaced_config_map("c", namespace)


def test_preconditions(core: client.CoreV1Api, namespace: str) -> None:
    created = core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}})
    for conditions in ({"uid": "wrong"}, {"resourceVersion": "1"}):
        with refused(409, "Conflict"):
            core.delete_namespaced_config_map("c", namespace, body={"preconditions": conditions})
    right = {"uid": created.metadata.uid, "resourceVersion": created.metadata.resource_version}
    answer = core.delete_namespaced_config_map("c", namespace, body={"preconditions": right})
    assert answer["status"] == "Success"


def test_a_collection_is_deleted_by_label(core: client.CoreV1Api, namespace: str) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {})):
        core.create_namespaced_secret(namespace, {"metadata": {"name": name, "labels": labels}})
    core.delete_collection_namespaced_secret(namespace, label_selector="x=1")
    assert [s.metadata.name for s in core.list_namespaced_secret(namespace).items] == ["c"]


def owned(core: client.CoreV1Api, batch: client.BatchV1Api, space: str, *, block: bool = False) -> Any:
    """A Job with a Secret and a Pod that it owns."""
    created = batch.create_namespaced_job(space, job("j"))
    reference = owner(created, "batch/v1", "Job", block=block)
    core.create_namespaced_secret(space, {"metadata": {"name": "s", "ownerReferences": [reference]}})
    body = pod("p")
    body["metadata"]["ownerReferences"] = [reference]
    core.create_namespaced_pod(space, body)
    return created


def names(core: client.CoreV1Api, space: str) -> list[str]:
    return [
        x.metadata.name
        for x in [*core.list_namespaced_secret(space).items, *core.list_namespaced_pod(space).items]
    ]


def test_background_deletion_takes_dependents(
    embedded_core: client.CoreV1Api, batch: client.BatchV1Api, space: str
) -> None:
    owned(embedded_core, batch, space)
    batch.delete_namespaced_job("j", space, propagation_policy="Background")
    assert names(embedded_core, space) == []


def test_a_job_deleted_without_a_policy_leaves_its_dependents(
    embedded_core: client.CoreV1Api, batch: client.BatchV1Api, space: str
) -> None:
    owned(embedded_core, batch, space)
    _, _, headers = batch.delete_namespaced_job_with_http_info("j", space)
    assert "child pods are preserved by default" in headers["Warning"]
    assert names(embedded_core, space) == ["s", "p"]
    assert embedded_core.read_namespaced_secret("s", space).metadata.owner_references is None


def test_foreground_deletion_waits_for_dependents_that_block(
    embedded_core: client.CoreV1Api, batch: client.BatchV1Api, space: str
) -> None:
    owned(embedded_core, batch, space, block=True)
    hold = {"metadata": {"finalizers": ["x.io/hold"]}}
    embedded_core.patch_namespaced_secret("s", space, hold, _content_type=MERGE)
    batch.delete_namespaced_job("j", space, propagation_policy="Foreground")
    waiting = batch.read_namespaced_job("j", space)
    assert waiting.metadata.finalizers == ["foregroundDeletion"] and waiting.metadata.deletion_timestamp
    assert names(embedded_core, space) == ["s"]
    release = {"metadata": {"finalizers": None}}
    embedded_core.patch_namespaced_secret("s", space, release, _content_type=MERGE)
    with refused(404, "NotFound"):
        batch.read_namespaced_job("j", space)


def test_a_second_owner_keeps_the_dependent(
    embedded_core: client.CoreV1Api, batch: client.BatchV1Api, space: str
) -> None:
    one, two = (batch.create_namespaced_job(space, job(name)) for name in ("one", "two"))
    references = [owner(one, "batch/v1", "Job"), owner(two, "batch/v1", "Job")]
    embedded_core.create_namespaced_secret(space, {"metadata": {"name": "s", "ownerReferences": references}})
    batch.delete_namespaced_job("one", space, propagation_policy="Background")
    left = embedded_core.read_namespaced_secret("s", space).metadata.owner_references
    assert [reference.name for reference in left] == ["two"]
    batch.delete_namespaced_job("two", space, propagation_policy="Background")
    with refused(404, "NotFound"):
        embedded_core.read_namespaced_secret("s", space)


def test_an_object_whose_owner_is_not_there_is_collected(embedded_core: client.CoreV1Api, space: str) -> None:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "no-such-uid"}
    embedded_core.create_namespaced_secret(space, {"metadata": {"name": "s", "ownerReferences": [reference]}})
    with refused(404, "NotFound"):
        embedded_core.read_namespaced_secret("s", space)


def test_deleting_a_namespace_takes_everything_in_it(embedded_core: client.CoreV1Api, space: str) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["x.io/a"]}}
    embedded_core.create_namespaced_config_map(space, held)
    embedded_core.create_namespaced_secret(space, {"metadata": {"name": "s"}})
    embedded_core.delete_namespace(space)
    assert embedded_core.read_namespace(space).status.phase == "Terminating"
    assert embedded_core.list_namespaced_secret(space).items == []
    with refused(403, "Forbidden") as refusal:
        embedded_core.create_namespaced_secret(space, {"metadata": {"name": "late"}})
    assert "because it is being terminated" in refusal.message
    release = {"metadata": {"finalizers": None}}
    embedded_core.patch_namespaced_config_map("held", space, release, _content_type=MERGE)
    with refused(404, "NotFound"):
        embedded_core.read_namespace(space)


def test_a_running_pod_is_ended_by_its_kubelet(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod("p", nodeName="n", terminationGracePeriodSeconds=7))
    core.delete_namespaced_pod("p", namespace)
    ending = core.read_namespaced_pod("p", namespace)
    assert ending.metadata.deletion_timestamp and ending.metadata.deletion_grace_period_seconds == 7
    core.patch_namespaced_pod_status("p", namespace, {"status": {"message": "ending"}}, _content_type=MERGE)
    core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)
    with refused(404, "NotFound"):
        core.read_namespaced_pod("p", namespace)


def test_a_pod_without_node_goes_at_once(core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod("p"))
    assert core.delete_namespaced_pod("p", namespace).metadata.name == "p"
    with refused(404, "NotFound"):
        core.read_namespaced_pod("p", namespace)
