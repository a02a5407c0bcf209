"""Before anything is done: could what was asked for be validated at its end?"""

from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.decide.aicr_job import VALIDATION_NAMESPACE
from aicr_pipeline.decide.validation_access import WANTED, WantedBinding, check_access, check_configured
from aicr_pipeline.model.aicr_generation import generation
from aicr_pipeline.model.config import ClusterConfig

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_NAMESPACED = f"namespaces/{VALIDATION_NAMESPACE}"


def check_validation(mode: str, config: ClusterConfig, aicr_version: str, cluster: Cluster) -> None:
    """Refuse what could not be validated, by the configuration and by what the cluster has.

    Each object is read by its name, so that the right to list them is not needed.

    Raises
    ------
    PipelineError
        ``ValidationUnavailable``, when ``mode`` is ``Required``.
    """
    check_configured(mode, config, aicr_version)
    if mode != "Required":
        return
    wanted = WANTED[generation(aicr_version)]
    accounts = {
        name: cluster.get(f"/api/v1/{_NAMESPACED}/serviceaccounts/{name}") for name in wanted.accounts
    }
    bindings = {binding: cluster.get(_path(binding)) for binding in wanted.bindings}
    check_access(config, aicr_version, accounts, bindings)


def _path(binding: WantedBinding) -> str:
    if binding.kind == "RoleBinding":
        return f"{_RBAC}/{_NAMESPACED}/rolebindings/{binding.name}"
    return f"{_RBAC}/clusterrolebindings/{binding.name}"
