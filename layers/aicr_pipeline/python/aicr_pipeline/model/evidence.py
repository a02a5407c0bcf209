"""The evidence binding: an in-toto Statement v1 with a predicate of our own, in a DSSE envelope."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from aicr_pipeline.model.base import Document
from aicr_pipeline.model.plan import Digest

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Literal["https://aicr-pipeline.dev/evidence-binding/v1"] = (
    "https://aicr-pipeline.dev/evidence-binding/v1"
)
PAYLOAD_TYPE = "application/vnd.in-toto+json"

Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Lenient(Document):
    """Readers ignore fields they do not know; a changed meaning is a new predicate type."""

    model_config = ConfigDict(extra="ignore")


class BoundRollout(_Lenient):
    name: str
    execution: str
    machine_version: str


class BoundPlan(_Lenient):
    digest: Digest
    from_digest: Digest | None = None
    recipe: str
    #: The resolve that wrote the plan; the snapshot before the install is of that run. Absent from evidence
    #: of earlier versions, which never qualifies.
    resolved_by: str | None = None


class BoundPipeline(_Lenient):
    """What ran: the tree digest of each function's folder, of both layers, of the template and the
    configuration. Empty or absent where the deployed assets did not say, and in evidence of earlier
    versions; such evidence never qualifies."""

    version: str
    functions: dict[str, Digest] = Field(default_factory=dict)
    #: ``program`` and ``dependencies``.
    layers: dict[str, Digest] = Field(default_factory=dict)
    #: Of the synthesized template and the state machines' definitions.
    manifests: Digest | None = None
    #: Of the cluster's configuration layer.
    configuration: Digest | None = None


class BoundRelease(_Lenient):
    name: str
    namespace: str
    chart: str
    version: str
    content_digest: Digest
    manifest_digest: Digest


class BoundDecision(_Lenient):
    """What one person said, where several had to approve."""

    by: str
    identity: str
    issuer: str
    principal: str | None = None
    reason: str
    at: str
    expires_at: str
    #: SHA-256 of the person's record in the ledger.
    digest: Digest


class BoundApproval(_Lenient):
    by: tuple[str, ...]
    identity: str
    #: Why a link was proof enough, as the configuration said when people were asked.
    identity_reason: str | None = None
    issuer: str
    #: What the issuer calls each of ``by``, where people signed in.
    principals: tuple[str, ...] | None = None
    decision: str
    reason: str
    at: str
    expires_at: str
    request_digest: Digest
    #: SHA-256 of the decision in the ledger. Absent from evidence of earlier versions.
    digest: Digest | None = None
    #: The earlier rollout whose approval, of exactly the same, stands for this one too.
    inherited_from: str | None = None
    #: Each person's own, where several had to approve.
    decisions: tuple[BoundDecision, ...] | None = None


class BoundAcknowledgement(_Lenient):
    """Who did what a manual step's upgrade record asked for."""

    release: str
    by: str
    identity: str
    issuer: str
    principal: str | None = None
    reason: str
    at: str
    request_digest: Digest


class BoundFourEyes(_Lenient):
    """Whether it is known that somebody other than the submitter approved, and if not, why."""

    enforced: bool
    because: str | None = None


class BoundValidation(_Lenient):
    mode: Literal["Required", "Disabled"]
    tests: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    other: int = 0
    report_digest: Digest | None = None


class BoundValidator(_Lenient):
    """A validator that ran: the check, the image as AICR names it, and what the node really pulled."""

    check: str
    image: str
    digest: Digest


class BoundAicrEvidence(_Lenient):
    reference: str
    digest: Digest
    #: Whether AICR signed it with a key. Else its boundary is the registry's access control and ``digest``.
    signed: bool
    key_fingerprint: Hex | None = None
    #: Absent from evidence of earlier versions.
    statement_digest: Digest | None = None
    manifest_digest: Digest | None = None
    attested_at: str | None = None


class BoundTuple(_Lenient):
    """The hardware and software that the validation ran on, each sorted and distinct.

    Nothing is guessed: an empty tuple says that it was not recorded, which never covers a profile.
    """

    instance_types: tuple[str, ...] = ()
    node_images: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    gpu_mode: Literal["gpu-operator", "dra"]
    fabrics: tuple[str, ...] = ()
    workload_images: tuple[str, ...] = ()


class Binding(_Lenient):
    """The predicate."""

    cluster: str
    runtime_version: str
    #: SHA-256 of the runtime that was submitted, where its resolve recorded it.
    runtime_digest: Digest | None = None
    submitter: str
    rollout: BoundRollout
    plan: BoundPlan
    pipeline: BoundPipeline
    aicr_image_digest: Digest
    aicr_version: str
    snapshot_digest: Digest
    post_install_snapshot_digest: Digest
    releases: tuple[BoundRelease, ...] = Field(min_length=1)
    #: As the plan pins them.
    validator_images: tuple[str, ...]
    #: As they ran. Absent where validation is Disabled, and in evidence of earlier versions.
    validators: tuple[BoundValidator, ...] | None = None
    #: Absent from evidence of earlier versions.
    tuple_: BoundTuple | None = Field(default=None, alias="tuple")
    aicr_evidence: BoundAicrEvidence | None = None
    approval: BoundApproval | None = None
    #: Absent where no step was manual, and in evidence of earlier versions.
    acknowledgements: tuple[BoundAcknowledgement, ...] | None = None
    #: Absent where nobody had to approve, and in evidence of earlier versions.
    four_eyes: BoundFourEyes | None = None
    validation: BoundValidation
    outcome: Literal["Succeeded", "Failed"]
    created_at: str
    bound_at: str
    #: Ledger key -> SHA-256 of what stood there: every record that the statement was made from. Absent from
    #: evidence of earlier versions.
    documents: dict[str, Digest] | None = None
    qualifying: bool
    not_qualifying_because: tuple[str, ...] = ()


class Subject(_Lenient):
    name: str
    digest: dict[str, Hex] = Field(min_length=1)


class Statement(_Lenient):
    """In-toto Statement v1. ``_type`` has no camelCase, hence the alias."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    predicate_type: Literal["https://aicr-pipeline.dev/evidence-binding/v1"]
    subject: tuple[Subject, ...] = Field(min_length=1)
    predicate: Binding
