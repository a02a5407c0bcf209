"""Settings of a function, read from its environment and validated when first used."""

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.config import ClusterConfig, load_cluster_config
from aicr_pipeline.model.reasons import Reason

if TYPE_CHECKING:
    from aicr_pipeline.model.evidence import BoundPipeline

#: Beside the configuration in its layer: what is deployed, by digest.
ASSETS = "assets.json"


def text(name: str) -> str:
    """A required setting.

    Raises
    ------
    PipelineError
        ``InvalidConfiguration`` naming the variable; the stack sets it, so deploy again.
    """
    value = os.environ.get(name, "")
    if not value:
        raise PipelineError(
            Reason.InvalidConfiguration, f"Environment variable {name} is not set; deploy the stack again."
        )
    return value


def mapping(name: str) -> dict[str, str]:
    """A required setting that is a JSON object of text."""
    try:
        value = json.loads(text(name))
    except ValueError:
        value = None
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise PipelineError(
            Reason.InvalidConfiguration, f"Environment variable {name} is not a JSON object of text."
        )
    return value


@cache
def cluster_config() -> ClusterConfig:
    """The cluster's configuration, as the stack put it into the configuration layer."""
    return load_cluster_config(Path(text("CLUSTER_CONFIG")))


@cache
def pipeline_assets() -> "BoundPipeline":
    """What of the pipeline is deployed, as the stack wrote it beside the configuration.

    Raises
    ------
    PipelineError
        ``InvalidConfiguration`` when it is not there or not readable: evidence must say what ran.
    """
    from aicr_pipeline.model.evidence import BoundPipeline

    file = Path(text("CLUSTER_CONFIG")).with_name(ASSETS)
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        raise PipelineError(
            Reason.InvalidConfiguration,
            f"Reading {file}, which says what is deployed: not there or not JSON; deploy the stack again.",
        ) from None
    return parse(BoundPipeline, found, Reason.InvalidConfiguration, str(file))


def is_local_engine() -> bool:
    """Whether AWS is the local engine's: evidence from there never qualifies."""
    return os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://127.0.0.1:")
