"""State "Check prerequisites": nothing else runs before all of this holds."""

from typing import Any

from aicr_pipeline.actions.check_validation import check_validation
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.ledger import Inbox
from aicr_pipeline.adapters.registry_auth import Credentials
from aicr_pipeline.adapters.runtimes import pinned, read_runtime
from aicr_pipeline.decide import versions
from aicr_pipeline.decide.aicr_command import bundle_arguments, wish_of
from aicr_pipeline.decide.aicr_job import SYSTEM_NAMESPACE, VALIDATION_NAMESPACE
from aicr_pipeline.decide.validation_access import check_configured
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.step import StepEvent


def check_prerequisites(
    step: StepEvent,
    config: ClusterConfig,
    inbox: Inbox,
    cluster: Cluster,
    argocd: ArgoCd,
    credentials: Credentials,
) -> dict[str, Any]:
    """Check the wish, the pins, the cluster and the registry's credentials, cheapest first.

    Returns
    -------
    dict
        ``kubernetes``, ``argocd`` and ``aicr``: the versions found and pinned. Argo CD's may be
        ``unknown``, with why.

    Raises
    ------
    PipelineError
        With the reason of the first thing that is missing.
    """
    runtime = read_runtime(inbox, str(step.input["runtimeVersion"]))
    aicr = pinned(runtime, config.aicr)
    versions.check_aicr_supported(aicr.version, aicr)
    if aicr.repository != config.aicr.repository:
        # Admission lets no other image run; said here, before anything does.
        raise PipelineError(
            Reason.InvalidRuntime,
            f"spec.aicr.image is of {aicr.repository}, but this pipeline runs images of "
            f"{config.aicr.repository} only. Correct it, or change aicr.image in the configuration and apply "
            "the manifests.",
        )
    mode = runtime.spec.validation.deployment
    check_configured(mode, config, aicr.version)
    # Refuses what AICR has no flag for: before a Job on an accelerated node is started for nothing.
    bundle_arguments(wish_of(runtime), "recipe.yaml", "bundle")
    kubernetes = _kubernetes_version(cluster)
    engine = _engine(config, argocd)
    _namespaces(config, cluster)
    check_validation(mode, config, aicr.version, cluster)
    credentials.get()
    return {"kubernetes": kubernetes, "argocd": engine, "aicr": aicr.version}


def _kubernetes_version(cluster: Cluster) -> str:
    found = str((cluster.get("/version") or {}).get("gitVersion", ""))
    numbers = versions.numbers(found)
    if numbers is None or numbers[:2] < versions.KUBERNETES_FLOOR:
        raise PipelineError(
            Reason.KubernetesUnsupported,
            f"The cluster runs Kubernetes {found or '(unknown)'}; 1.34 or later is needed. "
            "Upgrade the control plane.",
        )
    return found


def _engine(config: ClusterConfig, argocd: ArgoCd) -> str:
    if not argocd.is_installed():
        raise PipelineError(
            Reason.EngineMissing,
            "The cluster has no Argo CD: the Application CRD is missing. Install Argo CD "
            f"in {config.engine.namespace}.",
        )
    if argocd.project() is None:
        raise PipelineError(
            Reason.ProjectMissing,
            f"AppProject {config.engine.project} is missing in {config.engine.namespace}. "
            "Apply the cluster manifests.",
        )
    return _engine_version(config, argocd)


def _engine_version(config: ClusterConfig, argocd: ArgoCd) -> str:
    """The controller's version, checked; where nothing says it, that is said and nothing refused."""
    if config.engine.kind == "eks-capability":
        return "unknown: AWS runs it"
    controllers = list(argocd.controllers())
    if not controllers:
        return f"unknown: no application controller in {config.engine.namespace} has its usual label"
    found = [version for controller in controllers if (version := versions.argocd_version(controller))]
    for version in found:
        versions.check_argocd(version)
    return found[0] if found else "unknown: neither the controller's image nor its label says it"


def _namespaces(config: ClusterConfig, cluster: Cluster) -> None:
    needed = {component.name for component in config.namespaces.components} | {SYSTEM_NAMESPACE}
    if config.validation.enabled:
        needed.add(VALIDATION_NAMESPACE)
    present = {item["metadata"]["name"] for item in cluster.list("/api/v1/namespaces")}
    missing = sorted(needed - present)
    if missing:
        raise PipelineError(
            Reason.NamespaceMissing,
            f"Namespaces are missing: {', '.join(missing)}. Apply the cluster manifests; "
            "the pipeline creates none.",
        )
