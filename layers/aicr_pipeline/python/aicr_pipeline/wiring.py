"""Adapters as the functions use them: built once per process from the environment, when first asked for.

Heavy libraries are imported by the functions that need them only: the Kubernetes client costs most of
a cold start.
"""

from functools import cache
from typing import TYPE_CHECKING

from aicr_pipeline import env
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox, Ledger, RememberingLedger
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import now
from aicr_pipeline.model.approvers import stack_issuer
from aicr_pipeline.model.config import ClusterConfig

if TYPE_CHECKING:
    from aicr_pipeline.adapters.argocd import ArgoCd
    from aicr_pipeline.adapters.cluster import Cluster
    from aicr_pipeline.adapters.ecr import EcrCredentials
    from aicr_pipeline.adapters.mirror import Destination
    from aicr_pipeline.adapters.oidc import Issuer
    from aicr_pipeline.adapters.registry_auth import Credentials
    from aicr_pipeline.adapters.sessions import Sessions
    from aicr_pipeline.adapters.signer import Signer
    from aicr_pipeline.adapters.slack import Slack
    from aicr_pipeline.model.evidence import BoundPipeline


def config() -> ClusterConfig:
    """The cluster's configuration."""
    return env.cluster_config()


def pipeline() -> "BoundPipeline":
    """What of the pipeline is deployed, by digest."""
    return env.pipeline_assets()


def deployed() -> str:
    """The digest of what of the pipeline is deployed."""
    from aicr_pipeline.decide.deployed import deployed_digest

    return deployed_digest(pipeline())


@cache
def ledger() -> Ledger:
    """The ledger bucket."""
    return Ledger(aws.client("s3"), env.text("LEDGER_BUCKET"))


@cache
def remembering_ledger() -> RememberingLedger:
    """The ledger bucket, for those who read the same records again and again."""
    return RememberingLedger(aws.client("s3"), env.text("LEDGER_BUCKET"))


@cache
def inbox() -> Inbox:
    """The inbox bucket."""
    return Inbox(aws.client("s3"), env.text("INBOX_BUCKET"))


@cache
def coordination() -> Coordination:
    """The coordination table."""
    return Coordination(aws.client("dynamodb"), env.text("COORDINATION_TABLE"))


@cache
def bus() -> Bus:
    """The event bus."""
    return Bus(aws.client("events"), env.text("EVENT_BUS"), config().cluster.name)


@cache
def waits() -> Waits:
    """How a state registers its wait."""
    return Waits(coordination(), bus(), now)


@cache
def notifier() -> Notifier:
    """The approvers' topics."""
    return Notifier(aws.client("sns"), env.mapping("APPROVER_TOPICS"))


@cache
def slack() -> "Slack | None":
    """Slack, where the configuration names it; its secrets are read with the first message."""
    settings = config().approvals.slack
    if settings is None:
        return None
    from aicr_pipeline.adapters.http import Transport
    from aicr_pipeline.adapters.slack import PATIENCE, Slack, reader

    secrets = aws.client("secretsmanager")
    return Slack(
        Transport(patience=PATIENCE),
        reader(secrets, settings.bot_token_secret_arn, "the bot's token"),
        reader(secrets, settings.webhook_secret_arn, "the webhook's address"),
    )


@cache
def approval_key() -> bytes:
    """The key of approval links, from Secrets Manager; kept for the life of the process."""
    secret = aws.client("secretsmanager").get_secret_value(SecretId=env.text("APPROVAL_KEY_ARN"))
    return str(secret["SecretString"]).encode()


@cache
def sessions() -> "Sessions":
    """Sessions of signed-in people."""
    from aicr_pipeline.adapters.sessions import Sessions

    return Sessions(aws.client("dynamodb"), env.text("COORDINATION_TABLE"))


@cache
def issuer() -> "Issuer":
    """Who signs people in: what the configuration names, else the user pool of the stack."""
    from aicr_pipeline.adapters.oidc import Issuer

    oidc = config().approvals.oidc or stack_issuer(env.mapping("OIDC"))

    @cache
    def secret() -> str | None:
        if oidc.client_secret_arn is None:
            return None
        found = aws.client("secretsmanager").get_secret_value(SecretId=oidc.client_secret_arn)
        return str(found["SecretString"])

    return Issuer(oidc, secret, f"{env.text('APPROVAL_URL').rstrip('/')}/callback")


@cache
def cluster() -> "Cluster":
    """The Kubernetes API, as this function's role."""
    from aicr_pipeline.adapters.cluster import connect

    return connect(config(), lambda region: aws.client("eks", region))


@cache
def argocd() -> "ArgoCd":
    """Argo CD's objects."""
    from aicr_pipeline.adapters.argocd import ArgoCd

    return ArgoCd(cluster(), config().engine)


@cache
def signer() -> "Signer":
    """The evidence key."""
    from aicr_pipeline.adapters.signer import Signer

    return Signer(aws.client("kms"), env.text("SIGNING_KEY_ARN"))


@cache
def public_key_of(key_uri: str) -> bytes:
    """The public key of a KMS key that Sigstore's URI names: the one that AICR signs its evidence with."""
    from aicr_pipeline.adapters.signer import public_key_of, region_of

    return public_key_of(aws.client("kms", region_of(key_uri)), key_uri)


@cache
def ecr() -> "EcrCredentials":
    """ECR tokens with this function's rights, from the registry's own region: elsewhere they are no good."""
    from aicr_pipeline.adapters.ecr import EcrCredentials
    from aicr_pipeline.decide.ecr_host import parse_ecr_host

    host = parse_ecr_host(config().registry.host)
    return EcrCredentials(aws.client("ecr", host.region if host else None), now)


@cache
def registry_credentials() -> "Credentials":
    """For the runtime registry: minted with ``aws``, an administrator's with ``static``."""
    from aicr_pipeline.adapters.registry_auth import StaticCredentials

    auth = config().registry.auth
    if auth.provider == "static":
        return StaticCredentials(aws.client("secretsmanager"), str(auth.secret_arn))
    return ecr()


@cache
def registry() -> "Destination":
    """The cluster's prefix in its registry."""
    from aicr_pipeline.adapters.chart_sources import plain_hosts
    from aicr_pipeline.adapters.http import Transport
    from aicr_pipeline.adapters.mirror import Destination

    wanted = config().registry
    return Destination(
        wanted.host,
        wanted.prefix,
        Transport(plain_hosts(wanted)),
        registry_credentials(),
        wanted.upstreams,
        provenance=wanted.provenance,
    )
