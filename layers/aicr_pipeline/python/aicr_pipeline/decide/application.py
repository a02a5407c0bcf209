"""The Argo CD Application of a release, and the one operation that syncs it.

Native OCI sources pinned by digest (a digest does not work with ``chart:``). Facts about Argo CD's
fields are in ``docs/argocd.md``.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.canonical import digest, equal
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.plan import PlannedRelease

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "aicr-pipeline"
PLAN_ANNOTATION = "aicr-pipeline.dev/plan"
#: What was asked for last, ``<request id> after <id of the last entry in status.history>``: an operation
#: of somebody else may take the place of ours in the status, and the history still tells.
ASKED_ANNOTATION = "aicr-pipeline.dev/asked"
#: The request whose release became ready, so that ``automated`` is back by our own hand.
READY_ANNOTATION = "aicr-pipeline.dev/ready"
#: When we last asked for a refresh, and for which kind.
REFRESHED_ANNOTATION = "aicr-pipeline.dev/refreshed"
REFRESH = "argocd.argoproj.io/refresh"
#: With it Argo CD's controller leaves an Application alone: its status stays as it was.
SKIP = "argocd.argoproj.io/skip-reconcile"
REQUEST_ID = "aicr-pipeline-request-id"
#: What Argo CD says of an operation that a sync window holds; its phase is Running meanwhile.
BLOCKED = "Sync operation blocked by sync window"
#: Conditions that say what is wrong, in the order in which people should hear of them.
WRONG = ("InvalidSpecError", "ComparisonError", "SyncError", "UnknownError")
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
            "annotations": {PLAN_ANNOTATION: plan_digest, ASKED_ANNOTATION: _asked(request_id, {})},
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
    ``status.operationState`` goes, or fields of the previous operation leak into the next. So do the
    conditions that say what was wrong: with one about the spec before, Argo CD would not begin ours.
    """
    updated: dict[str, Any] = {**current, "spec": application_spec(release, config)}
    metadata = dict(current["metadata"])
    kept = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key not in (READY_ANNOTATION, REFRESHED_ANNOTATION)
    }
    asked = {PLAN_ANNOTATION: plan_digest, ASKED_ANNOTATION: _asked(request_id, current)}
    metadata["annotations"] = kept | asked
    updated["metadata"] = metadata
    updated["operation"] = operation(release, request_id)
    status = dict(current.get("status") or {})
    status.pop("operationState", None)
    if "conditions" in status:
        status["conditions"] = [
            found for found in status["conditions"] or [] if found.get("type") not in WRONG
        ]
    updated["status"] = status
    return updated


def is_ours(application: Mapping[str, Any]) -> bool:
    """Whether the pipeline created it; anything else is never adopted."""
    labels = application.get("metadata", {}).get("labels") or {}
    return labels.get(MANAGED_BY_LABEL) == MANAGED_BY


def is_skipped(application: Mapping[str, Any]) -> bool:
    """Whether somebody had Argo CD leave it alone; the values are those that Go takes for true."""
    return _annotation(application, SKIP) in ("1", "t", "T", "true", "TRUE", "True")


def plan_of(application: Mapping[str, Any]) -> str | None:
    """The digest of the plan that it was last written for, as it says."""
    return _annotation(application, PLAN_ANNOTATION) or None


def carries(operation_or_state: Mapping[str, Any] | None, request_id: str) -> bool:
    """Whether an ``.operation`` or a ``status.operationState`` is of our request."""
    if not operation_or_state:
        return False
    inner = operation_or_state.get("operation", operation_or_state)
    info = inner.get("info") or [] if isinstance(inner, Mapping) else []
    return any(item.get("name") == REQUEST_ID and item.get("value") == request_id for item in info)


def request_of(operation: Mapping[str, Any]) -> str | None:
    """The request of the pipeline's that an ``.operation`` is of, whichever rollout's; None of others."""
    info = operation.get("info") or []
    return next((str(item.get("value")) for item in info if item.get("name") == REQUEST_ID), None)


