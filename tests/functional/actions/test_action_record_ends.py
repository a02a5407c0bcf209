"""Stalls, and how runs end: recorded once, and told whatever died in between."""

from typing import Any

import pytest
from aicr_pipeline.errors import PipelineError
from botocore.exceptions import ClientError

from tests.functional.actions.recording import (
    planned_run,
    record,
    resolve,
    stall,
    stalled,
    stalled_run,
)
from tests.functional.actions.support import PLAN, ROLLOUT, Place, aws_error
from tests.unit.samples import sha

# Stalls


@pytest.mark.parametrize("status", ["FAILED", "TIMED_OUT", "ABORTED"])
def test_a_stall_is_recorded_once_and_told_once(place: Place, status: str) -> None:
    place.coordination.take_lock(ROLLOUT)
    event = stalled(status=status, error="Lambda.Unknown")
    assert stall(place, event)
    assert stall(place, event)
    assert len(place.ledger_keys(f"rollouts/{ROLLOUT}/stalls/")) == 1
    assert len(place.topics.sent) == 2
    assert "Redrive" in place.topics.sent[0]["Message"]
    assert place.coordination.lock_holder() == ROLLOUT, "a redrive continues it"
    assert stall(place, {**event, "time": "2026-01-01T13:00:00Z"}), "it was redriven, and stalled again"
    assert len(place.ledger_keys(f"rollouts/{ROLLOUT}/stalls/")) == 2


def test_an_end_that_the_domain_decided_is_no_stall(place: Place) -> None:
    place.put_rollout(PLAN)
    record(place, {"approval": {"outcome": {"reason": "RolloutRejected", "message": "no"}}})
    told = len(place.topics.sent)
    assert not stall(place, stalled(error="RolloutRejected"))
    assert len(place.topics.sent) == told
    assert place.ledger_keys(f"rollouts/{ROLLOUT}/stalls/") == []


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("BundleInvalid", "FAILED"),
        ("States.TaskFailed", "FAILED"),
        (None, "FAILED"),
        (None, "TIMED_OUT"),
        (None, "ABORTED"),
    ],
)
@pytest.mark.parametrize("cluster", ["demo", "rollout", "my-rollout-cluster"])
def test_a_resolve_that_told_nobody_stalled_whatever_its_error_and_cluster_are_called(
    place: Place, error: str | None, status: str, told: bool, cluster: str
) -> None:
    if told:
        place.put_json(f"resolves/{ROLLOUT}/told.json", {})
    assert stall(place, stalled("resolve", status, error=error, cluster=cluster)) is not told
    assert len(place.ledger_keys(f"resolves/{ROLLOUT}/stalls/")) == int(not told)
    assert place.ledger_keys("rollouts/") == []


def test_a_rollout_that_has_its_outcome_but_told_nobody_stalled(place: Place) -> None:
    place.put_rollout(PLAN)
    place.end_rollout()
    assert stall(place, stalled())
    place.put_json(f"rollouts/{ROLLOUT}/told.json", {})
    assert not stall(place, {**stalled(), "time": "2026-01-01T13:00:00Z"})


def test_a_stall_that_died_before_its_record_is_told_again(place: Place) -> None:
    place.topics.error = aws_error("InternalError")
    with pytest.raises(ClientError):
        stall(place, stalled())
    assert place.ledger_keys(f"rollouts/{ROLLOUT}/stalls/") == []
    place.topics.error = None
    assert stall(place, stalled())
    assert stall(place, stalled())
    assert len(place.topics.sent) == 2, "each approver once"


def test_a_stall_whose_event_was_not_taken(place: Place) -> None:
    place.events.failing = 1
    with pytest.raises(PipelineError):
        stall(place, stalled())
    stall(place, stalled())
    assert place.events.types == ["Execution Stalled"]


# Runs


def test_a_resolve_that_ended_badly_says_why(place: Place) -> None:
    state = stalled_run(place)
    found = resolve(place, state)
    assert found == {"event": "Resolve Stalled", "reason": "BundleInvalid", "message": "a file is missing"}
    assert place.events.details("Resolve Stalled") == [
        {
            "cluster": "demo",
            "run": "run-1",
            "runtimeVersion": state["runtimeVersion"],
            "trigger": "submission",
            "reason": "BundleInvalid",
            "message": "a file is missing",
        }
    ]
    assert "docs/runbook.md, BundleInvalid" in place.topics.sent[0]["Message"]
    with pytest.raises(RuntimeError, match="no state says"):
        resolve(place, {"run": "r", "runtimeVersion": "v"})


def test_a_resolve_tells_once_and_again_if_it_died_before_its_mark(place: Place) -> None:
    state = stalled_run(place, trigger="schedule")
    state["bundle"]["outcome"]["message"] = "m" * 9000
    place.topics.error = aws_error("InternalError")
    with pytest.raises(ClientError):
        resolve(place, state)
    assert place.ledger_keys("resolves/") == []
    place.topics.error = None
    for _ in range(2):
        assert len(resolve(place, state)["message"]) == 8000
    assert place.ledger.get("resolves/run-1/told.json") is not None
    assert len(place.topics.sent) == 2, "each approver once"


def test_a_run_that_gave_way_is_no_stall_whatever_ended_it(place: Place) -> None:
    state = stalled_run(place)
    newer = place.submit(paused=True)
    assert resolve(place, state) == {"event": "Resolve Superseded"}
    assert place.events.types == ["Resolve Superseded"]
    assert place.events.details("Resolve Superseded")[0]["currentVersion"] == newer
    assert place.topics.sent == []
    assert place.ledger.get("resolves/run-1/told.json") is not None


def test_a_schedule_that_stalls_for_the_same_reason_writes_once_a_day(place: Place) -> None:
    def run(number: int, day: str, **more: Any) -> int:
        before = len(place.topics.sent)
        state = stalled_run(place, f"run-{number}", trigger="schedule", **more)
        assert resolve(place, state, enteredAt=f"2026-01-{day}T06:00:00.000Z")["reason"]
        return len(place.topics.sent) - before

    assert [run(1, "01"), run(2, "01"), run(3, "02")] == [2, 0, 2], "two approvers each"
    assert run(4, "02", bundle={"outcome": {"reason": "AICRTimeout", "message": "m"}}) == 2, "another reason"
    before = len(place.topics.sent)
    resolve(place, stalled_run(place, "run-5"))
    assert len(place.topics.sent) - before == 2, "who submits is told"
    assert len(place.events.details("Resolve Stalled")) == 5, "an event for each"


@pytest.mark.parametrize(
    ("event", "trigger", "is_new", "written"),
    [
        ("Plan Ready", "submission", True, True),
        ("Plan Ready", "schedule", True, True),
        ("Plan Unchanged", "submission", False, True),
        ("Plan Unchanged", "hand", False, True),
        ("Plan Unchanged", "schedule", False, False),
        ("Plan Paused", "submission", True, True),
        ("Plan Paused", "schedule", True, True),
        ("Plan Paused", "schedule", False, False),
    ],
)
def test_every_end_is_an_event_and_word_where_it_is_news(
    place: Place, event: str, trigger: str, is_new: bool, written: bool
) -> None:
    assert resolve(place, planned_run(place, event, trigger=trigger, is_new=is_new)) == {"event": event}
    # Plan Ready is put by Announce plan, with the target.
    assert place.events.types == ([] if event == "Plan Ready" else [event])
    assert len(place.topics.sent) == (2 if written else 0)
    for message in place.topics.sent:
        assert message["Subject"].startswith("[aicr demo] ")
        assert sha("plan") in message["Message"]
        assert len(message["Message"].splitlines()) == 3
