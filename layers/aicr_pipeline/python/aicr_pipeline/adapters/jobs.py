"""AICR's Jobs in the cluster: started once, found again, and read when they ended."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from aicr_pipeline.adapters.cluster import Cluster, Json, ObjectConflictError, UnexpectedAnswerError
from aicr_pipeline.decide.aicr_job import RUN_LABEL
from aicr_pipeline.decide.job_state import has_failed
from aicr_pipeline.decide.names import run_label
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: Failed attempts of one run before it is given up.
MOST_ATTEMPTS = 9
#: Of a log that is kept, from its end, and that is read at most: Kubernetes' limit cuts the end off.
_KEPT_CHARACTERS, _READ_BYTES = 16 << 10, 1 << 20


@dataclass(frozen=True)
class StartedJob:
    """A Job that runs, or ran well. ``attempt`` counts from 1.

    ``recorded``: its result is there, but the Job is not any more, and ``job`` is what it would be.
    """

    job: Json
    attempt: int
    recorded: bool = False

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.job["metadata"]["namespace"])


def start(
    cluster: Cluster, build: Callable[[int], Mapping[str, Any]], recorded: Callable[[int], bool]
) -> StartedJob:
    """Create the Job of the first attempt that has not failed; adopt it when it is there already.

    A failed Job stays for people to read, and the next attempt has another name, so that running twice
    never starts two. A Job that ended long ago is removed by its TTL; its result stays.

    Parameters
    ----------
    build:
        The Job of an attempt.
    recorded:
        Whether the result of an attempt is there. Asked only when there is no such Job.

    Raises
    ------
    PipelineError
        ``AICRInternal`` after nine failed attempts in one run, ``Conflict`` when another run has a Job of
        this name, ``JobNotStarted`` when the namespace's quota has no room for a Job.
    """
    for attempt in range(1, MOST_ATTEMPTS + 1):
        wanted = dict(build(attempt))
        path = f"{_jobs(wanted['metadata']['namespace'])}/{wanted['metadata']['name']}"
        found = cluster.get(path)
        if found is None:
            if recorded(attempt):
                return StartedJob(wanted, attempt, recorded=True)
            try:
                return StartedJob(_create(cluster, wanted), attempt)
            except ObjectConflictError:
                found = cluster.get(path)
        if found is None:
            continue
        _require_ours(found, wanted)
        if not has_failed(found):
            return StartedJob(found, attempt)
    raise PipelineError(
        Reason.AICRInternal,
        f"Nine Jobs of this run failed already; read their logs in {wanted['metadata']['namespace']}, "
        "then start a fresh run.",
    )


def earlier(cluster: Cluster, namespace: str, name: str) -> Iterable[Json]:
    """The Jobs of the attempts before the one named, as far as they are still there."""
    base, _, attempt = name.rpartition("-")
    for number in range(1, int(attempt)):
        found = job(cluster, namespace, f"{base}-{number}")
        if found is not None:
            yield found


def job(cluster: Cluster, namespace: str, name: str) -> Json | None:
    """A Job, or None when it is gone."""
    return cluster.get(f"{_jobs(namespace)}/{name}")


def newest_of(cluster: Cluster, namespace: str, run: str, purpose: str) -> str | None:
    """Name of the newest attempt's Job of a run, None when it has none."""
    selector = f"{RUN_LABEL}={run_label(run)}"
    names = [
        str(found["metadata"]["name"]) for found in cluster.list(_jobs(namespace), labelSelector=selector)
    ]
    attempts = [name for name in names if name.rpartition("-")[0].endswith(f"-{purpose}")]
    return max(attempts, key=lambda name: int(name.rpartition("-")[2]), default=None)


def put_owned(cluster: Cluster, body: Mapping[str, Any], plural: str) -> None:
    """Create an object that a Job owns, or bring the existing one to the same content."""
    metadata = body["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/{plural}"
    try:
        cluster.create(path, body)
    except ObjectConflictError:
        cluster.merge(f"{path}/{metadata['name']}", {"metadata": metadata, "data": body["data"]})


def pods_of(cluster: Cluster, namespace: str, name: str) -> list[Json]:
    """The Job's pods."""
    return list(cluster.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"job-name={name}"))


def labelled_pods(cluster: Cluster, namespace: str, selector: str) -> list[Json]:
    """The pods of a namespace that a label selector names."""
    return list(cluster.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector))


def watched_pods(
    cluster: Cluster, namespace: str, selector: str, since: str | None
) -> tuple[list[Json], str | None]:
    """The pods that a selector names, in every state that they had since then.

    Parameters
    ----------
    since
        What the call before gave: what happened in between is told, deleted pods included, and the call takes
        a second. None lists the pods that are there.

    Returns
    -------
    tuple
        States of pods, a pod once for each; and from where the next call goes on, None where the API server
        does not reach back so far.
    """
    path, query = f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector}
    if since is None:
        listed = cluster.get(f"{path}?{urlencode(query)}") or {}
        return list(listed.get("items") or []), (listed.get("metadata") or {}).get("resourceVersion")
    query |= {"watch": "true", "timeoutSeconds": "1", "resourceVersion": since}
    text = cluster.text(f"{path}?{urlencode(query)}") or ""
    found: list[Json] = []
    for line in text.splitlines():
        event = json.loads(line)
        if event["type"] == "ERROR":
            return found, None
        since = str(event["object"]["metadata"]["resourceVersion"])
        found.append(event["object"])
    return found, since


def warnings(cluster: Cluster, namespace: str, names: Iterable[str]) -> list[Json]:
    """Events that warn about the objects named: a Job, its pods."""
    return [
        event
        for name in names
        for event in cluster.list(
            f"/api/v1/namespaces/{namespace}/events", fieldSelector=f"involvedObject.name={name},type=Warning"
        )
    ]


def log_tail(cluster: Cluster, namespace: str, pod: str, container: str) -> str:
    """The last lines of a container's log, for the person; empty when there are none.

    Whatever keeps the log away (a node that does not answer, say) must not hide why the Job failed.
    """
    query = f"container={container}&tailLines=200&limitBytes={_READ_BYTES}"
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?{query}"
    try:
        return (cluster.text(path) or "").strip()[-_KEPT_CHARACTERS:]
    except (PipelineError, UnexpectedAnswerError):
        return ""


def config_map(cluster: Cluster, namespace: str, name: str) -> dict[str, str] | None:
    """Data of a ConfigMap, or None."""
    found = cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    return None if found is None else dict(found.get("data") or {})


def _create(cluster: Cluster, wanted: Json) -> Json:
    try:
        return cluster.create(_jobs(wanted["metadata"]["namespace"]), wanted)
    except PipelineError as error:
        # A quota is refused with 403 like a missing right, but is no matter of rights.
        if error.reason is Reason.Unauthorized and "exceeded quota" in error.message:
            raise PipelineError(
                Reason.JobNotStarted, f"Job {wanted['metadata']['name']} could not be made: {error.message}"
            ) from None
        raise


def _require_ours(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    theirs = (found["metadata"].get("labels") or {}).get(RUN_LABEL)
    ours = wanted["metadata"]["labels"][RUN_LABEL]
    if theirs != ours:
        name = wanted["metadata"]["name"]
        raise PipelineError(
            Reason.Conflict,
            f"Job {name} is there already and belongs to {theirs or 'nobody we know'}, not to {ours}. "
            "Remove it, then start a fresh run.",
        )


def _jobs(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"
