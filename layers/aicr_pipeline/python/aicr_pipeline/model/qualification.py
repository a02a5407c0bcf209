"""What the support policy says of qualifications, in its own words; and what a pipeline says it runs.

Command, page and docs/evidence.md take the words from here, so that all three say the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from aicr_pipeline.model.base import Document
from aicr_pipeline.model.evidence import BoundPipeline
from aicr_pipeline.model.fields import ImageByDigest


class StaleRow(StrEnum):
    """The rows of "When qualification goes stale"."""

    Rebuild = "rebuild"
    Inputs = "inputs"
    AicrImage = "aicr-image"
    Tuple = "tuple"
    Plan = "plan"


@dataclass(frozen=True)
class Row:
    """A row: the change and its effect in the policy's words, and what in this pipeline is meant."""

    change: str
    effect: str
    here: str


ROWS: Mapping[StaleRow, Row] = {
    StaleRow.Rebuild: Row(
        "Any rebuild of the operator image or chart, or a changed manifest",
        "New digests; nothing qualified carries over",
        "The digest of a function, of the program's or the dependencies' layer, or of the manifests",
    ),
    StaleRow.Inputs: Row(
        "Chart values that are deployment inputs (the AICR image, the validator images)",
        "Unqualified until the profile runs with them",
        "`aicr.image` and `aicr.validatorImages` of the configuration that is deployed",
    ),
    StaleRow.AicrImage: Row(
        "A different AICR image, even at the same version",
        "Unqualified until the profile runs with it",
        "The image that rendered the active plan",
    ),
    StaleRow.Tuple: Row(
        "The profile's hardware or software tuple: instance type, node image, kernel, driver, GPU Operator "
        "or DRA mode, fabric, workload image",
        "The profile's evidence no longer applies",
        "The tuple of the newest snapshot",
    ),
    StaleRow.Plan: Row(
        "A new plan on a running cluster",
        "Needs its own deployment validation; evidence from an earlier rollout, plan or run never satisfies "
        "it",
        "The active plan, and the rollout and run it came by",
    ),
}

#: Of a bypass; it stands below the table.
BYPASS_NEVER_COUNTS = "Evidence from a rollout that ran under the development approval bypass never counts"

#: Fields of ``BoundTuple``, and what the policy calls them.
TUPLE_PARTS: Mapping[str, str] = {
    "instance_types": "instance type",
    "node_images": "node image",
    "kernels": "kernel",
    "drivers": "driver",
    "gpu_mode": "GPU Operator or DRA mode",
    "fabrics": "fabric",
    "workload_images": "workload image",
}


@dataclass(frozen=True)
class Profile:
    """A profile of the policy; ``recipe`` is None where none is claimed. ``standing`` is how it is today."""

    name: str
    recipe: str | None
    standing: str


PROFILES: tuple[Profile, ...] = (
    Profile(
        "H100 on EKS, Ubuntu GPU nodes, training on Kubeflow",
        "h100-eks-ubuntu-training-kubeflow",
        "Not qualified: not yet run on hardware",
    ),
    Profile(
        "H100 on GKE, Container-Optimized OS, training on Kubeflow",
        "h100-gke-cos-training-kubeflow",
        "Not qualified: not yet run on hardware; this pipeline runs on EKS only",
    ),
    Profile("GB200", None, "Not claimed; a separate profile that never inherits H100 evidence"),
)


class RunningAicr(Document):
    """The AICR that is configured: what the next resolve uses, unless the runtime names another."""

    image: ImageByDigest
    version: str
    validator_images: tuple[str, ...] = ()


class Running(Document):
    """What a cluster's pipeline says of itself (``GET /operators/running``)."""

    api_version: Literal["running.aicr-pipeline.dev/v1"] = "running.aicr-pipeline.dev/v1"
    kind: Literal["Running"] = "Running"
    cluster: str
    development: bool
    aicr: RunningAicr
    pipeline: BoundPipeline
