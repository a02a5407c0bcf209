"""What each function may do in AWS, beyond its logs: one entry a function, for the security review.

A wildcard carries its reason (``why``), which becomes the acknowledgement of the finding it causes.
"""

from collections.abc import Callable
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
class Grants:
    """Makes rights for one cluster's functions."""

    arns: Arns
    config: ClusterConfig
    ecr: EcrHost | None

    def of(self, function: str) -> tuple[Right, ...]:
        """All rights of ``function`` in AWS, beyond logs, traces and network interfaces."""
        return _RIGHTS[function](self)

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


_OWN = ("GetItem", "PutItem", "UpdateItem", "DeleteItem")

_RIGHTS: dict[str, Callable[[Grants], tuple[Right, ...]]] = {
    "check_prerequisites": lambda g: (*g.inbox(), *g.login()),
    # A snapshot that the ledger has is not taken again.
    "take_snapshot": lambda g: (*g.inbox(), *g.read("resolves/*/snapshot.yaml"), *g.waiter()),
    # The token in the Job's Secret is this role's: it reaches bundles/ and nothing else.
    "render_bundle": lambda g: (*g.inbox(), *g.waiter(), *g.push("bundles")),
    "read_bundle": lambda g: (
        *g.inbox(),
        *g.read("resolves/*"),
        *g.write("resolves/*"),
        *g.pull("bundles"),
    ),
    "mirror_chart": lambda g: (
        *g.read("resolves/*"),
        *g.write("resolves/*/charts/*"),
        *g.push("charts", "wrappers"),
    ),
    "write_plan": lambda g: (*g.inbox(), *g.read("resolves/*", "plans/*"), *g.write("plans/*")),
    # Whether the plan is news: which one is active, and whether the last target had its rollout.
    "announce_plan": lambda g: (
        *g.inbox(),
        *g.read("rollouts/*", "resolves/*/rollout.json"),
        *g.items(("GetItem", "PutItem"), "FACT"),
        *g.events(),
    ),
    "record_resolve": lambda g: (
        *g.inbox(),
        *g.read("resolves/*/told.json"),
        *g.write("resolves/*/told.json"),
        *g.events(),
        *g.publish(),
    ),
    "assess_transition": lambda g: (
        *g.inbox(),
        *g.read("plans/*", "rollouts/*"),
        *g.write("rollouts/*/report.json", "rollouts/*/deployed.json"),
        *g.items(("GetItem",), "FACT"),
        *g.events(),
    ),
    "request_approval": lambda g: (
        *g.read("rollouts/*"),
        *g.write("rollouts/*/request.json", "rollouts/*/bypass.json", "rollouts/*/messages/*"),
        *g.waiter(),
        *g.publish(),
        *g.slack(),
        *g.links(),
    ),
    "hold_step": lambda g: (
        *g.read("rollouts/*"),
        *g.write("rollouts/*/holds/*", "rollouts/*/messages/*"),
        *g.waiter(),
        *g.publish(),
        *g.slack(),
        *g.links(),
    ),
    "remind_approvers": lambda g: (
        *g.read("rollouts/*"),
        *g.write("rollouts/*/messages/*"),
        *g.items(("GetItem",), "LOCK"),
        *g.items(("GetItem", "PutItem"), "FACT"),
        *g.events(),
        *g.publish(),
        Right(("sns:ListSubscriptionsByTopic",), g.arns.topics),
        *g.slack(),
        *g.links(),
    ),
    "check_gate": lambda g: (
        # Whether the wish is paused, or gone.
        *g.inbox(),
        *g.read("plans/*", "rollouts/*"),
        # How far the rollout is, for the pages.
        *g.write("rollouts/*/steps/*"),
        *g.items(("GetItem",), "FACT", "LOCK"),
        *g.events(),
    ),
    "apply_release": lambda g: g.read("plans/*", "rollouts/*/outcome.json", "rollouts/*/revocation.json"),
    "wait_until_ready": lambda g: g.waiter(),
    # As with render_bundle: the Job's token reaches the attempts' evidence and nothing else, so no binding.
    "validate_deployment": lambda g: (
        *g.read("plans/*", "rollouts/*", "resolves/*"),
        *g.waiter(),
        *g.push_attempts("evidence"),
        # By what AICR signs with now, its evidence is judged later.
        *g.aicr_key(),
    ),
    "confirm_criteria": lambda g: (
        *g.read(
            "plans/*",
            "rollouts/*/outcome.json",
            "rollouts/*/revocation.json",
            "rollouts/*/snapshot.yaml",
        ),
        *g.waiter(),
    ),
    "bind_evidence": lambda g: (
        *g.read("plans/*", "rollouts/*", "resolves/*/recipe.yaml", "evidence/*"),
        *g.write("evidence/*", "rollouts/*/binding.json"),
        *g.push("evidence"),
        # The wrapper chart that names the image of the workload.
        *g.pull("wrappers"),
        # AICR tags its evidence as it likes; the repository of an attempt holds that one tag.
        *g.tags("evidence"),
        *g.sign(),
        *g.aicr_key(),
    ),
    "record_outcome": lambda g: (
        *g.read("rollouts/*"),
        *g.write("rollouts/*/outcome.json", "rollouts/*/told.json"),
        *g.items(("DeleteItem",), "LOCK"),
        *g.events(),
        *g.publish(),
    ),
    "start_resolve": lambda g: (
        *g.inbox(),
        *g.start(g.arns.resolve_machine, g.arns.resolve_executions),
        # A schedule or a person does not start what runs already.
        Right(("states:ListExecutions",), (g.arns.resolve_machine,)),
    ),
    "start_rollout": lambda g: (
        *g.read("rollouts/*", "resolves/*/rollout.json", "runtimes/*"),
        # What caused the rollout is claimed once, so an event that comes twice starts one.
        *g.write("rollouts/*/rollout.json", "resolves/*/rollout.json"),
        # That a newer plan waits for the end of the one that is on.
        *g.write("rollouts/*/waiting/*"),
        # A rollout that stalled ends when a newer one takes its place.
        *g.write("rollouts/*/outcome.json"),
        *g.items(("GetItem", "PutItem", "DeleteItem"), "LOCK"),
        *g.items(("GetItem",), "FACT"),
        *g.start(g.arns.rollout_machine, g.arns.rollout_executions),
    ),
    # It collects what Jobs write into ConfigMaps, and is the only one that answers task tokens.
    "sweep_waiters": lambda g: (
        # Whether a pause is over.
        *g.inbox(),
        *g.read("plans/*", "rollouts/*", "resolves/*"),
        *g.write("resolves/*/snapshot.yaml", "rollouts/*/snapshot.yaml", "rollouts/*/validation.json"),
        # Which attempt it was, and which validators ran.
        *g.write("rollouts/*/validations/*"),
        *g.write("rollouts/*/validators/*", "rollouts/*/validators.json"),
        # That a release became ready.
        *g.write("rollouts/*/ready/*"),
        # The last words of Jobs that failed.
        *g.write("resolves/*/jobs/*", "rollouts/*/jobs/*"),
        *g.items((*_OWN, "Query"), "WAITERS", "LEASE"),
        *g.items(("GetItem",), "FACT", "LOCK"),
        # What a question came to.
        *g.events(),
        *g.answer(),
    ),
    # The token it writes into Argo CD's Secret is this role's: it only pulls charts.
    "refresh_credentials": lambda g: (
        *g.pull("charts", "wrappers"),
        *g.items(("GetItem", "PutItem"), "FACT"),
    ),
    # It writes neither ledger nor cluster: a status is an observation.
    "update_status": lambda g: (
        *g.inbox(),
        *g.read("plans/*", "rollouts/*", "resolves/*"),
        *g.items(("GetItem", "PutItem"), "FACT"),
        *g.events(),
        *g.publish(),
        Right(("sns:ListSubscriptionsByTopic",), g.arns.topics),
        # Whether one that stopped was redriven.
        Right(
            ("states:DescribeExecution",),
            (g.arns.resolve_executions, g.arns.rollout_executions),
            "Executions are named by what they are for; only the two machines' may be described.",
        ),
    ),
    "record_stall": lambda g: (
        *g.read("rollouts/*", "resolves/*"),
        *g.write("rollouts/*/stalls/*", "resolves/*/stalls/*"),
        *g.events(),
        *g.publish(),
    ),
    # It reads nothing and writes nothing: who holds the secret can make somebody look.
    "receive_notification": lambda g: (
        Right(("secretsmanager:GetSecretValue",), (g.arns.webhook_secret,)),
        Right(("lambda:InvokeFunction",), (g.arns.sweep,)),
    ),
    "serve_approvals": lambda g: (
        *g.read("rollouts/*", "plans/*"),
        *g.write("rollouts/*/decision.json", "rollouts/*/decisions/*", "rollouts/*/revocation.json"),
        *g.write("rollouts/*/acknowledgements/*"),
        *g.links(),
        *g.sign_in(),
    ),
    # Who calls is API Gateway's word. It may decide as the pages do, submit, tell the status and have it
    # looked at anew; nothing else.
    "serve_operators": lambda g: (
        *g.read("rollouts/*", "plans/*"),
        *g.write("rollouts/*/decision.json", "rollouts/*/decisions/*", "rollouts/*/revocation.json"),
        *g.write("rollouts/*/acknowledgements/*"),
        *g.write("runtimes/*"),
        Right(("s3:PutObject",), (f"{g.arns.inbox}/runtimes/cluster.yaml",)),
        *g.items(("GetItem",), "FACT"),
        *g.events(),
    ),
}
