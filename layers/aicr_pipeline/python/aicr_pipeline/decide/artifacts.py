"""Which versions of AICR's documents are read, by kind."""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

GROUP = "aicr.run"
#: As AICR's own readers accept them (its ADR-022): the stable track went from v1alpha2 to v1, recipes with a
#: configuration profile from v1alpha3 to v1beta2, and BundleInfo was born v1. No kind had any other.
API_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "Snapshot": ("v1alpha2", "v1"),
    "RecipeResult": ("v1alpha2", "v1alpha3", "v1beta2", "v1"),
    "BundleInfo": ("v1",),
    # Upgrade records; first drafted as v1alpha2 (ADR-021), shipped as v1beta1.
    "ComponentUpgrades": ("v1alpha2", "v1beta1"),
}


def check_artifact(data: Mapping[str, Any], kind: str, what: str) -> None:
    """Whether a document is of the kind that is wanted there, in a version that is known.

    Raises
    ------
    PipelineError
        ``AICRArtifactUnsupported`` naming what was found and what is read.
    """
    found, version = data.get("kind"), data.get("apiVersion")
    known = [f"{GROUP}/{name}" for name in API_VERSIONS[kind]]
    if found != kind or version not in known:
        raise PipelineError(
            Reason.AICRArtifactUnsupported,
            f"{what} is {found!r} of {version!r}; this version reads {kind} of {', '.join(known)}. "
            "Pin an AICR release that is supported, or update the pipeline.",
        )
