"""Jobs that are gone, run twice, or left by a dead run; and how often an attempt is followed by another."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.decide.job_state import JobToTryAgainError
from aicr_pipeline.model.reasons import Reason

from local.kube import CONFIG_MAPS, EVENTS, JOBS, PODS
from local.kube.options import WriteOptions
from tests.functional.actions.support import ROLLOUT, Place
from tests.functional.actions.test_action_jobs import SNAPSHOT, confirm, ready, render, snapshot, validate
from tests.unit.samples import VALIDATOR_IMAGE, ctrf, refused

__all__ = ["ready"]

KEPT = {
    snapshot: "resolves/run-1/snapshot.yaml",
    confirm: f"rollouts/{ROLLOUT}/snapshot.yaml",
    validate: f"rollouts/{ROLLOUT}/validation.json",
}
#: Knows what the runtime of these tests asks for.
WHOLE = SNAPSHOT.replace(b"nodeCount", b"accelerator: {value: h100}, os: {value: ubuntu}, nodeCount")
REPORT = ctrf("passed")
REPOSITORY, _, DIGEST = VALIDATOR_IMAGE.partition("@")
RAN = [{"check": "check-0", "image": f"{REPOSITORY}:v1", "digest": DIGEST, "pod": "p", "run": "r"}]


def wanted(place: Place) -> dict[str, Any]:
    (waiting,) = place.coordination.waiters()
    return dict(waiting.wanted)


def all_jobs(place: Place) -> list[str]:
    spaces = ("aicr-system", "aicr-validation")
    return [job["metadata"]["name"] for space in spaces for job in place.store.list(JOBS, namespace=space)]


def end(place: Place, code: int | None, container: str, words: str = "words") -> None:
    """The Job that is waited for fails: its container ended with ``code``, or no pod is left."""
    job, space = wanted(place)["job"], wanted(place)["namespace"]
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    place.store.merge_status(JOBS, job, {"status": {"conditions": [condition]}}, namespace=space)
    if code is None:
        return
    pod = {"metadata": {"name": f"{job}-x", "labels": {"job-name": job}}}
    pod["spec"] = {"containers": [{"name": container, "image": "x"}]}
    place.store.create(PODS, pod, namespace=space)
    status = {"containerStatuses": [{"name": container, "state": {"terminated": {"exitCode": code}}}]}
    place.store.merge_status(PODS, f"{job}-x", {"status": status}, namespace=space)
    place.store.append_log(space, f"{job}-x", container, f"{words}\n")


def answer(place: Place, token: str = "token") -> dict[str, Any]:
    place.sweep()
    return place.sfn.answered[token]


# A Job that is gone


@pytest.mark.parametrize("act", [snapshot, confirm, validate])
def test_a_result_that_the_ledger_has_is_used_when_its_job_is_gone(
    ready: Place, act: Callable[..., Any]
) -> None:
    """A day after it ended a Job goes. Another's record would be another, and could not be kept."""
    record = REPORT if act is validate else WHOLE
    ready.ledger.put_once(KEPT[act], record)
    ready.ledger.put_once(f"rollouts/{ROLLOUT}/validators.json", json.dumps(RAN).encode())
    act(ready)
    assert all_jobs(ready) == []
    assert "output" in answer(ready)
    assert "outcome" not in answer(ready)["output"], answer(ready)
    assert ready.ledger.get(KEPT[act]) == record


def test_a_bundle_that_is_in_the_registry_is_not_pushed_again(ready: Place) -> None:
    render(ready, "run-1-1")
    assert all_jobs(ready) == []
    assert answer(ready)["output"] == {"tag": "run-1-1"}


def test_a_job_that_goes_after_its_record_was_kept(ready: Place) -> None:
    snapshot(ready)
    ready.store.delete(JOBS, wanted(ready)["job"], namespace="aicr-system")
    ready.ledger.put_once(KEPT[snapshot], WHOLE)
    assert answer(ready)["output"]["nodes"] == 4


def test_a_job_that_somebody_deleted(ready: Place) -> None:
    snapshot(ready)
    ready.store.delete(JOBS, wanted(ready)["job"], namespace="aicr-system")
    assert answer(ready)["output"]["outcome"]["reason"] == "AICRInternal"


# A Job that is there


