"""The buckets: the inbox (the wish, mutable), the ledger (every decision, write-once), their access log."""

from collections.abc import Mapping

from aicr_pipeline.model.config import Retention
from aws_cdk import CfnResource, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.ledger_writers import LEDGER_WRITERS


class Storage(Construct):
    """All three survive the stack: what was decided outlives the pipeline that decided it."""

    def __init__(self, scope: Construct, id: str, *, retention: Retention) -> None:
        super().__init__(scope, id)
        self.access_logs = s3.Bucket(
            self,
            "AccessLogs",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(retention.log_days))],
            removal_policy=RemovalPolicy.RETAIN,
        )
        self.inbox = s3.Bucket(
            self,
            "Inbox",
            versioned=True,
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            server_access_logs_bucket=self.access_logs,
            server_access_logs_prefix="inbox/",
            removal_policy=RemovalPolicy.RETAIN,
        )
        lock = (
            s3.ObjectLockRetention.compliance
            if retention.mode == "compliance"
            else s3.ObjectLockRetention.governance
        )
        self.ledger = s3.Bucket(
            self,
            "Ledger",
            versioned=True,
            object_lock_enabled=True,
            object_lock_default_retention=lock(Duration.days(retention.ledger_days)),
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            server_access_logs_bucket=self.access_logs,
            server_access_logs_prefix="ledger/",
            removal_policy=RemovalPolicy.RETAIN,
        )
        for bucket in (self.inbox, self.ledger):
            _send_events(bucket)
        self._write_once()

    def _write_once(self) -> None:
        """Nobody overwrites or removes, the account's administrators included.

        Object Lock alone is not enough: a delete marker hides an object, and then ``If-None-Match`` would
        succeed again. CopyObject and uploads from the console into this bucket fail, on purpose.
        """
        objects = self.ledger.arn_for_objects("*")
        self.ledger.add_to_resource_policy(
            iam.PolicyStatement(
                sid="OnlyNewObjects",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:PutObject"],
                resources=[objects],
                conditions={
                    "Null": {"s3:if-none-match": "true"},
                    # Parts of a multipart upload carry no such header; completing it does.
                    "Bool": {"s3:ObjectCreationOperation": "true"},
                },
            )
        )
        self.ledger.add_to_resource_policy(
            iam.PolicyStatement(
                sid="NothingIsRemoved",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=[
                    "s3:DeleteObject",
                    "s3:DeleteObjectVersion",
                    "s3:BypassGovernanceRetention",
                    "s3:ReplicateObject",
                ],
                resources=[objects],
            )
        )
        self.ledger.add_to_resource_policy(
            iam.PolicyStatement(
                sid="NothingExpires",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:PutLifecycleConfiguration"],
                resources=[self.ledger.bucket_arn],
            )
        )

    def only_writers(self, roles: Mapping[str, iam.IRole]) -> None:
        """Each record of the ledger is put by its own functions, and no other key exists."""
        for name, pattern, functions in LEDGER_WRITERS:
            self.ledger.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=f"{name}ByTheirFunctions",
                    effect=iam.Effect.DENY,
                    principals=[iam.AnyPrincipal()],
                    actions=["s3:PutObject"],
                    resources=[self.ledger.arn_for_objects(pattern)],
                    conditions={
                        "ArnNotEquals": {
                            "aws:PrincipalArn": [roles[function].role_arn for function in functions]
                        }
                    },
                )
            )
        self.ledger.add_to_resource_policy(
            iam.PolicyStatement(
                sid="NoOtherKeys",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:PutObject"],
                not_resources=[self.ledger.arn_for_objects(pattern) for _, pattern, _ in LEDGER_WRITERS],
            )
        )


def _send_events(bucket: s3.Bucket) -> None:
    """EventBridge by the bucket's own property: the construct's option may bring a custom resource."""
    resource = bucket.node.default_child
    assert isinstance(resource, CfnResource)
    resource.add_property_override(
        "NotificationConfiguration.EventBridgeConfiguration.EventBridgeEnabled", True
    )
