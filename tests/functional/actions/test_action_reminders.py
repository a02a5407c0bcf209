"""Reminders at half of the deadline, and who cannot be reached."""

import json

import pytest
from aicr_pipeline.actions.remind_approvers import UNREACHABLE, Reachability
from aicr_pipeline.adapters.approvals import approval_record_key

from tests.functional.actions.messaging import SLACK, World, asked, decision, link, subscribed
from tests.functional.actions.support import PLAN, ROLLOUT, Place


def test_one_reminder_at_half_of_the_deadline_with_the_same_link(place: Place) -> None:
    place.put_rollout(PLAN)
    place.coordination.take_lock(ROLLOUT)
    world = World(place)
    world.ask()
    first = [link(sent["Message"]) for sent in place.topics.sent]
    place.topics.sent.clear()
    place.later(3 * 3600 - 1)
    assert world.remind()["reminded"] is None
    place.later(1)
    assert world.remind()["reminded"] == ROLLOUT
    assert [link(sent["Message"]) for sent in place.topics.sent] == first
    assert all("still waits for approval; 3 h are left" in sent["Message"] for sent in place.topics.sent)
    assert all(sent["Subject"].startswith("[aicr demo] reminder: ") for sent in place.topics.sent)
    place.later(60)
    assert world.remind()["reminded"] is None
    assert len(place.topics.sent) == 2
    assert [kept["kind"] for kept in world.messages()] == ["reminder", "request"]


@pytest.mark.parametrize("what", ["decided", "over", "too late", "never asked", "no rollout", "bypassed"])
def test_nobody_is_reminded_of_what_is_not_asked_any_more(place: Place, what: str) -> None:
    world = World(place, **({"development": True, "approvals.bypass": True} if what == "bypassed" else {}))
    report = place.put_rollout(PLAN)
    if what != "no rollout":
        place.coordination.take_lock(ROLLOUT)
    if what == "decided":
        place.approve(report)
    elif what != "never asked":
        world.ask()
    if what == "over":
        place.end_rollout()
    place.topics.sent.clear()
    place.later(6 * 3600 if what == "too late" else 4 * 3600)
    assert world.remind()["reminded"] is None
    assert place.topics.sent == []


@pytest.mark.parametrize("deciding", [("alex",), ("kim",), ("alex", "kim")])
def test_who_approved_already_is_not_reminded(place: Place, deciding: tuple[str, ...]) -> None:
    """Three are asked and all have to approve; a record of one is written once."""
    three = [{"name": name} for name in ("alex", "kim", "sam")]
    place.notifier.topics = {name: f"topic-{name}" for name in ("alex", "kim", "sam")}
    world = asked(place, **{"approvals.approvers": three, "approvals.minApprovals": 3})
    for name in deciding:
        record = json.loads(decision(place, "Approved")) | {"by": [name]}
        place.ledger.put_once(approval_record_key(ROLLOUT, name), json.dumps(record).encode())
    place.later(4 * 3600)
    assert world.remind()["reminded"] == ROLLOUT
    told = {sent["TopicArn"].removeprefix("topic-") for sent in place.topics.sent}
    assert told == {"alex", "kim", "sam"} - set(deciding)


# Subscriptions


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (subscribed("Alex@example.com"), ""),
        (subscribed("alex@example.com", "PendingConfirmation"), "is not confirmed"),
        (subscribed("alex@example.com", "Deleted"), "is not confirmed"),
        (subscribed("other@example.com"), "is gone"),
        ([], "is gone"),
    ],
)
def test_who_cannot_be_reached_is_named(place: Place, listed: list[dict[str, str]], said: str) -> None:
    world = World(place, **{"approvals.approvers": [{"name": "alex", "email": "alex@example.com"}]})
    world.listed["topic-alex"] = listed
    found: list[Reachability] = []
    assert world.remind(found.append)["unreachable"] == (["alex"] if said else [])
    assert said in found[0].why and "@" not in found[0].why
    world.remind()
    told = place.events.details("Approvers Unreachable")
    assert len(told) == (1 if said else 0), "only what changed is announced"
    if said:
        assert [one["name"] for one in told[0]["approvers"]] == ["alex"]
        assert "alex" in (place.coordination.fact(UNREACHABLE) or {})
        world.listed["topic-alex"] = subscribed("alex@example.com")
        world.remind()
        assert place.events.details("Approvers Unreachable")[-1]["approvers"] == []


def test_without_an_address_any_confirmed_way_will_do(place: Place) -> None:
    world = World(place, **SLACK)
    assert world.remind()["unreachable"] == ["kim"], "alex has Slack"
    world.listed["topic-kim"] = subscribed("https://pager.example")
    assert world.remind()["unreachable"] == []
