"""What a Job and its pods say, as a table."""

from datetime import timedelta
from typing import Any

import pytest
from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.job_state import STUCK_AFTER, has_failed, job_state
from aicr_pipeline.model.reasons import Reason

CREATED = "2026-01-01T12:00:00Z"
#: A pod of then has had its time to start.
NOW = parse_time(CREATED) + STUCK_AFTER


def job(*conditions: tuple[str, ...], status: str = "True") -> dict[str, Any]:
    made = [
        {"type": kind, "status": status, **dict(zip(("reason", "message"), more, strict=False))}
        for kind, *more in conditions
    ]
    return {"metadata": {"name": "run-render-1"}, "status": {"conditions": made}}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    status = {"initContainerStatuses": list(init), "containerStatuses": list(containers)}
    return {"metadata": {"name": "run-render-1-x", "creationTimestamp": CREATED}, "status": status}


def ended(code: int, name: str = "bundle") -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code}}}


def stuck(reason: str, message: str | None = None) -> dict[str, Any]:
    return {"name": "bundle", "state": {"waiting": {"reason": reason, "message": message}}}


FAILED = job(("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, Reason.AICRInternal),
        (2, Reason.AICRInvalidRequest),
        (3, Reason.AICRNotFound),
        (4, Reason.AICRUnauthorized),
        (5, Reason.AICRTimeout),
        (6, Reason.AICRInternal),
        (7, Reason.AICRInternal),
        (8, Reason.AICRInternal),
        (137, Reason.AICRInternal),
    ],
)
def test_the_exit_code_decides(code: int, reason: Reason) -> None:
    found = job_state(FAILED, [pod(ended(code))], NOW)
    assert (found.state, found.reason, found.exit_code) == ("failed", reason, code)
    assert (found.pod, found.container) == ("run-render-1-x", "bundle")
    assert f"bundle ended with exit code {code}" in found.message


@pytest.mark.parametrize(
    ("given", "pods", "state", "reason", "said"),
    [
        pytest.param(None, [], "failed", "AICRInternal", "the Job is gone", id="deleted"),
        pytest.param(job(), [], "running", None, "", id="just made"),
        pytest.param({"metadata": {"name": "x"}}, [], "running", None, "", id="no status yet"),
        pytest.param(job(("Complete",)), [], "complete", None, "", id="complete"),
        pytest.param(job(("SuccessCriteriaMet",)), [], "complete", None, "", id="success criteria"),
        pytest.param(job(("Complete",), status="False"), [], "running", None, "", id="not complete"),
        pytest.param(job(("Failed",), status="False"), [], "running", None, "", id="not failed"),
        pytest.param(job(("Suspended",)), [], "running", None, "", id="suspended"),
        pytest.param(job(), [pod(ended(2))], "running", None, "", id="the Job has not said it yet"),
        pytest.param(FAILED, [], "failed", "AICRInternal", "lost its pod", id="failed, pod gone"),
        pytest.param(job(("Failed", "X")), [], "failed", "AICRInternal", ": X", id="failed, no message"),
        pytest.param(
            job(("Failed", "DeadlineExceeded")), [pod()], "failed", "AICRTimeout", "deadline", id="deadline"
        ),
        pytest.param(
            job(("Failed", "DeadlineExceeded")),
            [pod(ended(5))],
            "failed",
            "AICRTimeout",
            "exit code 5",
            id="deadline, and AICR's own timeout",
        ),
        pytest.param(
            FAILED,
            [pod(ended(0), init=(ended(2, "recipe"),))],
            "failed",
            "AICRInvalidRequest",
            "recipe ended",
            id="the init container failed",
        ),
        pytest.param(
            FAILED,
            [pod(ended(0, "a"), ended(3, "b"))],
            "failed",
            "AICRNotFound",
            "b ended",
            id="not the first",
        ),
        pytest.param(job(), [pod(stuck("ContainerCreating"))], "running", None, "", id="starting"),
        pytest.param(job(), [pod(stuck("PodInitializing"))], "running", None, "", id="initializing"),
        pytest.param(
            job(),
            [pod(stuck("ErrImagePull", "no such host"))],
            "failed",
            "JobNotStarted",
            "no such host",
            id="pull",
        ),
        pytest.param(
            job(),
            [pod(stuck("ImagePullBackOff", "not found"))],
            "failed",
            "JobNotStarted",
            "ImagePullBackOff: not found",
            id="no image",
        ),
        pytest.param(
            job(),
            [pod(stuck("InvalidImageName"))],
            "failed",
            "JobNotStarted",
            "InvalidImageName",
            id="bad image",
        ),
        pytest.param(
            job(),
            [pod(stuck("CreateContainerConfigError", "secret"))],
            "failed",
            "JobNotStarted",
            "secret",
            id="no secret",
        ),
        pytest.param(job(), [{"metadata": {"name": "p"}}], "running", None, "", id="pending, no status"),
        pytest.param(
            job(("Complete",), ("Failed", "X")), [pod(ended(2))], "complete", None, "", id="complete wins"
        ),
    ],
)
def test_states(given: Any, pods: list[Any], state: str, reason: str | None, said: str) -> None:
    found = job_state(given, pods, NOW)
    assert (found.state, found.reason) == (state, reason)
    assert said in found.message


@pytest.mark.parametrize(
    ("seconds", "state"),
    [(0, "running"), (60, "running"), (299, "running"), (300, "failed"), (900, "failed")],
)
@pytest.mark.parametrize("reason", ["ImagePullBackOff", "CreateContainerConfigError", "InvalidImageName"])
def test_a_container_has_five_minutes_to_start(seconds: int, state: str, reason: str) -> None:
    now = parse_time(CREATED) + timedelta(seconds=seconds)
    assert job_state(job(), [pod(stuck(reason))], now).state == state


def test_the_clock_of_each_pod_is_its_own() -> None:
    """A replacement pod that is new gets its time; one without a creation time is not judged."""
    late = {
        **pod(stuck("ImagePullBackOff")),
        "metadata": {"name": "x", "creationTimestamp": "2026-01-01T12:04:00Z"},
    }
    unborn = {**pod(stuck("ImagePullBackOff")), "metadata": {"name": "x"}}
    assert job_state(job(), [late, unborn], NOW).state == "running"
    assert job_state(job(), [late, pod(stuck("ImagePullBackOff"))], NOW).state == "failed"


def test_has_failed() -> None:
    assert has_failed(FAILED)
    assert not has_failed(job(("Complete",)))
    assert not has_failed({"metadata": {"name": "x"}})
