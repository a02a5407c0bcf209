"""Starting: one wish starts one resolve, one plan one rollout, whatever comes twice or dies in between."""

import time
from typing import Any

import pytest
from aicr_pipeline.actions.announce_plan import TARGET, announce_plan
from aicr_pipeline.actions.start_resolve import start_resolve
from aicr_pipeline.actions.start_rollout import start_rollout
from aicr_pipeline.adapters.runtimes import read_runtime
from aicr_pipeline.clock import after
from aicr_pipeline.decide.assess import assess
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key
from botocore.exceptions import ClientError

from tests.functional.actions.support import INBOX, PLAN, Place, step
from tests.unit.samples import plan, refused

NEWER = plan(**{"recipe": "newer"})


def name(made: Plan, number: int = 1) -> str:
    return execution_name("demo", made.desired_state_digest, number)


def start(place: Place, event: dict[str, Any]) -> dict[str, Any]:
    return start_rollout(event, place.config, place.ledger, place.coordination, place.executions, place.clock)


def ended(made: Plan, number: int = 1) -> dict[str, Any]:
    detail = {"cluster": "demo", "rollout": name(made, number), "toPlan": made.desired_state_digest}
    return {"detail-type": "Rollout Ended", "detail": detail}


def end(place: Place, made: Plan, outcome: str, number: int = 1, status: str = "FAILED") -> None:
    """A rollout records its outcome and frees the lock, as Record outcome does."""
    reason = "RolledOut" if outcome == "Succeeded" else "RolloutFailed"
    body = {"rollout": name(made, number), "outcome": outcome, "reason": reason, "message": "m"}
    place.put_json(rollout_key(name(made, number), "outcome"), {**body, "finishedAt": after(place.now, 0)})
    place.coordination.drop_lock(name(made, number))
    place.sfn.executions[name(made, number)] = "SUCCEEDED" if outcome == "Succeeded" else status


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
    time.sleep(1.1)  # S3 lists times in whole seconds
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
    place.sfn.executions[name(NEWER)] = "FAILED"
    time.sleep(1.1)  # S3 lists times in whole seconds
    next_ = NEWER if wanted == "the same" else plan(**{"recipe": "newest"})
    found = start(place, place.want(next_, run="run-3"))
    assert found["started"] is True
    assert not whole(place, next_, int(found["execution"].rpartition("-")[2]))


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
    time.sleep(1.1)  # S3 lists times in whole seconds
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


# Announcing a plan


def announce(place: Place, version: str) -> dict[str, Any]:
    given = {"runtimeVersion": version, "run": "run-1", "plan": {"digest": PLAN.desired_state_digest}}
    made = step("Announce plan", input=given, token=None)
    return announce_plan(made, place.inbox, place.coordination, place.bus)


def test_announced_twice_is_one_target(place: Place) -> None:
    version = place.submit()
    assert announce(place, version) == announce(place, version) == {"announced": True}
    fact = {"plan": PLAN.desired_state_digest, "runtimeVersion": version, "run": "run-1"}
    assert place.coordination.fact(TARGET) == fact
    assert place.events.details("Plan Ready") == [{"cluster": "demo", **fact}] * 2


def test_an_event_that_was_not_taken_is_sent_by_the_retry(place: Place) -> None:
    version = place.submit()
    place.events.failing = 1
    with pytest.raises(PipelineError) as caught:
        announce(place, version)
    assert caught.value.retry
    announce(place, version)
    assert place.events.types == ["Plan Ready"]


def test_a_newer_runtime_replaces_the_plan(place: Place) -> None:
    version = place.submit()
    place.submit(paused=False)
    assert announce(place, version) == {"announced": False, "because": "a newer runtime was submitted"}
    assert place.coordination.fact(TARGET) is None
    assert place.events.entries == []


def test_a_paused_or_deleted_runtime_is_not_rolled_out(place: Place) -> None:
    version = place.submit(paused=True)
    assert announce(place, version) == {"announced": False, "because": "spec.paused is true"}
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    assert announce(place, version)["announced"] is False
    assert place.coordination.fact(TARGET) is None


# Starting a resolve


def arrived(version: str, **more: Any) -> dict[str, Any]:
    return {"detail": {"object": {"key": "runtimes/cluster.yaml", "version-id": version}}, **more}


def test_each_version_is_resolved_once(place: Place) -> None:
    first = place.submit()
    found = start_resolve(arrived(first), place.config, place.inbox, place.executions)
    assert found["started"] is True
    assert place.sfn.inputs[found["execution"]] == {
        "run": found["execution"],
        "cluster": "demo",
        "runtimeVersion": first,
        "stabilizationSeconds": 600,
    }
    again = start_resolve(arrived(first), place.config, place.inbox, place.executions)
    assert again == {"started": False, "execution": found["execution"]}
    second = place.submit(paused=True)
    assert start_resolve(arrived(first), place.config, place.inbox, place.executions)["started"] is False
    assert (
        start_resolve(arrived(second, **{"replay-name": "r"}), place.config, place.inbox, place.executions)[
            "started"
        ]
        is False
    )
    assert start_resolve(arrived(second), place.config, place.inbox, place.executions)["started"] is True
    assert len(place.sfn.executions) == 2


def test_a_runtime_that_was_deleted_has_no_version_to_read(place: Place) -> None:
    version = place.submit()
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml", VersionId=version)
    with refused(Reason.Deleting, version):
        read_runtime(place.inbox, version)