@pytest.mark.parametrize("act", [snapshot, render, validate, confirm])
def test_a_job_of_another_run_is_never_taken(ready: Place, act: Callable[..., Any]) -> None:
    act(ready)
    job, space = wanted(ready)["job"], wanted(ready)["namespace"]
    ready.store.merge(
        JOBS, job, {"metadata": {"labels": {"aicr-pipeline.dev/run": "another"}}}, namespace=space
    )
    with refused(Reason.Conflict, f"Job {job} is there already and belongs to another"):
        act(ready, retries=1)


def test_what_aicr_wrote_stays_when_the_state_runs_again(ready: Place) -> None:
    snapshot(ready)
    job = ready.store.get(JOBS, wanted(ready)["job"], namespace="aicr-system")
    name, aicr = job["metadata"]["name"], WriteOptions(manager="aicr", force=True)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"by": "aicr"}}}
    ready.store.apply(body | {"data": {"snapshot.yaml": WHOLE.decode()}}, "aicr-system", aicr)
    snapshot(ready, retries=1)
    found = ready.store.get(CONFIG_MAPS, name, namespace="aicr-system")
    assert found["data"]["snapshot.yaml"] == WHOLE.decode()
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]


# Another attempt


@pytest.mark.parametrize(("code", "passes"), [(6, True), (7, True), (None, True), (4, False), (8, False)])
def test_attempts_are_counted_by_what_ended_them(ready: Place, code: int | None, passes: bool) -> None:
    most = 5 if passes else 2
    for attempt in range(1, most + 1):
        render(ready, token=f"t{attempt}", retries=attempt - 1)
        assert wanted(ready)["job"] == f"run-1-render-{attempt}"
        assert wanted(ready)["tag"] == f"run-1-{attempt}"
        end(ready, code, "bundle", f"words of {attempt}")
        found = answer(ready, f"t{attempt}")
        if attempt < most:
            assert found["error"] == JobToTryAgainError.__name__
    outcome = found["output"]["outcome"]
    assert outcome["reason"] == ("AICRUnauthorized" if code == 4 else "AICRInternal")
    assert len(all_jobs(ready)) == most
    kept = [ready.ledger.get(f"resolves/run-1/jobs/run-1-render-{n}.log") for n in range(1, most + 1)]
    if code is not None:
        assert kept == [f"words of {n}".encode() for n in range(1, most + 1)]


def test_each_attempt_at_a_push_has_a_token_minted_for_it(
    ready: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    minted = []
    monkeypatch.setattr(FixedCredentials, "renew", lambda _: minted.append(1))
    render(ready, token="t1")
    end(ready, 4, "bundle")
    answer(ready, "t1")
    render(ready, token="t2", retries=1)
    assert len(minted) == 2


def test_a_log_that_cannot_be_had_hides_no_reason(ready: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that went away takes the log along: the API server then answers 500."""
    from aicr_pipeline.adapters.cluster import Cluster
    from aicr_pipeline.errors import TransientError

    def gone(*_: Any) -> str:
        raise TransientError(Reason.ClusterUnreachable, "no route to host")

    render(ready)
    end(ready, 3, "bundle")
    monkeypatch.setattr(Cluster, "text", gone)
    assert answer(ready)["output"]["outcome"]["reason"] == "AICRNotFound"


# What never starts


def test_why_a_job_has_no_pod_is_read_from_its_events(ready: Place) -> None:
    ready.store.clock = ready.clock
    snapshot(ready)
    job = ready.store.get(JOBS, wanted(ready)["job"], namespace="aicr-system")
    involved = {
        "apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"],
        "namespace": "aicr-system", "uid": job["metadata"]["uid"],
    }  # fmt: skip
    event = {
        "metadata": {"name": "e"}, "involvedObject": involved, "type": "Warning", "reason": "FailedCreate",
        "message": "Error creating: pods is forbidden: exceeded quota: team",
        "lastTimestamp": "2026-01-01T12:00:00Z",
    }  # fmt: skip
    ready.store.create(EVENTS, event, namespace="aicr-system")
    ready.store.create(
        EVENTS, event | {"metadata": {"name": "f"}, "involvedObject": {**involved, "name": "another"},
        "message": "of another"}, namespace="aicr-system",
    )  # fmt: skip
    ready.later(290)
    assert ready.sweep(budget=0)["answered"] == 0
    ready.later(10)
    outcome = answer(ready)["output"]["outcome"]
    assert outcome["reason"] == "JobNotStarted"
    assert outcome["message"].endswith(f"no pod could be made: {event['message']}.")
