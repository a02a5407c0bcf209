"""What a manifest says of a chart: exactly one, in Helm's OCI media types."""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from aicr_pipeline.adapters.registry import Manifest
from aicr_pipeline.decide.chart_package import CONFIG_TYPE, CONTENT_TYPE, MAX_TOTAL, OTHER_CONTENT_TYPES
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

_MAX_CONFIG = 1024 * 1024
_MAX_LAYERS = 8
_CHARTS = (CONTENT_TYPE, *OTHER_CONTENT_TYPES)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Descriptor(NamedTuple):
    """A blob as a manifest names it."""

    media_type: str
    digest: str
    size: int


def layer_of(layers: Iterable[Descriptor], media_type: str) -> Descriptor | None:
    """The first layer of a media type."""
    return next((layer for layer in layers if layer.media_type == media_type), None)


def chart_parts(manifest: Manifest, source: str) -> tuple[Descriptor, tuple[Descriptor, ...]]:
    """Config and layers of a manifest that holds exactly one chart (Helm's OCI media types).

    Raises
    ------
    PipelineError
        ``ChartSourceUnsupported`` for anything else, an image for example; ``ContentTooLarge``.
    """
    try:
        document = json.loads(manifest.content)
        config = _descriptor(document["config"])
        layers = tuple(_descriptor(layer) for layer in document["layers"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _unsupported(f"{source} is a {manifest.media_type}, not the manifest of one chart") from error
    types = [part.media_type for part in layers]
    # Exactly one: whoever pulls must not find another chart than the one that was judged.
    if config.media_type != CONFIG_TYPE or [one for one in types if one in _CHARTS] != [CONTENT_TYPE]:
        raise _unsupported(
            f"{source} holds {config.media_type}, not one Helm chart; check the bundle's upstream"
        )
    if (
        len(layers) > _MAX_LAYERS
        or config.size > _MAX_CONFIG
        or sum(part.size for part in layers) > MAX_TOTAL
    ):
        raise PipelineError(
            Reason.ContentTooLarge, f"{source} names more than {MAX_TOTAL:,} bytes or {_MAX_LAYERS} layers."
        )
    return config, layers


def _descriptor(value: Any) -> Descriptor:
    media_type, digest, size = value["mediaType"], value["digest"], value["size"]
    if not _DIGEST.fullmatch(digest) or not isinstance(size, int) or size < 0:
        raise ValueError("descriptor")
    return Descriptor(str(media_type), digest, size)


def _unsupported(what: str) -> PipelineError:
    return PipelineError(Reason.ChartSourceUnsupported, f"{what}.")
