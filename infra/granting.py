"""The kinds of rights that functions have in AWS, each made in one place.

A wildcard carries its reason (``why``), which becomes the acknowledgement of the finding it causes.
"""

from dataclasses import dataclass

from aicr_pipeline.adapters.jobs import MOST_ATTEMPTS
from aicr_pipeline.decide.ecr_host import EcrHost
from aicr_pipeline.model.config import ClusterConfig

from infra.findings import Right
from infra.names import partition_of

_UNDER = "Keys under this prefix are named by what they hold; they cannot be listed in advance."
_REPOSITORIES = "Repositories under this prefix are created by the first push of each chart or bundle."

_PULL = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:BatchCheckLayerAvailability")
_PUSH = (
    *_PULL,
    "ecr:CreateRepository",
    "ecr:InitiateLayerUpload",
    "ecr:UploadLayerPart",
    "ecr:CompleteLayerUpload",
    "ecr:PutImage",
)


@dataclass(frozen=True)
class Arns:
    """What rights speak of. Strings may hold CDK tokens."""

    inbox: str
    ledger: str
    table: str
    bus: str
    approval_key: str
    webhook_secret: str
    sweep: str
    #: All keys of the account and region, and the alias that the signing one carries.
    signing_keys: str
    signing_alias: str
    notification_key: str
    topics: tuple[str, ...]
    #: Unqualified ARN of each machine, and the ARN pattern of its executions.
    resolve_machine: str
    rollout_machine: str
    resolve_executions: str
    rollout_executions: str


