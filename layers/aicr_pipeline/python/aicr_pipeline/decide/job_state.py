"""What a Job, its pods and their events say: still running, done, or failed, and then why."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.aicr_job import EXIT_REASONS, RETRIED_EXITS
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: How long a pod may fail to start: a registry may hiccup, and a Job's Secret comes a moment after it.
STUCK_AFTER = timedelta(minutes=5)
#: How long the scheduler may find no node: more may be on their way. Shorter than every Job's deadline,
#: at which the pod goes and takes the scheduler's words with it.
UNSCHEDULED_AFTER = timedelta(minutes=15)
#: Failed attempts of one run that something passing may cost before the run ends.
MOST_PASSING = 5

#: Why a container waits, in the kubelet's words; none of these heals by waiting longer.
_STUCK = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
#: Events of type Warning that say why a Job has no pod, or a pod no container.
_TELLING = frozenset({"FailedCreate", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})
#: Why a pod ended that AICR did not end: its node went away, was drained, or had no room any more.
_LOST = frozenset(
    {
        *("NodeLost", "Evicted", "NodeShutdown", "Shutdown", "Terminated", "Preempting"),
        *("UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods"),
    }
)
_WORDS: Mapping[int | str | None, str] = {
    "OOMKilled": "it needed more memory than its limit",
    4: "the registry or the cluster refused it",
    6: "something it needs is unavailable",
    7: "it was rate limited",
}
_INVALID_REQUEST = 2
_REFUSED_EXITS = frozenset({4, 8})


@dataclass(frozen=True)
class JobState:
    """``pod`` and ``container`` say whose log explains a failure; ``lost``: the pod's node took it along."""

    state: Literal["running", "complete", "failed"]
    reason: Reason | None = None
    message: str = ""
    pod: str | None = None
    container: str | None = None
    exit_code: int | None = None
    lost: bool = False

    @property
    def passes(self) -> bool:
        """Whether another attempt may end well with nothing changed."""
        return self.lost or self.exit_code in RETRIED_EXITS


class JobToTryAgainError(PipelineError):
    """A Job failed by what may pass. The state machine's Retry matches the name; the next attempt has a Job
    of its own."""

    retry = True


def has_failed(job: Mapping[str, Any]) -> bool:
    """Whether the Job has ended badly."""
    return _condition(job, "Failed") is not None


def is_late(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], now: datetime) -> bool:
    """Whether no container has started although there was time: then its events are worth reading."""
    if has_failed(job) or not _is_older(job, STUCK_AFTER, now):
        return False
    return not any(_has_started(status) for pod in pods for status in _container_statuses(pod))


def job_state(
    job: Mapping[str, Any] | None,
    pods: Iterable[Mapping[str, Any]],
    now: datetime,
    events: Iterable[Mapping[str, Any]] = (),
) -> JobState:
    """Judge a Job; ``job`` is None when it is gone.

    The exit code of AICR decides the reason; a pod that never started has a clear cause of its own.

    Parameters
    ----------
    events:
        Of the Job and its pods, when ``is_late``: why there is no pod, or no container, stands only there.
    """
    if job is None:
        return JobState("failed", Reason.AICRInternal, "the Job is gone; somebody deleted it")
    name = job["metadata"]["name"]
    if _condition(job, "Complete") or _condition(job, "SuccessCriteriaMet"):
        return JobState("complete")
    pods = list(pods)
    failed = _condition(job, "Failed")
    if failed is None:
        return _stuck(job, pods, now, events) or _unreachable(name, pods, now) or JobState("running")
    return (
        _exited(name, pods, str(failed.get("reason")))
        or _lost(name, pods, str(failed.get("reason")))
        or (
            JobState("failed", Reason.AICRTimeout, f"Job {name} did not end before its deadline")
            if failed.get("reason") == "DeadlineExceeded"
            else JobState(
                "failed",
                Reason.AICRInternal,
                f"Job {name}: {failed.get('message') or failed.get('reason')}",
            )
        )
    )


def blame_overrides(state: JobState, overrides: str) -> JobState:
    """What exit code 2 of the render Job's container ``bundle`` means when there are overrides.

    Recipe and placement are AICR's own or checked before, so the overrides are what it refuses.

    Parameters
    ----------
    overrides:
        Their fields, empty when the runtime has none.
    """
    if not overrides or state.exit_code != _INVALID_REQUEST or state.container != "bundle":
        return state
    message = (
        f"{state.message}: AICR refuses one of {overrides}. A component must be one that the recipe has, and "
        "a path may lead through objects only"
    )
    return replace(state, reason=Reason.InvalidOverride, message=message)


def was_refused(state: JobState, pushing: frozenset[str]) -> bool:
    """Whether it may have been the registry that refused a push.

    AICR ends with 4 for a wrong password, and with 8, like for much else, when it has none.

    Parameters
    ----------
    pushing:
        Names of the Job's containers that push.
    """
    return state.exit_code in _REFUSED_EXITS and state.container in pushing


