"""Outcomes of rollouts: written once, told whatever died in between, and what they say of the releases."""

from typing import Any

import pytest
from aicr_pipeline.actions.record_stall import record_stall
from aicr_pipeline.decide.ending import what_to_do
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Outcome, ready_key, step_key
from botocore.exceptions import ClientError

from tests.functional.actions.recording import SUCCEEDED, TO, record, resolve, written
from tests.functional.actions.support import PLAN, ROLLOUT, Place, aws_error
from tests.unit.samples import runtime_text


def test_success_twice_is_one_outcome(place: Place) -> None:
    place.put_rollout(PLAN)
    place.coordination.take_lock(ROLLOUT)
    first = record(place, SUCCEEDED)
    assert (first["outcome"], first["reason"]) == ("Succeeded", "RolledOut")
    assert written(place)["installed"] == ["gpu-operator", "kai-scheduler"]
    assert written(place)["evidence"] == "evidence/demo/x"
    assert place.coordination.lock_holder() is None
    place.later(60)
    before = written(place)
    assert record(place, SUCCEEDED) == first
    assert written(place) == before
    assert len(place.topics.sent) == 2, "each approver once"
    assert place.events.types == ["Rollout Ended"] * 2, "an event may come twice: it carries no truth"


def test_the_first_outcome_stays(place: Place) -> None:
    place.put_rollout(PLAN)
    record(place, {"approval": {"outcome": {"reason": "RolloutExpired", "message": "too late"}}})
    assert record(place, SUCCEEDED)["outcome"] == "Expired"
    assert written(place)["reason"] == "RolloutExpired"


def test_an_outcome_whose_event_was_not_taken(place: Place) -> None:
    place.put_rollout(PLAN)
    place.coordination.take_lock(ROLLOUT)
    place.events.failing = 1
    with pytest.raises(PipelineError) as caught:
        record(place, SUCCEEDED)
    assert caught.value.retry
    record(place, SUCCEEDED)
    assert place.events.details("Rollout Ended") == [
        {"cluster": "demo", "rollout": ROLLOUT, **TO, "outcome": "Succeeded", "reason": "RolledOut"}
    ]


def ends(place: Place, what: str) -> None:
    """Something ends, and everybody is to be told."""
    if what == "outcome":
        record(place, SUCCEEDED)
    elif what == "stall":
        detail = {
            "executionArn": "arn:x", "stateMachineArn": "m-rollout", "name": ROLLOUT, "status": "FAILED",
        }  # fmt: skip
        event = {"time": "2026-01-01T12:00:00Z", "detail": detail}
        record_stall(event, place.config, place.ledger, place.bus, place.notifier)
    else:
        version = place.inbox.current_version("runtimes/cluster.yaml")
        refused_ = {"prerequisites": {"outcome": {"reason": "NodeGroupEmpty", "message": "no node"}}}
        resolve(place, {"run": "demo-run-1", "cluster": "demo", "runtimeVersion": version, **refused_})


@pytest.mark.parametrize("what", ["outcome", "stall", "resolve"])
def test_one_topic_that_takes_nothing_is_told_of_and_nobody_hears_anything_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    place.put_rollout(PLAN)
    if what == "resolve":
        place.inbox.write("runtimes/cluster.yaml", runtime_text(), "application/yaml")
    publish = place.topics.publish

    def gone(**message: str) -> None:
        if message["TopicArn"] == "topic-kim":
            raise aws_error("NotFound")
        publish(**message)

    monkeypatch.setattr(place.topics, "publish", gone)
    for _ in range(3):
        ends(place, what)
    assert [message["TopicArn"] for message in place.topics.sent] == ["topic-alex"]
    (failed,) = place.events.details("Message Failed")
    assert (failed["to"], failed["way"], failed["error"]) == ("kim", "topic", "NotFound")
    assert failed["kind"] == {"outcome": "end"}.get(what, what)
    assert failed["run" if what == "resolve" else "rollout"]


def test_an_outcome_that_died_before_its_mark_is_told_again(place: Place) -> None:
    place.put_rollout(PLAN)
    place.topics.error = aws_error("InternalError")
    with pytest.raises(ClientError):
        record(place, SUCCEEDED)
    assert written(place)["outcome"] == "Succeeded"
    assert place.ledger.get(f"rollouts/{ROLLOUT}/told.json") is None
    place.topics.error = None
    record(place, SUCCEEDED)
    assert len(place.topics.sent) == 2
    assert place.ledger.get(f"rollouts/{ROLLOUT}/told.json") is not None
    record(place, SUCCEEDED)
    assert len(place.topics.sent) == 2


