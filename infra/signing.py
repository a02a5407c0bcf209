"""The key that evidence is signed with. Only ``bind_evidence`` signs, and only digests."""

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct


class Signing(Construct):
    """It survives the stack: signatures are verified for as long as evidence is kept."""

    def __init__(self, scope: Construct, id: str, *, cluster: str, signer: iam.IRole) -> None:
        super().__init__(scope, id)
        self.key = kms.Key(
            self,
            "Key",
            description=f"Signs the evidence of aicr-pipeline-{cluster}",
            key_spec=kms.KeySpec.ECC_NIST_P256,
            key_usage=kms.KeyUsage.SIGN_VERIFY,
            removal_policy=RemovalPolicy.RETAIN,
            policy=_policy(Stack.of(self).account, signer),
        )
        self.alias = f"alias/aicr-pipeline-{cluster}-evidence"
        self.key.add_alias(self.alias)
        #: What signs is named by the alias, so that a key is replaced by pointing the alias at another.
        self.alias_arn = Stack.of(self).format_arn(
            service="kms", resource=self.alias, arn_format=ArnFormat.NO_RESOURCE_NAME
        )


def _policy(account: str, signer: iam.IRole) -> iam.PolicyDocument:
    """The account administers the key as usual; the denials hold for it too."""
    return iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(
                sid="AccountAdministers",
                principals=[iam.AccountPrincipal(account)],
                actions=["kms:*"],
                resources=["*"],
            ),
            iam.PolicyStatement(
                sid="OnlyBindEvidenceSigns",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["kms:Sign"],
                resources=["*"],
                conditions={"ArnNotEquals": {"aws:PrincipalArn": signer.role_arn}},
            ),
            iam.PolicyStatement(
                sid="OnlyDigestsAreSigned",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["kms:Sign"],
                resources=["*"],
                conditions={"StringNotEquals": {"kms:MessageType": "DIGEST"}},
            ),
            iam.PolicyStatement(
                sid="OnlyOneAlgorithm",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["kms:Sign"],
                resources=["*"],
                conditions={"StringNotEquals": {"kms:SigningAlgorithm": "ECDSA_SHA_256"}},
            ),
            # A grant would be a way around the role: nobody may make one.
            iam.PolicyStatement(
                sid="NoGrants",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["kms:CreateGrant"],
                resources=["*"],
            ),
            # Whoever really wants it gone takes this away first; nobody deletes it by mistake.
            iam.PolicyStatement(
                sid="TheKeyIsKept",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["kms:ScheduleKeyDeletion"],
                resources=["*"],
            ),
        ]
    )
