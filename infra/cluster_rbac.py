"""Kubernetes rights: of each function's group, and of the ServiceAccounts that AICR's Jobs run as.

The pipeline may create neither namespaces nor RBAC: an administrator applies these.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aicr_pipeline.decide.aicr_job import SYSTEM_NAMESPACE, VALIDATION_NAMESPACE
from aicr_pipeline.decide.credentials import repo_creds
from aicr_pipeline.decide.validation_access import LAUNCHER, VALIDATOR
from aicr_pipeline.model.aicr_generation import Generation, generation
from aicr_pipeline.model.config import ClusterConfig

from infra.names import kubernetes_group

Manifest = dict[str, Any]
Rule = dict[str, Any]

LABELS = {"app.kubernetes.io/managed-by": "aicr-pipeline", "app.kubernetes.io/part-of": "aicr-pipeline"}
RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class GroupRights:
    """What one function's group may do: in namespaces, and cluster-wide."""

    namespaced: dict[str, list[Rule]] = field(default_factory=dict)
    cluster: list[Rule] = field(default_factory=list)


def group_rights(config: ClusterConfig) -> dict[str, GroupRights]:
    """By function, for every function that faces Kubernetes."""
    argocd = config.engine.namespace
    application = rule("argoproj.io", "applications", "get")
    applications = rule("argoproj.io", "applications", "list")
    project = rule("argoproj.io", "appprojects", "get", names=[config.engine.project])
    definitions, name = "customresourcedefinitions", "applications.argoproj.io"
    argocd_installed = rule("apiextensions.k8s.io", definitions, "get", names=[name])
    # Nothing is deleted: a Job ends by its own TTL, and what it owns goes with it.
    jobs = rule("batch", "jobs", "get", "create")
    secrets, config_maps = rule("", "secrets", "create", "patch"), rule("", "configmaps", "create", "patch")
    # Whether what a validation runs with is there: of either generation, since a runtime may pin another.
    validated = (
        [
            rule("", "serviceaccounts", "get", names=[LAUNCHER, VALIDATOR]),
            rule(RBAC, "rolebindings", "get", names=[LAUNCHER]),
        ],
        [rule(RBAC, "clusterrolebindings", "get", names=[LAUNCHER, VALIDATOR])],
    )
    looks, bindings = validated if config.validation.enabled else ([], [])
    # Watched and read, in both namespaces where Jobs run.
    results = [
        rule("batch", "jobs", "get"),
        rule("", "pods", "list"),
        rule("", "pods/log", "get"),
        rule("", "configmaps", "get"),
        # Why a Job has no pod, or a pod no container, stands in events only.
        rule("", "events", "list"),
    ]
    # Which version runs: of the controller's kind, since RBAC cannot name what has a label.
    controllers = (
        [rule("apps", kind, "list") for kind in ("statefulsets", "deployments")]
        if config.engine.kind == "self-managed"
        else []
    )
    return {
        "check_prerequisites": GroupRights(
            {argocd: [project, *controllers], **({VALIDATION_NAMESPACE: looks} if looks else {})},
            [
                argocd_installed,
                *bindings,
                rule("", "namespaces", "list"),
                {"nonResourceURLs": ["/version"], "verbs": ["get"]},
            ],
        ),
        "take_snapshot": GroupRights({SYSTEM_NAMESPACE: [jobs, config_maps]}, [rule("", "nodes", "list")]),
        "confirm_criteria": GroupRights({SYSTEM_NAMESPACE: [jobs, config_maps]}),
        "render_bundle": GroupRights({SYSTEM_NAMESPACE: [jobs, secrets]}),
        "assess_transition": GroupRights(
            {argocd: [applications, project], **({VALIDATION_NAMESPACE: looks} if looks else {})},
            [argocd_installed, *bindings],
        ),
        "check_gate": GroupRights({argocd: [application, project, *controllers]}, [argocd_installed]),
        # Reads only. Which validation run is on stands in its Job's name.
        "update_status": GroupRights(
            {
                argocd: [applications, project, *controllers],
                VALIDATION_NAMESPACE: [rule("batch", "jobs", "list")],
            },
            [argocd_installed],
        ),
        # Update, because a merge patch would keep values that a new plan dropped.
        "apply_release": GroupRights(
            {argocd: [rule("argoproj.io", "applications", "get", "create", "update")]}
        ),
        # Patch gives self-heal back, asks for a refresh, and takes back what was not begun.
        "sweep_waiters": GroupRights(
            {
                # Of the project whether a sync window that holds a step is over.
                argocd: [rule("argoproj.io", "applications", "get", "list", "patch"), project],
                SYSTEM_NAMESPACE: results,
                # Pods that AICR 1.0.x removes as soon as their check ended are seen by a watch.
                VALIDATION_NAMESPACE: [*results, rule("", "pods", "watch")] if looks else results,
            }
        ),
        # Without get: a patch is answered with the whole Secret, which is what is tried at the registry.
        "refresh_credentials": GroupRights(
            {argocd: [rule("", "secrets", "patch", names=names)]}
            if (names := [wanted.name for wanted in repo_creds(config)])
            else {}
        ),
        "validate_deployment": GroupRights({VALIDATION_NAMESPACE: [jobs, secrets, config_maps]}),
    }