def was_asked(application: Mapping[str, Any], request_id: str) -> bool:
    """Whether this very request was written before, whatever became of its operation."""
    state = (application.get("status") or {}).get("operationState")
    return (
        carries(application.get("operation"), request_id)
        or carries(state, request_id)
        or _annotation(application, ASKED_ANNOTATION).rpartition(" after ")[0] == request_id
    )


def done_after_asking(application: Mapping[str, Any], wanted: str, request_id: str) -> bool:
    """Whether a whole sync of the current source at the wanted digest has succeeded since we asked.

    Argo CD writes an entry into ``status.history`` only for those: no selective one, no dry run, no failed
    one. Its ids grow.
    """
    asked, _, last = _annotation(application, ASKED_ANNOTATION).rpartition(" after ")
    if asked != request_id or not last.lstrip("-").isdigit():
        return False
    source = (application.get("spec") or {}).get("source")
    return any(
        isinstance(entry.get("id"), int)
        and entry["id"] > int(last)
        and entry.get("revision") == wanted
        and same_but_nulls(entry.get("source"), source)
        for entry in (application.get("status") or {}).get("history") or []
    )


def is_automated(application: Mapping[str, Any]) -> bool:
    """Whether Argo CD may start operations of its own."""
    automated = ((application.get("spec") or {}).get("syncPolicy") or {}).get("automated")
    return automated is not None and automated.get("enabled") is not False


def was_ready(application: Mapping[str, Any], request_id: str) -> bool:
    """Whether this request's release became ready before, and got ``automated`` back from us."""
    return _annotation(application, READY_ANNOTATION) == request_id


def ready_again(application: Mapping[str, Any], request_id: str) -> dict[str, Any]:
    """The merge patch that gives self-heal back, to the Application as it was judged."""
    return {
        "metadata": {
            "resourceVersion": application["metadata"]["resourceVersion"],
            "annotations": {READY_ANNOTATION: request_id},
        },
        "spec": {"syncPolicy": {"automated": dict(AUTOMATED)}},
    }


def refresh_request(kind: str, now: datetime) -> dict[str, Any]:
    """The merge patch that asks for a refresh, and notes when."""
    return {"metadata": {"annotations": {REFRESH: kind, REFRESHED_ANNOTATION: f"{rfc3339(now)} {kind}"}}}


def last_refresh(application: Mapping[str, Any]) -> tuple[datetime | None, str]:
    """When we last asked for a refresh since the step's write, and which kind."""
    at, _, kind = _annotation(application, REFRESHED_ANNOTATION).partition(" ")
    try:
        return parse_time(at), kind
    except ValueError:
        return None, ""


def withdrawal(application: Mapping[str, Any], request_id: str) -> dict[str, Any] | None:
    """The merge patch that takes our operation back, or None once it may have changed something.

    One that was never taken up, or that a sync window has held since its beginning, would otherwise run
    when the controller is back or the window opens, long after its rollout ended.
    """
    version = {"metadata": {"resourceVersion": application["metadata"]["resourceVersion"]}}
    state = (application.get("status") or {}).get("operationState") or {}
    if not carries(application.get("operation"), request_id):
        return None
    if not carries(state, request_id):
        return version | {"operation": None}
    untouched = not (state.get("syncResult") or {}).get("resources")
    if state.get("phase") == "Running" and untouched and BLOCKED in str(state.get("message", "")):
        return version | {"operation": None, "status": {"operationState": None}}
    return None


def spec_digest(spec: Mapping[str, Any]) -> str:
    """Names what an Application asks for: project, source and destination, but for nulls."""
    parts = {part: _without_nulls(spec.get(part)) for part in ("project", "source", "destination")}
    return digest(parts, "the Application's spec")


def _asked(request_id: str, current: Mapping[str, Any]) -> str:
    history = (current.get("status") or {}).get("history") or []
    return f"{request_id} after {max((entry.get('id', 0) for entry in history), default=-1)}"


def _annotation(application: Mapping[str, Any], name: str) -> str:
    return str((application["metadata"].get("annotations") or {}).get(name, ""))


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
