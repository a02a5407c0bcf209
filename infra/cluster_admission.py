"""ValidatingAdmissionPolicies for the pipeline's groups.

Whoever may write Applications is otherwise as good as cluster-admin: RBAC restricts neither
``spec.project`` nor ``operation.sync.manifests``. And whoever may create Jobs runs any image as any
ServiceAccount of the namespace. These policies hold for our groups only, and fail closed.
"""

from collections.abc import Iterable
from typing import Any

from aicr_pipeline.decide.aicr_job import SYSTEM_NAMESPACE, VALIDATION_NAMESPACE
from aicr_pipeline.decide.application import MANAGED_BY, MANAGED_BY_LABEL
from aicr_pipeline.decide.credentials import SECRET_TYPE, repo_creds
from aicr_pipeline.model.config import ClusterConfig

from infra.cluster_rbac import LABELS, Manifest
from infra.names import kubernetes_group

_OURS = (
    "has(request.userInfo.groups) && "
    "request.userInfo.groups.exists(group, group.startsWith('aicr-pipeline:'))"
)
_ADMISSION = "admissionregistration.k8s.io"


def admission_policies(config: ClusterConfig) -> Iterable[Manifest]:
    """Each policy with its binding."""
    yield from _policy(
        "aicr-pipeline-applications",
        {"apiGroups": ["argoproj.io"], "apiVersions": ["*"], "resources": ["applications"]},
        ["CREATE", "UPDATE"],
        _applications(config),
    )
    yield from _policy(
        "aicr-pipeline-jobs",
        {"apiGroups": ["batch"], "apiVersions": ["*"], "resources": ["jobs"]},
        ["CREATE", "UPDATE"],
        _jobs(config),
    )
    yield from _policy(
        "aicr-pipeline-secrets",
        {"apiGroups": [""], "apiVersions": ["*"], "resources": ["secrets"]},
        ["CREATE", "UPDATE"],
        _secrets(config),
    )
    yield from _policy(
        "aicr-pipeline-configmaps",
        {"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]},
        ["CREATE", "UPDATE"],
        _config_maps(),
    )


def _config_maps() -> list[dict[str, str]]:
    return [
        # AICR makes the ConfigMap of its result itself where a function died before it did: without an owner.
        _check(
            f"{_of_jobs('object')} && (request.operation == 'CREATE' || {_of_jobs('oldObject')} || "
            f"{_labelled('oldObject', 'app.kubernetes.io/name', 'aicr')})",
            "the pipeline writes ConfigMaps of its Jobs only, which go with them",
        )
    ]


def _applications(config: ClusterConfig) -> list[dict[str, str]]:
    engine = config.engine
    prefix = f"{config.registry.repository}/"
    namespaces = [component.name for component in config.namespaces.components]
    source, target = "object.spec.source", "object.spec.destination"
    operation = "!has(object.operation) || !has(object.operation.sync) || "
    return [
        _check(
            f"object.spec.project == {_text(engine.project)}",
            f"Applications of the pipeline belong to project {engine.project}",
        ),
        _check(
            f"has(object.spec.source) && !has(object.spec.sources) && "
            f"({source}.repoURL.startsWith({_text(prefix + 'charts/')}) || "
            f"{source}.repoURL.startsWith({_text(prefix + 'wrappers/')}))",
            f"the one source is under {prefix}charts/ or {prefix}wrappers/",
        ),
        _check(
            f"has({source}.targetRevision) && {source}.targetRevision.matches('^sha256:[0-9a-f]{{64}}$')",
            "the source is pinned by digest",
        ),
        _check(
            f"has({target}.server) && {target}.server == {_text(engine.destination)}"
            f" && has({target}.namespace) && {target}.namespace in {_texts(namespaces)}",
            "the destination is a component namespace of this cluster",
        ),
        _check(
            operation + "(!has(object.operation.sync.manifests) && !has(object.operation.sync.source) && "
            "!has(object.operation.sync.sources))",
            "a sync takes its manifests from the source only",
        ),
        _check(
            operation + "!has(object.operation.sync.revision) || "
            f"object.operation.sync.revision == {source}.targetRevision",
            "a sync is at the digest of the source",
        ),
        _check(
            f"request.operation == 'CREATE' ? {_labelled('object')} : "
            f"({_labelled('object')} && {_labelled('oldObject')})",
            "the pipeline never adopts an Application that it did not create",
        ),
        _check(
            f"!({_in_group('sweep_waiters')}) || (request.operation == 'UPDATE' && "
            + " && ".join(f"object.spec.{field} == oldObject.spec.{field}" for field in _SETTLED)
            + " && (!has(object.operation) || "
            "(has(oldObject.operation) && object.operation == oldObject.operation)))",
            "the sweep asks for no sync and changes no source",
        ),
        # Removing the pipeline never removes the stack.
        _check(
            "!has(object.metadata.ownerReferences) && (!has(object.metadata.finalizers) || "
            "!object.metadata.finalizers.exists(name, name.startsWith('resources-finalizer.')))",
            "no owner and no cascade finalizer",
        ),
    ]


def _jobs(config: ClusterConfig) -> list[dict[str, str]]:
    pod = "object.spec.template.spec"
    # A runtime may pin another digest of AICR, but not another image.
    repository = config.aicr.image.partition("@")[0]
    image = f"container.image.matches({_text('^' + _escaped(repository) + '@sha256:[0-9a-f]{64}$')})"
    snapshot = f"({_in_group('take_snapshot')} || {_in_group('confirm_criteria')})"
    return [
        _check(
            f"{pod}.containers.all(container, {image}) && (!has({pod}.initContainers) || "
            f"{pod}.initContainers.all(container, {image})) && !has({pod}.ephemeralContainers)",
            f"Jobs of the pipeline run {repository} by digest",
        ),
        _check(
            f"has({pod}.serviceAccountName) && ("
            f"{_runs_as(snapshot, SYSTEM_NAMESPACE, 'aicr-snapshot')} || "
            f"{_runs_as(_in_group('render_bundle'), SYSTEM_NAMESPACE, 'aicr-render')} || "
            f"{_runs_as(_in_group('validate_deployment'), VALIDATION_NAMESPACE, 'aicr-validation')})",
            "each function's Jobs run as its own ServiceAccount, in its own namespace",
        ),
        # The snapshot reads hardware and systemd; nothing else needs the host.
        _check(
            f"{snapshot} || (!has({pod}.hostPID) && !has({pod}.hostIPC) && !has({pod}.hostNetwork) && "
            f"(!has({pod}.volumes) || {pod}.volumes.all(volume, !has(volume.hostPath))) && "
            f"{pod}.containers.all(container, {_UNPRIVILEGED}) && (!has({pod}.initContainers) || "
            f"{pod}.initContainers.all(container, {_UNPRIVILEGED})))",
            "only the snapshot may use the host",
        ),
        _check(
            f"!has({pod}.volumes) || {pod}.volumes.all(volume, !has(volume.hostPath) || "
            "volume.hostPath.path in ['/run/systemd', '/etc/os-release'])",
            "of the host, the snapshot sees systemd and the release only",
        ),
    ]


def _secrets(config: ClusterConfig) -> list[dict[str, str]]:
    engine = config.engine
    docker = "object.type == 'kubernetes.io/dockerconfigjson'"
    owned = f"{_of_jobs('object')} && (request.operation == 'CREATE' || {_of_jobs('oldObject')})"
    names = [wanted.name for wanted in repo_creds(config)]
    creds = (
        f"object.metadata.namespace == {_text(engine.namespace)} && object.metadata.name in {_texts(names)}"
    )
    label = SECRET_TYPE
    return [
        _check(
            f"({creds}) || (has(object.type) && {docker} && {owned})",
            "the pipeline writes registry credentials of its Jobs, and Argo CD's",
        ),
        # Another type (`cluster`) would make it a cluster that Argo CD deploys to.
        _check(
            f"!({creds}) || (has(object.metadata.labels) && {_text(label)} in object.metadata.labels && "
            f"object.metadata.labels[{_text(label)}] == 'repo-creds')",
            "Argo CD's Secrets stay ones of repository credentials",
        ),
    ]


def _of_jobs(which: str) -> str:
    owners = f"{which}.metadata.ownerReferences"
    return f"(has({owners}) && size({owners}) > 0 && {owners}.all(owner, owner.kind == 'Job'))"


_UNPRIVILEGED = (
    "!has(container.securityContext) || !has(container.securityContext.privileged) || "
    "container.securityContext.privileged == false"
)


_SETTLED = ("project", "source", "destination")


def _labelled(which: str, label: str = MANAGED_BY_LABEL, value: str = MANAGED_BY) -> str:
    key, labels = _text(label), f"{which}.metadata.labels"
    return f"(has({labels}) && {key} in {labels} && {labels}[{key}] == {_text(value)})"


def _runs_as(who: str, namespace: str, account: str) -> str:
    pod = "object.spec.template.spec"
    return (
        f"({who} && object.metadata.namespace == {_text(namespace)} && "
        f"{pod}.serviceAccountName == {_text(account)})"
    )


def _in_group(function: str) -> str:
    return f"{_text(kubernetes_group(function))} in request.userInfo.groups"


def _check(expression: str, message: str) -> dict[str, str]:
    return {"expression": expression, "message": message}


def _text(value: str) -> str:
    """A CEL string. What the configuration lets through holds no quote; the rest is escaped."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _texts(values: list[str]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"


def _escaped(literal: str) -> str:
    """For RE2: image names hold dots and dashes, and only the dot means something."""
    return literal.replace(".", "[.]")


def _policy(
    name: str, resource: dict[str, Any], operations: list[str], checks: list[dict[str, str]]
) -> Iterable[Manifest]:
    yield {
        "apiVersion": f"{_ADMISSION}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": dict(LABELS)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{**resource, "operations": operations}]},
            "matchConditions": [{"name": "the-pipeline", "expression": _OURS}],
            "validations": [{**check, "reason": "Forbidden"} for check in checks],
        },
    }
    yield {
        "apiVersion": f"{_ADMISSION}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": dict(LABELS)},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
