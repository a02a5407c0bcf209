"""The secret that Argo CD's notifications carry: its webhook service signs nothing."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.findings import acknowledge


class WebhookSecret(Construct):
    """A generated string that an administrator copies into Argo CD's own Secret."""

    def __init__(self, scope: Construct, id: str, *, cluster: str) -> None:
        super().__init__(scope, id)
        self.secret = secretsmanager.Secret(
            self,
            "Secret",
            description=f"Notifications of Argo CD to aicr-pipeline-{cluster}",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=48, exclude_punctuation=True
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        acknowledge(
            self.secret,
            "AwsSolutions-SMG4",
            "Its other half is in the cluster, where the pipeline may not write it: docs/argocd.md has the "
            "commands, and the value before counts for a day. Who holds it can only wake the sweeper.",
        )
