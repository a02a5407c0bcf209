"""Starting: one plan starts one rollout, whatever comes twice, waits, stalls or dies in between."""

from typing import Any

import pytest
from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.clock import after
from aicr_pipeline.model.operators import submission_key
from aicr_pipeline.model.rollout import rollout_key
from botocore.exceptions import ClientError

from tests.functional.actions.starting import NEWER, end, ended, name, stalled_event, start
from tests.functional.actions.support import INBOX, PLAN, Place
from tests.unit.samples import plan, sha

pytestmark = pytest.mark.usefixtures("submitted")


def test_a_first_rollout(place: Place) -> None:
    assert start(place, place.want(PLAN)) == {"started": True, "execution": name(PLAN)}
    assert place.sfn.inputs[name(PLAN)] == {
        "rollout": name(PLAN),
        "cluster": "demo",
        "fromPlan": None,
        "toPlan": PLAN.desired_state_digest,
        "deadline": after(place.now, 24 * 3600),
    }
    assert place.coordination.lock_holder() == name(PLAN)


def test_a_rollout_names_who_submitted_the_runtime_through_the_api(place: Place) -> None:
    event = place.want(PLAN)
    version = str((place.coordination.fact(TARGET) or {})["runtimeVersion"])
    who = "arn:aws:iam::111122223333:user/kim"
    made = {"submitter": who, "submitterId": "AIDA", "runtimeDigest": sha("r"), "at": after(place.now, 0)}
    place.put_json(submission_key(version), {**made, "runtimeVersion": version})
    start(place, event)
    assert place.ledger.get_json(rollout_key(name(PLAN), "rollout"))["submitter"] == who


def test_a_rollout_of_a_runtime_put_into_s3_has_no_known_submitter(place: Place) -> None:
    start(place, place.want(PLAN))
    assert place.ledger.get_json(rollout_key(name(PLAN), "rollout"))["submitter"] == "unknown"


def test_a_duplicate_event_starts_one(place: Place) -> None:
    event = place.want(PLAN)
    start(place, event)
    before = place.sfn.inputs[name(PLAN)]
    place.later(60)
    for _ in range(3):
        assert start(place, event)["started"] is False
    assert list(place.sfn.executions) == [name(PLAN)]
    end(place, PLAN, "Failed")
    assert start(place, event)["started"] is False, "the same cause starts nothing again"
    assert list(place.sfn.executions) == [name(PLAN)]
    assert place.sfn.inputs[name(PLAN)] == before


def test_a_start_that_died_goes_on_with_the_first_ones_times(place: Place) -> None:
    event = place.want(PLAN)
    place.sfn.errors = ["InternalFailure"]
    with pytest.raises(ClientError):
        start(place, event)
    place.sfn.errors = ["ThrottlingException"]
    with pytest.raises(ClientError):
        start(place, event)
    deadline = place.ledger.get_json(rollout_key(name(PLAN), "rollout"))["deadline"]
    place.later(3600)
    assert start(place, event)["started"] is True
    assert place.sfn.inputs[name(PLAN)]["deadline"] == deadline


def test_a_start_that_died_with_the_lock_alone(place: Place) -> None:
    event = place.want(PLAN)
    place.coordination.take_lock(name(PLAN))
    assert start(place, event)["started"] is True


@pytest.mark.parametrize(
    ("event", "because"),
    [
        ({"replay-name": "r", "detail": {}}, "a replay"),
        ({"detail": {"plan": NEWER.desired_state_digest}}, "another plan is the target"),
        ({"detail": {"toPlan": PLAN.desired_state_digest}}, "the rollout that ended was for this plan"),
    ],
)
def test_events_without_effect(place: Place, event: dict[str, Any], because: str) -> None:
    place.want(PLAN)
    found = start(place, event)
    assert found["started"] is False
    assert because in found["because"]
    assert place.sfn.executions == {}
    assert place.ledger_keys() == []
    assert place.coordination.lock_holder() is None


def test_nothing_is_wanted(place: Place) -> None:
    assert start(place, {"detail": {}})["started"] is False


