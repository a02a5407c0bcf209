"""What wakes the pipeline: rules on the default bus. Patterns name exact keys: nothing feeds itself."""

from typing import Any

from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

#: Replayed events have no effect: what they announced was acted on, or is looked up again by the sweeper.
_NOT_REPLAYED = {"replay-name": [{"exists": False}]}


class Rule(Construct):
    """One pattern, one function."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        description: str,
        pattern: dict[str, Any],
        function: lambda_.Function,
        dead_letters: sqs.IQueue,
    ) -> None:
        super().__init__(scope, id)
        rule = events.CfnRule(
            self,
            "Rule",
            description=description,
            event_pattern={**pattern, **_NOT_REPLAYED},
            targets=[
                events.CfnRule.TargetProperty(
                    id="function",
                    arn=function.function_arn,
                    retry_policy=events.CfnRule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=3600, maximum_retry_attempts=10
                    ),
                    dead_letter_config=events.CfnRule.DeadLetterConfigProperty(arn=dead_letters.queue_arn),
                )
            ],
        )
        lambda_.CfnPermission(
            self,
            "Permission",
            action="lambda:InvokeFunction",
            function_name=function.function_arn,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )
        self.arn = rule.attr_arn


class Kept(Construct):
    """One pattern whose events wait in the dead-letter queue, until a person looked at them."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        description: str,
        pattern: dict[str, Any],
        dead_letters: sqs.IQueue,
    ) -> None:
        super().__init__(scope, id)
        rule = events.CfnRule(
            self,
            "Rule",
            description=description,
            event_pattern={**pattern, **_NOT_REPLAYED},
            targets=[events.CfnRule.TargetProperty(id="queue", arn=dead_letters.queue_arn)],
        )
        self.arn = rule.attr_arn


def object_created(bucket: str, *keys: Any) -> dict[str, Any]:
    """S3 says that an object under one of ``keys`` (text, or a matcher) was put."""
    return {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {"bucket": {"name": [bucket]}, "object": {"key": list(keys)}},
    }


def object_changed(bucket: str, *keys: Any) -> dict[str, Any]:
    """S3 says that an object under one of ``keys`` was put or deleted."""
    created = object_created(bucket, *keys)
    return {**created, "detail-type": [*created["detail-type"], "Object Deleted"]}


def object_deleted(bucket: str, *keys: Any) -> dict[str, Any]:
    """S3 says that an object under one of ``keys`` was deleted, or got a delete marker."""
    return {**object_created(bucket, *keys), "detail-type": ["Object Deleted"]}


def own(cluster: str, *detail_types: str) -> dict[str, Any]:
    """Our own events about this cluster."""
    return {"source": ["aicr.pipeline"], "detail-type": list(detail_types), "detail": {"cluster": [cluster]}}


def execution_ended_badly(*machines: str) -> dict[str, Any]:
    """An execution failed, timed out or was stopped."""
    return {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {"status": ["FAILED", "TIMED_OUT", "ABORTED"], "stateMachineArn": list(machines)},
    }
