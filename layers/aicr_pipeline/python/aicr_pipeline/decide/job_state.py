"""What a Job and its pods say: still running, done, or failed, and then why."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.aicr_job import EXIT_REASONS
from aicr_pipeline.model.reasons import Reason

#: How long a pod may fail to start.
STUCK_AFTER = timedelta(minutes=5)
_STUCK = ("ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError")


@dataclass(frozen=True)
class JobState:
    """``pod`` and ``container`` say whose log explains a failure."""

    state: Literal["running", "complete", "failed"]
    reason: Reason | None = None
    message: str = ""
    pod: str | None = None
    container: str | None = None
    exit_code: int | None = None


def has_failed(job: Mapping[str, Any]) -> bool:
    """Whether the Job has ended badly."""
    return _condition(job, "Failed") is not None


def job_state(job: Mapping[str, Any] | None, pods: Iterable[Mapping[str, Any]], now: datetime) -> JobState:
    """Judge a Job; ``job`` is None when it is gone.

    The exit code of AICR decides the reason; a pod that never started has a clear cause of its own.
    """
    if job is None:
        return JobState("failed", Reason.AICRInternal, "the Job is gone; somebody deleted it")
    name = job["metadata"]["name"]
    if _condition(job, "Complete") or _condition(job, "SuccessCriteriaMet"):
        return JobState("complete")
    pods = list(pods)
    failed = _condition(job, "Failed")
    if failed is None:
        return _stuck(name, pods, now) or JobState("running")
    for pod in pods:
        for status in _container_statuses(pod):
            code = ((status.get("state") or {}).get("terminated") or {}).get("exitCode")
            if code:
                return JobState(
                    "failed",
                    EXIT_REASONS.get(code, Reason.AICRInternal),
                    f"Job {name}: {status['name']} ended with exit code {code}",
                    pod["metadata"]["name"],
                    status["name"],
                    code,
                )
    if failed.get("reason") == "DeadlineExceeded":
        return JobState("failed", Reason.AICRTimeout, f"Job {name} did not end before its deadline")
    return JobState(
        "failed", Reason.AICRInternal, f"Job {name}: {failed.get('message') or failed.get('reason')}"
    )


def _stuck(name: str, pods: list[Mapping[str, Any]], now: datetime) -> JobState | None:
    """A pod whose container cannot start ends the wait after a while, long before the Job's deadline.

    Not at once: a registry may hiccup, and the Job's own Secret comes a moment after it. Never for a
    busy scheduler.
    """
    for pod in pods:
        created = pod["metadata"].get("creationTimestamp")
        if created is None or now - parse_time(str(created)) < STUCK_AFTER:
            continue
        for status in _container_statuses(pod):
            waiting = (status.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _STUCK:
                words = waiting.get("message") or waiting["reason"]
                return JobState(
                    "failed", Reason.AICRInternal, f"Job {name}: {status['name']} cannot start: {words}"
                )
    return None


def _container_statuses(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _condition(job: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == "True":
            return dict(condition)
    return None