def tries_again(state: JobState, pushing: frozenset[str], earlier: Sequence[JobState]) -> bool:
    """Whether a failed Job is followed by another attempt.

    What passes gets ``MOST_PASSING`` attempts in all. A push that may have been refused gets one more,
    with credentials minted for it.

    Parameters
    ----------
    earlier:
        The attempts of this run before this one.
    """
    if state.passes:
        return sum(1 for attempt in earlier if attempt.passes) < MOST_PASSING - 1
    if was_refused(state, pushing):
        return not any(was_refused(attempt, pushing) for attempt in earlier)
    return False


def _exited(name: str, pods: Iterable[Mapping[str, Any]], why: str) -> JobState | None:
    """The container that ended the Job, unless it was ended from outside."""
    for pod in pods:
        for status in _container_statuses(pod):
            ended = (status.get("state") or {}).get("terminated") or {}
            code = ended.get("exitCode")
            # AICR's own codes count in any case; a signal says no more than the deadline or the loss.
            if not code or (code > 128 and (why == "DeadlineExceeded" or _taken(pod))):
                continue
            words = _WORDS.get(code) or _WORDS.get(ended.get("reason"))
            words = f" ({words})" if words else ""
            return JobState(
                "failed",
                EXIT_REASONS.get(code, Reason.AICRInternal),
                f"Job {name}: {status['name']} ended with exit code {code}{words}",
                pod["metadata"]["name"],
                status["name"],
                code,
            )
    return None


def _lost(name: str, pods: list[Mapping[str, Any]], why: str) -> JobState | None:
    """A pod that was evicted, or that went with its node."""
    for pod in pods:
        if words := _taken(pod):
            node = (pod.get("spec") or {}).get("nodeName") or "its node"
            return JobState(
                "failed", Reason.AICRInternal, f"Job {name} lost its pod on {node}: {words}", lost=True
            )
    if not pods and why == "BackoffLimitExceeded":
        return JobState(
            "failed", Reason.AICRInternal, f"Job {name} lost its pod: deleted, or with its node", lost=True
        )
    return None


def _taken(pod: Mapping[str, Any]) -> str:
    """Why a pod was taken away, in Kubernetes' words; empty when it was not."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return str(condition.get("message") or condition.get("reason"))
    reason = status.get("reason")
    return f"{reason}: {status.get('message') or 'no explanation'}" if reason in _LOST else ""


def _unreachable(name: str, pods: list[Mapping[str, Any]], now: datetime) -> JobState | None:
    """A pod that should be gone by now: its kubelet does not answer, and its Job never hears of the end."""
    for pod in pods:
        until = pod["metadata"].get("deletionTimestamp")
        if until is not None and now - parse_time(str(until)) >= STUCK_AFTER:
            node = (pod.get("spec") or {}).get("nodeName") or "its node"
            return JobState(
                "failed",
                Reason.AICRInternal,
                f"Job {name}: its pod was to be deleted at {until}, but {node} does not answer",
            )
    return None


def _stuck(
    job: Mapping[str, Any],
    pods: list[Mapping[str, Any]],
    now: datetime,
    events: Iterable[Mapping[str, Any]],
) -> JobState | None:
    """A pod that cannot start ends the wait after a while, long before the Job's deadline."""
    name = job["metadata"]["name"]
    for pod in pods:
        if words := _unscheduled(pod, now) or _waits_in_vain(pod, now):
            return JobState("failed", Reason.JobNotStarted, f"Job {name}: {words}")
    if is_late(job, pods, now):
        told = [event for event in events if event.get("reason") in _TELLING]
        if told:
            newest = max(told, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime")))
            what = "no pod could be made" if not pods else "its pod cannot start"
            return JobState("failed", Reason.JobNotStarted, f"Job {name}: {what}: {newest.get('message')}")
    return None


def _unscheduled(pod: Mapping[str, Any], now: datetime) -> str:
    if not _is_older(pod, UNSCHEDULED_AFTER, now):
        return ""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            minutes = int(UNSCHEDULED_AFTER.total_seconds() // 60)
            words = condition.get("message") or condition.get("reason")
            return f"no node took its pod within {minutes} minutes: {words}"
    return ""


def _waits_in_vain(pod: Mapping[str, Any], now: datetime) -> str:
    if not _is_older(pod, STUCK_AFTER, now):
        return ""
    for status in _container_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _STUCK:
            words = waiting.get("message") or "no explanation"
            return f"{status['name']} cannot start: {waiting['reason']}: {words}"
    return ""


def _is_older(found: Mapping[str, Any], age: timedelta, now: datetime) -> bool:
    created = found["metadata"].get("creationTimestamp")
    return created is not None and now - parse_time(str(created)) >= age


def _has_started(status: Mapping[str, Any]) -> bool:
    state = status.get("state") or {}
    return state.get("running") is not None or state.get("terminated") is not None


def _container_statuses(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _condition(job: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == "True":
            return dict(condition)
    return None
