"""Starting: one wish starts one resolve, one plan one rollout, whatever comes twice or dies in between."""

import json
from typing import Any

import pytest
from aicr_pipeline.actions.announce_plan import TARGET, announce_plan
from aicr_pipeline.actions.start_resolve import start_resolve
from aicr_pipeline.actions.start_rollout import start_rollout
from aicr_pipeline.adapters.order import newest_first, place_key
from aicr_pipeline.adapters.rollouts import active_plan, load_rollout, standing_decision
from aicr_pipeline.adapters.runtimes import read_runtime
from aicr_pipeline.clock import after
from aicr_pipeline.decide.assess import assess, request_digest
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.operators import submission_key
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import ready_key, rollout_key, step_key
from botocore.exceptions import ClientError

from tests.functional.actions.support import BEGAN, INBOX, PLAN, TABLE, Place, step
from tests.unit.samples import plan, refused, sha

NEWER = plan(**{"recipe": "newer"})


@pytest.fixture(autouse=True)
def submitted(place: Place) -> None:
    place.submit()


def name(made: Plan, number: int = 1) -> str:
    return execution_name("demo", made.desired_state_digest, number)


def start(place: Place, event: dict[str, Any]) -> dict[str, Any]:
    return start_rollout(
        event, place.config, place.ledger, place.inbox, place.coordination, place.executions, place.clock
    )


def ended(made: Plan, number: int = 1) -> dict[str, Any]:
    detail = {"cluster": "demo", "rollout": name(made, number), "toPlan": made.desired_state_digest}
    return {"detail-type": "Rollout Ended", "detail": detail}


def ended_outcome(made: Plan, outcome: str = "Failed", number: int = 1) -> dict[str, Any]:
    reason = "RolledOut" if outcome == "Succeeded" else "RolloutFailed"
    body = {"rollout": name(made, number), "outcome": outcome, "reason": reason, "message": "m"}
    return {**body, "finishedAt": after(BEGAN, 0)}


def end(place: Place, made: Plan, outcome: str, number: int = 1, status: str = "FAILED") -> None:
    """A rollout records its outcome and frees the lock, as Record outcome does."""
    place.put_json(rollout_key(name(made, number), "outcome"), ended_outcome(made, outcome, number))
    place.coordination.drop_lock(name(made, number))
    place.sfn.executions[name(made, number)] = "SUCCEEDED" if outcome == "Succeeded" else status


def begin_step(place: Place, rollout: str, index: int = 1) -> None:
    """The gate let a step through."""
    started = {"rollout": rollout, "index": index, "release": "gpu-operator", "at": after(place.now, 0)}
    place.put_json(step_key(rollout, index), started)


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


def whole(place: Place, made: Plan, number: int = 1) -> bool:
    return bool(place.ledger.get_json(rollout_key(name(made, number), "rollout"))["fromIsWhole"])


def test_a_rollout_after_one_that_ended_half_way_knows_it(place: Place) -> None:
    start(place, place.want(PLAN))
    assert whole(place, PLAN)
    end(place, PLAN, "Succeeded")
    start(place, place.want(NEWER, run="run-2"))
    assert whole(place, NEWER)
    report = assess(PLAN, NEWER, always_ask=False, from_is_whole=True)
    place.put_json(rollout_key(name(NEWER), "report"), report.wire())
    begin_step(place, name(NEWER))
    end(place, NEWER, "Failed")
    start(place, place.want(plan(**{"recipe": "newest"}), run="run-3"))
    assert not whole(place, plan(**{"recipe": "newest"}))


@pytest.mark.parametrize("wanted", ["the same", "another"])
def test_a_rollout_in_place_of_one_that_stalled_half_way_knows_it(place: Place, wanted: str) -> None:
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    start(place, place.want(NEWER, run="run-2"))
    report = assess(PLAN, NEWER, always_ask=False, from_is_whole=True)
    place.put_json(rollout_key(name(NEWER), "report"), report.wire())
    begin_step(place, name(NEWER))
    place.sfn.executions[name(NEWER)] = "FAILED"
    next_ = NEWER if wanted == "the same" else plan(**{"recipe": "newest"})
    found = start(place, place.want(next_, run="run-3"))
    assert found["started"] is True
    assert not whole(place, next_, int(found["execution"].rpartition("-")[2]))


def lose_the_table(place: Place) -> None:
    for found in place.dynamodb.scan(TableName=TABLE)["Items"]:
        place.dynamodb.delete_item(TableName=TABLE, Key={"pk": found["pk"], "sk": found["sk"]})


