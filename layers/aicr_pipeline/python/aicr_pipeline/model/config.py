"""``clusters/<name>.yaml``: what one cluster's pipeline is told.

Strict; names follow the operator's values.
"""

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from aicr_pipeline.model import yaml
from aicr_pipeline.model.armor import armored_public_keys
from aicr_pipeline.model.base import Document, parse
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.schedule import schedule_expression

_DURATION = re.compile(r"^([0-9]{1,9})(ms|s|m|h|d)$")
_UNIT = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
#: A role of IAM Identity Center may leave the end of its name open: AWS puts 16 hexes there.
_IAM = re.compile(
    r"arn:aws[a-z-]*:(iam::\d{12}:(user|role)(/[A-Za-z0-9_+=,.@-]{1,128}){1,8}"
    r"|sts::\d{12}:assumed-role/AWSReservedSSO_[A-Za-z0-9_+=,.@-]{1,48}\*?/[A-Za-z0-9_+=,.@-]{2,64})"
)
_LOOPBACK = re.compile(r"^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$")


def seconds(duration: str) -> float:
    """``10m`` as 600.0. Raises ValueError when it is no duration of ms, s, m, h or d."""
    match = _DURATION.match(duration)
    if match is None:
        raise ValueError("expected a duration such as 90s, 10m, 6h or 2d")
    return int(match[1]) * _UNIT[match[2]]


def is_loopback(netloc: str) -> bool:
    """Whether ``host:port`` is this machine, where plain http may be used."""
    return _LOOPBACK.match(netloc) is not None


def _duration(value: str) -> str:
    seconds(value)
    return value


def _iam(value: str) -> str:
    if not _IAM.fullmatch(value):
        raise ValueError(
            "expected the ARN of a user or role, or arn:…:assumed-role/AWSReservedSSO_…/<user name>"
        )
    if ":role/" in value and "/AWSReservedSSO_" in value:
        raise ValueError("many people have a role of IAM Identity Center: name the person, as /<user name>")
    return value


Duration = Annotated[str, AfterValidator(_duration)]
IamPrincipal = Annotated[str, StringConstraints(max_length=1200), AfterValidator(_iam)]
DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
ClusterName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")]
ImageByDigest = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9.:/_-]+@sha256:[0-9a-f]{64}$", max_length=512)
]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)]


class Vpc(Document):
    """Where the functions that face Kubernetes run, when the cluster's endpoint is private."""

    vpc_id: Annotated[str, StringConstraints(pattern=r"^vpc-[0-9a-f]+$")]
    subnet_ids: tuple[Annotated[str, StringConstraints(pattern=r"^subnet-[0-9a-f]+$")], ...] = Field(
        min_length=1
    )
    security_group_ids: tuple[Annotated[str, StringConstraints(pattern=r"^sg-[0-9a-f]+$")], ...] = Field(
        min_length=1
    )


class Cluster(Document):
    """The EKS cluster. Its endpoint and CA come from here, or from DescribeCluster when absent."""

    name: ClusterName
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2,4}(-[a-z]+)+-\d$")]
    account: Annotated[str, StringConstraints(pattern=r"^\d{12}$")]
    eks_name: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$")] | None = None
    vpc: Vpc | None = None
    endpoint: Annotated[str, StringConstraints(pattern=r"^https?://\S+$")] | None = None
    certificate_authority: str | None = Field(default=None, description="PEM, base64, as EKS gives it")

    @property
    def known_as(self) -> str:
        """The cluster's name in EKS; signed into every token."""
        return self.eks_name or self.name

    @model_validator(mode="after")
    def _tls(self) -> Self:
        if self.endpoint and self.endpoint.startswith("http://"):
            host = self.endpoint.removeprefix("http://").split("/")[0]
            if not _LOOPBACK.match(host):
                raise ValueError("endpoint: plain http is for loopback only")
        return self


class RegistryAuth(Document):
    """``aws``: tokens are minted for ECR. ``static``: an administrator's credentials, never written back."""

    provider: Literal["aws", "static"] = "aws"
    secret_arn: Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:secretsmanager:\S+$")] | None = (
        None
    )

    @model_validator(mode="after")
    def _secret(self) -> Self:
        if (self.provider == "static") != (self.secret_arn is not None):
            raise ValueError("secretArn: required with provider 'static', and only there")
        return self


