"""ECR makes repositories on the first push, but only through a creation template for the prefix."""

from aicr_pipeline.decide.ecr_host import EcrHost
from aws_cdk import Stack
from aws_cdk import aws_ecr as ecr
from constructs import Construct


class Registry(Construct):
    """The template for one cluster's prefix, never for ROOT; only in the stack's own registry."""

    def __init__(self, scope: Construct, id: str, *, host: EcrHost, prefix: str) -> None:
        super().__init__(scope, id)
        stack = Stack.of(self)
        if (host.account, host.region) != (stack.account, stack.region):
            # A template works in its own account and region only: whoever keeps that registry makes it.
            return
        ecr.CfnRepositoryCreationTemplate(
            self,
            "Template",
            prefix=prefix,
            applied_for=["CREATE_ON_PUSH"],
            description="Runtime registry of aicr-pipeline",
            image_tag_mutability="IMMUTABLE",
            encryption_configuration=ecr.CfnRepositoryCreationTemplate.EncryptionConfigurationProperty(
                encryption_type="AES256"
            ),
        )