def test_an_active_plan_is_not_rolled_out_again(place: Place) -> None:
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    found = start(place, place.want(PLAN, run="another-run"))
    assert found == {"started": False, "because": "the plan is active already"}
    assert list(place.sfn.executions) == [name(PLAN)]


def test_a_plan_waits_for_the_active_rollout_and_then_comes(place: Place) -> None:
    start(place, place.want(PLAN))
    event = place.want(NEWER, run="run-2")
    assert f"rollout {name(PLAN)} is active" in start(place, event)["because"]
    assert name(NEWER) not in place.sfn.executions
    end(place, PLAN, "Succeeded")
    assert start(place, ended(PLAN)) == {"started": True, "execution": name(NEWER)}
    assert place.sfn.inputs[name(NEWER)]["fromPlan"] == PLAN.desired_state_digest
    assert place.coordination.lock_holder() == name(NEWER)


@pytest.mark.parametrize("wish", ["paused", "deleted"])
def test_nothing_new_is_rolled_out_while_nobody_wants_it(place: Place, wish: str) -> None:
    """A plan from before waited for the end of a rollout; whoever wants it again submits it again."""
    start(place, place.want(PLAN))
    start(place, place.want(NEWER, run="run-2"))
    if wish == "paused":
        place.submit(paused=True)
    else:
        place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    end(place, PLAN, "Succeeded")
    assert start(place, ended(PLAN)) == {"started": False, "because": f"the runtime is {wish}"}
    assert list(place.sfn.executions) == [name(PLAN)]
    assert place.coordination.lock_holder() is None
    place.submit()
    assert start(place, place.want(NEWER, run="run-3")) == {"started": True, "execution": name(NEWER)}


@pytest.mark.parametrize("status", ["FAILED", "ABORTED"])
def test_a_pause_supersedes_nothing(place: Place, status: str) -> None:
    """What stalled can still be redriven: no newer rollout takes its place before the pause is over."""
    start(place, place.want(PLAN))
    place.sfn.executions[name(PLAN)] = status
    place.submit(paused=True)
    assert start(place, place.want(NEWER, run="run-2"))["started"] is False
    assert place.ledger.get(rollout_key(name(PLAN), "outcome")) is None
    assert place.coordination.lock_holder() == name(PLAN)


def test_a_plan_that_was_replaced_while_it_waited_never_runs(place: Place) -> None:
    start(place, place.want(PLAN))
    waiting = place.want(NEWER, run="run-2")
    newest = plan(**{"recipe": "newest"})
    place.want(newest, run="run-3")
    end(place, PLAN, "Failed")
    assert start(place, waiting)["started"] is False
    assert start(place, ended(PLAN))["execution"] == name(newest)


@pytest.mark.parametrize("status", ["FAILED", "ABORTED", "TIMED_OUT"])
def test_a_stalled_holder_is_superseded(place: Place, status: str) -> None:
    start(place, place.want(PLAN))
    place.sfn.executions[name(PLAN)] = status
    event = place.want(NEWER, run="run-2")
    assert start(place, event)["started"] is True
    outcome = place.ledger.get_json(rollout_key(name(PLAN), "outcome"))
    assert (outcome["outcome"], outcome["reason"]) == ("Superseded", "RolloutSuperseded")
    assert place.coordination.lock_holder() == name(NEWER)
    assert start(place, event)["started"] is False


def test_a_holder_that_never_got_its_record_has_an_outcome_too(place: Place) -> None:
    """It took the lock and died. Its record must never come later: the lock is somebody else's."""
    place.coordination.take_lock(name(PLAN))
    assert start(place, place.want(NEWER, run="run-2"))["started"] is True
    outcome = place.ledger.get_json(rollout_key(name(PLAN), "outcome"))
    assert outcome["outcome"] == "Superseded"
    assert place.ledger.get(rollout_key(name(PLAN), "rollout")) is None


def test_one_that_is_being_redriven_still_runs(place: Place) -> None:
    start(place, place.want(PLAN))
    place.sfn.executions[name(PLAN)] = "PENDING_REDRIVE"
    assert "is active" in start(place, place.want(NEWER, run="run-2"))["because"]
    assert place.ledger.get(rollout_key(name(PLAN), "outcome")) is None


