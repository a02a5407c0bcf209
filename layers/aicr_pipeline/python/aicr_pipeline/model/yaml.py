"""Reading YAML the way Kubernetes does: into JSON values, one document, bounded.

PyYAML follows YAML 1.1, where ``2026-01-01`` is a date and ``0o17`` a string. Kubernetes' reader
gives text for the first; so do we. Aliases are refused: a few lines of them expand to gigabytes.
"""

from typing import Any

import yaml

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]  # PyYAML's C loader is untyped
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.YAMLError(f"line {key_node.start_mark.line + 1}: the key {key!r} is not text")
            if key in seen:
                raise yaml.YAMLError(f"line {key_node.start_mark.line + 1}: the key {key!r} stands twice")
            seen.add(key)
        result: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return result


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def load(text: str | bytes, reason: Reason, what: str, most_bytes: int = 1 << 20) -> Any:
    """One YAML document as JSON values.

    Raises
    ------
    PipelineError
        ``ContentTooLarge`` above ``most_bytes``; ``reason`` when it is not one plain YAML document.
    """
    size = len(text.encode() if isinstance(text, str) else text)
    if size > most_bytes:
        raise PipelineError(Reason.ContentTooLarge, f"{what} has {size} bytes; the limit is {most_bytes}.")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, made stricter
    except RecursionError:
        raise PipelineError(reason, f"{what} is nested too deeply.") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise PipelineError(reason, f"{what} is not valid YAML: {' '.join(str(error).split())}") from None
