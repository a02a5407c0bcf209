"""JSON of other programs, read strictly: bounded, without NaN, without a name twice in one object."""

import json
import math
import re
from typing import Any, NoReturn

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: Deeper than anything AICR writes, and far below what would exhaust the parser.
MOST_DEPTH = 40

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")


def read_json(data: bytes, what: str, *, most_bytes: int) -> Any:
    """The value, when it is JSON that every reader reads alike.

    Raises
    ------
    PipelineError
        ``ContentTooLarge`` above ``most_bytes``; ``AICRArtifactUnsupported`` for what is not JSON (RFC 8259)
        in UTF-8, for NaN and infinities, for a name that stands twice in one object, and for nesting deeper
        than ``MOST_DEPTH``.
    """
    check_size(data, what, most_bytes)
    try:
        text = data.decode()
        _check_depth(text)
        # Python itself refuses an integer of thousands of digits, with a ValueError.
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_finite)
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError as error:  # UnicodeDecodeError, JSONDecodeError and our own
        problem = str(error)[:200]
    raise PipelineError(Reason.AICRArtifactUnsupported, f"The {what} is not JSON as it must be: {problem}.")


def check_size(data: bytes, what: str, most_bytes: int) -> None:
    """Raises PipelineError ``ContentTooLarge``, saying how large and how large it may be."""
    if len(data) > most_bytes:
        raise PipelineError(
            Reason.ContentTooLarge, f"The {what} has {len(data):,} bytes; {most_bytes:,} are read at most."
        )


def _check_depth(text: str) -> None:
    """Before parsing: a parser's own limit depends on how deep its caller already is."""
    depth = 0
    for bracket in _BRACKETS.finditer(_TEXT.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} levels deep")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:80]!r} stands twice in one object")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value
