"""How people are told: one topic per approver, and one for alarms."""

from collections.abc import Sequence

from aicr_pipeline.model.approvers import Approver
from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct


class Notifications(Construct):
    """Topics encrypted with a key of ours: AWS's own key for SNS does not let alarms publish.

    Parameters
    ----------
    publishers:
        Roles that may write to approvers.
    subscriber:
        ARN (a pattern) of the role that deploys: whoever subscribes to an approver's topic reads their links.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: str,
        approvers: Sequence[Approver],
        publishers: Sequence[iam.IRole],
        subscriber: str,
    ) -> None:
        super().__init__(scope, id)
        self._account = Stack.of(self).account
        self._cluster = cluster
        self.key = kms.Key(
            self,
            "Key",
            description=f"Messages of aicr-pipeline-{cluster}",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsPublish",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["kms:GenerateDataKey*", "kms:Decrypt"],
                resources=["*"],
                conditions={"StringEquals": {"aws:SourceAccount": self._account}},
            )
        )
        self.alarms = sns.Topic(self, "Alarms", master_key=self.key, enforce_ssl=True)
        self.alarms.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsPublish",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.alarms.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": self._account}},
            )
        )
        _check_size(cluster, approvers)
        self.topics: dict[str, sns.Topic] = {}
        for approver in approvers:
            self.topics[approver.name] = self._topic(approver, publishers, subscriber)

    def _topic(self, approver: Approver, publishers: Sequence[iam.IRole], subscriber: str) -> sns.Topic:
        topic = sns.Topic(
            self,
            f"Approver-{approver.name}",
            # Short on purpose: all of them go into one environment variable.
            topic_name=f"aicr-{self._cluster}-{approver.name}",
            master_key=self.key,
            enforce_ssl=True,
        )
        roles = [role.role_arn for role in publishers]
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="PipelinePublishes",
                principals=[iam.ArnPrincipal(role) for role in roles],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
            )
        )
        topic.add_to_resource_policy(
            _deny("NobodyElsePublishes", "sns:Publish", topic, {"ArnNotEquals": roles})
        )
        topic.add_to_resource_policy(
            _deny("OnlyTheDeploymentSubscribes", "sns:Subscribe", topic, {"ArnNotLike": [subscriber]})
        )
        if approver.email is not None:
            sns.Subscription(
                self,
                f"Mail-{approver.name}",
                topic=topic,
                protocol=sns.SubscriptionProtocol.EMAIL,
                endpoint=approver.email,
            )
        return topic


def _check_size(cluster: str, approvers: Sequence[Approver]) -> None:
    """A function's environment holds 4 KB, and one variable has every approver's name and topic in it.

    Raises
    ------
    ValueError
        When so many people with such long names do not fit.
    """
    # An ARN before its name has at most 50 characters; each name stands twice, with quotes and a comma.
    size = sum(50 + len(f"aicr-{cluster}-") + 2 * len(approver.name) + 8 for approver in approvers)
    if size > 3000:
        raise ValueError(
            f"approvals.approvers: {len(approvers)} approvers with such long names do not fit into a "
            "function's environment of 4 KB; ask fewer people, or give them shorter names"
        )


def _deny(sid: str, action: str, topic: sns.Topic, unless: dict[str, list[str]]) -> iam.PolicyStatement:
    """Deny ``action`` to all principals but those; it holds for administrators of the account too."""
    return iam.PolicyStatement(
        sid=sid,
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=[action],
        resources=[topic.topic_arn],
        conditions={operator: {"aws:PrincipalArn": arns} for operator, arns in unless.items()},
    )
