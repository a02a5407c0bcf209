"""How one release of the active plan is, between rollouts: ready, repaired, not ready, or another's work."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.application import SKIP, is_applied, is_ours, is_skipped
from aicr_pipeline.decide.inventory import is_asked_for
from aicr_pipeline.decide.readiness import Graces, readiness
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.plan import PlannedRelease
from aicr_pipeline.model.status import ReleaseStatus

#: Argo CD compares each Application every two to three minutes. So long without one comparison, and its
#: controller, or the shard of it, does nothing.
SILENT = timedelta(minutes=30)
#: Of a release's message in the document.
_MOST = 400


def release_status(
    release: PlannedRelease, application: Mapping[str, Any] | None, config: ClusterConfig, now: datetime
) -> ReleaseStatus:
    """What the release's Application says of it; None is one that is gone."""
    name, graces = release.name, Graces.of(config.engine)

    def said(state: Any, message: str = "") -> ReleaseStatus:
        return ReleaseStatus(name=name, state=state, message=message[:_MOST])

    if application is None:
        return said("Drifted", f"{name}: its Application is gone")
    if not is_ours(application):
        return said(
            "Drifted", f"{name}: its Application is not the pipeline's any more; its label was removed"
        )
    if not is_asked_for(application, release):
        return said("Drifted", f"{name}: its Application asks for something else than the active plan")
    if not is_applied(application, release, config):
        # While it is ready nobody would notice that it pulls from a registry for which there is no token.
        return said(
            "Drifted",
            f"{name}: its Application has another registry, project, destination or Helm option than is "
            "configured",
        )
    found = readiness(application, release.chart.manifest_digest, None, now, graces)
    if is_skipped(application):
        return said("NotReady", f"{name}: Argo CD leaves it alone, by its annotation {SKIP}")
    if found.state == "ready":
        stale = is_stale(application, now)
        return (
            said("NotReady", f"{name}: Argo CD has not compared it since {stale}") if stale else said("Ready")
        )
    if not heals_itself(application):
        return said("NotReady", found.message)
    began = _began(application)
    if began is not None and now - began > graces.degraded:
        return said("NotReady", f"{found.message} (Argo CD has tried to repair it since {rfc3339(began)})")
    return said("Healing", f"{name}: Argo CD repairs it")


def is_stale(application: Mapping[str, Any], now: datetime) -> str | None:
    """Since when Argo CD has not compared it, when that is too long ago to say how it is."""
    at = (application.get("status") or {}).get("reconciledAt")
    return str(at) if at and now - parse_time(str(at)) > SILENT else None


def heals_itself(application: Mapping[str, Any]) -> bool:
    """Whether an operation that Argo CD started on its own is under way: drift that it repairs is none."""
    operation = application.get("operation") or {}
    state = (application.get("status") or {}).get("operationState") or {}
    if not operation and _under_way(state):
        operation = state.get("operation") or {}
    return bool((operation.get("initiatedBy") or {}).get("automated"))


def _under_way(state: Mapping[str, Any]) -> bool:
    return state.get("phase") in ("Running", "Terminating")


def _began(application: Mapping[str, Any]) -> datetime | None:
    """When the repair that is under way began: a sync waits for its waves and hooks without an end."""
    state = (application.get("status") or {}).get("operationState") or {}
    try:
        return parse_time(str(state.get("startedAt"))) if _under_way(state) else None
    except ValueError:
        return None
