"""Reading YAML the way Kubernetes does: into JSON values, one document, bounded.

PyYAML follows YAML 1.1, where ``2026-01-01`` is a date, ``22:22`` the number 1342 and ``1e3`` text.
Kubernetes' reader gives text for the first two and a number for the last; so do we. Aliases are refused:
a few lines of them expand to gigabytes.
"""

import re
from typing import Any

import yaml

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_TAG = "tag:yaml.org,2002:"
#: What JSON has; dates, sets and bytes are refused even when a document names their tags.
_TYPES = ("null", "bool", "int", "float", "str", "seq", "map")


class _Loader(_Base):  # type: ignore[misc]  # PyYAML's C loader is untyped
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


_Loader.yaml_constructors = {
    tag: make
    for tag, make in _Base.yaml_constructors.items()
    if tag is None or tag.removeprefix(_TAG) in _TYPES
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag.removeprefix(_TAG) in ("null", "bool", "merge")]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
# Numbers as goyaml.v2 resolves them: no base 60, and an exponent needs no point.
_Loader.add_implicit_resolver(
    _TAG + "int",
    re.compile(r"^(?:[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    _TAG + "float",
    re.compile(r"^(?:[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
    list("-+0123456789."),
)


#: Beyond these no document means anything, and readers of JSON begin to refuse.
MOST_LEVELS = 64

#: What PyYAML raises for documents that are not sound; a tag such as ``!!int ""`` escapes as the others.
PARSE_ERRORS = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError)


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
        _refuse_aliases(text)
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, made stricter
    except RecursionError:
        raise PipelineError(reason, f"{what} is nested too deeply.") from None
    except PARSE_ERRORS as error:
        raise PipelineError(reason, f"{what} is not valid YAML: {' '.join(str(error).split())}") from None

    if _is_deeper(value, MOST_LEVELS):
        raise PipelineError(reason, f"{what} is nested more than {MOST_LEVELS} levels deep.")
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    """Level by level, without recursion: other readers of the document have limits of their own."""
    level = [value]
    for _ in range(levels + 1):
        level = [
            item
            for node in level
            if isinstance(node, dict | list)
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def _refuse_aliases(text: str | bytes) -> None:
    """Looked for among the events: the C loader composes nodes by itself, out of reach of a subclass."""
    if ("*" in text) if isinstance(text, str) else (b"*" in text):
        for event in yaml.parse(text, Loader=_Base):
            if isinstance(event, yaml.AliasEvent):
                raise yaml.YAMLError(f"aliases are not allowed {event.start_mark}")
