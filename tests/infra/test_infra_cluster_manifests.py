"""The cluster's side: what is printed, that it applies, and what each group may then do."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import Cluster, UnexpectedAnswerError
from aicr_pipeline.decide.credentials import LABELS, decoded, patch, repo_creds
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig, load_cluster_config

from infra.cluster_manifests import manifests, render
from infra.cluster_rbac import Manifest, group_rights
from infra.functions import FUNCTIONS
from infra.names import kubernetes_group
from local.kube import (
    APP_PROJECTS,
    CLUSTER_ROLE_BINDINGS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Identity,
    KubeServer,
    WriteOptions,
    argocd_crds,
)
from tests.infra.conftest import DEMO, PRIVATE
from tests.unit.samples import VALIDATOR_IMAGE
from tests.unit.samples import config as sample


@pytest.fixture(scope="module")
def config() -> ClusterConfig:
    return load_cluster_config(DEMO)


@pytest.fixture(scope="module")
def server(config: ClusterConfig) -> Iterator[KubeServer]:
    """A cluster with Argo CD's namespace, the manifests applied; a bearer token is the function's name."""
    started = KubeServer(
        authenticate=lambda token: (
            Identity(token, (kubernetes_group(token), "system:authenticated")) if token else None
        )
    )
    with started as server:
        argocd_crds.install(server.store)
        server.store.create(NAMESPACES, {"metadata": {"name": config.engine.namespace}})
        for manifest in yaml.safe_load_all(render(config)):
            server.store.apply(manifest, options=WriteOptions(manager="kubectl"))
        yield server


def kinds(config: ClusterConfig, kind: str) -> list[Manifest]:
    """The printed objects of a kind."""
    return [manifest for manifest in manifests(config) if manifest["kind"] == kind]


def test_what_is_printed_is_yaml_of_the_same_objects(config: ClusterConfig) -> None:
    assert list(yaml.safe_load_all(render(config))) == manifests(config)


def test_it_can_be_applied_again(server: KubeServer, config: ClusterConfig) -> None:
    for manifest in manifests(config):
        server.store.apply(manifest, options=WriteOptions(manager="kubectl"))


def test_it_can_be_applied_again_after_the_pipeline_wrote_a_token(
    server: KubeServer, config: ClusterConfig
) -> None:
    Cluster(server.url, None, lambda: "refresh_credentials").merge(
        f"/api/v1/namespaces/argocd/secrets/{config.engine.repo_creds_secret}",
        {
            "metadata": {"annotations": {"operator.aicr.run/token-expires-at": "2030-01-01T00:00:00Z"}},
            "data": {"username": "QVdT", "password": "c2VjcmV0"},
        },
    )
    for manifest in manifests(config):
        server.store.apply(manifest, options=WriteOptions(manager="kubectl"))
    kept = server.store.get(SECRETS, config.engine.repo_creds_secret, "argocd")
    assert kept["data"]["password"] == "c2VjcmV0"
    assert kept["metadata"]["annotations"]["operator.aicr.run/token-expires-at"] == "2030-01-01T00:00:00Z"


def test_namespaces_carry_their_levels_and_existing_ones_are_left_alone(
    server: KubeServer, config: ClusterConfig
) -> None:
    printed = {manifest["metadata"]["name"] for manifest in kinds(config, "Namespace")}
    wanted = {component.name for component in config.namespaces.components if component.create}
    assert printed == wanted | {"aicr-system", "aicr-validation"}
    labels = server.store.get(NAMESPACES, "gpu-operator")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_the_project_admits_our_charts_into_component_namespaces(
    server: KubeServer, config: ClusterConfig
) -> None:
    spec = server.store.get(APP_PROJECTS, "aicr", "argocd")["spec"]
    base = "oci://111122223333.dkr.ecr.us-west-2.amazonaws.com/aicr/demo"
    assert spec["sourceRepos"] == [f"{base}/charts/*", f"{base}/wrappers/*"]
    assert spec["clusterResourceWhitelist"] == [{"group": "*", "kind": "*"}]
    assert {found["namespace"] for found in spec["destinations"]} == {
        component.name for component in config.namespaces.components
    }
    assert {found["server"] for found in spec["destinations"]} == {"https://kubernetes.default.svc"}


def test_the_secret_is_there_and_holds_no_credentials(server: KubeServer) -> None:
    secret = server.store.get(SECRETS, "aicr-registry", "argocd")
    assert secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "repo-creds"
    assert "url" in secret["data"]
    assert secret["data"]["type"] == "b2Np"  # oci


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, {"aicr-registry": ("oci", "oci://")}),
        (
            {"engine.helmRepoCreds": True},
            {"aicr-registry": ("oci", "oci://"), "aicr-registry-helm": ("helm", "")},
        ),
        (
            {"engine.helmRepoCreds": True, "engine.helmRepoCredsSecret": "other"},
            {"aicr-registry": ("oci", "oci://"), "other": ("helm", "")},
        ),
        ({"engine.helmRepoCreds": True, "engine.kind": "eks-capability"}, {}),
    ],
    ids=["one", "both", "named", "capability"],
)
def test_the_secrets_their_rights_and_their_policy_name_the_same(
    changes: dict[str, Any], wanted: dict[str, tuple[str, str]]
) -> None:
    made = sample(**changes)
    base = made.registry.repository.removeprefix("oci://")
    printed = {found["metadata"]["name"]: found for found in kinds(made, "Secret")}
    assert set(printed) == set(wanted)
    for name, (kind, scheme) in wanted.items():
        data = decoded(printed[name])
        assert (data.pop("type"), data.pop("url")) == (kind, f"{scheme}{base}")
        assert data == ({"enableOCI": "true"} if kind == "helm" else {})
        assert printed[name]["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "repo-creds"
        assert "annotations" not in printed[name]["metadata"]
    rules = group_rights(made)["refresh_credentials"]
    assert rules.cluster == []
    assert [rule for found in rules.namespaced.values() for rule in found] == (
        [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["patch"], "resourceNames": list(wanted)}]
        if wanted
        else []
    )
    policy = next(
        p for p in kinds(made, "ValidatingAdmissionPolicy") if p["metadata"]["name"].endswith("secrets")
    )
    names = "[" + ", ".join(f"'{name}'" for name in wanted) + "]"
    assert f"object.metadata.name in {names}" in policy["spec"]["validations"][0]["expression"]


def test_both_secrets_are_written_by_name_and_no_third() -> None:
    made = sample(**{"engine.helmRepoCreds": True})
    group = kubernetes_group("refresh_credentials")
    with KubeServer(authenticate=lambda _: Identity("r", (group, "system:authenticated"))) as server:
        argocd_crds.install(server.store)
        server.store.create(NAMESPACES, {"metadata": {"name": "argocd"}})
        for manifest in manifests(made):
            server.store.apply(manifest, options=WriteOptions(manager="kubectl"))
        theirs = {"metadata": {"name": "argocd-secret"}, "data": {"admin.password": "eA=="}}
        server.store.create(SECRETS, theirs, namespace="argocd")
        argocd = ArgoCd(Cluster(server.url, None, lambda: "token"), made.engine)
        for wanted in repo_creds(made):
            written = argocd.write_repo_creds(wanted.name, patch(wanted, "AWS", "p", "2030-01-01T00:00:00Z"))
            assert decoded(written) == {**wanted.data, "username": "AWS", "password": "p"}
            again = argocd.write_repo_creds(wanted.name, {"metadata": {"labels": dict(LABELS)}})
            assert again == written, "looking changes nothing, not even the resource version"
        with pytest.raises(PipelineError, match="Unauthorized"):
            argocd.write_repo_creds("argocd-secret", {"metadata": {"labels": dict(LABELS)}})


def test_static_credentials_are_the_administrators() -> None:
    assert not kinds(load_cluster_config(PRIVATE), "Secret")


def test_validation_brings_cluster_admin_only_when_enabled(server: KubeServer, config: ClusterConfig) -> None:
    binding = server.store.get(CLUSTER_ROLE_BINDINGS, "aicr-validator")
    assert binding["roleRef"]["name"] == "cluster-admin"
    assert [subject["name"] for subject in binding["subjects"]] == ["aicr-validator"]
    assert server.store.get(SERVICE_ACCOUNTS, "aicr-validation", "aicr-validation")
    without = render(load_cluster_config(PRIVATE))
    assert "cluster-admin" not in without
    assert "name: aicr-validator" not in without


def validating(version: str, **more: Any) -> ClusterConfig:
    enabled = {"validation.enabled": True, "aicr.validatorImages": [VALIDATOR_IMAGE]}
    return sample(**enabled, **{"aicr.version": version}, **more)


def admins(config: ClusterConfig) -> set[str]:
    """ServiceAccounts that are cluster-admin."""
    return {
        subject["name"]
        for binding in kinds(config, "ClusterRoleBinding")
        if binding["roleRef"]["name"] == "cluster-admin"
        for subject in binding["subjects"]
    }


def test_each_generation_of_aicr_gets_what_it_needs_and_nothing_else() -> None:
    """1.0.x: the launcher is cluster-admin. From 1.1.0 on its rights are its namespace's."""
    older, newer = validating("v1.0.3"), validating("v1.1.2")
    accounts = {
        version: {found["metadata"]["name"] for found in kinds(config, "ServiceAccount")}
        for version, config in (("older", older), ("newer", newer))
    }
    assert (admins(older), admins(newer)) == ({"aicr-validation"}, {"aicr-validator"})
    assert accounts["newer"] - accounts["older"] == {"aicr-validator"}
    role = "aicr-validation"
    assert role in {found["metadata"]["name"] for found in kinds(newer, "Role")}
    assert role not in {found["metadata"]["name"] for found in kinds(older, "Role")}
    assert "AICR v1.0.3 binds its validators itself, so aicr-validation is cluster-admin" in render(older)
    assert "AICR v1.1.2 runs validators as aicr-validator" in render(newer)


