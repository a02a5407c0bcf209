"""The coordination table: waiters with their task tokens, the sweeper's lease, the rollout lock.

Everything in it is rebuildable or short-lived; decisions live in the ledger. Every change is a
conditional write. TTL only tidies, so every read checks time.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from aicr_pipeline.adapters.aws import error_code
from aicr_pipeline.clock import parse_time, rfc3339

_KEEP_DAYS = 35


@dataclass(frozen=True)
class Waiter:
    """Something that takes longer than a Lambda: a Job, an Application, a person.

    ``order`` tells a newer token from an older one: state entry time and retry count. ``answer`` is
    what the token is to be answered with, once that is decided.
    """

    id: str
    kind: str
    token: str = field(repr=False)
    order: str
    deadline: str
    wanted: Mapping[str, Any] = field(default_factory=dict)
    registered_at: str = ""
    answer: Mapping[str, Any] | None = None


class Coordination:
    """One DynamoDB table with key (pk, sk)."""

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._db = dynamodb
        self._table = table

    # Waiters

    def register(self, waiter: Waiter, now: datetime) -> None:
        """Store a waiter, or give an existing one its newer token.

        An older token never replaces a newer one: an invocation that lost its race stays silent.
        """
        item = {
            "pk": {"S": "WAITERS"},
            "sk": {"S": waiter.id},
            "kind": {"S": waiter.kind},
            "token": {"S": waiter.token},
            "order": {"S": waiter.order},
            "deadline": {"S": waiter.deadline},
            "wanted": {"S": json.dumps(waiter.wanted)},
            "registeredAt": {"S": rfc3339(now)},
            "expiresAt": {
                "N": str(int((parse_time(waiter.deadline) + timedelta(days=_KEEP_DAYS)).timestamp()))
            },
        }
        if waiter.answer is not None:
            item["answer"] = {"S": json.dumps(waiter.answer)}
        self._conditionally(
            "put_item",
            Item=item,
            ConditionExpression="attribute_not_exists(sk) OR #order <= :order",
            ExpressionAttributeNames={"#order": "order"},
            ExpressionAttributeValues={":order": {"S": waiter.order}},
        )

    def waiters(self) -> list[Waiter]:
        """All waiters, by id."""
        found: list[Waiter] = []
        pages = self._db.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": "WAITERS"}},
            ConsistentRead=True,
        )
        for page in pages:
            found += [_waiter(item) for item in page["Items"]]
        return found

    def settle(self, waiter: Waiter, answer: Mapping[str, Any]) -> bool:
        """Decide a waiter's answer, once. False when it was decided before, or has a newer token."""
        return self._conditionally(
            "update_item",
            Key=_key("WAITERS", waiter.id),
            UpdateExpression="SET answer = :answer",
            ConditionExpression="#token = :token AND attribute_not_exists(answer)",
            ExpressionAttributeNames={"#token": "token"},
            ExpressionAttributeValues={
                ":answer": {"S": json.dumps(answer)},
                ":token": {"S": waiter.token},
            },
        )

    def forget(self, waiter: Waiter) -> None:
        """Drop a waiter whose token was answered, unless it has a newer token by now."""
        self._conditionally(
            "delete_item",
            Key=_key("WAITERS", waiter.id),
            ConditionExpression="#token = :token",
            ExpressionAttributeNames={"#token": "token"},
            ExpressionAttributeValues={":token": {"S": waiter.token}},
        )

    # The sweeper's lease

    def take_lease(self, holder: str, now: datetime, seconds: float) -> bool:
        """Take the lease; False while somebody else works under it.

        From one that is asleep between two looks it is taken at once: whoever comes has a reason to look
        now. The sleeper finds it gone (``wake_lease``) and ends.
        """
        return self._conditionally(
            "put_item",
            Item=_key("LEASE", "sweep")
            | {
                "holder": {"S": holder},
                "until": {"S": rfc3339(now + timedelta(seconds=seconds))},
                "expiresAt": {"N": str(int((now + timedelta(days=1)).timestamp()))},
            },
            ConditionExpression=(
                "attribute_not_exists(sk) OR #until < :now OR holder = :holder OR attribute_exists(asleep)"
            ),
            ExpressionAttributeNames={"#until": "until"},
            ExpressionAttributeValues={":now": {"S": rfc3339(now)}, ":holder": {"S": holder}},
        )

    def nudge_lease(self) -> bool:
        """Ask the one that works for another look; False when nobody works: then the lease may be taken."""
        return self._conditionally(
            "update_item",
            Key=_key("LEASE", "sweep"),
            UpdateExpression="SET nudged = :true",
            ConditionExpression="attribute_exists(sk) AND attribute_not_exists(asleep)",
            ExpressionAttributeValues={":true": {"BOOL": True}},
        )

    def renew_lease(self, holder: str, now: datetime, seconds: float) -> bool:
        """Hold it for longer while working; False when it is somebody else's by now."""
        return self._update_lease(holder, now, seconds, "SET #until = :until", "holder = :holder")

    def rest_lease(self, holder: str, now: datetime, seconds: float) -> bool:
        """Say that we sleep. False when we were nudged meanwhile (look again), or lost the lease."""
        return self._update_lease(
            holder,
            now,
            seconds,
            "SET #until = :until, asleep = :true",
            "holder = :holder AND attribute_not_exists(nudged)",
            {":true": {"BOOL": True}},
        )

    def wake_lease(self, holder: str, now: datetime, seconds: float) -> bool:
        """Begin another look, which answers all nudges so far; False when the lease is somebody else's."""
        change = "SET #until = :until REMOVE asleep, nudged"
        return self._update_lease(holder, now, seconds, change, "holder = :holder")

    def drop_lease(self, holder: str) -> bool:
        """Give the lease back. False when we were nudged meanwhile (look again), or lost it."""
        return self._conditionally(
            "delete_item",
            Key=_key("LEASE", "sweep"),
            ConditionExpression="holder = :holder AND attribute_not_exists(nudged)",
            ExpressionAttributeValues={":holder": {"S": holder}},
        )

    def leave_lease(self, holder: str) -> bool:
        """Give the lease back, nudged or not, so that the next one may take it; False when we lost it."""
        return self._conditionally(
            "delete_item",
            Key=_key("LEASE", "sweep"),
            ConditionExpression="holder = :holder",
            ExpressionAttributeValues={":holder": {"S": holder}},
        )

    def _update_lease(
        self,
        holder: str,
        now: datetime,
        seconds: float,
        change: str,
        condition: str,
        values: Mapping[str, Any] | None = None,
    ) -> bool:
        return self._conditionally(
            "update_item",
            Key=_key("LEASE", "sweep"),
            UpdateExpression=change,
            ConditionExpression=condition,
            ExpressionAttributeNames={"#until": "until"},
            ExpressionAttributeValues={
                ":holder": {"S": holder},
                ":until": {"S": rfc3339(now + timedelta(seconds=seconds))},
                **(values or {}),
            },
        )

    # The one active rollout

    def take_lock(self, rollout: str) -> str:
        """Take the rollout lock; returns the rollout that holds it, which may be another. It has no TTL."""
        holder = None
        while holder is None:
            if self._conditionally(
                "put_item",
                Item=_key("LOCK", "rollout") | {"holder": {"S": rollout}},
                ConditionExpression="attribute_not_exists(sk) OR holder = :holder",
                ExpressionAttributeValues={":holder": {"S": rollout}},
            ):
                return rollout
            holder = self.lock_holder()  # None: it was freed just now
        return holder

    def lock_holder(self) -> str | None:
        """The active rollout, if any."""
        item = self._get("LOCK", "rollout")
        return item["holder"]["S"] if item else None

    def drop_lock(self, rollout: str) -> None:
        """Free the lock if this rollout holds it."""
        self._conditionally(
            "delete_item",
            Key=_key("LOCK", "rollout"),
            ConditionExpression="holder = :holder",
            ExpressionAttributeValues={":holder": {"S": rollout}},
        )

    # Small facts that can be rebuilt: the plan that is wanted now, the registry token's life

    def put_fact(self, name: str, value: Mapping[str, Any]) -> None:
        """Replace a fact."""
        self._db.put_item(
            TableName=self._table, Item=_key("FACT", name) | {"value": {"S": json.dumps(value)}}
        )

    def change_fact(self, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> bool:
        """Replace a fact that is still ``before`` (None: absent); False when somebody else changed it."""
        condition = "attribute_not_exists(sk)" if before is None else "#value = :before"
        more = (
            {}
            if before is None
            else {
                "ExpressionAttributeNames": {"#value": "value"},
                "ExpressionAttributeValues": {":before": {"S": json.dumps(before)}},
            }
        )
        return self._conditionally(
            "put_item",
            Item=_key("FACT", name) | {"value": {"S": json.dumps(after)}},
            ConditionExpression=condition,
            **more,
        )

    def fact(self, name: str) -> dict[str, Any] | None:
        """A fact, or None."""
        item = self._get("FACT", name)
        return json.loads(item["value"]["S"]) if item else None

    def _get(self, pk: str, sk: str) -> dict[str, Any] | None:
        answer = self._db.get_item(TableName=self._table, Key=_key(pk, sk), ConsistentRead=True)
        item: dict[str, Any] | None = answer.get("Item")
        return item

    def _conditionally(self, call: str, **arguments: Any) -> bool:
        try:
            getattr(self._db, call)(TableName=self._table, **arguments)
        except ClientError as error:
            if error_code(error) == "ConditionalCheckFailedException":
                return False
            raise
        return True


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def _waiter(item: Mapping[str, Any]) -> Waiter:
    return Waiter(
        id=item["sk"]["S"],
        kind=item["kind"]["S"],
        token=item["token"]["S"],
        order=item["order"]["S"],
        deadline=item["deadline"]["S"],
        wanted=json.loads(item["wanted"]["S"]),
        registered_at=item["registeredAt"]["S"],
        answer=json.loads(item["answer"]["S"]) if "answer" in item else None,
    )