def test_a_rollout_that_was_lost_with_the_table_is_ended_and_what_it_wrote_is_not_unchanged(
    place: Place,
) -> None:
    place.put_plan(PLAN)
    start(place, place.want(PLAN))
    begin_step(place, name(PLAN))
    place.sfn.executions[name(PLAN)] = "ABORTED"
    lose_the_table(place)
    assert start(place, place.want(NEWER, "demo-run00000-2"))["started"] is True
    assert place.ledger.get_json(rollout_key(name(PLAN), "outcome"))["reason"] == "RolloutSuperseded"
    assert not whole(place, NEWER)


def test_a_rollout_that_still_runs_gets_its_lock_back(place: Place) -> None:
    start(place, place.want(PLAN))
    lose_the_table(place)
    newer = place.want(NEWER, "demo-run00000-2")
    assert start(place, newer) == {"started": False, "because": f"rollout {name(PLAN)} is active"}
    waits = f"rollouts/{name(PLAN)}/waiting/{NEWER.desired_state_digest[7:]}.json"
    assert place.ledger.get_json(waits)["plan"] == NEWER.desired_state_digest, "its page says so"
    assert place.coordination.lock_holder() == name(PLAN)
    place.sfn.executions[name(PLAN)] = "ABORTED"
    assert start(place, stalled_event(PLAN))["started"] is True
    assert place.coordination.lock_holder() == name(NEWER)


# The order of rollouts


def order(place: Place) -> list[str]:
    return list(newest_first(place.ledger))


def die_after(place: Place, key: str, monkeypatch: pytest.MonkeyPatch, event: dict[str, Any]) -> None:
    """A delivery whose function dies once it put a key that begins so."""
    put = type(place.ledger).put_once

    def dying(ledger: Any, at: str, *given: Any) -> bool:
        written = put(ledger, at, *given)
        if at.startswith(key):
            raise MemoryError
        return written

    with monkeypatch.context() as patched:
        patched.setattr(type(place.ledger), "put_once", dying)
        with pytest.raises(MemoryError):
            start(place, event)


