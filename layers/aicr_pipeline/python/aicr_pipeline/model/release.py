"""``release.json``: what a release of the pipeline consists of, and what was qualified with it."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from aicr_pipeline.model.base import Document
from aicr_pipeline.model.evidence import Hex
from aicr_pipeline.model.fields import ImageByDigest
from aicr_pipeline.model.plan import Digest


class ReleasedCluster(Document):
    """The cluster configuration that the release was made with, and what follows from it."""

    name: str
    aicr_image: ImageByDigest
    aicr_version: str
    validator_images: tuple[str, ...]
    manifests: Digest
    configuration: Digest


class QualifiedProfile(Document):
    """A profile that ran on hardware with this release, and the evidence that says so."""

    recipe: str
    #: SHA-256 of the envelope, and of the key that signed it.
    evidence: Digest
    key_fingerprint: Hex
    plan: Digest
    bound_at: str
    #: Where the archive with all that verifying takes is published.
    published: Annotated[str, StringConstraints(pattern=r"^https://\S+$", max_length=500)]


class Release(Document):
    """The whole document. Readers refuse another ``apiVersion`` and fields they do not know."""

    api_version: Literal["release.aicr-pipeline.dev/v1"] = "release.aicr-pipeline.dev/v1"
    kind: Literal["Release"] = "Release"
    version: str
    #: Absent outside a checkout, and where its tracked files are not those of the commit.
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40,64}$")] | None = None
    functions: dict[str, Digest] = Field(min_length=1)
    #: ``program``, and ``dependencies`` where the layer was built.
    layers: dict[str, Digest] = Field(min_length=1)
    #: Of ``requirements.lock``.
    lock: Digest
    cluster: ReleasedCluster
    qualified_profiles: tuple[QualifiedProfile, ...] = ()
