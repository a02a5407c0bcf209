"""The key of the HMAC in approval links, so that no link's secret is stored anywhere."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.findings import acknowledge


class ApprovalKey(Construct):
    """A generated string that no person sees."""

    def __init__(self, scope: Construct, id: str, *, cluster: str) -> None:
        super().__init__(scope, id)
        self.secret = secretsmanager.Secret(
            self,
            "Secret",
            description=f"Approval links of aicr-pipeline-{cluster}",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=64, exclude_punctuation=True
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        acknowledge(
            self.secret,
            "AwsSolutions-SMG4",
            "Rotation would break every link that is under way; it is changed by hand when a link leaked.",
        )
