"""Events on the bus and messages to people."""

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from aicr_pipeline.adapters.aws import error_code
from aicr_pipeline.decide.subscriptions import Subscription
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.reasons import Reason

SOURCE = "aicr.pipeline"


class Bus:
    """EventBridge. An event is a wake-up or an announcement; it carries no truth."""

    def __init__(self, events: Any, bus: str, cluster: str) -> None:
        self._events = events
        self._bus = bus
        self._cluster = cluster

    def announce(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Put one event.

        Raises
        ------
        TransientError
            When the bus did not take it: PutEvents reports failures in its answer.
        """
        entry = {
            "Source": SOURCE,
            "DetailType": detail_type,
            "Detail": json.dumps({"cluster": self._cluster, **detail}),
            "EventBusName": self._bus,
        }
        answer = self._events.put_events(Entries=[entry])
        if answer.get("FailedEntryCount"):
            code = answer["Entries"][0].get("ErrorCode", "unknown")
            raise TransientError(
                Reason.Resolving, f"The event {detail_type!r} was not taken by the bus: {code}."
            )


class Notifier:
    """SNS: one topic per approver."""

    def __init__(self, sns: Any, topics: Mapping[str, str]) -> None:
        self._sns = sns
        self.topics = topics

    def send(self, approver: str, subject: str, message: str) -> None:
        """Publish to one approver.

        The subject is cut to what SNS takes: under 100 printable ASCII characters.
        """
        plain = "".join(c if 32 <= ord(c) < 127 else " " for c in subject)
        self._sns.publish(TopicArn=self.topics[approver], Subject=plain[:99], Message=message)

    def subscriptions(self, approver: str) -> list[Subscription]:
        """Who is subscribed to an approver's topic. One that was ended a while ago may still be listed."""
        if approver not in self.topics:
            return []
        pages = self._sns.get_paginator("list_subscriptions_by_topic").paginate(
            TopicArn=self.topics[approver]
        )
        return [
            # Else the ARN is a word: PendingConfirmation or Deleted.
            Subscription(found["Endpoint"], found["SubscriptionArn"].startswith("arn:"))
            for page in pages
            for found in page["Subscriptions"]
        ]

    def send_all(self, subject: str, message: str) -> dict[str, str | None]:
        """Publish the same text to everyone; one that is not taken stops no other.

        Returns
        -------
        dict
            Each approver with what SNS said, None when it took the message. Raised when it took none: then
            nobody hears it twice when it is tried again.
        """
        found: dict[str, str | None] = {}
        problem: Exception | None = None
        for approver in self.topics:
            try:
                self.send(approver, subject, message)
                found[approver] = None
            except (ClientError, BotoCoreError) as error:
                problem, found[approver] = error, error_code(error) or type(error).__name__
        if problem is not None and all(found.values()):
            raise problem
        return found
