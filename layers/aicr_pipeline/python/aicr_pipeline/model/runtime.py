"""``ClusterRuntime``: the wish, and the only mutable input. One per cluster, named ``cluster``."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, model_validator

from aicr_pipeline.model import yaml
from aicr_pipeline.model.base import Document, parse
from aicr_pipeline.model.fields import ImageByDigest
from aicr_pipeline.model.reasons import Reason

#: Of one override as JSON.
MOST_OVERRIDE_CHARACTERS = 32_000
#: What the wish is called in what is said of it.
RUNTIME_FILE = "clusterruntime.yaml"
#: Where it lives in the inbox bucket.
RUNTIME_KEY = "runtimes/cluster.yaml"

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")]
LabelKey = Annotated[
    str, StringConstraints(pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")
]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")]


class Toleration(Document):
    """As in a pod's spec."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("value: must be absent when operator is Exists")
        if self.operator == "Equal" and self.key is None:
            raise ValueError("key: required when operator is Equal")
        return self


class NodeGroup(Document):
    """The nodes that one half of the stack runs on."""

    node_selector: dict[LabelKey, LabelValue] = Field(min_length=1)
    tolerations: tuple[Toleration, ...] = ()


class Placement(Document):
    """System components here, accelerated ones there."""

    system: NodeGroup
    accelerated: NodeGroup


class Criteria(Document):
    """What the post-install snapshot must confirm."""

    service: Slug
    accelerator: Slug
    os: Slug


class RuntimeValidation(Document):
    """Whether a rollout must pass AICR's deployment validation."""

    deployment: Literal["Required", "Disabled"] = "Required"


class RuntimeAicr(Document):
    """Overrides the pipeline's pin; both or neither, since a version names what an image must record."""

    version: Annotated[str, StringConstraints(pattern=r"^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$")]
    image: ImageByDigest


def _small(value: JsonValue) -> JsonValue:
    if len(json.dumps(value)) > MOST_OVERRIDE_CHARACTERS:
        raise ValueError(f"more than {MOST_OVERRIDE_CHARACTERS} characters, which no argument of a Job takes")
    return value


#: A dotted path as AICR's ``--set-json component:path=value`` takes it: no ``=``, comma, space or control,
#: and no part of it empty, which AICR would write as a key that no chart has.
OverridePath = Annotated[
    str,
    StringConstraints(
        pattern=r"^[^\s=,:.\x00-\x1f\x7f]+(\.[^\s=,:.\x00-\x1f\x7f]+)*$", min_length=1, max_length=256
    ),
]
OverrideValue = Annotated[JsonValue, AfterValidator(_small)]


class RuntimeSpec(Document):
    """See the field names; they are the operator's, the last three are ours."""

    intent: Slug
    platform: Slug
    criteria: Criteria
    placement: Placement
    validation: RuntimeValidation = RuntimeValidation()
    paused: bool = False
    overrides: dict[Slug, dict[OverridePath, OverrideValue]] = Field(default_factory=dict)
    aicr: RuntimeAicr | None = None


class RuntimeMetadata(Document):
    """Of Kubernetes' object metadata, what a person writes."""

    name: Literal["cluster"]
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class ClusterRuntime(Document):
    """The object as people write it."""

    api_version: Literal["operator.aicr.run/v1alpha1"]
    kind: Literal["ClusterRuntime"]
    metadata: RuntimeMetadata
    spec: RuntimeSpec


@dataclass(frozen=True)
class Wish:
    """What the runtime in the inbox says to a rollout that runs; ``version`` is None when it was deleted."""

    version: str | None
    paused: bool = False


def parse_runtime(text: bytes) -> ClusterRuntime:
    """Read the wish.

    Raises
    ------
    PipelineError
        ``ContentTooLarge`` above 256 KiB, else ``InvalidRuntime`` naming each bad field's path.
    """
    data = yaml.load(text, Reason.InvalidRuntime, RUNTIME_FILE, most_bytes=256 << 10)
    return parse(ClusterRuntime, data, Reason.InvalidRuntime, RUNTIME_FILE)