def test_a_holder_that_ended_but_kept_the_lock_keeps_its_outcome(place: Place) -> None:
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    place.coordination.take_lock(name(PLAN))
    assert start(place, place.want(NEWER, run="run-2"))["started"] is True
    assert place.ledger.get_json(rollout_key(name(PLAN), "outcome"))["outcome"] == "Succeeded"


def test_a_fresh_rollout_of_a_plan_that_failed_has_the_next_number(place: Place) -> None:
    start(place, place.want(PLAN))
    end(place, PLAN, "Failed")
    assert start(place, place.want(PLAN, run="run-2")) == {"started": True, "execution": name(PLAN, 2)}
    assert place.ledger.get_json(rollout_key(name(PLAN, 2), "rollout"))["number"] == 2


def test_the_same_wish_again_takes_the_place_of_its_stalled_rollout(place: Place) -> None:
    start(place, place.want(PLAN))
    place.sfn.executions[name(PLAN)] = "FAILED"
    assert start(place, place.want(PLAN, run="run-2")) == {"started": True, "execution": name(PLAN, 2)}
    assert place.ledger.get_json(rollout_key(name(PLAN), "outcome"))["outcome"] == "Superseded"


# What stalled


def test_a_plan_that_waited_for_a_rollout_comes_when_that_one_stalls(place: Place) -> None:
    """Nothing else would wake it: a rollout that stalled announces no end."""
    start(place, place.want(PLAN))
    assert "is active" in start(place, place.want(NEWER, run="run-2"))["because"]
    place.sfn.executions[name(PLAN)] = "ABORTED"
    assert start(place, stalled_event(PLAN)) == {"started": True, "execution": name(NEWER)}
    assert place.coordination.lock_holder() == name(NEWER)
    assert start(place, stalled_event(PLAN))["started"] is False


def test_a_stalled_rollout_to_the_plan_that_is_wanted_waits_for_its_redrive(place: Place) -> None:
    start(place, place.want(PLAN))
    place.sfn.executions[name(PLAN)] = "FAILED"
    assert "may be redriven" in start(place, stalled_event(PLAN))["because"]
    assert place.ledger.get(rollout_key(name(PLAN), "outcome")) is None
    assert place.coordination.lock_holder() == name(PLAN), "a redrive continues under it"


def test_a_rollout_that_stalled_after_its_end_was_written_frees_the_lock(place: Place) -> None:
    """Its plan is active: no wish may come for long that would take the lock over."""
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    place.coordination.take_lock(name(PLAN))
    place.sfn.executions[name(PLAN)] = "RUNNING"
    start(place, stalled_event(PLAN))
    assert place.coordination.lock_holder() == name(PLAN), "it is at work again"
    place.sfn.executions[name(PLAN)] = "FAILED"
    assert start(place, stalled_event(PLAN))["started"] is False
    assert place.coordination.lock_holder() is None


def test_a_stalled_resolve_starts_no_rollout(place: Place) -> None:
    place.want(PLAN)
    event = {"detail-type": "Execution Stalled", "detail": {"run": "demo-run-1", "status": "FAILED"}}
    assert start(place, event)["started"] is False
    assert place.sfn.executions == {}


def test_a_late_word_of_a_stall_that_was_redriven_leaves_it_alone(place: Place) -> None:
    start(place, place.want(PLAN))
    place.want(NEWER, run="run-2")
    assert "is active" in start(place, stalled_event(PLAN))["because"]
    assert place.ledger.get(rollout_key(name(PLAN), "outcome")) is None


def test_an_execution_that_step_functions_forgot_makes_room_once_its_time_is_over(place: Place) -> None:
    """90 days after it stalled; its name is free again, but its deadline is long over."""
    start(place, place.want(PLAN))
    del place.sfn.executions[name(PLAN)]
    place.later(90 * 86400)
    assert start(place, place.want(PLAN, run="run-2")) == {"started": True, "execution": name(PLAN, 2)}
    assert place.ledger.get_json(rollout_key(name(PLAN), "outcome"))["outcome"] == "Superseded"
    assert place.coordination.lock_holder() == name(PLAN, 2)
