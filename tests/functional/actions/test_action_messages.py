"""Who is written to, by which way, what becomes of a message that fails, and the events beside."""

import json
from pathlib import Path

import pytest
from aicr_pipeline.actions.announce_decision import announce_decision
from aicr_pipeline.actions.sweep_waiters import Sweep
from aicr_pipeline.adapters.coordination import Waiter
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.approvers import SlackSettings
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key

from tests.functional.actions.messaging import BASE, SECRET, SLACK, World, asked, decision, end, link
from tests.functional.actions.support import PLAN, ROLLOUT, Place, aws_error
from tests.unit.samples import refused


def test_each_is_asked_by_every_way_with_their_own_link_and_it_is_recorded(place: Place) -> None:
    place.put_rollout(PLAN)
    world = World(place, **SLACK)
    world.ask()
    topics = {sent["TopicArn"]: link(sent["Message"]) for sent in place.topics.sent}
    ((user, text),) = world.chat.sent
    assert (user, link(text)) == ("U012ABC", topics["topic-alex"])
    assert topics["topic-kim"] != topics["topic-alex"]
    (kept,) = world.messages()
    assert kept["kind"] == "request"
    assert [(one["to"], one["way"], one["error"]) for one in kept["messages"]] == [
        ("alex", "topic", None),
        ("alex", "slack", None),
        ("kim", "topic", None),
    ]
    assert "?s=" not in json.dumps(world.messages()) and world.failed == []


def test_a_message_that_fails_stops_no_other_and_is_told(place: Place) -> None:
    place.put_rollout(PLAN)
    world = World(place, **SLACK)
    place.topics.error = aws_error("AuthorizationError")
    world.ask()
    assert [user for user, _ in world.chat.sent] == ["U012ABC"], "Slack took one"
    assert len(place.coordination.waiters()) == 1
    assert [(one.to, one.way, one.error) for one in world.failed] == [
        ("alex", "topic", "AuthorizationError"),
        ("kim", "topic", "AuthorizationError"),
    ]
    details = place.events.details("Message Failed")
    assert [(one["to"], one["way"], one["kind"]) for one in details] == [
        ("alex", "topic", "request"),
        ("kim", "topic", "request"),
    ]
    assert "?s=" not in json.dumps(details)


def test_when_nobody_was_told_the_state_is_tried_again_and_then_waits(place: Place) -> None:
    place.submit()
    place.put_rollout(PLAN)
    world = World(place, **SLACK)
    place.topics.error = aws_error("Throttling")
    world.chat.error = PipelineError(Reason.InvalidConfiguration, "no")
    with refused(Reason.AwaitingApproval) as caught:
        world.ask()
    assert caught.info.value.retry
    assert len(place.coordination.waiters()) == 1, "who has the link can answer all the same"
    world.ask(retries=3)
    assert len(place.coordination.waiters()) == 1
    place.later(6 * 3600)
    place.sweep()
    assert place.sfn.answered["token"]["output"]["outcome"]["reason"] == "RolloutExpired", "nothing hangs"


def test_signed_in_people_and_a_channel_get_one_link_without_a_secret(place: Place) -> None:
    place.put_rollout(PLAN)
    world = World(
        place,
        **{
            "approvals.identity": "signed-in",
            "approvals.identityReason": None,
            "approvals.slack": {"webhookSecretArn": SECRET},
            "approvals.approvers": [{"name": n, "email": f"{n}@example.com"} for n in ("alex", "kim")],
        },
    )
    world.ask()
    texts = [sent["Message"] for sent in place.topics.sent] + [text for _, text in world.chat.sent]
    assert [user for user, _ in world.chat.sent] == ["channel"]
    assert len(texts) == 3
    assert {link(text) for text in texts} == {f"{BASE}/approvals/{ROLLOUT}"}
    assert not any("?s=" in text or "typed to confirm" in text for text in texts)


