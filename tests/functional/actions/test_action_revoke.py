"""A revocation stops the rollout wherever it is; an approval is inherited by exactly the same question."""

import json
from typing import Any, cast

import pytest
from aicr_pipeline.actions.check_gate import check_gate
from aicr_pipeline.actions.confirm_criteria import confirm_criteria
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.actions.run_job import JobPlace
from aicr_pipeline.actions.start_rollout import start_rollout
from aicr_pipeline.adapters.rollouts import active_plan, last_step, load_rollout, standing_decision
from aicr_pipeline.clock import after
from aicr_pipeline.decide.assess import assess, request_digest
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key, step_key

from tests.functional.actions.support import BEGAN, DEADLINE, PLAN, ROLLOUT, Place, item, step
from tests.unit.samples import DEPLOYED, refused

TO = {"toPlan": PLAN.desired_state_digest}
SAYS = "Revoked by kim at 2026-01-01T12:00:00.000Z: looks wrong. No further step starts"


def revoke(place: Place, name: str = ROLLOUT) -> None:
    record = {"rollout": name, "by": "kim", "identity": "link", "issuer": "link", "reason": "looks wrong"}
    place.put_json(rollout_key(name, "revocation"), {**record, "at": after(BEGAN, 0)})


def gate(place: Place, index: int = 1, release: str = "gpu-operator") -> dict[str, Any]:
    made = step("Check gate", item=item(release, index), token=None, input=TO)
    return check_gate(
        made,
        place.config,
        place.ledger,
        place.inbox,
        place.argocd,
        place.coordination,
        place.bus,
        place.clock,
        DEPLOYED,
    )


@pytest.fixture
def approved(place: Place) -> Place:
    place.submit()
    place.approve(place.put_rollout(PLAN))
    place.coordination.put_fact(
        CREDENTIALS, {"mintedAt": after(BEGAN, 0), "expiresAt": after(BEGAN, 12 * 3600)}
    )
    return place


def test_the_gate_stops_before_the_next_step_and_records_the_last(approved: Place) -> None:
    assert last_step(approved.ledger, ROLLOUT) is None
    gate(approved)
    approved.later(60)
    gate(approved)
    found = last_step(approved.ledger, ROLLOUT)
    assert found and (found.index, found.release, found.at) == (1, "gpu-operator", after(BEGAN, 0)), "once"
    revoke(approved)
    with refused(Reason.RolloutRevoked, SAYS):
        gate(approved, 2, "kai-scheduler")
    found = last_step(approved.ledger, ROLLOUT)
    assert found and found.index == 1, "a step that was not let through did not start"


def test_no_later_state_starts_anything(approved: Place) -> None:
    revoke(approved)
    with refused(Reason.RolloutRevoked, SAYS):
        # It is refused before a place for its Job is asked for.
        confirm_criteria(
            step("Confirm criteria", input=TO), approved.config, approved.ledger, cast(JobPlace, None)
        )
    assert approved.coordination.waiters() == []


@pytest.mark.parametrize("decided", [True, False])
def test_a_revocation_ends_the_wait(place: Place, decided: bool) -> None:
    place.submit()
    report = place.put_rollout(PLAN)
    wanted = {"rollout": ROLLOUT, "digest": request_digest(report, DEADLINE), **TO}
    place.wait_for("w", "approval", wanted)
    place.sweep()
    assert place.sfn.answered == {}
    if decided:
        place.approve(report)
    revoke(place)
    place.sweep()
    outcome = place.sfn.answered["token of w"]["output"]["outcome"]
    assert outcome["reason"] == "RolloutRevoked" and outcome["message"].startswith(SAYS)


# A fresh rollout for the same question


def end(place: Place, number: int, outcome: str = "Failed") -> None:
    """A rollout that was approved ends."""
    name = execution_name("demo", PLAN.desired_state_digest, number)
    body = {"rollout": name, "outcome": outcome, "reason": "RolloutFailed", "message": "m"}
    place.put_json(rollout_key(name, "outcome"), {**body, "finishedAt": after(place.now, 0)})
    place.coordination.drop_lock(name)
    place.sfn.executions[name] = "FAILED"


def begin(place: Place, run: str) -> str:
    place.submit()
    done = start_rollout(
        place.want(PLAN, run=run), place.config, place.ledger, place.inbox, place.coordination,
        place.executions, place.clock,
    )  # fmt: skip
    assert done["started"], done
    return str(done["execution"])


