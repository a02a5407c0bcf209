"""Pod Security admission by the label of a namespace."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from tests.functional.kube.helpers import Cluster, job, make_namespace, pod, refused

LABEL = "pod-security.kubernetes.io/enforce"


def spaces(cluster: Cluster, level: str) -> tuple[client.CoreV1Api, str]:
    api = cluster.client()
    return client.CoreV1Api(api), make_namespace(api, **{LABEL: level})


def changed(**container: Any) -> dict[str, Any]:
    body = pod("p")
    security = {**body["spec"]["containers"][0]["securityContext"], **container}
    body["spec"]["containers"][0]["securityContext"] = security
    return body


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (changed(privileged=True, allowPrivilegeEscalation=True), "privileged (container"),
        (pod("p", hostNetwork=True), "host namespaces (hostNetwork=true)"),
        (changed(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), "non-default capabilities"),
        (pod("p", volumes=[{"name": "h", "hostPath": {"path": "/"}}]), "hostPath volumes"),
    ],
)
@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_both_levels_refuse(cluster: Cluster, level: str, body: dict[str, Any], why: str) -> None:
    core, namespace = spaces(cluster, level)
    with refused(403, "Forbidden") as refusal:
        core.create_namespaced_pod(namespace, body)
    assert refusal.message.startswith(f'pods "p" is forbidden: violates PodSecurity "{level}:latest": ')
    assert why in refusal.message


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (changed(allowPrivilegeEscalation=True), "allowPrivilegeEscalation != false"),
        (changed(capabilities={}), "unrestricted capabilities"),
        (pod("p", securityContext={"runAsNonRoot": True}), "seccompProfile"),
        (pod("p", securityContext={"seccompProfile": {"type": "RuntimeDefault"}}), "runAsNonRoot != true"),
        (changed(runAsUser=0), "runAsUser=0"),
    ],
)
def test_only_restricted_refuses(cluster: Cluster, body: dict[str, Any], why: str) -> None:
    core, namespace = spaces(cluster, "restricted")
    with refused(403, "Forbidden") as refusal:
        core.create_namespaced_pod(namespace, body)
    assert why in refusal.message
    core, namespace = spaces(cluster, "baseline")
    core.create_namespaced_pod(namespace, body)


def test_restricted_admits_what_is_restricted_and_privileged_admits_all(cluster: Cluster) -> None:
    core, namespace = spaces(cluster, "restricted")
    core.create_namespaced_pod(namespace, pod("p"))
    core, namespace = spaces(cluster, "privileged")
    core.create_namespaced_pod(namespace, changed(privileged=True, allowPrivilegeEscalation=True))


def test_a_job_is_stored_its_pods_are_what_is_refused(cluster: Cluster) -> None:
    core, namespace = spaces(cluster, "restricted")
    body = job("j")
    body["spec"]["template"]["spec"]["hostNetwork"] = True
    client.BatchV1Api(core.api_client).create_namespaced_job(namespace, body)


def test_a_pod_needs_its_service_account(embedded: Cluster) -> None:
    core, namespace = spaces(embedded, "restricted")
    with refused(403, "Forbidden") as refusal:
        core.create_namespaced_pod(namespace, pod("p", serviceAccountName="nobody"))
    assert (
        f'error looking up service account {namespace}/nobody: serviceaccount "nobody" not found'
        in refusal.message
    )
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "nobody"}})
    core.create_namespaced_pod(namespace, pod("p", serviceAccountName="nobody"))
