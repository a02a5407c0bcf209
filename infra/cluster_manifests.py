"""The cluster's side of one pipeline, for ``kubectl apply --server-side -f -``.

``python -m infra.cluster_manifests demo`` prints it: namespaces with their Pod Security levels, the
ServiceAccounts of AICR's Jobs, RBAC for each function's group, Argo CD's project, the empty credentials
Secrets and admission policies.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import yaml
from aicr_pipeline.decide.aicr_job import SYSTEM_NAMESPACE, VALIDATION_NAMESPACE
from aicr_pipeline.decide.application import MANAGED_BY, MANAGED_BY_LABEL
from aicr_pipeline.decide.credentials import LABELS as SECRET_LABELS
from aicr_pipeline.decide.credentials import encoded, repo_creds
from aicr_pipeline.decide.validation_access import LAUNCHER, VALIDATOR
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.aicr_generation import Generation, generation
from aicr_pipeline.model.config import ClusterConfig, load_cluster_config

from infra.cluster_admission import admission_policies
from infra.cluster_rbac import LABELS, Manifest, function_rbac, job_accounts
from infra.functions import FUNCTIONS
from infra.names import function_name, kubernetes_group, partition_of
from infra.sources import ROOT


def manifests(config: ClusterConfig) -> list[Manifest]:
    """All objects, in the order in which they can be applied."""
    return [
        *_namespaces(config),
        *job_accounts(config),
        *function_rbac(config),
        _project(config),
        *_credentials(config),
        *_notifications(config),
        *admission_policies(config),
    ]


def render(config: ClusterConfig) -> str:
    """The objects as YAML documents, under a comment that says what they are and what else is to be done."""
    documents = [yaml.safe_dump(manifest, sort_keys=False, width=110) for manifest in manifests(config)]
    return "\n".join(_head(config)) + "\n---\n" + "---\n".join(documents)


def _head(config: ClusterConfig) -> Iterable[str]:
    cluster = config.cluster
    yield f"# Cluster side of aicr-pipeline-{cluster.name}: kubectl apply --server-side -f -"
    yield f"# {SYSTEM_NAMESPACE} is privileged because AICR's snapshot reads the host's hardware and systemd;"
    yield "# an admission policy keeps every other Job of the pipeline from using the host."
    if config.validation.enabled:
        version = config.aicr.version
        who = (
            f"AICR {version} runs validators as {VALIDATOR}"
            if generation(version) is Generation.NAMED_ACCOUNT
            else f"AICR {version} binds its validators itself, so {LAUNCHER} is cluster-admin"
        )
        yield f"# Validation is cluster-admin-equivalent: {who}."
        if config.validation.signing_key is not None:
            yield f"# {LAUNCHER} signs with {config.validation.signing_key}: kms:Sign, kms:GetPublicKey,"
            yield "# kms:DescribeKey, by IRSA (validation.serviceAccountAnnotations) or Pod Identity."
    yield "#"
    yield "# The stack maps its functions' roles to groups when the cluster is in its own account and region."
    yield "# Otherwise run, in the cluster's account (PIPELINE_ACCOUNT is the stack's):"
    for function in FUNCTIONS:
        if function.faces_kubernetes:
            role = f"arn:{partition_of(cluster.region)}:iam::${{PIPELINE_ACCOUNT}}:role/"
            role += function_name(cluster.name, function.name)
            group = kubernetes_group(function.name)
            yield (
                f"#   aws eks create-access-entry --region {cluster.region} --cluster-name {cluster.known_as}"
                f" --principal-arn {role} --type STANDARD --kubernetes-groups {group}"
            )


def _namespaces(config: ClusterConfig) -> Iterable[Manifest]:
    # Namespaces that exist already keep the labels they have.
    for component in config.namespaces.components:
        if component.create:
            yield _namespace(component.name, component.pod_security)
    yield _namespace(SYSTEM_NAMESPACE, "privileged")
    # Validators may ask for GPUs and the host; their pods are AICR's, created by its launcher.
    yield _namespace(VALIDATION_NAMESPACE, "privileged")


def _namespace(name: str, level: str) -> Manifest:
    security = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**LABELS, **security}},
    }


def _project(config: ClusterConfig) -> Manifest:
    engine = config.engine
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": engine.project, "namespace": engine.namespace, "labels": dict(LABELS)},
        "spec": {
            "description": "The GPU stack that AICR prescribes, rolled out by aicr-pipeline",
            "sourceRepos": [f"{config.registry.repository}/{folder}/*" for folder in ("charts", "wrappers")],
            "destinations": [
                {"server": engine.destination, "namespace": component.name}
                for component in config.namespaces.components
            ],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    }


def _credentials(config: ClusterConfig) -> Iterable[Manifest]:
    """Empty: the pipeline may fill them, but create no Secret in Argo CD's namespace.

    Without the annotation that says when the token expires: the pipeline writes it, and applying these
    manifests again would then conflict.
    """
    for wanted in repo_creds(config):
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {
                "name": wanted.name,
                "namespace": config.engine.namespace,
                "labels": {**LABELS, **SECRET_LABELS},
            },
            # Not stringData: server-side apply would keep it apart from what the pipeline writes into data.
            "data": encoded(wanted.data),
        }


def _notifications(config: ClusterConfig) -> Iterable[Manifest]:
    """What Argo CD's notifications controller sends, and when: address and secret stand in its own Secret.

    Each condition holds once a release is ready, or has failed; whole seconds of one format compare as text.
    """
    if not config.engine.notifications:
        return
    name, state = "aicr-pipeline", "app.status.operationState"
    ready = (
        f"{state} != nil and {state}.phase == 'Succeeded' and app.status.sync.status == 'Synced' "
        f"and app.status.health.status == 'Healthy' and app.status.reconciledAt >= {state}.finishedAt"
    )
    failed = f"{state} != nil and {state}.phase in ['Failed', 'Error']"
    conditions = [
        {"when": condition, "oncePer": f"{state}.finishedAt", "send": [name]} for condition in (ready, failed)
    ]
    service = {
        "url": "$aicr-webhook-url",
        "headers": [{"name": "X-Aicr-Webhook-Secret", "value": "$aicr-webhook-secret"}],
    }
    body = '{"application": "{{.app.metadata.name}}"}'
    subscription = {
        "recipients": [name],
        "triggers": [name],
        "selector": f"{MANAGED_BY_LABEL}={MANAGED_BY}",
    }
    texts = {
        f"service.webhook.{name}": service,
        f"template.{name}": {"webhook": {name: {"method": "POST", "body": body}}},
        f"trigger.{name}": conditions,
        "subscriptions": [subscription],
    }
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "argocd-notifications-cm",
            "namespace": config.engine.namespace,
        },
        "data": {key: yaml.safe_dump(value, sort_keys=False, width=200) for key, value in texts.items()},
    }


def main(name: str) -> int:
    """Print the manifests of ``clusters/<name>.yaml``; returns the exit status."""
    file = ROOT / "clusters" / f"{Path(name).stem}.yaml"
    if not file.is_file():
        print(f"There is no {file.relative_to(ROOT)}; CLUSTER is a name of clusters/.", file=sys.stderr)
        return 2
    try:
        config = load_cluster_config(file)
    except PipelineError as error:
        print(error, file=sys.stderr)
        return 1
    if config.cluster.name != file.stem:
        print(
            f"{file.relative_to(ROOT)}: cluster.name is {config.cluster.name!r}; it must be the file's name, "
            "or one cluster's stack would be taken for another's.",
            file=sys.stderr,
        )
        return 1
    print(render(config))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
