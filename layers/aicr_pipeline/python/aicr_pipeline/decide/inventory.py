"""What is installed, by what Argo CD last compared, against what a plan has.

Never by ``spec.source.targetRevision``: that is what was asked for, by whoever wrote it last.
"""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.decide.application import same_but_nulls
from aicr_pipeline.model.plan import PlannedRelease


def is_installed(application: Mapping[str, Any] | None, release: PlannedRelease) -> bool:
    """Whether Argo CD last compared the cluster with this release: its digest, values and namespace.

    The registry's address is not looked at, so that a registry that moved is no drift. Of an Application
    that was never compared, the spec is all there is.
    """
    if application is None:
        return False
    compared = ((application.get("status") or {}).get("sync") or {}).get("comparedTo")
    return _is(compared or application.get("spec") or {}, release)


def is_synced(application: Mapping[str, Any], release: PlannedRelease) -> bool:
    """Whether what Argo CD last compared is this release, and was found to be what the cluster holds."""
    sync = (application.get("status") or {}).get("sync") or {}
    return (
        sync.get("status") == "Synced"
        and sync.get("revision") == release.chart.manifest_digest
        and is_installed(application, release)
    )


def is_asked_for(application: Mapping[str, Any] | None, release: PlannedRelease) -> bool:
    """Whether the Application's spec asks for this release."""
    return application is not None and _is(application.get("spec") or {}, release)


def installed_digest(application: Mapping[str, Any]) -> str | None:
    """The digest that Argo CD last compared with, if any."""
    compared = ((application.get("status") or {}).get("sync") or {}).get("comparedTo") or {}
    found = (compared.get("source") or {}).get("targetRevision")
    return None if found is None else str(found)


def _is(found: Mapping[str, Any], release: PlannedRelease) -> bool:
    source, destination = found.get("source") or {}, found.get("destination") or {}
    values = (source.get("helm") or {}).get("valuesObject")
    return (
        source.get("targetRevision") == release.chart.manifest_digest
        and destination.get("namespace") == release.namespace
        # Empty values and none are the same to Helm, and to a merge patch.
        and same_but_nulls(values or {}, release.values or {})
    )
