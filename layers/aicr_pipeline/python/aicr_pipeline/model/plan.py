"""The plan: everything a rollout will do, frozen, and known by the digest of its desired state."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from aicr_pipeline.model.base import Document
from aicr_pipeline.model.runtime import Placement
from aicr_pipeline.model.upgrades import ComponentRecord

PLAN_API_VERSION: Literal["plan.aicr-pipeline.dev/v1"] = "plan.aicr-pipeline.dev/v1"

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
ReleaseName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$")]


class PlannedAicr(Document):
    """The AICR that rendered it."""

    image_digest: Digest
    version: str


class PlannedCriteria(Document):
    """What the recipe was asked for; without the node count, which changes as clusters scale."""

    service: str
    accelerator: str
    os: str
    intent: str
    platform: str


class PlannedChart(Document):
    """The chart as it stands in the runtime registry."""

    name: str
    version: str
    content_digest: Digest
    manifest_digest: Digest


class UpstreamSource(Document):
    """Where the bundle says the chart comes from (``upstream.env``), before any rewriting."""

    chart: str
    repo: str
    version: str


class PlannedRelease(Document):
    """One Helm release, in dependency order."""

    name: ReleaseName
    component: str
    namespace: str
    kind: Literal["chart", "wrapper"]
    chart: PlannedChart
    source: UpstreamSource | None = None
    values: dict[str, JsonValue] | None = None

    @property
    def repository(self) -> str:
        """Repository under the cluster's prefix."""
        return f"charts/{self.chart.name}" if self.kind == "chart" else f"wrappers/{self.name}"


class DesiredState(Document):
    """What the digest covers: nothing in here changes between two renders of the same wish."""

    aicr: PlannedAicr
    recipe: str
    bundle_content_digest: Digest
    criteria: PlannedCriteria
    placement: Placement
    validation: Literal["Required", "Disabled"]
    validator_images: tuple[str, ...]
    releases: tuple[PlannedRelease, ...] = Field(min_length=1, max_length=500)


class Recorded(Document):
    """Facts of the run that made the plan; they may differ between two runs of the same wish."""

    run: str
    runtime_version: str
    #: Absent from plans that were written before it was recorded.
    runtime_digest: Digest | None = None
    created_at: str
    snapshot_digest: Digest
    recipe_digest: Digest
    bundle_digest: Digest
    bundle_info: dict[str, JsonValue] | None = None
    gpu_driver_state: str | None = None


class Plan(Document):
    """``plans/<hex>.json`` in the ledger."""

    api_version: Literal["plan.aicr-pipeline.dev/v1"] = PLAN_API_VERSION
    kind: Literal["Plan"] = "Plan"
    desired_state_digest: Digest
    desired_state: DesiredState
    recorded: Recorded
    #: What the bundle records about upgrading its components. Outside the desired state: a record that is
    #: corrected changes nothing that is installed. Absent where there is none, and from older plans.
    upgrades: tuple[ComponentRecord, ...] | None = None

    def release(self, name: str) -> PlannedRelease | None:
        """The release of that name, if the plan has it."""
        return next((release for release in self.desired_state.releases if release.name == name), None)


def plan_key(digest: str) -> str:
    """The plan's key in the ledger."""
    return f"plans/{digest.removeprefix('sha256:')}.json"
