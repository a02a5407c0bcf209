"""Reads the ``Chart.yaml`` of a stranger.

Apart from the archive, whose reader needs it last: PyYAML takes as long to import as a mirror that finds
everything in its place takes to think.
"""

import json
import re
from typing import Any

import yaml

from aicr_pipeline.decide.chart_package import Chart
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.yaml import PARSE_ERRORS

MAX_CHART_YAML = 256 * 1024

#: Upper case is refused later, with what to do; here only what could be a path.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def parse_chart_yaml(text: bytes, source: str) -> Chart:
    """Read a ``Chart.yaml``; numbers and dates stay the text they are written as.

    Raises
    ------
    PipelineError
        ``ChartInvalid`` when it is no mapping, uses YAML aliases (a few lines may expand to gigabytes),
        says a field in two ways, or lacks a name or version.
    """
    try:
        metadata = yaml.load(text, Loader=_ChartYamlLoader)  # noqa: S506 - a SafeLoader, narrowed
    except (*PARSE_ERRORS, RecursionError) as error:
        raise invalid(source, f"has a Chart.yaml that does not parse ({first_line(error)})") from error
    if not isinstance(metadata, dict):
        raise invalid(source, "has a Chart.yaml that is not a mapping")
    # Go's YAML merges what stands under '<<', and its JSON takes 'verſion' for version: Helm would see
    # another chart.
    keys = [str(key).casefold() for key in metadata]
    if "<<" in keys or len(set(keys)) < len(keys):
        raise invalid(source, "has a Chart.yaml that says a field in two ways")
    name, version = metadata.get("name"), metadata.get("version")
    if not isinstance(name, str) or not isinstance(version, str) or not name or not version:
        raise invalid(source, "has a Chart.yaml without a name or a version")
    if not _NAME.fullmatch(name):
        raise invalid(source, f"calls itself {name[:80]!r}, which is no name of a chart")
    try:
        # The config blob is this text: keys may be booleans to YAML, and half a character is none to UTF-8.
        written = json.dumps(metadata, ensure_ascii=False)
        written.encode()
    except (TypeError, ValueError) as error:
        raise invalid(source, f"has a Chart.yaml with a value that JSON cannot hold ({error})") from error
    return Chart(name=name, version=version, metadata=json.loads(written))


class _ChartYamlLoader(yaml.SafeLoader):
    """Plain scalars stay text but for booleans and null, as Helm's typed fields read them."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)


_ChartYamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rsplit(":", 1)[1] in ("bool", "null")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def first_line(error: Exception) -> str:
    """An error in one line, for messages."""
    return str(error).partition("\n")[0] or type(error).__name__


def invalid(source: str, what: str) -> PipelineError:
    """The refusal of an archive."""
    return PipelineError(
        Reason.ChartInvalid, f"The chart archive from {source} {what}; it is refused, ask its publisher."
    )
