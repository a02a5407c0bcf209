"""Jobs whose pod never starts, or is taken away: what Kubernetes writes, and what is made of it."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.job_state import (
    MOST_PASSING,
    STUCK_AFTER,
    UNSCHEDULED_AFTER,
    JobState,
    is_late,
    job_state,
    tries_again,
)
from aicr_pipeline.model.reasons import Reason

CREATED = "2026-01-01T12:00:00Z"
NAME = "demo-1a0d59d6-1-render-1"
POD = f"{NAME}-x7k2p"
IMAGE = "ghcr.io/nvidia/aicr@sha256:" + "1" * 64
PUSHING = frozenset({"bundle"})


def at(age: timedelta) -> datetime:
    return parse_time(CREATED) + age


def job(*conditions: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": NAME, "namespace": "aicr-system", "uid": "u-1", "creationTimestamp": CREATED}
    status = {"startTime": CREATED, "active": 1, "ready": 0, "conditions": list(conditions)}
    return {"metadata": metadata, "spec": {"backoffLimit": 0}, "status": status}


def failed(reason: str = "BackoffLimitExceeded") -> dict[str, Any]:
    words = {
        "BackoffLimitExceeded": "Job has reached the specified backoff limit",
        "DeadlineExceeded": "Job was active longer than specified deadline",
    }[reason]
    return job({"type": "Failed", "status": "True", "reason": reason, "message": words})


def pod(**status: Any) -> dict[str, Any]:
    metadata = {"name": POD, "creationTimestamp": CREATED, "labels": {"job-name": NAME}}
    return {
        "metadata": metadata,
        "spec": {"nodeName": "ip-10-0-1-11"},
        "status": {"phase": "Pending", **status},
    }


def unscheduled(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(conditions=[condition])


def waiting(reason: str, message: str = "", *, init: bool = False) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    first = {"name": "recipe", "state": state if init else {"terminated": {"exitCode": 0}}}
    second = {"name": "bundle", "state": {"waiting": {"reason": "PodInitializing"}} if init else state}
    return pod(initContainerStatuses=[first], containerStatuses=[second])


def event(reason: str, message: str, at: str = CREATED) -> dict[str, Any]:
    involved = {"kind": "Job", "name": NAME, "uid": "u-1"}
    return {
        "involvedObject": involved,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


QUOTA = (
    f'Error creating: pods "{POD}" is forbidden: exceeded quota: team, requested: requests.cpu=1, '
    "used: requests.cpu=8, limited: requests.cpu=8"
)
SECURITY = (
    f'Error creating: pods "{POD}" is forbidden: violates PodSecurity "restricted:latest": host namespaces '
    '(hostNetwork=true, hostPID=true, hostIPC=true), privileged (container "aicr" must not set '
    "securityContext.privileged=true)"
)
WEBHOOK = 'Error creating: admission webhook "images.example.com" denied the request: ghcr.io is not allowed'
SCHEDULER = (
    "0/4 nodes are available: 2 Insufficient memory, 2 node(s) had untolerated taint "
    "{nvidia.com/gpu: present}. preemption: 0/4 nodes are available: "
    "4 Preemption is not helpful for scheduling."
)
SANDBOX = (
    "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: "
    "plugin type=aws-cni failed (add): add cmd: failed to assign an IP address to container"
)


@pytest.mark.parametrize(
    ("pods", "events", "said"),
    [
        pytest.param(
            [waiting("ErrImagePull", f'failed to pull and unpack image "{IMAGE}": not found', init=True)],
            [],
            "recipe cannot start: ErrImagePull: failed to pull",
            id="pull fails",
        ),
        pytest.param(
            [waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"', init=True)],
            [],
            "recipe cannot start: ImagePullBackOff: Back-off pulling image",
            id="pull failed before",
        ),
        pytest.param(
            [waiting("InvalidImageName", "couldn't parse image name")], [], "InvalidImageName", id="name"
        ),
        pytest.param(
            [waiting("ErrImageNeverPull", "Container image is not present with pull policy of Never")],
            [],
            "ErrImageNeverPull",
            id="never pull",
        ),
        pytest.param(
            [waiting("CreateContainerConfigError", 'secret "login" not found')],
            [],
            'CreateContainerConfigError: secret "login" not found',
            id="secret in an environment",
        ),
        pytest.param([waiting("CreateContainerError")], [], "no explanation", id="without words"),
        pytest.param([], [event("FailedCreate", QUOTA)], f"no pod could be made: {QUOTA}", id="quota"),
        pytest.param([], [event("FailedCreate", SECURITY)], "violates PodSecurity", id="Pod Security"),
        pytest.param([], [event("FailedCreate", WEBHOOK)], "ghcr.io is not allowed", id="a webhook"),
        pytest.param(
            [waiting("PodInitializing", init=True)],
            [event("FailedMount", f'MountVolume.SetUp failed for volume "auth": secret "{NAME}" not found')],
            "its pod cannot start: MountVolume.SetUp failed",
            id="volume",
        ),
        pytest.param(
            [waiting("PodInitializing", init=True)],
            [event("FailedCreatePodSandBox", SANDBOX)],
            "failed to assign an IP address",
            id="no address",
        ),
    ],
)
def test_what_never_starts_says_why_after_five_minutes(pods: Any, events: Any, said: str) -> None:
    found = job_state(job(), pods, at(STUCK_AFTER), events)
    assert (found.state, found.reason, found.passes) == ("failed", Reason.JobNotStarted, False)
    assert said in found.message
    assert NAME in found.message
    before = at(STUCK_AFTER - timedelta(seconds=1))
    assert job_state(job(), pods, before, events).state == "running", "it may pass"


def test_the_newest_event_speaks() -> None:
    events = [
        event("FailedCreate", SECURITY, "2026-01-01T12:04:00Z"),
        event("FailedCreate", QUOTA, "2026-01-01T12:03:00Z"),
        event("SomethingElse", "newer", "2026-01-01T12:05:00Z"),
    ]
    assert "violates PodSecurity" in job_state(job(), [], at(STUCK_AFTER), events).message


@pytest.mark.parametrize(
    ("pods", "events"),
    [
        ([], []),
        ([], [event("Other", "words")]),
        ([pod(containerStatuses=[{"name": "a", "state": {"running": {}}}])], [event("FailedMount", "old")]),
        # The recipe ran; what is waited for is its own business.
        ([waiting("PodInitializing")], [event("FailedMount", "old")]),
    ],
    ids=["no pod, no event", "another event", "it runs", "the first container ran"],
)
def test_without_a_cause_it_is_waited_for(pods: Any, events: Any) -> None:
    assert job_state(job(), pods, at(timedelta(minutes=10)), events).state == "running"


def test_events_are_asked_for_when_nothing_started_in_time_only() -> None:
    started = pod(containerStatuses=[{"name": "a", "state": {"running": {}}}])
    late, early = at(STUCK_AFTER), at(STUCK_AFTER - timedelta(seconds=1))
    assert is_late(job(), [], late)
    assert is_late(job(), [waiting("ContainerCreating", init=True)], late)
    assert not is_late(job(), [], early)
    assert not is_late(job(), [started], late)
    assert not is_late(failed(), [], late)


@pytest.mark.parametrize(("minutes", "state"), [(0, "running"), (14, "running"), (15, "failed")])
def test_more_nodes_may_be_on_their_way(minutes: int, state: str) -> None:
    found = job_state(job(), [unscheduled(SCHEDULER)], at(timedelta(minutes=minutes)))
    assert found.state == state
    if state == "failed":
        assert found.reason is Reason.JobNotStarted
        assert found.message == f"Job {NAME}: no node took its pod within 15 minutes: {SCHEDULER}"


def test_the_scheduler_is_given_up_before_every_deadline() -> None:
    """At its deadline a Job's pods are deleted, and the scheduler's words with them."""
    assert STUCK_AFTER < UNSCHEDULED_AFTER < timedelta(seconds=1200)


# Taken away


def disrupted(reason: str, message: str, **status: Any) -> dict[str, Any]:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return pod(phase="Failed", conditions=[condition], **status)


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"name": "bundle", "state": {"terminated": {"exitCode": code, "reason": reason}}}


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        (
            [disrupted("DeletionByPodGC", "PodGC: node no longer exists")],
            "lost its pod on ip-10-0-1-11: PodGC: node no longer exists",
        ),
        (
            [disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")],
            "NoExecute taint",
        ),
        (
            [
                disrupted(
                    "TerminationByKubelet", "Pod was terminated in response to imminent node shutdown.",
                    containerStatuses=[ended(137)],
                )
            ],
            "imminent node shutdown",
        ),
        (
            [
                pod(
                    phase="Failed", reason="Evicted",
                    message="The node was low on resource: ephemeral-storage.",
                    containerStatuses=[ended(137)],
                )
            ],
            "Evicted: The node was low on resource",
        ),
        ([], "lost its pod: deleted, or with its node"),
    ],
    ids=["node gone", "taint", "shutdown", "evicted", "no pod any more"],
)  # fmt: skip
def test_a_pod_that_was_taken_away_is_worth_another_attempt(pods: Any, said: str) -> None:
    found = job_state(failed(), pods, at(timedelta(minutes=1)))
    assert (found.state, found.reason, found.passes) == ("failed", Reason.AICRInternal, True)
    assert said in found.message


def test_aicrs_own_end_counts_though_the_pod_was_taken_later() -> None:
    found = job_state(
        failed(), [disrupted("DeletionByPodGC", "x", containerStatuses=[ended(3)])], at(timedelta())
    )
    assert (found.reason, found.exit_code, found.passes) == (Reason.AICRNotFound, 3, False)


def test_a_deadline_is_no_crash_and_too_little_memory_says_so() -> None:
    killed = pod(phase="Failed", containerStatuses=[ended(137)])
    assert job_state(failed("DeadlineExceeded"), [killed], at(timedelta())).reason is Reason.AICRTimeout
    full = pod(phase="Failed", containerStatuses=[ended(137, "OOMKilled")])
    assert "more memory than its limit" in job_state(failed(), [full], at(timedelta())).message


def test_a_node_that_does_not_answer() -> None:
    """Its pod stays "Running" and is to be deleted; the Job's controller waits for the kubelet's word."""
    lost = pod(phase="Running", containerStatuses=[{"name": "bundle", "state": {"running": {}}}])
    lost["metadata"]["deletionTimestamp"] = "2026-01-01T12:10:00Z"
    assert job_state(job(), [lost], at(timedelta(minutes=14))).state == "running"
    found = job_state(job(), [lost], at(timedelta(minutes=15)))
    assert (found.state, found.reason) == ("failed", Reason.AICRInternal)
    assert "ip-10-0-1-11 does not answer" in found.message


# Another attempt

OK = JobState("complete")


def exited(code: int, container: str = "bundle") -> JobState:
    return JobState("failed", Reason.AICRInternal, "", POD, container, code)


LOST = JobState("failed", Reason.AICRInternal, lost=True)


@pytest.mark.parametrize(
    ("state", "earlier", "again"),
    [
        (exited(6), [], True),
        (exited(7), [exited(6)] * (MOST_PASSING - 2), True),
        (LOST, [exited(6), exited(7)], True),
        (exited(6), [exited(6), LOST, exited(7), LOST], False),
        (exited(4), [], True),
        (exited(8), [], True),
        (exited(4), [exited(4)], False),
        (exited(8), [exited(4)], False),
        (exited(4), [exited(8), exited(6)], False),
        # Each cause has its own count.
        (exited(4), [exited(6), exited(6)], True),
        (exited(6), [exited(4)], True),
        # What pushes nothing was not refused by the registry.
        (exited(4, "recipe"), [], False),
        (exited(8, "recipe"), [], False),
        *((exited(code), [], False) for code in (1, 2, 3, 5, 137)),
        (JobState("failed", Reason.JobNotStarted), [], False),
        (JobState("failed", Reason.AICRTimeout), [], False),
    ],
)
def test_another_attempt(state: JobState, earlier: list[JobState], again: bool) -> None:
    assert tries_again(state, PUSHING, earlier) is again


@pytest.mark.parametrize("codes", [(6,), (7,), (4,), (8,), (6, 4), (4, 8, 6, 7)])
def test_no_order_of_ends_goes_on_for_ever(codes: tuple[int, ...]) -> None:
    earlier: list[JobState] = []
    while tries_again(state := exited(codes[len(earlier) % len(codes)]), PUSHING, earlier):
        earlier.append(state)
        assert len(earlier) <= MOST_PASSING, "fewer than the nine attempts that a run has"
