"""Who may do what: authentication, roles and bindings, access reviews, tokens of service accounts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from tests.functional.kube.helpers import APPLY, MERGE, Cluster, refused, unique

RULES = [
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]},
]


@pytest.fixture
def jane(cluster: Cluster) -> client.CoreV1Api:
    return client.CoreV1Api(cluster.client("jane-token"))


@pytest.fixture
def granted(cluster: Cluster, core: client.CoreV1Api, namespace: str) -> str:
    """A namespace in which the group `team-a` has RULES, with two Secrets."""
    roles = client.RbacAuthorizationV1Api(cluster.client())
    roles.create_namespaced_role(namespace, {"metadata": {"name": "r"}, "rules": RULES})
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "Group", "name": "team-a", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    roles.create_namespaced_role_binding(namespace, binding)
    for name in ("mine", "theirs"):
        core.create_namespaced_secret(namespace, {"metadata": {"name": name}})
    await_right(cluster, "jane-token", namespace)
    return namespace


def await_right(cluster: Cluster, token: str, namespace: str) -> None:
    """A real server learns of a binding a moment after it is stored; the embedded one at once."""
    for _ in range(100):
        if review(cluster.client(token), verb="list", resource="configmaps", namespace=namespace):
            return
        assert cluster.store is None, "the embedded cluster knows a binding at once"
        time.sleep(0.1)
    pytest.fail("the binding has no effect")


def review(api: client.ApiClient, **attributes: Any) -> bool:
    answer = client.AuthorizationV1Api(api).create_self_subject_access_review(
        {"spec": {"resourceAttributes": attributes}}
    )
    return bool(answer.status.allowed)


@pytest.fixture
def node_reader(cluster: Cluster) -> Iterator[str]:
    """A ClusterRole bound to jane."""
    roles, name = client.RbacAuthorizationV1Api(cluster.client()), unique("reader")
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
        {"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]},
    ]
    roles.create_cluster_role({"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    roles.create_cluster_role_binding(
        {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    )
    yield name
    roles.delete_cluster_role_binding(name)
    roles.delete_cluster_role(name)


def test_without_a_known_token_nobody_enters(cluster: Cluster) -> None:
    with refused(401, "Unauthorized"):
        client.CoreV1Api(cluster.client("wrong")).list_node()


def test_refusals_are_worded_as_the_real_ones(jane: client.CoreV1Api, granted: str) -> None:
    with refused(403, "Forbidden") as refusal:
        jane.read_namespaced_secret("theirs", granted)
    assert refusal.message == (
        'secrets "theirs" is forbidden: User "jane" cannot get resource "secrets" in API group "" '
        f'in the namespace "{granted}"'
    )
    with refused(403, "Forbidden") as refusal:
        jane.list_namespaced_secret(granted)
    assert refusal.message == (
        'secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" '
        f'in the namespace "{granted}"'
    )
    with refused(403, "Forbidden") as refusal:
        jane.list_node()
    assert refusal.message == (
        'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope'
    )


def test_a_role_reaches_names_and_verbs_it_lists(jane: client.CoreV1Api, granted: str) -> None:
    assert jane.read_namespaced_secret("mine", granted).metadata.name == "mine"
    jane.patch_namespaced_secret("mine", granted, {"stringData": {"a": "b"}}, _content_type=MERGE)
    assert jane.list_namespaced_config_map(granted).items is not None
    for attempt in (
        lambda: jane.delete_namespaced_secret("mine", granted),
        lambda: jane.create_namespaced_secret(granted, {"metadata": {"name": "new"}}),
        lambda: jane.delete_collection_namespaced_config_map(granted),
        lambda: jane.read_namespaced_secret("mine", "default"),
    ):
        with refused(403, "Forbidden"):
            attempt()


def test_rights_follow_the_stored_rules_at_once(cluster: Cluster, granted: str) -> None:
    batch = client.BatchV1Api(cluster.client("jane-token"))
    assert batch.list_namespaced_job(granted).items == []
    client.RbacAuthorizationV1Api(cluster.client()).delete_namespaced_role_binding("r", granted)
    if cluster.store is None:
        pytest.skip("a real server takes its time to forget a binding")
    with refused(403, "Forbidden"):
        batch.list_namespaced_job(granted)


def test_an_apply_that_creates_needs_the_right_to_create(jane: client.CoreV1Api, granted: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
    with refused(403, "Forbidden") as refusal:
        jane.patch_namespaced_config_map("new", granted, body, field_manager="m", _content_type=APPLY)
    assert "cannot create resource" in refusal.message


def test_a_subresource_is_a_resource_of_its_own(cluster: Cluster, granted: str) -> None:
    batch = client.BatchV1Api(cluster.client("jane-token"))
    with refused(403, "Forbidden") as refusal:
        batch.patch_namespaced_job_status("j", granted, {"status": {}}, _content_type=MERGE)
    assert 'cannot patch resource "jobs/status" in API group "batch"' in refusal.message


def test_cluster_roles_reach_cluster_scope_and_paths(
    cluster: Cluster, jane: client.CoreV1Api, node_reader: str
) -> None:
    if cluster.store is None:
        pytest.skip("a real server takes its time to learn of a binding")
    assert jane.list_node() is not None
    assert cluster.send("GET", "/metrics/cadvisor", token="jane-token").status == 404
    assert cluster.send("GET", "/metrics", token="jane-token").status == 403


def test_a_path_without_a_rule_is_forbidden(cluster: Cluster) -> None:
    answer = cluster.send("GET", "/logs", token="jane-token")
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.body["message"] == 'forbidden: User "jane" cannot get path "/logs"'
    assert cluster.send("GET", "/version", token="jane-token").status == 200


def test_access_reviews_answer_as_the_request_would(cluster: Cluster, granted: str) -> None:
    jane = cluster.client("jane-token")
    assert review(jane, verb="get", resource="secrets", name="mine", namespace=granted)
    assert not review(jane, verb="get", resource="secrets", name="theirs", namespace=granted)
    assert review(jane, verb="create", group="batch", resource="jobs", namespace=granted)
    assert not review(jane, verb="create", group="batch", resource="jobs", namespace="default")
    assert review(cluster.client(), verb="delete", resource="nodes")


def test_a_service_account_acts_with_its_token(
    cluster: Cluster, core: client.CoreV1Api, granted: str
) -> None:
    core.create_namespaced_service_account(granted, {"metadata": {"name": "sa"}})
    roles = client.RbacAuthorizationV1Api(cluster.client())
    binding = {
        "metadata": {"name": "sa"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": granted}],
    }
    roles.create_namespaced_role_binding(granted, binding)
    answer = core.create_namespaced_service_account_token("sa", granted, {"spec": {"expirationSeconds": 600}})
    await_right(cluster, answer.status.token, granted)
    account = client.CoreV1Api(cluster.client(answer.status.token))
    assert account.list_namespaced_config_map(granted) is not None
    with refused(403, "Forbidden") as refusal:
        account.list_namespaced_secret(granted)
    assert f'User "system:serviceaccount:{granted}:sa"' in refusal.message
    core.delete_namespaced_service_account("sa", granted)
    if cluster.store is None:
        pytest.skip("a real server remembers a token for some seconds")
    with refused(401, "Unauthorized"):
        account.list_namespaced_config_map(granted)


def test_bindings_are_checked(cluster: Cluster, granted: str) -> None:
    roles = client.RbacAuthorizationV1Api(cluster.client())
    with refused(422, "Invalid") as refusal:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"}
        roles.patch_namespaced_role_binding("r", granted, {"roleRef": reference}, _content_type=MERGE)
    assert "cannot change roleRef" in refusal.message
