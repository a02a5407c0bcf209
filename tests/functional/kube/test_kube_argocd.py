"""Argo CD's kinds: the definitions of this project and, where they are at hand, the real ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from local.kube import APPLICATIONS, ApiError, KubeServer, WriteOptions, argocd_crds
from tests.functional.kube.helpers import MERGE, refused

PLACE = ("argoproj.io", "v1alpha1", "default")
DIGEST = "sha256:" + "a" * 64


def real_definitions() -> list[Path]:
    folder = os.environ.get("ARGOCD_CRDS")
    root = Path(folder) if folder else Path(__file__).parents[4] / "shared" / "k8s-data" / "argocd-crds"
    return sorted(root.glob("*/")) if root.is_dir() else []


@pytest.fixture(scope="module", params=["own", *[path.name for path in real_definitions()]])
def argocd(request: pytest.FixtureRequest) -> Iterator[KubeServer]:
    with KubeServer() as server:
        if request.param == "own":
            argocd_crds.install(server.store)
        else:
            folder = next(path for path in real_definitions() if path.name == request.param)
            for path in sorted(folder.glob("*.yaml")):
                server.store.apply(yaml.safe_load(path.read_text()), options=WriteOptions(manager="setup"))
        yield server


def test_the_real_definitions_are_at_hand() -> None:
    if not real_definitions():
        pytest.skip(
            "ARGOCD_CRDS names no folder with Argo CD's definitions: only this project's own were tested"
        )
    assert all(list(path.glob("*.yaml")) for path in real_definitions())


@pytest.fixture
def custom(argocd: KubeServer) -> client.CustomObjectsApi:
    configuration = client.Configuration()
    configuration.host = argocd.url
    return client.CustomObjectsApi(client.ApiClient(configuration))


def application(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
        "spec": {
            "project": "aicr",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "gpu-operator"},
            "source": {
                "repoURL": "oci://127.0.0.1/aicr/charts/gpu-operator",
                "path": ".",
                "targetRevision": DIGEST,
                "helm": {"valuesObject": {"driver": {"enabled": True, "tolerations": [{"key": "k"}]}}},
            },
            "syncPolicy": {"syncOptions": ["ServerSideApply=true"], "retry": {"limit": 0}},
        },
    }


def create(custom: client.CustomObjectsApi, name: str) -> Any:
    return custom.create_namespaced_custom_object(*PLACE, "applications", application(name))


def merge(custom: client.CustomObjectsApi, name: str, patch: dict[str, Any]) -> Any:
    return custom.patch_namespaced_custom_object(*PLACE, "applications", name, patch, _content_type=MERGE)


def test_values_arrive_as_they_were_written(custom: client.CustomObjectsApi) -> None:
    created = create(custom, "values")
    assert created["spec"] == application("values")["spec"]


def test_status_and_operation_are_written_through_the_object(custom: client.CustomObjectsApi) -> None:
    assert create(custom, "op")["metadata"]["generation"] == 1
    status = {"sync": {"status": "OutOfSync"}, "operationState": None, "health": {"status": "Missing"}}
    written = merge(custom, "op", {"status": status})
    assert written["metadata"]["generation"] == 2
    assert written["status"] == {"sync": {"status": "OutOfSync"}, "health": {"status": "Missing"}}
    with refused(404, "NotFound"):
        custom.patch_namespaced_custom_object_status(
            *PLACE, "applications", "op", {"status": {}}, _content_type=MERGE
        )


def test_a_sync_is_one_conditional_patch(custom: client.CustomObjectsApi) -> None:
    version = create(custom, "sync")["metadata"]["resourceVersion"]
    operation = {
        "initiatedBy": {"username": "pipeline"},
        "info": [{"name": "request-id", "value": "r1"}],
        "sync": {
            "revision": DIGEST,
            "prune": True,
            "syncOptions": ["ServerSideApply=true"],
            "syncStrategy": {"hook": {}},
        },
        "retry": {"limit": 0},
    }
    patch = {
        "metadata": {"resourceVersion": version},
        "operation": operation,
        "status": {"operationState": None},
    }
    written = merge(custom, "sync", patch)
    assert written["operation"] == operation and written["metadata"]["generation"] == 2
    with refused(409, "Conflict"):
        merge(custom, "sync", patch)
    done = merge(custom, "sync", {"operation": None})
    assert "operation" not in done and done["metadata"]["generation"] == 3


def test_a_null_operation_is_dropped_by_a_json_patch(custom: client.CustomObjectsApi) -> None:
    create(custom, "null")
    patch = [{"op": "add", "path": "/operation", "value": None}]
    written = custom.patch_namespaced_custom_object(
        *PLACE, "applications", "null", patch, _content_type="application/json-patch+json"
    )
    assert "operation" not in written


def test_applications_are_checked(custom: client.CustomObjectsApi) -> None:
    for change, part in (
        (lambda a: a["spec"].pop("project"), "spec.project: Required value"),
        (lambda a: a["spec"].pop("destination"), "spec.destination: Required value"),
        (lambda a: a["spec"]["source"].pop("repoURL"), "spec.source.repoURL: Required value"),
        (lambda a: a["spec"]["syncPolicy"].update(syncOptions="x"), "spec.syncPolicy.syncOptions"),
    ):
        body = application("bad")
        change(body)
        with refused(422, "Invalid") as refusal:
            custom.create_namespaced_custom_object(*PLACE, "applications", body)
        assert part in refusal.message


def test_unknown_fields_of_a_spec_are_pruned(custom: client.CustomObjectsApi) -> None:
    body = application("typo")
    body["spec"]["syncPolicy"]["syncOption"] = ["typo"]
    created = custom.create_namespaced_custom_object(*PLACE, "applications", body)
    assert created["spec"] == application("typo")["spec"]


def test_a_project_is_stored(custom: client.CustomObjectsApi) -> None:
    spec = {
        "sourceRepos": ["oci://127.0.0.1/aicr/charts/*"],
        "destinations": [{"server": "https://kubernetes.default.svc", "namespace": "gpu-operator"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        "namespaceResourceWhitelist": [{"group": "*", "kind": "*"}],
    }
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "aicr"},
        "spec": spec,
    }
    created = custom.create_namespaced_custom_object(*PLACE, "appprojects", body)
    assert created["spec"] == spec


def test_the_store_refuses_a_status_subresource_too(
    argocd: KubeServer, custom: client.CustomObjectsApi
) -> None:
    create(custom, "store")
    with pytest.raises(ApiError) as caught:
        argocd.store.merge_status(APPLICATIONS, "store", {"status": {}}, "default")
    assert caught.value.code == 404


def test_installing_twice_changes_nothing() -> None:
    with KubeServer() as server:
        argocd_crds.install(server.store)
        version = server.store.storage.version
        argocd_crds.install(server.store)
        assert server.store.storage.version == version
