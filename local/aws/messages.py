"""SNS: keeps what was published, delivers to queues and functions, and never leaves the machine.

Moto would post to http(s) endpoints and invents the event that a function receives.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from local.aws.model import Message
from local.aws.patches import Patches
from local.aws.targets import DeliveryError, Targets


class Outbox:
    """Every Publish with the subscriptions of its moment; e-mail and the like go no further than here."""

    def __init__(self, targets: Targets, problems: list[str]) -> None:
        self.messages: list[Message] = []
        self._targets = targets
        self._problems = problems

    def install(self, patches: Patches) -> None:
        from moto.sns import models

        outbox = self
        original_topic = models.Topic.publish
        original_subscription = models.Subscription.publish

        def publish_topic(topic: Any, message: str, subject: str | None = None, **kwargs: Any) -> Any:
            found, _ = topic.sns_backend.list_subscriptions_by_topic(topic_arn=topic.arn)
            outbox.messages.append(
                Message(
                    topic_arn=topic.arn,
                    subject=subject,
                    message=message,
                    attributes=dict(kwargs.get("message_attributes") or {}),
                    subscriptions=tuple((s.protocol, s.endpoint) for s in found),
                    time=datetime.now(UTC),
                )
            )
            return original_topic(topic, message, subject=subject, **kwargs)

        def publish_subscription(
            subscription: Any, message: str, message_id: str, subject: str | None = None, **kwargs: Any
        ) -> None:
            if subscription.protocol == "sqs":
                original_subscription(subscription, message, message_id, subject=subject, **kwargs)
            elif subscription.protocol == "lambda":
                attributes = kwargs.get("message_attributes") or {}
                outbox._to_function(subscription, message, message_id, subject, attributes)

        patches.replace(models.Topic, "publish", publish_topic)
        patches.replace(models.Subscription, "publish", publish_subscription)

    def _to_function(
        self,
        subscription: Any,
        message: str,
        message_id: str,
        subject: str | None,
        attributes: dict[str, Any],
    ) -> None:
        matcher = subscription._filter_policy_matcher
        if matcher is not None and not matcher.matches(attributes, message):
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = {
            "EventSource": "aws:sns",
            "EventVersion": "1.0",
            "EventSubscriptionArn": subscription.arn,
            "Sns": {
                "Type": "Notification",
                "MessageId": message_id,
                "TopicArn": subscription.topic.arn,
                "Subject": subject,
                "Message": message,
                "Timestamp": now,
                "SignatureVersion": "1",
                "Signature": "",
                "SigningCertUrl": "",
                "UnsubscribeUrl": "",
                "MessageAttributes": {
                    k: {"Type": v["Type"], "Value": v["Value"]} for k, v in attributes.items()
                },
            },
        }
        try:
            self._targets.send(
                subscription.endpoint,
                json.dumps({"Records": [record]}),
                principal="sns.amazonaws.com",
                source_arn=subscription.topic.arn,
            )
        except DeliveryError as error:
            self._problems.append(f"topic {subscription.topic.arn} to {subscription.endpoint}: {error}")
