"""State "Hold step" and its wait: told once, let go by a person, ended by whatever ends a rollout."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from aicr_pipeline.actions.check_gate import check_gate
from aicr_pipeline.actions.hold_step import hold_step
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.actions.remind_approvers import remind_approvers
from aicr_pipeline.actions.tell_approvers import Ways
from aicr_pipeline.adapters.rollouts import load_hold
from aicr_pipeline.clock import after, parse_time, rfc3339
from aicr_pipeline.decide.application import new_application
from aicr_pipeline.decide.assess import assess, request_digest
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Report, acknowledgement_key, rollout_key

from local.kube import APP_PROJECTS, APPLICATIONS
from tests.functional.actions.support import BEGAN, DEADLINE, INBOX, ROLLOUT, Place, aws_error, item, step
from tests.unit.samples import DEPLOYED, plan, release, sha
from tests.unit.upgrades import boundary, record

BEFORE = plan(release("gpu-operator"), release("kai-scheduler"))
AFTER = plan(release("gpu-operator", "2.0.0"), release("kai-scheduler")).model_copy(
    update={"upgrades": (record("gpu-operator", boundary("<2.0.0", ">=2.0.0 <=2.1.0", "manual")),)}
)
HOLD = {"reason": "AwaitingAcknowledgement", "message": "step 1/2 gpu-operator (Upgrade): do it first"}
PAUSE = {"reason": "Paused", "message": "step 1/2 gpu-operator (Upgrade): The runtime is paused."}
ITEM = item(action="Upgrade")


def held(place: Place, hold: dict[str, str] = HOLD, **changes: Any) -> dict[str, Any]:
    """The state, as the gate hands over to it."""
    said = {
        "fromPlan": BEFORE.desired_state_digest,
        "toPlan": AFTER.desired_state_digest,
        "gate": {"open": False, "hold": hold},
    }
    made = step("Hold step", item=ITEM, input=said, **changes)
    ways = Ways(place.notifier, None, place.bus)
    return hold_step(
        made, place.config, place.ledger, ways, place.waits, b"k" * 32, "https://a.example", place.clock
    )


@pytest.fixture
def report(place: Place) -> Report:
    """A rollout whose first step is manual, approved; the runtime is there."""
    place.submit()
    place.start_rollout(AFTER, BEFORE)
    made = assess(BEFORE, AFTER, always_ask=True, from_is_whole=True)
    place.put_json(rollout_key(ROLLOUT, "report"), made.wire())
    place.approve(made)
    return made


def acknowledge(place: Place, digest: str, **changes: Any) -> None:
    made = {
        "rollout": ROLLOUT, "release": "gpu-operator", "requestDigest": digest, "by": "kim",
        "identity": "link", "issuer": "link", "reason": "done", "at": rfc3339(place.now), **changes,
    }  # fmt: skip
    place.put_json(acknowledgement_key(ROLLOUT, "gpu-operator"), made)


def answer(place: Place) -> dict[str, Any] | None:
    place.sweep()
    return place.sfn.answered.get("token")


def test_it_is_recorded_and_told_once_whoever_retries(place: Place, report: Report) -> None:
    first = held(place)
    again = held(place, retries=1)
    assert first == again == {"waiter": f"{ROLLOUT}/hold_step/gpu-operator", "deadline": DEADLINE}
    key = f"rollouts/{ROLLOUT}/holds/0001-AwaitingAcknowledgement.json"
    kept = json.loads(place.ledger.get(key) or b"{}")
    assert kept == {
        "rollout": ROLLOUT, "index": 1, "release": "gpu-operator", "at": rfc3339(BEGAN), **HOLD
    }  # fmt: skip
    assert [message["TopicArn"] for message in place.topics.sent] == ["topic-alex", "topic-kim"]
    text = place.topics.sent[0]["Message"]
    for words in (
        "waits: step 1/2 gpu-operator (Upgrade).",
        "  do it first",
        "1. Drain the queue.",
        DEADLINE,
    ):
        assert words in text, words
    assert "Short name, typed to confirm: " in text and "https://a.example/approvals/" in text
    assert len(place.topics.sent[0]["Subject"]) < 100
    (waiter,) = place.coordination.waiters()
    assert (waiter.kind, waiter.order) == ("hold", f"0000#{rfc3339(BEGAN)}#0001")
    assert answer(place) is None, "nothing happened yet"


def test_a_sync_window_is_waited_for_and_lifts_itself_or_by_hand(place: Place, report: Report) -> None:
    """A nightly freeze: the sweeper reads the project, nobody has to do anything."""
    deny = {"kind": "deny", "schedule": "0 12 * * *", "duration": "8h", "applications": ["*"]}
    place.store.merge(APP_PROJECTS, "aicr", {"spec": {"syncWindows": [deny]}}, namespace="argocd")
    frozen = {
        "reason": "EngineSuspended",
        "message": "step 1/2 gpu-operator (Upgrade): A sync window denies.",
    }
    held(place, frozen)
    assert answer(place) is None
    assert place.topics.sent[0]["Subject"].endswith("waits at gpu-operator")
    deny["manualSync"] = True
    place.store.merge(APP_PROJECTS, "aicr", {"spec": {"syncWindows": [deny]}}, namespace="argocd")
    assert answer(place) == {"output": {"release": "gpu-operator", "lifted": "EngineSuspended"}}


def test_a_sync_window_that_outlasts_the_deadline_ends_as_expired(place: Place, report: Report) -> None:
    allow = {"kind": "allow", "schedule": "0 0 30 2 *", "duration": "1h", "applications": ["*"]}
    place.store.merge(APP_PROJECTS, "aicr", {"spec": {"syncWindows": [allow]}}, namespace="argocd")
    held(place, {"reason": "EngineSuspended", "message": "step 1/2 gpu-operator (Upgrade): outside."})
    place.now = parse_time(DEADLINE)
    found = answer(place) or {}
    assert found["error"] == "RolloutExpired" and "outside." in found["cause"]


def test_a_hold_that_comes_back_is_told_again(place: Place, report: Report) -> None:
    held(place, PAUSE)
    held(place, PAUSE, enteredAt=after(BEGAN, 600))
    held(place, enteredAt=after(BEGAN, 900))
    assert len(place.topics.sent) == 6
    assert (
        "is paused" in place.topics.sent[0]["Subject"]
        and "waits at gpu-operator" in (place.topics.sent[-1]["Subject"])
    )
    assert "Drain" not in place.topics.sent[0]["Message"], "a pause has nothing to do with the record"


def test_the_newest_hold_is_why_it_waits(place: Place, report: Report) -> None:
    """Paused, then not acknowledged, then paused again: the page must not speak of the record."""
    for minute, hold in enumerate((PAUSE, HOLD, PAUSE, HOLD, PAUSE), 1):
        place.now = BEGAN + timedelta(minutes=minute)
        entered = rfc3339(place.now)
        for retries in (0, 1):
            held(place, hold, enteredAt=entered, retries=retries)
            found = load_hold(place.ledger, ROLLOUT, 0)
            assert found is not None
            assert (str(found.reason), found.at) == (hold["reason"], entered)
            place.later(1)
    assert len(place.ledger_keys(f"rollouts/{ROLLOUT}/holds/")) == 5, "a retry is no hold of its own"


def test_messages_that_nobody_takes_are_tried_again_and_do_not_stop_the_wait(
    place: Place, report: Report
) -> None:
    place.topics.error = aws_error("Throttling")
    for attempt in range(3):
        with pytest.raises(TransientError, match="Not one message"):
            held(place, retries=attempt)
    assert held(place, retries=3)["deadline"] == DEADLINE
    place.topics.error = None
    held(place, retries=4)
    assert place.topics.sent == [], "the last try settled it; the page shows the hold"
    assert place.events.details("Message Failed")


def test_an_acknowledgement_lets_it_go_once(place: Place, report: Report) -> None:
    held(place)
    acknowledge(place, request_digest(report, DEADLINE))
    assert answer(place) == {"output": {"release": "gpu-operator", "lifted": "AwaitingAcknowledgement"}}
    place.sweep()
    assert (place.sfn.calls, list(place.coordination.waiters())) == (1, [])


@pytest.mark.parametrize(
    "changes",
    [{"requestDigest": sha("another request")}, {"release": "kai-scheduler"}],
    ids=["digest", "step"],
)
def test_an_acknowledgement_of_something_else_does_not(
    place: Place, report: Report, changes: dict[str, str]
) -> None:
    held(place)
    acknowledge(place, request_digest(report, DEADLINE), **changes)
    assert answer(place) is None
    assert list(place.coordination.waiters())


def test_the_end_of_a_pause_lets_it_go(place: Place, report: Report) -> None:
    place.submit(paused=True)
    held(place, PAUSE)
    assert answer(place) is None
    place.submit(paused=False)
    assert answer(place) == {"output": {"release": "gpu-operator", "lifted": "Paused"}}


def revoke(place: Place) -> None:
    made = {
        "rollout": ROLLOUT,
        "by": "kim",
        "identity": "link",
        "issuer": "link",
        "reason": "stop",
        "at": DEADLINE,
    }
    place.put_json(rollout_key(ROLLOUT, "revocation"), made)


def delete(place: Place) -> None:
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")


ENDS: dict[str, tuple[Callable[[Place], Any], Reason, str]] = {
    "revoked": (revoke, Reason.RolloutRevoked, "Revoked by kim"),
    "deleted": (delete, Reason.Deleting, "nothing is removed"),
    "expired": (
        lambda place: place.later(6 * 3600),
        Reason.RolloutExpired,
        "it still waited for a person. do it",
    ),
    "superseded": (Place.end_rollout, Reason.RolloutSuperseded, "is over"),
}


@pytest.mark.parametrize(("happens", "reason", "words"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("hold", [HOLD, PAUSE], ids=["acknowledgement", "pause"])
def test_what_ends_a_rollout_ends_the_wait(
    place: Place, report: Report, hold: dict[str, str], happens: Any, reason: Reason, words: str
) -> None:
    if hold is PAUSE:
        place.submit(paused=True)
    held(place, hold)
    happens(place)
    found = answer(place) or {}
    assert found["error"] == reason
    assert found["cause"].startswith("step 1/2 gpu-operator (Upgrade): ")
    if hold is HOLD or reason is not Reason.RolloutExpired:
        assert words in found["cause"]


def test_an_approval_that_ran_out_ends_the_wait(place: Place) -> None:
    place.submit()
    place.start_rollout(AFTER, BEFORE)
    made = assess(BEFORE, AFTER, always_ask=True, from_is_whole=True)
    place.put_json(rollout_key(ROLLOUT, "report"), made.wire())
    place.approve(made, expiresAt=after(BEGAN, 60))
    held(place)
    place.later(61)
    assert (answer(place) or {})["error"] == "RolloutExpired"


def test_the_gate_and_the_wait_agree(place: Place, report: Report) -> None:
    """Whatever the gate holds, the sweeper keeps waiting for: or the two states would chase each other."""

    def gate() -> dict[str, Any]:
        made = step("Check gate", item=ITEM, token=None, input={
            "fromPlan": BEFORE.desired_state_digest, "toPlan": AFTER.desired_state_digest,
        })  # fmt: skip
        return check_gate(
            made, place.config, place.ledger, place.inbox, place.argocd, place.coordination, place.bus,
            place.clock,
            DEPLOYED,
        )  # fmt: skip

    fact = {"mintedAt": after(BEGAN, 0), "expiresAt": after(BEGAN, 12 * 3600)}
    place.coordination.put_fact(CREDENTIALS, fact)
    install(place, BEFORE)
    place.submit(paused=True)
    found = gate()
    assert found["hold"]["reason"] == "Paused", "a pause comes first"
    held(place, found["hold"])
    assert answer(place) is None
    place.submit()
    assert answer(place) is not None
    found = gate()
    assert found["hold"]["reason"] == "AwaitingAcknowledgement"
    held(place, found["hold"], token="second", enteredAt=after(BEGAN, 5))
    place.sweep()
    assert "second" not in place.sfn.answered
    acknowledge(place, request_digest(report, DEADLINE))
    place.sweep()
    assert "second" in place.sfn.answered
    assert gate() == {"open": True}


def install(place: Place, made: Plan) -> None:
    """The releases of a plan, as Argo CD last compared them."""
    for one in made.desired_state.releases:
        body = new_application(one, place.config, made.desired_state_digest, "demo-0/001")
        place.store.create(APPLICATIONS, body, namespace="argocd")
        source = body["spec"]["source"]
        compared = {"comparedTo": {"source": source, "destination": body["spec"]["destination"]}}
        place.set_application(one.name, {"status": {"sync": {"status": "Synced", **compared}}})


def test_a_held_step_is_reminded_of_once_at_half_of_its_time(place: Place, report: Report) -> None:
    place.coordination.take_lock(ROLLOUT)
    ways = Ways(place.notifier, None, place.bus)

    def remind() -> str | None:
        done = remind_approvers(
            place.config, place.ledger, place.coordination, ways, b"k" * 32, "https://a.example",
            place.clock, lambda found: None,
        )  # fmt: skip
        return done["reminded"]

    place.notifier.subscriptions = lambda name: []  # type: ignore[method-assign]
    held(place)
    place.topics.sent.clear()
    half = place.now + (parse_time(DEADLINE) - place.now) / 2
    place.now = half - timedelta(seconds=1)
    assert remind() is None
    place.now = half
    assert remind() == ROLLOUT
    assert remind() is None, "once"
    assert [message["TopicArn"] for message in place.topics.sent] == ["topic-alex", "topic-kim"]
    assert "reminder: rollout" in place.topics.sent[0]["Subject"]
    assert "Drain the queue." in place.topics.sent[0]["Message"]


def test_what_is_acknowledged_is_not_reminded_of(place: Place, report: Report) -> None:
    place.coordination.take_lock(ROLLOUT)
    held(place)
    acknowledge(place, request_digest(report, DEADLINE))
    place.now = parse_time(DEADLINE) - timedelta(seconds=1)
    place.notifier.subscriptions = lambda name: []  # type: ignore[method-assign]
    done = remind_approvers(
        place.config, place.ledger, place.coordination, Ways(place.notifier, None, place.bus), b"k" * 32,
        "https://a.example", place.clock, lambda found: None,
    )  # fmt: skip
    assert done["reminded"] is None