class ProvenanceSource(Document):
    """Charts of this source are mirrored only with provenance that one of these keys signed."""

    source: Annotated[
        str, StringConstraints(pattern=r"^(https|oci)://[A-Za-z0-9.-]+(:\d{1,5})?(/\S*)?$", max_length=1024)
    ]
    keys: Annotated[str, AfterValidator(armored_public_keys)] = Field(
        max_length=512 * 1024, description="ASCII-armored public keys, one block or several"
    )


class Registry(Document):
    """The runtime registry: one prefix per cluster, written by nobody else."""

    repository: Annotated[
        str,
        StringConstraints(
            pattern=r"^oci://[a-z0-9.-]+(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$", max_length=200
        ),
    ]
    auth: RegistryAuth = RegistryAuth()
    upstreams: dict[str, str] = Field(
        default_factory=dict, description="source prefix -> where to fetch instead"
    )
    provenance: tuple[ProvenanceSource, ...] = Field(
        default=(), max_length=100, description="sources whose charts must be signed, and by whom"
    )
    plain_http: bool = False

    @field_validator("upstreams")
    @classmethod
    def _addresses(cls, upstreams: dict[str, str]) -> dict[str, str]:
        for source, address in upstreams.items():
            plain = address.removeprefix("http://").split("/")[0] if address.startswith("http://") else ""
            if not re.fullmatch(r"(https|oci)://\S+", source) or not re.fullmatch(
                r"(https?|oci)://\S+", address
            ):
                raise ValueError(f"{source[:80]!r}: expected https:// or oci:// addresses on both sides")
            if plain and not _LOOPBACK.match(plain):
                raise ValueError(f"{source[:80]!r}: plain http is for loopback only")
        return upstreams

    @field_validator("provenance")
    @classmethod
    def _each_once(cls, provenance: tuple[ProvenanceSource, ...]) -> tuple[ProvenanceSource, ...]:
        sources = [entry.source.rstrip("/").lower() for entry in provenance]
        twice = sorted({source for source in sources if sources.count(source) > 1})
        if twice:
            raise ValueError(
                f"named twice: {', '.join(twice)[:200]}; put all keys of a source into one entry"
            )
        return provenance

    @property
    def host(self) -> str:
        """Host with port."""
        return self.repository.removeprefix("oci://").split("/", 1)[0]

    @property
    def prefix(self) -> str:
        """The path under the host, without slashes at its ends."""
        return self.repository.removeprefix("oci://").split("/", 1)[1]

    @model_validator(mode="after")
    def _private(self) -> Self:
        if self.host.partition(":")[0].rstrip(".") == "public.ecr.aws":
            raise ValueError(
                "repository: public.ecr.aws is refused; charts and evidence need a private registry"
            )
        if self.plain_http and not _LOOPBACK.match(self.host):
            raise ValueError("plainHttp: only for a registry on loopback")
        return self


class Engine(Document):
    """Argo CD."""

    namespace: DnsLabel = "argocd"
    project: DnsLabel = "aicr"
    repo_creds_secret: DnsLabel = "aicr-registry"  # noqa: S105 - a name
    helm_repo_creds: bool = False
    helm_repo_creds_secret: DnsLabel = "aicr-registry-helm"  # noqa: S105 - a name
    kind: Literal["self-managed", "eks-capability"] = "self-managed"
    destination: Text = "https://kubernetes.default.svc"


class Aicr(Document):
    """The pinned AICR release. Versions outside >=1.0.0,<2.0.0 must be named as development versions."""

    image: ImageByDigest
    version: Annotated[str, StringConstraints(pattern=r"^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$")]
    validator_images: tuple[ImageByDigest, ...] = ()
    development_versions: tuple[str, ...] = ()

    @property
    def repository(self) -> str:
        """The image without its digest."""
        return self.image.partition("@")[0]

    def image_of(self, digest: str) -> str:
        """The image with another digest: a plan names only that."""
        return f"{self.image.partition('@')[0]}@{digest}"


class ComponentNamespace(Document):
    """A namespace that releases may go to."""

    name: DnsLabel
    pod_security: Literal["privileged", "baseline", "restricted"] = "privileged"
    create: bool = True


