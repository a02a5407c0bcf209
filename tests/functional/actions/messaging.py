"""Approvers with their ways, and a rollout that was asked about."""

import json
from collections.abc import Callable
from typing import Any

from aicr_pipeline.actions.record_outcome import record_outcome
from aicr_pipeline.actions.remind_approvers import Reachability, remind_approvers
from aicr_pipeline.actions.request_approval import request_approval
from aicr_pipeline.actions.tell_approvers import Delivery, Ways
from aicr_pipeline.clock import after
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.rollout import rollout_key

from tests.functional.actions.support import BEGAN, DEADLINE, PLAN, ROLLOUT, Place, step
from tests.unit.samples import config

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


def asked(place: Place, **changes: Any) -> World:
    place.put_rollout(PLAN)
    place.coordination.take_lock(ROLLOUT)
    world = World(place, **changes)
    world.ask()
    place.topics.sent.clear()
    return world


def subscribed(endpoint: str, arn: str = LISTED) -> list[dict[str, str]]:
    return [{"Endpoint": endpoint, "SubscriptionArn": arn, "Protocol": "email"}]


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


def end(place: Place, state: dict[str, Any]) -> None:
    made = step("Record outcome", input={"toPlan": PLAN.desired_state_digest, **state}, token=None)
    record_outcome(
        made, place.config, place.ledger, place.coordination, place.bus, place.notifier, place.clock
    )