@dataclass(frozen=True)
class Granting:
    """Makes rights for one cluster's functions."""

    arns: Arns
    config: ClusterConfig
    ecr: EcrHost | None

    def inbox(self) -> tuple[Right, ...]:
        """Read the wish, at a version too. Listing is what turns a missing key into 404 instead of 403."""
        return (
            Right(("s3:GetObject", "s3:GetObjectVersion"), (f"{self.arns.inbox}/runtimes/cluster.yaml",)),
            Right(("s3:ListBucket",), (self.arns.inbox,)),
        )

    def read(self, *keys: str) -> tuple[Right, ...]:
        """Read the ledger under ``keys``. Listing is what turns a missing key into 404 instead of 403."""
        return (
            Right(
                ("s3:GetObject", "s3:GetObjectVersion"),
                tuple(f"{self.arns.ledger}/{key}" for key in keys),
                _UNDER,
            ),
            Right(("s3:ListBucket",), (self.arns.ledger,)),
        )

    def write(self, *keys: str) -> tuple[Right, ...]:
        """Put new objects; the bucket refuses a second one under a key."""
        return (Right(("s3:PutObject",), tuple(f"{self.arns.ledger}/{key}" for key in keys), _UNDER),)

    def items(self, actions: tuple[str, ...], *partitions: str) -> tuple[Right, ...]:
        """Items of the coordination table, only under the named partition keys."""
        return (
            Right(
                tuple(f"dynamodb:{action}" for action in actions),
                (self.arns.table,),
                conditions={"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": list(partitions)}},
            ),
        )

    def waiter(self) -> tuple[Right, ...]:
        """Register a waiter and say so; a retry replaces its own row."""
        return (*self.items(("PutItem",), "WAITERS"), *self.events())

    def events(self) -> tuple[Right, ...]:
        """Put events of our own source only."""
        return (
            Right(
                ("events:PutEvents",),
                (self.arns.bus,),
                conditions={"StringEquals": {"events:source": "aicr.pipeline"}},
            ),
        )

    def login(self) -> tuple[Right, ...]:
        """A token for ECR; or the administrator's credentials for another registry."""
        secret = self.config.registry.auth.secret_arn
        if secret is not None:
            # Secrets Manager ends each ARN with six characters of its own; the configuration holds the whole.
            return (Right(("secretsmanager:GetSecretValue",), (secret,)),)
        return (
            Right(
                ("ecr:GetAuthorizationToken",),
                ("*",),
                "ecr:GetAuthorizationToken has no resource; the token carries only this role's rights.",
            ),
        )

    def pull(self, *folders: str) -> tuple[Right, ...]:
        """Pull from repositories under the prefix."""
        return (*self.login(), *self._repositories(_PULL, _whole(folders)))

    def push(self, *folders: str) -> tuple[Right, ...]:
        """Pull from, push to and create repositories under the prefix. Never delete."""
        return (*self.login(), *self._repositories(_PUSH, _whole(folders)))

    def push_attempts(self, folder: str) -> tuple[Right, ...]:
        """The same, of the repositories of a rollout's attempts alone: ``…-1`` to ``…-9``."""
        attempts = tuple(f"{folder}/*-{attempt}" for attempt in range(1, MOST_ATTEMPTS + 1))
        return (*self.login(), *self._repositories(_PUSH, attempts))

    def tags(self, *folders: str) -> tuple[Right, ...]:
        """List the tags of repositories under the prefix."""
        return self._repositories(("ecr:ListImages",), _whole(folders))

    def _repositories(self, actions: tuple[str, ...], patterns: tuple[str, ...]) -> tuple[Right, ...]:
        if self.ecr is None:
            return ()
        prefix = self.config.registry.prefix
        arns = tuple(self.ecr.repositories(f"{prefix}/{pattern}") for pattern in patterns)
        return (Right(actions, arns, _REPOSITORIES),)

    def publish(self) -> tuple[Right, ...]:
        """Tell approvers."""
        return (
            Right(("sns:Publish",), self.arns.topics),
            Right(("kms:GenerateDataKey", "kms:Decrypt"), (self.arns.notification_key,)),
        )

    def slack(self) -> tuple[Right, ...]:
        """Write to Slack, where the configuration names it."""
        slack = self.config.approvals.slack
        arns = (slack.bot_token_secret_arn, slack.webhook_secret_arn) if slack is not None else ()
        found = tuple(arn for arn in arns if arn is not None)
        return (Right(("secretsmanager:GetSecretValue",), found),) if found else ()

    def links(self) -> tuple[Right, ...]:
        """Make or check approval links."""
        return (Right(("secretsmanager:GetSecretValue",), (self.arns.approval_key,)),)

    def sign_in(self) -> tuple[Right, ...]:
        """Sessions of signed-in people, and the secret of the issuer's client; nothing where links decide."""
        approvals = self.config.approvals
        if approvals.identity == "link":
            return ()
        oidc = approvals.oidc
        client = () if oidc is None or oidc.client_secret_arn is None else (oidc.client_secret_arn,)
        return (
            *self.items(("GetItem", "PutItem", "DeleteItem"), "SESSION"),
            *((Right(("secretsmanager:GetSecretValue",), client),) if client else ()),
        )

    def start(self, machine: str, executions: str) -> tuple[Right, ...]:
        """Start through the alias, and look at what has the name already."""
        return (
            Right(("states:StartExecution",), (f"{machine}:live",)),
            Right(
                ("states:DescribeExecution",),
                (executions,),
                "Executions are named by what they are for; only this machine's may be described.",
            ),
        )

    def answer(self) -> tuple[Right, ...]:
        """Answer task tokens of our two machines."""
        machines = (self.arns.resolve_machine, self.arns.rollout_machine)
        return (
            Right(
                ("states:SendTaskSuccess", "states:SendTaskFailure"),
                (*machines, *(f"{machine}:*" for machine in machines)),
                "Executions run under published versions of the two machines, which are numbered.",
            ),
        )

    def sign(self) -> tuple[Right, ...]:
        """Sign a digest; read the public key. Of whichever key carries the alias."""
        carries = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": self.arns.signing_alias}}
        why = "Keys are replaced by moving the alias; only the key that carries it may be used."
        return (
            Right(
                ("kms:Sign",),
                (self.arns.signing_keys,),
                why,
                conditions={"StringEquals": {"kms:MessageType": "DIGEST"}, **carries},
            ),
            Right(("kms:GetPublicKey",), (self.arns.signing_keys,), why, conditions=carries),
        )

    def aicr_key(self) -> tuple[Right, ...]:
        """Read the public key of the key that AICR signs its evidence with; never sign with it."""
        uri = self.config.validation.signing_key
        if uri is None:
            return ()
        named = uri.removeprefix("awskms:///")
        if named.startswith("arn:"):
            return (Right(("kms:GetPublicKey",), (named,)),)
        cluster = self.config.cluster
        keys = f"arn:{partition_of(cluster.region)}:kms:{cluster.region}:{cluster.account}:key/*"
        return (
            Right(
                ("kms:GetPublicKey",),
                (keys,),
                "The key is named by its alias; the condition lets nothing else be asked for.",
                conditions={"StringEquals": {"kms:RequestAlias": named}},
            ),
        )


def _whole(folders: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{folder}/*" for folder in folders)