def ask(place: Place, name: str, **changes: Any) -> str:
    """Assess it and write what is asked, as the states do; returns the digest."""
    rollout = load_rollout(place.ledger, name)
    report = assess(None, PLAN, always_ask=changes.pop("always", True), from_is_whole=rollout.from_is_whole)
    place.put_json(rollout_key(name, "report"), report.wire())
    digest = request_digest(report, rollout.deadline)
    asked = {
        "rollout": name, "shortName": "s", "digest": digest, "deadline": rollout.deadline,
        "asked": ["alex", "kim"], "askedAt": after(place.now, 0), "minApprovals": 1, "identity": "link",
    }  # fmt: skip
    place.put_json(rollout_key(name, "request"), {**asked, **changes})
    return digest


def decide(place: Place, name: str, digest: str, **changes: Any) -> None:
    decision = {
        "rollout": name, "decision": "Approved", "requestDigest": digest, "by": ["alex"], "identity": "link",
        "issuer": "link", "reason": "r", "at": after(place.now, 0),
        "expiresAt": load_rollout(place.ledger, name).deadline,
    }  # fmt: skip
    place.put_json(rollout_key(name, "decision"), {**decision, **changes})


def second(place: Place, **changes: Any) -> str:
    """One that failed half-way before, so that the one after it starts from the very same place."""
    place.put_plan(PLAN)
    first = begin(place, "run-1")
    decide(place, first, ask(place, first))
    begun = {"rollout": first, "index": 1, "release": PLAN.desired_state.releases[0].name, "at": DEADLINE}
    place.put_json(step_key(first, 1), begun)
    end(place, 1)
    place.later(60)
    name = begin(place, "run-2")
    assert load_rollout(place.ledger, name).inherits is None, (
        "it starts from half-way, which is another question"
    )
    decide(place, name, ask(place, name), **changes)
    place.later(60)
    return name


def test_the_same_question_again_is_not_asked_again(place: Place) -> None:
    before = second(place)
    end(place, 2)
    name = begin(place, "run-3")
    rollout, earlier = load_rollout(place.ledger, name), load_rollout(place.ledger, before)
    assert (rollout.inherits, rollout.deadline) == (before, earlier.deadline)
    assert standing_decision(place.ledger, rollout) is None, "nothing is asked yet, so nothing is answered"
    digest = ask(place, name)
    place.wait_for("w", "approval", {"rollout": name, "digest": digest, **TO})
    place.sweep()
    assert place.sfn.answered["token of w"]["output"] == {"decision": "Approved", "by": ["alex"]}
    end(place, 3)
    assert not active_plan(place.ledger).is_whole, "an inherited approval lets steps through like any other"
    again = load_rollout(place.ledger, begin(place, "run-4"))
    assert (again.inherits, again.deadline) == (before, earlier.deadline), "it is the same approval"


@pytest.mark.parametrize(
    "changes",
    [
        {"always": False},
        {"asked": ["kim", "sam"]},
        {"minApprovals": 2},
        {"identity": "signed-in"},
    ],
    ids=["another report", "another asked", "more asked", "more proof asked"],
)
def test_another_question_is_asked(place: Place, changes: dict[str, Any]) -> None:
    second(place)
    end(place, 2)
    name = begin(place, "run-3")
    digest = ask(place, name, **changes)
    place.wait_for("w", "approval", {"rollout": name, "digest": digest, **TO})
    place.sweep()
    assert place.sfn.answered == {}, "people are asked"
    decide(place, name, digest, decision="Rejected", by=["kim"])
    place.later(60)
    place.sweep()
    assert place.sfn.answered["token of w"]["output"]["outcome"]["reason"] == "RolloutRejected"


@pytest.mark.parametrize(
    ("changes", "then"),
    [
        ({"decision": "Rejected"}, "nothing"),
        ({"expiresAt": after(BEGAN, 90)}, "nothing"),
        ({}, "revoke"),
        ({}, "late"),
        ({"identity": "bypass"}, "ask"),
    ],
    ids=["rejected", "ran out", "revoked", "overdue", "bypassed"],
)
def test_what_no_fresh_rollout_inherits(place: Place, changes: dict[str, Any], then: str) -> None:
    before = second(place, **changes)
    if then == "revoke":
        revoke(place, before)
    end(place, 2)
    if then == "late":
        place.later(25 * 3600)
    name = begin(place, "run-3")
    rollout = load_rollout(place.ledger, name)
    assert then == "ask" or (rollout.inherits is None and rollout.deadline == after(place.now, 24 * 3600))
    ask(place, name)
    assert standing_decision(place.ledger, rollout) is None


def test_an_approval_taken_back_later_does_not_stand_either(place: Place) -> None:
    before = second(place)
    end(place, 2)
    name = begin(place, "run-3")
    ask(place, name)
    rollout = load_rollout(place.ledger, name)
    assert json.loads(place.ledger.get(rollout_key(name, "rollout")) or b"{}")["inherits"] == before
    assert standing_decision(place.ledger, rollout) is not None
    revoke(place, before)
    assert standing_decision(place.ledger, rollout) is None
