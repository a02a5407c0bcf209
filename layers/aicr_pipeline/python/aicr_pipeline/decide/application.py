"""The Argo CD Application of a release, and the one operation that syncs it.

Native OCI sources pinned by digest (a digest does not work with ``chart:``). Facts about Argo CD's
fields are in ``docs/argocd.md``.
"""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.decide.canonical import equal
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.plan import PlannedRelease

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "aicr-pipeline"
PLAN_ANNOTATION = "aicr-pipeline.dev/plan"
REQUEST_ID = "aicr-pipeline-request-id"
SYNC_OPTIONS = ("ServerSideApply=true",)
#: Restored once a release is ready, so that Argo CD repairs drift; absent while a step runs, since
#: the controller would race with our operation.
AUTOMATED = {"prune": True, "selfHeal": True}


def application_spec(release: PlannedRelease, config: ClusterConfig) -> dict[str, Any]:
    """``spec`` of the Application while its step runs: no ``automated``."""
    source: dict[str, Any] = {
        "repoURL": f"{config.registry.repository}/{release.repository}",
        "path": ".",
        "targetRevision": release.chart.manifest_digest,
    }
    if release.values is not None:
        source["helm"] = {"valuesObject": release.values}
    return {
        "project": config.engine.project,
        "source": source,
        "destination": {"server": config.engine.destination, "namespace": release.namespace},
        "syncPolicy": {"syncOptions": list(SYNC_OPTIONS)},
    }


def operation(release: PlannedRelease, request_id: str) -> dict[str, Any]:
    """``.operation``: one sync at the exact digest. Sync options are repeated, they are not inherited."""
    return {
        "initiatedBy": {"username": MANAGED_BY},
        "info": [{"name": REQUEST_ID, "value": request_id}],
        "sync": {
            "revision": release.chart.manifest_digest,
            "prune": True,
            "syncOptions": list(SYNC_OPTIONS),
            "syncStrategy": {"hook": {}},
        },
        "retry": {"limit": 0},
    }


def new_application(
    release: PlannedRelease, config: ClusterConfig, plan_digest: str, request_id: str
) -> dict[str, Any]:
    """The object to create, operation included: one write. No finalizer, no owner."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": release.name,
            "namespace": config.engine.namespace,
            "labels": {MANAGED_BY_LABEL: MANAGED_BY},
            "annotations": {PLAN_ANNOTATION: plan_digest},
        },
        "spec": application_spec(release, config),
        "operation": operation(release, request_id),
    }


def updated_application(
    current: Mapping[str, Any],
    release: PlannedRelease,
    config: ClusterConfig,
    plan_digest: str,
    request_id: str,
) -> dict[str, Any]:
    """The object to PUT over ``current`` (whose resourceVersion it keeps).

    A replace and not a merge patch: a merge would keep values that the new plan dropped.
    ``status.operationState`` goes, or fields of the previous operation leak into the next.
    """
    updated: dict[str, Any] = {**current, "spec": application_spec(release, config)}
    metadata = dict(current["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), PLAN_ANNOTATION: plan_digest}
    updated["metadata"] = metadata
    updated["operation"] = operation(release, request_id)
    status = dict(current.get("status") or {})
    status.pop("operationState", None)
    updated["status"] = status
    return updated


def is_ours(application: Mapping[str, Any]) -> bool:
    """Whether the pipeline created it; anything else is never adopted."""
    labels = application.get("metadata", {}).get("labels") or {}
    return labels.get(MANAGED_BY_LABEL) == MANAGED_BY


def carries(operation_or_state: Mapping[str, Any] | None, request_id: str) -> bool:
    """Whether an ``.operation`` or a ``status.operationState`` is of our request."""
    if not operation_or_state:
        return False
    inner = operation_or_state.get("operation", operation_or_state)
    info = inner.get("info") or [] if isinstance(inner, Mapping) else []
    return any(item.get("name") == REQUEST_ID and item.get("value") == request_id for item in info)


def is_applied(application: Mapping[str, Any] | None, release: PlannedRelease, config: ClusterConfig) -> bool:
    """Whether the Application asks for exactly this release."""
    wanted, spec = application_spec(release, config), (application or {}).get("spec") or {}
    return all(same_but_nulls(spec.get(part), wanted[part]) for part in ("project", "source", "destination"))


def same_but_nulls(one: Any, other: Any) -> bool:
    """Equal but for nulls: Argo CD writes status by merge patch, which cannot carry one.

    In Helm values a null is meant (it takes a default away), so it stays in the spec.
    """
    return equal(_without_nulls(one), _without_nulls(other))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