class Namespaces(Document):
    """Where releases may go; anything else is refused as ``NamespaceNotAllowed``."""

    components: tuple[ComponentNamespace, ...] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [component.name for component in self.components]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"components: named twice: {', '.join(twice)}")
        return self


class Approver(Document):
    """A person who is asked. Each has an SNS topic of their own."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")]
    email: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=254)] | None = (
        None
    )
    subject: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=255)] | None = None
    slack: Annotated[str, StringConstraints(pattern=r"^[UW][A-Z0-9]{2,30}$")] | None = None
    iam: IamPrincipal | None = None


SecretArn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:secretsmanager:\S+$")]


_Claim = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:/._-]{1,128}$")]


class Oidc(Document):
    """Who signs people in: any OpenID Connect issuer. Absent, the stack has a user pool of its own."""

    issuer: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/?#@]+(/[^\s?#@]*)?$", max_length=512)]
    client_id: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=255)]
    client_secret_arn: SecretArn | None = None
    email_claim: _Claim = "email"
    groups_claim: _Claim = "groups"

    @model_validator(mode="after")
    def _tls(self) -> Self:
        plain = self.issuer.removeprefix("http://").split("/")[0] if self.issuer.startswith("http://") else ""
        if plain and not is_loopback(plain):
            raise ValueError("issuer: plain http is for loopback only")
        return self


class SlackSettings(Document):
    """Slack beside e-mail. Secrets hold nothing but the bot's token, or the webhook's address."""

    bot_token_secret_arn: SecretArn | None = None
    webhook_secret_arn: SecretArn | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.bot_token_secret_arn is None and self.webhook_secret_arn is None:
            raise ValueError("botTokenSecretArn or webhookSecretArn: one of them is needed")
        return self


class Approvals(Document):
    """Who is asked, how they prove who they are, and how long they have."""

    approvers: tuple[Approver, ...] = Field(min_length=1, max_length=20)
    always: bool = True
    identity: Literal["signed-in", "link"] = "signed-in"
    identity_reason: Text | None = None
    oidc: Oidc | None = None
    groups: tuple[Annotated[str, StringConstraints(min_length=1, max_length=255)], ...] = Field(
        default=(), max_length=20, description="with identity signed-in, members may decide too"
    )
    min_approvals: Annotated[int, Field(ge=1, le=20)] = 1
    deadline: Duration = "24h"
    slack: SlackSettings | None = None
    bypass: bool = False
    exclude_submitter: bool = True

    @model_validator(mode="after")
    def _signing_in(self) -> Self:
        if self.identity == "link":
            if self.oidc is not None or self.groups or any(a.subject for a in self.approvers):
                raise ValueError("oidc, groups, subject: only with identity 'signed-in'")
            return self
        nobody = [a.name for a in self.approvers if a.email is None and a.subject is None]
        if nobody:
            raise ValueError(
                f"approvers: {', '.join(nobody)} cannot be told from others: with identity 'signed-in' an "
                "approver needs an email or a subject"
            )
        for known in (
            [a.email.lower() for a in self.approvers if a.email is not None and a.subject is None],
            [a.subject for a in self.approvers if a.subject is not None],
        ):
            if len(set(known)) != len(known):
                raise ValueError("approvers: each person may stand once; two names would count twice")
        return self

    @model_validator(mode="after")
    def _messages(self) -> Self:
        slack = self.slack
        for index, approver in enumerate(self.approvers):
            if approver.slack is not None and (slack is None or slack.bot_token_secret_arn is None):
                raise ValueError(f"approvers[{index}].slack: needs slack.botTokenSecretArn, the bot's token")
        if self.identity == "link" and slack is not None and slack.webhook_secret_arn is not None:
            raise ValueError(
                "slack.webhookSecretArn: with identity 'link' whoever reads the channel could decide; use "
                "identity 'signed-in', or the bot's direct messages (approvers[].slack)"
            )
        return self

    @model_validator(mode="after")
    def _people(self) -> Self:
        names = [approver.name for approver in self.approvers]
        if len(set(names)) != len(names):
            raise ValueError("approvers: each name may stand once")
        # The names of roles are unique in an account, whatever path they have.
        arns = [
            re.sub(r":role/.*/", ":role/", approver.iam)
            for approver in self.approvers
            if approver.iam is not None
        ]
        if any(fnmatchcase(one, other) for one, other in permutations(arns, 2)):
            raise ValueError("approvers: each iam may stand once; two names for one person would count twice")
        if self.min_approvals > len(names) and not self.groups:
            raise ValueError("minApprovals: more than there are approvers")
        if not 10 <= seconds(self.deadline) <= 30 * 86400:
            raise ValueError("deadline: between 10s and 30d")
        return self


class Validation(Document):
    """AICR's deployment validation. Cluster-admin-equivalent, so it is off unless enabled."""

    enabled: bool = False
    service_account_annotations: dict[str, str] = Field(default_factory=dict)