def test_a_channel_never_gets_a_secret_whatever_the_configuration_says(place: Place) -> None:
    """Also for a configuration that was made without its rules."""
    place.put_rollout(PLAN)
    world = World(place)
    settings = SlackSettings.model_construct(webhook_secret_arn=SECRET, bot_token_secret_arn=None)
    approvals = place.config.approvals.model_copy(update={"slack": settings})
    place.config = place.config.model_copy(update={"approvals": approvals})
    world.ask()
    assert world.chat.sent == []
    assert [one.to for one in world.failed] == ["channel"]


# What people decided, as events


def test_every_decision_is_an_event_until_the_bus_took_it(place: Place) -> None:
    world = asked(place)
    place.events.entries.clear()
    place.ledger.put_once(rollout_key(ROLLOUT, "decision"), decision(place, "Approved"))
    failing = [True]

    def decided(came_to: str, waiter: Waiter) -> None:
        place.events.failing = 1 if failing.pop() else 0
        announce_decision(came_to, str(waiter.wanted["rollout"]), place.ledger, place.bus)

    failing.insert(0, False)
    for holder in ("one", "two"):
        Sweep(place.world(), place.sfn, holder, 5.0, -1, lambda *_: None, lambda _: None, decided).run()
        place.later(60)
    assert place.sfn.answered["token"]["output"]["decision"] == "Approved"
    assert place.coordination.waiters() == []
    assert place.events.details("Approval Decided") == [
        {"cluster": "demo", "rollout": ROLLOUT, "decision": "Approved", "by": ["alex"], "identity": "link"}
    ]
    assert world.failed == []


@pytest.mark.parametrize(
    ("came_to", "word"),
    [
        ("RolloutExpired", "Expired"),
        ("RolloutSuperseded", "Superseded"),
        ("RolloutRevoked", "Revoked"),
        ("RolloutFailed", "Refused"),
        ("", "Refused"),
    ],
)
def test_ends_without_a_decision_are_events_too(place: Place, came_to: str, word: str) -> None:
    place.start_rollout(PLAN)
    announce_decision(came_to, ROLLOUT, place.ledger, place.bus)
    (found,) = place.events.details("Approval Decided")
    assert (found["decision"], found["by"], found["identity"]) == (word, [], None)


def test_the_age_of_the_oldest_waiter_is_known(place: Place) -> None:
    asked(place)
    place.later(600)
    place.wait_for("job", "ended", {}, answer={"output": {}})
    place.sfn.errors = ["ThrottlingException"] * 10
    sweep = Sweep(place.world(), place.sfn, "one", 5.0, -1, lambda *_: None, lambda _: None)
    sweep.run()
    assert sweep.oldest["approval"] == 600
    assert sweep.oldest["ended"] == 0


def test_the_page_of_events_has_every_field(place: Place) -> None:
    world = asked(place, **SLACK)
    world.chat.error = PipelineError(Reason.InvalidConfiguration, "no")
    place.later(4 * 3600)
    world.remind()
    announce_decision("RolloutExpired", ROLLOUT, place.ledger, place.bus)
    page = (Path(__file__).parents[3] / "docs" / "events.md").read_text()
    found = set()
    for kind in ("Message Failed", "Approvers Unreachable", "Approval Decided"):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{kind}` |")]
        for detail in place.events.details(kind):
            found.add(kind)
            fields = set(detail) - {"cluster"}
            fields |= {name for one in detail.get("approvers", []) for name in one}
            assert {name for name in fields if f"`{name}`" not in row} == set(), kind
    assert len(found) == 3


def test_when_nobody_answered_everybody_is_told_of_the_end(place: Place) -> None:
    place.submit()
    asked(place)
    place.later(6 * 3600)
    place.sweep()
    end(place, {"approval": place.sfn.answered["token"]["output"]})
    assert [sent["Subject"] for sent in place.topics.sent] == [f"[aicr demo] rollout {ROLLOUT}: Expired"] * 2
    assert all("Nobody answered until" in sent["Message"] for sent in place.topics.sent)
