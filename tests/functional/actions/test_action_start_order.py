"""The order of rollouts: each goes on from the last that succeeded, and knows what one before it left."""

import json
from typing import Any

import pytest
from aicr_pipeline.adapters.order import newest_first, place_key
from aicr_pipeline.adapters.rollouts import active_plan, load_rollout, standing_decision
from aicr_pipeline.clock import after
from aicr_pipeline.decide.assess import assess, request_digest
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import ready_key, rollout_key

from tests.functional.actions.starting import (
    NEWER,
    begin_step,
    end,
    ended_outcome,
    lose_the_table,
    name,
    stalled_event,
    start,
    whole,
)
from tests.functional.actions.support import PLAN, Place
from tests.unit.samples import plan, refused

pytestmark = pytest.mark.usefixtures("submitted")


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
