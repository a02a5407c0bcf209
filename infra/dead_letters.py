"""Where events go that could not be handled, or say so. One queue: anything in it is worth a look."""

from collections.abc import Sequence

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.findings import acknowledge


class DeadLetters(Construct):
    """Encrypted, TLS only, kept for two weeks."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.queue = sqs.Queue(
            self,
            "Queue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        acknowledge(
            self.queue,
            "AwsSolutions-SQS3",
            "This is the dead-letter queue of rules, schedules and invocations; an alarm watches it.",
        )

    def accept_from(self, rules: Sequence[str]) -> None:
        """Let EventBridge put what it could not deliver for ``rules`` (ARNs)."""
        self.queue.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Rules",
                principals=[iam.ServicePrincipal("events.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[self.queue.queue_arn],
                conditions={
                    "ArnEquals": {"aws:SourceArn": list(rules)},
                    "StringEquals": {"aws:SourceAccount": Stack.of(self).account},
                },
            )
        )
