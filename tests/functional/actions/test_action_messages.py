"""Who is written to, by which way, what becomes of a message that fails; reminders; bypass; events."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.actions.announce_decision import announce_decision
from aicr_pipeline.actions.check_gate import check_gate
from aicr_pipeline.actions.record_outcome import record_outcome
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.actions.remind_approvers import UNREACHABLE, Reachability, remind_approvers
from aicr_pipeline.actions.request_approval import request_approval
from aicr_pipeline.actions.sweep_waiters import Sweep
from aicr_pipeline.actions.tell_approvers import Delivery, Ways
from aicr_pipeline.adapters.approvals import approval_record_key
from aicr_pipeline.adapters.coordination import Waiter
from aicr_pipeline.clock import after
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.approvers import SlackSettings
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key

from tests.functional.actions.support import BEGAN, DEADLINE, PLAN, ROLLOUT, Place, aws_error, item, step
from tests.unit.samples import DEPLOYED, config, refused

SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:slack-AbCdEf"
KEY, BASE = b"k" * 64, "https://x.example"
LISTED = "arn:aws:sns:us-west-2:111122223333:t:1"


class Chat:
    """Takes the place of Slack."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.error: PipelineError | None = None

    def direct(self, user: str, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append((user, text))

    def channel(self, text: str) -> None:
        self.direct("channel", text)


class World:
    """What the two actions take beside the place."""

    def __init__(self, place: Place, **changes: Any) -> None:
        self.place, self.chat, self.failed = place, Chat(), list[Delivery]()
        place.config = config(**changes)
        place.submit()
        self.listed: dict[str, list[dict[str, str]]] = {}
        place.topics.get_paginator = lambda _: self  # type: ignore[attr-defined]

    def paginate(self, TopicArn: str) -> list[dict[str, Any]]:
        return [{"Subscriptions": []}, {"Subscriptions": self.listed.get(TopicArn, [])}]

    @property
    def ways(self) -> Ways:
        place = self.place
        return Ways(place.notifier, self.chat, place.bus, self.failed.append)  # type: ignore[arg-type]

    def ask(self, **changes: Any) -> dict[str, Any]:
        place = self.place
        made = step("Request approval", input={"toPlan": PLAN.desired_state_digest}, **changes)
        return request_approval(
            made, place.config, place.ledger, self.ways, place.waits, KEY, BASE, place.clock
        )

    def remind(self, report: Callable[[Reachability], None] = lambda found: None) -> dict[str, Any]:
        place = self.place
        return remind_approvers(
            place.config, place.ledger, place.coordination, self.ways, KEY, BASE, place.clock, report
        )

    def messages(self) -> list[dict[str, Any]]:
        keys = self.place.ledger_keys(f"rollouts/{ROLLOUT}/messages/")
        return [json.loads(self.place.ledger.get(key) or b"") for key in keys]


SLACK = {
    "approvals.slack": {"botTokenSecretArn": SECRET},
    "approvals.approvers": [{"name": "alex", "slack": "U012ABC"}, {"name": "kim"}],
}


def link(text: str) -> str:
    (found,) = [line for line in text.splitlines() if line.startswith("https://")]
    return found


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


# Reminders


def asked(place: Place, **changes: Any) -> World:
    place.put_rollout(PLAN)
    place.coordination.take_lock(ROLLOUT)
    world = World(place, **changes)
    world.ask()
    place.topics.sent.clear()
    return world


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


def subscribed(endpoint: str, arn: str = LISTED) -> list[dict[str, str]]:
    return [{"Endpoint": endpoint, "SubscriptionArn": arn, "Protocol": "email"}]


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


def decision(place: Place, word: str) -> bytes:
    request = json.loads(place.ledger.get(rollout_key(ROLLOUT, "request")) or b"")
    return json.dumps(
        {
            "rollout": ROLLOUT,
            "decision": word,
            "requestDigest": request["digest"],
            "by": ["alex"],
            "identity": "link",
            "issuer": "demo",
            "reason": "because",
            "at": after(BEGAN, 1),
            "expiresAt": DEADLINE,
        }
    ).encode()


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


# Bypass


def test_a_bypass_asks_nobody_and_says_so(place: Place) -> None:
    place.put_rollout(PLAN)
    world = World(place, **{"development": True, "approvals.bypass": True})
    world.ask()
    place.sweep()
    assert place.topics.sent == []
    assert place.sfn.answered["token"] == {"output": {"decision": "Bypassed", "by": []}}
    kept = json.loads(place.ledger.get(rollout_key(ROLLOUT, "bypass")) or b"")
    assert (kept["by"], kept["identity"]) == (["nobody"], "bypass")
    assert "nobody was asked" in kept["reason"]
    assert place.ledger.get(rollout_key(ROLLOUT, "decision")) is None
    assert place.events.details("Approval Decided")[0]["decision"] == "Bypassed"


def test_the_last_message_says_that_the_approval_was_bypassed(place: Place) -> None:
    place.put_rollout(PLAN)
    World(place, **{"development": True, "approvals.bypass": True}).ask()
    end(place, {"assessment": {"validation": "Required"}, "steps": [], "evidence": {"key": "e"}})
    assert len(place.topics.sent) == 2
    assert all("Approval was bypassed: nobody was asked" in sent["Message"] for sent in place.topics.sent)


def test_when_nobody_answered_everybody_is_told_of_the_end(place: Place) -> None:
    place.submit()
    asked(place)
    place.later(6 * 3600)
    place.sweep()
    end(place, {"approval": place.sfn.answered["token"]["output"]})
    assert [sent["Subject"] for sent in place.topics.sent] == [f"[aicr demo] rollout {ROLLOUT}: Expired"] * 2
    assert all("Nobody answered until" in sent["Message"] for sent in place.topics.sent)


def end(place: Place, state: dict[str, Any]) -> None:
    made = step("Record outcome", input={"toPlan": PLAN.desired_state_digest, **state}, token=None)
    record_outcome(
        made, place.config, place.ledger, place.coordination, place.bus, place.notifier, place.clock
    )


def test_the_gate_believes_a_bypass_only_while_it_is_configured(place: Place) -> None:
    place.submit()
    place.put_rollout(PLAN)
    place.coordination.put_fact(
        CREDENTIALS, {"mintedAt": after(BEGAN, 0), "expiresAt": after(BEGAN, 12 * 3600)}
    )
    world = World(place, **{"development": True, "approvals.bypass": True})
    world.ask()

    def gate() -> dict[str, Any]:
        made = step(
            "Check gate",
            input={"toPlan": PLAN.desired_state_digest, "fromPlan": None},
            token=None,
            item=item(),
        )
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

    assert gate() == {"open": True}
    place.config = config(development=True)
    with refused(Reason.RolloutFailed, "approvals.bypass is not set now"):
        gate()