@pytest.mark.parametrize("key", ["resolves/", "order/", "rollouts/"])
def test_a_start_that_died_between_its_writes_goes_on_in_its_place(
    place: Place, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    event = place.want(NEWER, run="run-2")
    die_after(place, key, monkeypatch, event)
    assert active_plan(place.ledger).digest == PLAN.desired_state_digest, "nothing else changed"
    lose_the_table(place)
    event = place.want(NEWER, run="run-2")
    for started in (True, False):
        assert start(place, event)["started"] is started
        assert order(place) == [name(NEWER), name(PLAN)]
    assert place.sfn.inputs[name(NEWER)]["fromPlan"] == PLAN.desired_state_digest


@pytest.mark.parametrize("key", ["order/", "rollouts/"])
def test_a_start_that_died_in_its_place_is_in_nobodys_way(
    place: Place, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """Its event never comes again, and the table is lost: the ledger alone knows of it."""
    die_after(place, key, monkeypatch, place.want(PLAN))
    late = place.want(PLAN)
    lose_the_table(place)
    event = place.want(NEWER, run="run-2")
    assert start(place, event) == {"started": True, "execution": name(NEWER)}
    assert order(place) == [name(NEWER), name(PLAN)]
    assert place.ledger.get_json(rollout_key(name(PLAN), "outcome"))["reason"] == "RolloutSuperseded"
    assert start(place, late)["started"] is False
    place.want(PLAN)
    assert start(place, late)["because"] == f"rollout {name(PLAN)} is over"


def test_a_place_that_another_rollout_took_meanwhile_is_looked_at_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two functions start at once, which only a lost table lets them: the order has one after the other."""
    event = place.want(PLAN)
    put = type(place.ledger).put_once

    def quicker(ledger: Any, key: str, *given: Any) -> bool:
        if key == place_key(1) and put(ledger, key, json.dumps({"rollout": name(NEWER)}).encode()):
            place.sfn.executions[name(NEWER)] = "RUNNING"
        return put(ledger, key, *given)

    with monkeypatch.context() as patched:
        patched.setattr(type(place.ledger), "put_once", quicker)
        with pytest.raises(TransientError, match=f"{name(NEWER)} began meanwhile"):
            start(place, event)
    assert place.ledger.get(rollout_key(name(PLAN), "rollout")) is None
    assert start(place, event)["because"] == f"rollout {name(NEWER)} is active"
    place.sfn.executions[name(NEWER)] = "FAILED"
    assert start(place, event)["started"] is True
    assert order(place) == [name(PLAN), name(NEWER)]


def test_no_clock_makes_the_order(place: Place) -> None:
    """It stands still, and then goes back by a year."""
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    start(place, place.want(NEWER, run="run-2"))
    end(place, NEWER, "Succeeded")
    place.later(-365 * 86400)
    newest = plan(**{"recipe": "newest"})
    start(place, place.want(newest, run="run-3"))
    assert order(place) == [name(newest), name(NEWER), name(PLAN)]
    assert place.sfn.inputs[name(newest)]["fromPlan"] == NEWER.desired_state_digest


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"rollout": 1}', None])
def test_an_order_that_cannot_be_read_starts_nothing(place: Place, body: bytes | None) -> None:
    """To take the cluster for empty, or an older plan for the active one, would be worse."""
    key, text = place_key(1), json.dumps({"rollout": name(NEWER)}).encode()
    place.ledger.put_once(place_key(2), text)
    if body is not None:
        place.ledger.put_once(key, body)
    place.put_json(rollout_key(name(NEWER), "outcome"), ended_outcome(NEWER))
    with refused(Reason.PlanUnreadable, key):
        start(place, place.want(PLAN))
    assert place.sfn.executions == {}


def test_what_is_no_place_is_not_taken_for_one(place: Place) -> None:
    place.ledger.put_once("order/README", b"")
    with refused(Reason.PlanUnreadable, "order/README"):
        start(place, place.want(PLAN))


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


def test_the_from_plan_is_the_newest_that_succeeded(place: Place) -> None:
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    start(place, place.want(NEWER, run="run-2"))
    end(place, NEWER, "Failed")
    newest = plan(**{"recipe": "newest"})
    start(place, place.want(newest, run="run-3"))
    assert place.sfn.inputs[name(newest)]["fromPlan"] == PLAN.desired_state_digest


def test_back_to_the_last_good_plan_after_a_rollout_that_wrote_releases(place: Place) -> None:
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    start(place, place.want(NEWER, run="run-2"))
    report = assess(PLAN, NEWER, always_ask=False, from_is_whole=True)
    assert not report.approval_needed
    place.put_json(rollout_key(name(NEWER), "report"), report.wire())
    begin_step(place, name(NEWER))
    end(place, NEWER, "Failed")
    assert start(place, place.want(PLAN, run="run-3")) == {"started": True, "execution": name(PLAN, 2)}


def test_a_rollout_that_never_got_its_approval_left_the_last_plan_whole(place: Place) -> None:
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    start(place, place.want(NEWER, run="run-2"))
    report = assess(PLAN, NEWER, always_ask=True, from_is_whole=True)
    place.put_json(rollout_key(name(NEWER), "report"), report.wire())
    end(place, NEWER, "Rejected")
    assert start(place, place.want(PLAN, run="run-3"))["because"] == "the plan is active already"


def test_a_rollout_that_was_approved_and_began_no_step_left_the_last_plan_whole(place: Place) -> None:
    """The gate records a step before anything of it is written."""
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    start(place, place.want(NEWER, run="run-2"))
    report = assess(PLAN, NEWER, always_ask=False, from_is_whole=True)
    place.put_json(rollout_key(name(NEWER), "report"), report.wire())
    end(place, NEWER, "Failed")
    assert start(place, place.want(PLAN, run="run-3"))["because"] == "the plan is active already"


def test_a_rollout_whose_place_is_taken_says_what_it_installed(place: Place) -> None:
    """It stalled, so no state said so; its steps' records do."""
    start(place, place.want(PLAN))
    report = assess(None, PLAN, always_ask=True, from_is_whole=True)
    place.put_json(rollout_key(name(PLAN), "report"), report.wire())
    for index in (1, 2):
        begin_step(place, name(PLAN), index)
    place.put_json(ready_key(name(PLAN), 1), {"index": 1})
    place.sfn.executions[name(PLAN)] = "TIMED_OUT"
    start(place, place.want(NEWER, run="run-2"))
    outcome = place.ledger.get_json(rollout_key(name(PLAN), "outcome"))
    assert outcome["installed"] == ["gpu-operator"]
    assert outcome["notInstalled"] == outcome["unfinished"] == ["kai-scheduler"]
    assert outcome["whatToDo"].startswith("Nothing: what is wanted by now has a rollout of its own")


# What stalled


def stalled_event(made: Plan, number: int = 1, **detail: Any) -> dict[str, Any]:
    detail = {"cluster": "demo", "rollout": name(made, number), "status": "ABORTED", **detail}
    return {"detail-type": "Execution Stalled", "detail": detail}


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


def test_an_approval_is_reused_after_an_end_before_the_first_step_and_asked_anew_half_way(
    place: Place,
) -> None:
    """From, to, report and deadline are all equal, or people are asked."""

    def asked_and_approved(number: int, whole: bool) -> str:
        rollout = name(NEWER, number)
        report = assess(PLAN, NEWER, always_ask=True, from_is_whole=whole)
        place.put_json(rollout_key(rollout, "report"), report.wire())
        deadline = place.ledger.get_json(rollout_key(rollout, "rollout"))["deadline"]
        request = {
            "rollout": rollout, "shortName": "s", "digest": request_digest(report, deadline),
            "deadline": deadline, "asked": ["alex", "kim"], "askedAt": after(place.now, 0),
            "minApprovals": 1, "identity": "link",
        }  # fmt: skip
        place.put_json(rollout_key(rollout, "request"), request)
        return str(request["digest"])

    def decide(number: int, digest: str) -> None:
        decision = {
            "rollout": name(NEWER, number), "decision": "Approved", "requestDigest": digest, "by": ["alex"],
            "identity": "link", "issuer": "aicr-pipeline", "reason": "yes", "at": after(place.now, 0),
            "expiresAt": after(place.now, 3600),
        }  # fmt: skip
        place.put_json(rollout_key(name(NEWER, number), "decision"), decision)

    place.put_plan(PLAN)
    place.put_plan(NEWER)
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    start(place, place.want(NEWER, run="run-2"))
    decide(1, asked_and_approved(1, whole=True))
    end(place, NEWER, "Failed")  # at the gate of its first step
    place.later(60)
    start(place, place.want(NEWER, run="run-3"))
    second = load_rollout(place.ledger, name(NEWER, 2))
    assert second.inherits == name(NEWER)
    asked_and_approved(2, whole=True)
    standing = standing_decision(place.ledger, second)
    assert standing and standing.rollout == name(NEWER)
    begin_step(place, name(NEWER, 2))
    end(place, NEWER, "Failed", 2)
    start(place, place.want(NEWER, run="run-4"))
    third = load_rollout(place.ledger, name(NEWER, 3))
    assert (third.inherits, third.from_is_whole) == (None, False)
    assert third.deadline > second.deadline, "a question of its own"


# Announcing a plan


def announce(place: Place, version: str, made: Plan = PLAN, **state: Any) -> dict[str, Any]:
    given = {
        "runtimeVersion": version,
        "run": "run-1",
        "plan": {"digest": made.desired_state_digest, "releases": 2},
        **state,
    }
    taken = step("Announce plan", input=given, token=None)
    return announce_plan(taken, place.inbox, place.ledger, place.coordination, place.bus)


READY = {"announced": True, "event": "Plan Ready"}


def test_announced_twice_is_one_target(place: Place) -> None:
    version = place.submit()
    assert announce(place, version) == announce(place, version) == READY
    fact = {"plan": PLAN.desired_state_digest, "runtimeVersion": version, "run": "run-1"}
    assert place.coordination.fact(TARGET) == fact
    assert (
        place.events.details("Plan Ready")
        == [{"cluster": "demo", "releases": 2, "trigger": "submission", **fact}] * 2
    )


@pytest.mark.parametrize("trigger", ["submission", "schedule", "hand"])
def test_an_event_that_was_not_taken_is_sent_by_the_retry(place: Place, trigger: str) -> None:
    version = place.submit()
    place.events.failing = 1
    with pytest.raises(PipelineError) as caught:
        announce(place, version, trigger=trigger)
    assert caught.value.retry
    announce(place, version, trigger=trigger)
    assert place.events.types == ["Plan Ready"]


def test_a_newer_runtime_replaces_the_plan(place: Place) -> None:
    version = place.submit()
    newer = place.submit(paused=False)
    with refused(Reason.ResolveSuperseded, newer):
        announce(place, version)
    assert place.coordination.fact(TARGET) is None
    assert place.events.entries == []


def test_a_paused_or_deleted_runtime_is_not_rolled_out(place: Place) -> None:
    version = place.submit(paused=True)
    paused = {"announced": False, "event": "Plan Paused", "because": "spec.paused is true"}
    assert announce(place, version) == paused
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    with refused(Reason.ResolveSuperseded, "deleted"):
        announce(place, version)
    assert place.coordination.fact(TARGET) is None


def test_the_active_plan_is_nothing_new(place: Place) -> None:
    version = place.submit()
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    for trigger in ("submission", "schedule", "hand"):
        found = announce(place, version, run=f"by-{trigger}", trigger=trigger)
        assert (found["announced"], found["event"]) == (False, "Plan Unchanged")
    assert place.coordination.fact(TARGET)["run"] == "demo-run00000-1"  # type: ignore[index]
    # While another plan is wanted, the active one is news: it takes the other's question away.
    place.want(NEWER, run="run-2")
    assert announce(place, version, run="run-3") == READY


def test_only_a_person_asks_again_for_a_plan_that_failed(place: Place) -> None:
    version = place.submit()
    start(place, place.want(PLAN))
    end(place, PLAN, "Rejected")
    found = announce(place, version, run="run-2", trigger="schedule")
    assert found["because"] == "the plan had its rollout already"
    assert announce(place, version, run="run-3", trigger="hand") == READY
    assert announce(place, version, run="run-4") == READY


def test_a_scheduled_plan_that_was_never_rolled_out_is_announced_again(place: Place) -> None:
    """Its run put the target and died before the event."""
    version = place.submit()
    place.want(PLAN)
    assert announce(place, version, run="run-2", trigger="schedule") == READY


# Starting a resolve


def arrived(version: str, **more: Any) -> dict[str, Any]:
    return {"detail": {"object": {"key": "runtimes/cluster.yaml", "version-id": version}}, **more}


def begin(place: Place, event: dict[str, Any]) -> dict[str, Any]:
    return start_resolve(event, place.config, place.inbox, place.executions, place.clock)


def slot(at: str) -> dict[str, Any]:
    return {"source": "schedule", "at": at}


HAND = {"source": "hand"}


def test_each_version_is_resolved_once(place: Place) -> None:
    first = place.submit()
    found = begin(place, arrived(first))
    assert found["started"] is True
    assert place.sfn.inputs[found["execution"]] == {
        "run": found["execution"],
        "cluster": "demo",
        "runtimeVersion": first,
        "trigger": "submission",
        "stabilizationSeconds": 600,
    }
    assert begin(place, arrived(first)) == {"started": False, "execution": found["execution"]}
    second = place.submit(paused=True)
    assert begin(place, arrived(first))["started"] is False
    assert begin(place, arrived(second, **{"replay-name": "r"}))["started"] is False
    assert begin(place, arrived(second))["started"] is True
    assert len(place.sfn.executions) == 2


@pytest.mark.parametrize("event", [slot("2026-01-02T06:00:00Z"), HAND], ids=["schedule", "hand"])
def test_before_the_first_runtime_there_is_nothing_to_resolve(place: Place, event: dict[str, Any]) -> None:
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    assert begin(place, event) == {"started": False, "because": "no runtime was submitted yet"}
    version = place.submit()
    assert begin(place, event)["started"] is True
    (run,) = place.sfn.executions
    assert place.sfn.inputs[run]["runtimeVersion"] == version
    assert place.sfn.inputs[run]["trigger"] == event["source"]


def test_a_slot_delivered_twice_starts_one_run(place: Place) -> None:
    version = place.submit()
    found = begin(place, slot("2026-01-02T06:00:00Z"))
    assert found["execution"] == execution_name("demo", version, 202601020600)
    assert "resolves it already" in begin(place, slot("2026-01-02T06:00:00Z"))["because"]
    place.sfn.executions[found["execution"]] = "SUCCEEDED"
    place.later(3000)
    assert begin(place, slot("2026-01-02T06:00:00Z")) == {**found, "started": False}
    assert begin(place, slot("2026-01-03T06:00:00Z"))["started"] is True
    assert len(place.sfn.executions) == 2


@pytest.mark.parametrize("event", [slot("2026-01-02T06:00:00Z"), HAND], ids=["schedule", "hand"])
def test_what_runs_already_is_not_started_again(place: Place, event: dict[str, Any]) -> None:
    first = begin(place, arrived(place.submit()))["execution"]
    assert begin(place, event) == {"started": False, "because": f"run {first} resolves it already"}
    # A run of an older version is in nobody's way.
    place.submit(paused=True)
    assert begin(place, event)["started"] is True


def test_by_hand_the_same_version_has_another_run_each_time(place: Place) -> None:
    version = place.submit()
    names = []
    for _ in range(2):
        found = begin(place, HAND)
        assert found["started"] is True
        names.append(found["execution"])
        place.sfn.executions[found["execution"]] = "FAILED"
        place.later(1)
    assert names == [execution_name("demo", version, 20260101120000 + n) for n in range(2)]
    assert all(len(name) <= 80 for name in names)


def test_a_runtime_that_was_deleted_has_no_version_to_read(place: Place) -> None:
    version = place.submit()
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml", VersionId=version)
    with refused(Reason.Deleting, version):
        read_runtime(place.inbox, version)
