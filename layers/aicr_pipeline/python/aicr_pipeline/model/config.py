"""``clusters/<name>.yaml``: what one cluster's pipeline is told.

Strict; names follow the operator's values.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from aicr_pipeline.model import yaml
from aicr_pipeline.model.addresses import is_loopback, is_plain_elsewhere
from aicr_pipeline.model.aicr_generation import generation
from aicr_pipeline.model.approvers import Approvals
from aicr_pipeline.model.armor import armored_public_keys
from aicr_pipeline.model.base import Document, parse
from aicr_pipeline.model.fields import (
    ClusterName,
    DnsLabel,
    Duration,
    ImageByDigest,
    SecretArn,
    Text,
    seconds,
)
from aicr_pipeline.model.key_uri import key_of_ours
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.schedule import schedule_expression


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
        if self.endpoint and is_plain_elsewhere(self.endpoint):
            raise ValueError("endpoint: plain http is for loopback only")
        return self


class RegistryAuth(Document):
    """``aws``: tokens are minted for ECR. ``static``: an administrator's credentials, never written back."""

    provider: Literal["aws", "static"] = "aws"
    secret_arn: SecretArn | None = None

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
            if not re.fullmatch(r"(https|oci)://\S+", source) or not re.fullmatch(
                r"(https?|oci)://\S+", address
            ):
                raise ValueError(f"{source[:80]!r}: expected https:// or oci:// addresses on both sides")
            if is_plain_elsewhere(address):
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
        if self.plain_http and not is_loopback(self.host):
            raise ValueError("plainHttp: only for a registry on loopback")
        return self


class EngineGraces(Document):
    """How long a step waits for what may pass by itself, before it fails with Argo CD's own words."""

    degraded: Duration = "15m"
    errors: Duration = "10m"
    suspended: Duration = "10m"


class Engine(Document):
    """Argo CD."""

    namespace: DnsLabel = "argocd"
    project: DnsLabel = "aicr"
    repo_creds_secret: DnsLabel = "aicr-registry"  # noqa: S105 - a name
    helm_repo_creds: bool = False
    helm_repo_creds_secret: DnsLabel = "aicr-registry-helm"  # noqa: S105 - a name
    kind: Literal["self-managed", "eks-capability"] = "self-managed"
    destination: Text = "https://kubernetes.default.svc"
    #: Whether the cluster manifests tell Argo CD's notifications controller to wake the pipeline.
    notifications: bool = False
    graces: EngineGraces = EngineGraces()


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
        return f"{self.repository}@{digest}"


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


_ANNOTATION = re.compile(
    r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)


class Validation(Document):
    """AICR's deployment validation. Cluster-admin-equivalent, so it is off unless enabled.

    ``signing_key`` is a KMS key as Sigstore names one, by alias or by the key's ARN. It is the key that
    AICR's launcher signs with, never the pipeline's own.
    """

    enabled: bool = False
    signing_key: Annotated[str, AfterValidator(key_of_ours)] | None = None
    transparency_log: bool = False
    service_account_annotations: dict[str, str] = Field(default_factory=dict, max_length=50)

    @field_validator("service_account_annotations")
    @classmethod
    def _annotations(cls, annotations: dict[str, str]) -> dict[str, str]:
        for key, value in annotations.items():
            if not _ANNOTATION.fullmatch(key):
                raise ValueError(f"{key[:80]!r} is no annotation key")
            if not value.strip() or len(value) > 2048:
                raise ValueError(f"{key[:80]!r}: expected 1 to 2,048 characters")
        return annotations


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
    sweep_interval: Duration = "2s"
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
        self._validates()
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

    def _validates(self) -> None:
        """A signing key that nothing would sign with is refused: somebody would believe it signs."""
        validation, aicr = self.validation, self.aicr
        if validation.transparency_log and validation.signing_key is None:
            raise ValueError("validation.transparencyLog: only with validation.signingKey")
        if validation.enabled and not aicr.validator_images:
            raise ValueError(
                "aicr.validatorImages: required with validation.enabled; name AICR's validator images, each "
                "by digest"
            )
        if validation.signing_key is None:
            return
        if not validation.enabled:
            raise ValueError("validation.signingKey: only with validation.enabled: true")
        if not generation(aicr.version).signs:
            raise ValueError(
                f"validation.signingKey: AICR {aicr.version} cannot sign with a key; aicr.version must be "
                "1.1.0 or later"
            )


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
