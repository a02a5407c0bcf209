"""Versions: what AICR, Kubernetes and charts write, compared without their leading ``v``."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

if TYPE_CHECKING:
    from aicr_pipeline.model.config import Aicr

#: No number of a version is longer, and Python refuses to read very long ones.
_VERSION = re.compile(r"^v?(\d{1,18})\.(\d{1,18})(?:\.(\d{1,18}))?(?:[-+].*)?$")

#: The floor of the support policy: DRA ``resource.k8s.io/v1`` is GA from 1.34.
KUBERNETES_FLOOR = (1, 34)
#: Native OCI sources, which alone can be pinned by digest, came with 3.1 (Argo CD, "OCI").
ARGOCD_FLOOR = (3, 1)


def same(one: str, other: str) -> bool:
    """Equal but for a leading ``v``."""
    return one.removeprefix("v") == other.removeprefix("v")


def numbers(version: str) -> tuple[int, int, int] | None:
    """``v1.34.2-eks-1`` as (1, 34, 2); None when it is no version."""
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def argocd_version(controller: Mapping[str, Any]) -> str | None:
    """The version of an application controller's StatefulSet or Deployment, None when it does not say.

    The tag of its image, as what really runs; else the label that Argo CD's Helm chart writes. An image by
    digest has neither, and a fork's tag may be anything. A container beside the controller's says nothing.
    """
    template = ((controller.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = template.get("containers") or []
    own = [item for item in containers if str(item.get("name", "")).endswith("application-controller")]
    tags = [_tag(str(container.get("image", ""))) for container in own or containers]
    labels = (controller.get("metadata") or {}).get("labels") or {}
    candidates = [*tags, str(labels.get("app.kubernetes.io/version", ""))]
    return next((candidate for candidate in candidates if numbers(candidate)), None)


def check_argocd(version: str) -> None:
    """Argo CD must know what the Applications use.

    Raises
    ------
    PipelineError
        ``EngineMissing``: there is an engine, but not the one that is needed.
    """
    found = numbers(version)
    if found is not None and found[:2] < ARGOCD_FLOOR:
        floor = ".".join(map(str, ARGOCD_FLOOR))
        raise PipelineError(
            Reason.EngineMissing,
            f"The cluster runs Argo CD {version}; {floor} or later is needed, which reads charts from OCI "
            "registries by digest. Upgrade Argo CD.",
        )


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def check_aicr_supported(version: str, aicr: "Aicr") -> None:
    """The version must be in ``>=1.0.0,<2.0.0``, or be named among ``aicr.developmentVersions``.

    Raises
    ------
    PipelineError
        ``AICRVersionMismatch``.
    """
    found = numbers(version)
    if is_development(version, aicr) or (found and found[0] == 1 and "-" not in version):
        return
    raise PipelineError(
        Reason.AICRVersionMismatch,
        f"AICR {version} is outside >=1.0.0,<2.0.0 and not named in aicr.developmentVersions.",
    )


def is_development(version: str, aicr: "Aicr") -> bool:
    """Whether the configuration allows this version by name only."""
    return any(same(version, named) for named in aicr.development_versions)


def check_recorded(artifact: str, recorded: str, pinned: str) -> None:
    """What AICR recorded in an artifact must be the pinned version.

    Raises
    ------
    PipelineError
        ``AICRVersionMismatch`` naming both.
    """
    if not same(recorded, pinned):
        raise PipelineError(
            Reason.AICRVersionMismatch,
            f"The {artifact} was made by AICR {recorded or '(not recorded)'}, but {pinned} is pinned.",
        )