@pytest.mark.parametrize("version", ["v1.0.3", "v1.1.2"])
def test_the_launcher_has_the_annotations_and_nobody_else(version: str) -> None:
    """An IAM role for the launcher is not one for the validators, who run as cluster-admin beside it."""
    irsa = {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/aicr-validation-demo"}
    config = validating(version, **{"validation.serviceAccountAnnotations": irsa})
    annotated = {
        found["metadata"]["name"]: found["metadata"]["annotations"]
        for found in manifests(config)
        if "annotations" in found["metadata"]
    }
    assert annotated == {"aicr-validation": irsa}


def test_a_signing_key_says_what_the_launcher_needs() -> None:
    text = render(validating("v1.1.2", **{"validation.signingKey": "awskms:///alias/k"}))
    assert "# aicr-validation signs with awskms:///alias/k: kms:Sign, kms:GetPublicKey," in text
    assert "signs with" not in render(validating("v1.1.2"))


def test_every_function_that_faces_the_cluster_has_rights_there(config: ClusterConfig) -> None:
    facing = {function.name for function in FUNCTIONS if function.faces_kubernetes}
    assert set(group_rights(config)) == facing


def test_no_group_has_wildcards_or_touches_rbac(config: ClusterConfig) -> None:
    for rights in group_rights(config).values():
        for rule in [*rights.cluster, *(rule for rules in rights.namespaced.values() for rule in rules)]:
            assert "*" not in [*rule["verbs"], *rule.get("resources", []), *rule.get("apiGroups", [])]
            if "rbac.authorization.k8s.io" in rule.get("apiGroups", []):
                # Whether a validation has what it runs with: a look at bindings that are named.
                assert rule["verbs"] == ["get"]
                assert rule["resourceNames"]
            refused = {"escalate", "bind", "impersonate", "delete", "deletecollection"}
            assert not refused & set(rule["verbs"])


def may(server: KubeServer, function: str, verb: str, path: str) -> bool:
    """Whether the function's group is let through to ``path``; what is there does not matter."""
    cluster = Cluster(server.url, None, lambda: function)
    try:
        if verb == "get":
            cluster.get(path)
        elif verb == "list":
            list(cluster.list(path))
        elif verb == "delete":
            status, _ = cluster._call("DELETE", path)
            return status != 403
        elif verb == "patch":
            cluster.merge(path, {"metadata": {"annotations": {"test": "1"}}})
        else:
            cluster.create(path, {"metadata": {"name": "test"}})
    except UnexpectedAnswerError:
        return True  # let through, and then not understood
    except PipelineError as error:
        return "refuses" not in str(error)
    return True


JOBS_IN = "/apis/batch/v1/namespaces/{}/jobs"
SYSTEM, VALIDATION = JOBS_IN.format("aicr-system"), JOBS_IN.format("aicr-validation")
APPS = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications"
PROJECT = "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects/aicr"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/applications.argoproj.io"
NAMESPACE_LIST, NODES = "/api/v1/namespaces", "/api/v1/nodes"
CREDS = "/api/v1/namespaces/argocd/secrets/aicr-registry"
SYSTEM_SECRETS = "/api/v1/namespaces/aicr-system/secrets"

ALLOWED = [
    ("check_prerequisites", "get", CRD),
    ("check_prerequisites", "get", PROJECT),
    ("check_prerequisites", "list", NAMESPACE_LIST),
    ("check_prerequisites", "get", "/version"),
    ("check_prerequisites", "list", "/apis/apps/v1/namespaces/argocd/statefulsets"),
    ("check_prerequisites", "list", "/apis/apps/v1/namespaces/argocd/deployments"),
    ("take_snapshot", "create", SYSTEM),
    ("take_snapshot", "list", NODES),
    ("confirm_criteria", "create", SYSTEM),
    ("render_bundle", "create", SYSTEM),
    ("render_bundle", "create", SYSTEM_SECRETS),
    ("assess_transition", "list", APPS),
    ("assess_transition", "get", PROJECT),
    ("assess_transition", "get", CRD),
    ("check_gate", "get", f"{APPS}/gpu-operator"),
    ("check_gate", "get", PROJECT),
    ("apply_release", "create", APPS),
    ("sweep_waiters", "patch", f"{APPS}/gpu-operator"),
    ("sweep_waiters", "list", APPS),
    ("sweep_waiters", "get", f"{SYSTEM}/a"),
    ("sweep_waiters", "get", f"{VALIDATION}/a"),
    ("sweep_waiters", "list", "/api/v1/namespaces/aicr-system/pods"),
    ("sweep_waiters", "get", "/api/v1/namespaces/aicr-validation/configmaps/a"),
    ("sweep_waiters", "get", "/api/v1/namespaces/aicr-system/pods/a/log"),
    ("sweep_waiters", "get", f"{APPS}/gpu-operator"),
    ("apply_release", "get", f"{APPS}/gpu-operator"),
    ("render_bundle", "get", f"{SYSTEM}/a"),
    ("render_bundle", "patch", f"{SYSTEM_SECRETS}/a"),
    ("refresh_credentials", "patch", CREDS),
    ("validate_deployment", "patch", "/api/v1/namespaces/aicr-validation/secrets/a"),
    ("validate_deployment", "patch", "/api/v1/namespaces/aicr-validation/configmaps/a"),
    ("validate_deployment", "create", VALIDATION),
    ("validate_deployment", "create", "/api/v1/namespaces/aicr-validation/configmaps"),
]
REFUSED = [
    ("check_prerequisites", "list", APPS),
    ("check_prerequisites", "list", "/apis/apps/v1/namespaces/aicr-system/deployments"),
    ("check_prerequisites", "list", "/apis/apps/v1/deployments"),
    ("check_prerequisites", "list", "/api/v1/namespaces/argocd/pods"),
    ("check_prerequisites", "get", CREDS),
    ("take_snapshot", "create", VALIDATION),
    ("take_snapshot", "get", f"{SYSTEM_SECRETS}/a"),
    ("take_snapshot", "create", NAMESPACE_LIST),
    ("render_bundle", "list", SYSTEM_SECRETS),
    ("render_bundle", "get", CREDS),
    ("assess_transition", "create", APPS),
    ("check_gate", "patch", f"{APPS}/gpu-operator"),
    ("apply_release", "delete", f"{APPS}/gpu-operator"),
    ("apply_release", "list", APPS),
    ("apply_release", "create", "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects"),
    ("sweep_waiters", "create", SYSTEM),
    ("sweep_waiters", "create", APPS),
    ("sweep_waiters", "get", f"{SYSTEM_SECRETS}/a"),
    ("refresh_credentials", "get", "/api/v1/namespaces/argocd/secrets/argocd-secret"),
    ("refresh_credentials", "create", "/api/v1/namespaces/argocd/secrets"),
    ("refresh_credentials", "delete", CREDS),
    ("validate_deployment", "create", SYSTEM),
    ("nobody", "list", NODES),
    # What no action does.
    ("check_prerequisites", "list", NODES),
    ("check_prerequisites", "get", f"{NAMESPACE_LIST}/argocd"),
    ("confirm_criteria", "list", NODES),
    ("assess_transition", "get", f"{APPS}/gpu-operator"),
    ("check_gate", "list", APPS),
    ("sweep_waiters", "delete", f"{APPS}/gpu-operator"),
    ("sweep_waiters", "list", SYSTEM),
    ("sweep_waiters", "get", "/api/v1/namespaces/aicr-system/pods/a"),
    ("take_snapshot", "delete", f"{SYSTEM}/a"),
    ("confirm_criteria", "delete", f"{SYSTEM}/a"),
    ("render_bundle", "delete", f"{SYSTEM}/a"),
    ("render_bundle", "get", f"{SYSTEM_SECRETS}/a"),
    ("render_bundle", "delete", f"{SYSTEM_SECRETS}/a"),
    ("validate_deployment", "delete", f"{VALIDATION}/a"),
    ("validate_deployment", "get", "/api/v1/namespaces/aicr-validation/secrets/a"),
    ("validate_deployment", "get", "/api/v1/namespaces/aicr-validation/configmaps/a"),
    ("validate_deployment", "delete", "/api/v1/namespaces/aicr-validation/configmaps/a"),
    ("refresh_credentials", "get", CREDS),
]


@pytest.mark.parametrize(("function", "verb", "path"), ALLOWED)
def test_allowed(server: KubeServer, function: str, verb: str, path: str) -> None:
    assert may(server, function, verb, path)


@pytest.mark.parametrize(("function", "verb", "path"), REFUSED)
def test_refused(server: KubeServer, function: str, verb: str, path: str) -> None:
    assert not may(server, function, verb, path)


# Notifications


def test_argo_cd_is_told_to_notify_only_where_that_is_wanted() -> None:
    def maps(**changes: object) -> list[Manifest]:
        return [found for found in manifests(sample(**changes)) if found["kind"] == "ConfigMap"]

    assert maps() == []
    (found,) = maps(**{"engine.notifications": True})
    assert found["metadata"] == {"name": "argocd-notifications-cm", "namespace": "argocd"}
    texts = {key: yaml.safe_load(text) for key, text in found["data"].items()}
    service = texts["service.webhook.aicr-pipeline"]
    # Address and secret stand in Argo CD's own Secret.
    assert service["url"] == "$aicr-webhook-url"
    assert service["headers"] == [{"name": "X-Aicr-Webhook-Secret", "value": "$aicr-webhook-secret"}]
    assert texts["template.aicr-pipeline"]["webhook"]["aicr-pipeline"]["method"] == "POST"
    assert {rule["oncePer"] for rule in texts["trigger.aicr-pipeline"]} == {
        "app.status.operationState.finishedAt"
    }
    (subscription,) = texts["subscriptions"]
    assert subscription["selector"] == "app.kubernetes.io/managed-by=aicr-pipeline"