class Resolve(Document):
    """When the runtime is resolved again although nobody submitted anything."""

    schedule: Annotated[str, AfterValidator(schedule_expression)] | None = None


class Retention(Document):
    """How long the ledger's objects are locked, and logs kept."""

    mode: Literal["governance", "compliance"] = "governance"
    ledger_days: Annotated[int, Field(ge=1, le=36500)] = 365
    log_days: Literal[7, 14, 30, 60, 90, 180, 365] = 90


class ClusterConfig(Document):
    """The whole of ``clusters/<name>.yaml``."""

    cluster: Cluster
    registry: Registry
    engine: Engine = Engine()
    aicr: Aicr
    namespaces: Namespaces
    approvals: Approvals
    validation: Validation = Validation()
    resolve: Resolve = Resolve()
    stabilization_window: Duration = "10m"
    sweep_interval: Duration = "5s"
    retention: Retention = Retention()
    development: bool = False

    @property
    def mints_credentials(self) -> bool:
        """Whether Argo CD's registry token is ours to keep fresh.

        Static credentials are an administrator's; the EKS capability reads ECR with its own role.
        """
        return self.registry.auth.provider == "aws" and self.engine.kind == "self-managed"

    @model_validator(mode="after")
    def _agree(self) -> Self:
        approvals = self.approvals
        secrets = (self.engine.repo_creds_secret, self.engine.helm_repo_creds_secret)
        if self.engine.project == "default" or any(name.startswith("argocd-") for name in secrets):
            raise ValueError(
                "engine: project 'default' and Secrets 'argocd-*' are Argo CD's own; choose others"
            )
        if secrets[0] == secrets[1]:
            raise ValueError("engine: repoCredsSecret and helmRepoCredsSecret are two Secrets; name them so")
        own = {"aicr-system", "aicr-validation", "default", self.engine.namespace}
        taken = sorted(own & {component.name for component in self.namespaces.components})
        if taken:
            raise ValueError(f"namespaces.components: {', '.join(taken)} cannot take releases; leave it out")
        if not 0.1 <= seconds(self.sweep_interval) <= 60:
            raise ValueError("sweepInterval: between 100ms and 60s")
        if seconds(self.stabilization_window) > 7 * 86400:
            raise ValueError("stabilizationWindow: at most 7d")
        link = approvals.identity == "link"
        if not link and approvals.oidc is None and self.cluster.region.startswith("cn-"):
            raise ValueError("approvals.oidc: required in China, where Cognito has no user pools")
        if approvals.bypass and not self.development:
            raise ValueError("approvals.bypass: only for a cluster marked development: true")
        if link and not self.development and approvals.identity_reason is None:
            raise ValueError(
                "approvals.identityReason: required with identity 'link' unless development is true"
            )
        return self


def stack_issuer(found: Mapping[str, str]) -> Oidc:
    """The stack's user pool as the functions are told of it: issuer, client and the claim with groups.

    Raises PipelineError ``InvalidConfiguration`` when it says nothing of the kind.
    """
    return parse(Oidc, dict(found), Reason.InvalidConfiguration, "environment variable OIDC")


def parse_cluster_config(data: Any, what: str) -> ClusterConfig:
    """Raises PipelineError ``InvalidConfiguration`` naming the path of each bad field."""
    return parse(ClusterConfig, data, Reason.InvalidConfiguration, what)


def load_cluster_config(file: Path) -> ClusterConfig:
    """Read ``clusters/<name>.yaml``, or the JSON that a function finds in its configuration layer."""
    what = f"configuration {file.name}"
    data = file.read_bytes()
    if file.suffix == ".json":
        return parse_cluster_config(json.loads(data), what)
    return parse_cluster_config(yaml.load(data, Reason.InvalidConfiguration, what), what)
