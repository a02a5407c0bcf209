"""AICR's Jobs in the cluster: started once, found again, and read when they ended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.adapters.cluster import Cluster, Json, ObjectConflictError
from aicr_pipeline.decide.job_state import has_failed
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: Failed attempts of one run before it is given up.
MOST_ATTEMPTS = 9


@dataclass(frozen=True)
class StartedJob:
    """A Job that runs, or ran well. ``attempt`` counts from 1."""

    job: Json
    attempt: int


def start(cluster: Cluster, build: Callable[[int], Mapping[str, Any]]) -> StartedJob:
    """Create the Job of the first attempt that has not failed; adopt it when it is there already.

    ``build`` gives the Job of an attempt. A failed Job stays for people to read, and the next
    attempt has another name, so that running twice never starts two.

    Raises
    ------
    PipelineError
        ``AICRInternal`` after nine failed attempts in one run.
    """
    for attempt in range(1, MOST_ATTEMPTS + 1):
        wanted = build(attempt)
        metadata = wanted["metadata"]
        path = f"/apis/batch/v1/namespaces/{metadata['namespace']}/jobs"
        found = cluster.get(f"{path}/{metadata['name']}")
        if found is None:
            try:
                return StartedJob(cluster.create(path, wanted), attempt)
            except ObjectConflictError:
                found = cluster.get(f"{path}/{metadata['name']}")
        if found is not None and not has_failed(found):
            return StartedJob(found, attempt)
    raise PipelineError(
        Reason.AICRInternal,
        f"Nine Jobs of this run failed already; read their logs in {metadata['namespace']}.",
    )


def put_owned(cluster: Cluster, body: Mapping[str, Any], plural: str) -> None:
    """Create an object that a Job owns, or bring the existing one to the same content."""
    metadata = body["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/{plural}"
    try:
        cluster.create(path, body)
    except ObjectConflictError:
        cluster.merge(f"{path}/{metadata['name']}", {"metadata": metadata, "data": body["data"]})


def pods_of(cluster: Cluster, namespace: str, job: str) -> list[Json]:
    """The Job's pods."""
    return list(cluster.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"job-name={job}"))


def log_tail(cluster: Cluster, namespace: str, pod: str, container: str) -> str:
    """The last lines of a container's log, for the person; empty when there are none."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&tailLines=20&limitBytes=4096"
    return (cluster.text(path) or "").strip()


def config_map(cluster: Cluster, namespace: str, name: str) -> dict[str, str] | None:
    """Data of a ConfigMap, or None."""
    found = cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    return None if found is None else dict(found.get("data") or {})