def function_rbac(config: ClusterConfig) -> Iterable[Manifest]:
    """Roles and bindings of all groups."""
    for function, rights in group_rights(config).items():
        subject = {"kind": "Group", "apiGroup": RBAC, "name": kubernetes_group(function)}
        name = f"aicr-pipeline-{function.replace('_', '-')}"
        if rights.cluster:
            yield from bound("ClusterRole", name, rights.cluster, subject)
        for namespace, rules in rights.namespaced.items():
            yield from bound("Role", name, rules, subject, namespace)


def job_accounts(config: ClusterConfig) -> Iterable[Manifest]:
    """ServiceAccounts of AICR's Jobs, with the rights that AICR's own installer gives them."""
    yield service_account(SYSTEM_NAMESPACE, "aicr-snapshot")
    account = _account(SYSTEM_NAMESPACE, "aicr-snapshot")
    result = [rule("", "configmaps", "create", "get", "update", "patch"), rule("", "pods", "get", "list")]
    yield from bound("Role", "aicr-snapshot", result, account, SYSTEM_NAMESPACE)
    reading = [
        rule("", "nodes", "get", "list"),
        rule("", "pods", "get", "list"),
        rule("nvidia.com", "clusterpolicies", "get", "list"),
        {
            "apiGroups": ["slinky.slurm.net"],
            "resources": ["controllers", "nodesets", "loginsets", "restapis", "accountings"],
            "verbs": ["list"],
        },
        rule("k8s.mariadb.com", "mariadbs", "list"),
    ]
    yield from bound("ClusterRole", "aicr-snapshot", reading, account)
    # Renders from files; it asks the cluster nothing.
    yield service_account(SYSTEM_NAMESPACE, "aicr-render") | {"automountServiceAccountToken": False}
    if config.validation.enabled:
        yield from _validation(config)


def _validation(config: ClusterConfig) -> Iterable[Manifest]:
    """What the configured generation of AICR needs, and nothing of the other one's.

    1.0.x: a launcher that is cluster-admin, since it binds an account of each run. From 1.1.0 on: a launcher
    with namespaced rights, and one account that its validators run as.
    """
    launcher = service_account(VALIDATION_NAMESPACE, LAUNCHER)
    if annotations := config.validation.service_account_annotations:
        launcher["metadata"]["annotations"] = dict(annotations)
    yield launcher
    if generation(config.aicr.version) is Generation.OWN_BINDING:
        yield _cluster_admin(LAUNCHER)
        return
    rules = [
        rule("batch", "jobs", "get", "list", "watch", "create", "patch", "delete"),
        rule("", "configmaps", "get", "list", "watch", "create", "update", "patch", "delete"),
        rule("", "pods", "get", "list", "watch"),
        rule("", "pods/log", "get"),
        rule("", "serviceaccounts", "get"),
    ]
    account = _account(VALIDATION_NAMESPACE, LAUNCHER)
    yield from bound("Role", LAUNCHER, rules, account, VALIDATION_NAMESPACE)
    yield service_account(VALIDATION_NAMESPACE, VALIDATOR)
    yield _cluster_admin(VALIDATOR)


def _cluster_admin(account: str) -> Manifest:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": account, "labels": dict(LABELS)},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [_account(VALIDATION_NAMESPACE, account)],
    }


def rule(group: str, resource: str, *verbs: str, names: list[str] | None = None) -> Rule:
    """One RBAC rule; ``names`` narrows it to named objects."""
    narrowed = {"resourceNames": names} if names else {}
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **narrowed}


def bound(
    kind: str, name: str, rules: list[Rule], subject: dict[str, str], namespace: str | None = None
) -> Iterable[Manifest]:
    """A role of ``kind`` (``Role`` or ``ClusterRole``) and its binding to ``subject``."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": dict(LABELS)}
    yield {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}
    yield {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [subject],
    }


def service_account(namespace: str, name: str) -> Manifest:
    """A ServiceAccount without anything else."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(LABELS)},
    }


def _account(namespace: str, name: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