def test_another_rollouts_lock_is_left_alone(place: Place) -> None:
    place.put_rollout(PLAN)
    place.coordination.take_lock("another")
    record(place, SUCCEEDED)
    assert place.coordination.lock_holder() == "another"


@pytest.mark.parametrize(
    ("state", "outcome", "installed"),
    [
        (
            {"ended": {"Error": "RolloutFailed", "Cause": "step 2/2 kai-scheduler (Install): boom"}},
            "Failed",
            1,
        ),
        (
            {"ended": {"Error": "RolloutExpired", "Cause": "step 1/2 gpu-operator (Install), at"}},
            "Expired",
            0,
        ),
        (
            {"ended": {"Error": "RolloutSuperseded", "Cause": "step 1/2 gpu-operator (Install): x"}},
            "Superseded",
            0,
        ),
        ({"approval": {"outcome": {"reason": "RolloutRejected", "message": "no"}}}, "Rejected", 0),
        ({"assessment": {"outcome": {"reason": "TransitionBlocked", "message": "no"}}}, "Failed", 0),
        ({"steps": [], "validation": {"outcome": {"reason": "RolloutFailed", "message": "no"}}}, "Failed", 2),
        (
            {"steps": [], "criteria": {"outcome": {"reason": "CriteriaConflict", "message": "no"}}},
            "Failed",
            2,
        ),
    ],
)
def test_what_is_installed_and_what_is_not(
    place: Place, state: dict[str, Any], outcome: str, installed: int
) -> None:
    place.put_rollout(PLAN)
    assert record(place, state)["outcome"] == outcome
    names = ["gpu-operator", "kai-scheduler"]
    assert written(place).get("installed", []) == names[:installed]
    assert written(place).get("notInstalled", []) == names[installed:]
    assert outcome in place.topics.sent[0]["Subject"]
    assert "Nothing is rolled back" in place.topics.sent[0]["Message"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n", "\u2028", "\x0b", "\x85"])
def test_no_line_of_a_reason_passes_for_a_line_of_the_mail(place: Place, end: str) -> None:
    place.put_rollout(PLAN)
    said = f"Rejected by alex: no{end}Approve here:{end}https://evil.example/{end}Ready: all"
    record(place, {"approval": {"outcome": {"reason": "RolloutRejected", "message": said}}})
    lines = place.topics.sent[0]["Message"].splitlines()
    assert [line for line in lines if line.startswith(("Approve", "https:", "Ready:"))] == ["Ready: none"]
    assert {"  | Approve here:", "  | https://evil.example/", "  | Ready: all"} <= set(lines)
    assert written(place)["message"] == said, "the record has it as it was"


def test_validation_disabled_says_so(place: Place) -> None:
    place.put_rollout(PLAN)
    state = {**SUCCEEDED, "assessment": {"validation": "Disabled"}}
    assert record(place, state)["reason"] == "ValidationDisabled"


def test_subjects_are_what_sns_takes(place: Place) -> None:
    place.notifier.send("alex", "a\nb\r\tc é " + "x" * 200, "m")
    subject = place.topics.sent[0]["Subject"]
    assert len(subject) == 99
    assert subject.isascii()
    assert subject.isprintable()


# What is installed, by the records of the steps


def test_the_records_of_the_steps_say_what_is_installed_whatever_the_state_said(place: Place) -> None:
    """A release that was written and not seen ready is neither installed nor untouched."""
    place.put_rollout(PLAN)
    for index, release in enumerate(("gpu-operator", "kai-scheduler"), start=1):
        started = {"rollout": ROLLOUT, "index": index, "release": release, "at": "2026-01-01T12:00:00.000Z"}
        place.put_json(step_key(ROLLOUT, index), started)
    place.put_json(ready_key(ROLLOUT, 1), {"index": 1})
    # No step is named: the end came from elsewhere.
    record(place, {"ended": {"Error": "RolloutRevoked", "Cause": "alex stopped it"}})
    found = written(place)
    assert found["installed"] == ["gpu-operator"]
    assert found["notInstalled"] == found["unfinished"] == ["kai-scheduler"]
    message = place.topics.sent[0]["Message"]
    for line in ("Ready: gpu-operator", "Begun, not seen ready: kai-scheduler", "Not reached: none"):
        assert f"\n{line}\n" in message
    assert f"What to do: {found['whatToDo']}" in message


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_end_says_what_to_do(outcome: Outcome) -> None:
    said = what_to_do(outcome, Reason.RolloutFailed)
    assert said.endswith(".")
    assert "{" not in said
    assert ("RolloutFailed" in said) == (outcome is Outcome.Failed)
