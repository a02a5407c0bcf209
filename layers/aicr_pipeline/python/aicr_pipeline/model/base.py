"""What all documents share: strictness, camelCase on the wire, and errors that name the field's path."""

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason


class Document(BaseModel):
    """Immutable; unknown fields are refused; wire names are camelCase."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True
    )

    def wire(self) -> dict[str, Any]:
        """The document as JSON values under its wire names, without absent optional fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


#: How a sentence about one field begins: ``validation.signingKey: …``.
_NAMED = re.compile(r"[a-z][A-Za-z]*(\.[a-z][A-Za-z]*)*: ")

DocumentT = TypeVar("DocumentT", bound=Document)


def parse(model: type[DocumentT], data: Any, reason: Reason, what: str) -> DocumentT:
    """Read ``data`` as ``model``.

    Parameters
    ----------
    data:
        JSON values, as a YAML or JSON parser gives them.
    reason, what:
        How to refuse it: the reason, and what the document is called in the message.

    Raises
    ------
    PipelineError
        With ``reason``; the message names the path of every bad field (at most ten).
    """
    if not isinstance(data, Mapping):
        raise PipelineError(reason, f"{what} is not a mapping but {type(data).__name__}.")
    try:
        # By way of JSON: strict mode then still takes text for an enum and a list for a tuple,
        # but never "true" for true or 1 for "1".
        text = json.dumps(dict(data), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PipelineError(reason, f"{what} holds a value that JSON cannot: {error}.") from None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise PipelineError(reason, f"{what}: {describe(error)}") from None


def describe(error: ValidationError, most: int = 10) -> str:
    """Each problem as ``path: what is wrong``, joined by semicolons. Values are never repeated."""
    found = [_problem(item) for item in error.errors(include_url=False)]
    more = f"; and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(found[:most]) + more + "."


def _problem(item: Any) -> str:
    said = _plain(item)
    # What fields say of each other is found at the document; the sentence begins with the field it is about.
    return said if not item["loc"] and _NAMED.match(said) else f"{path(item['loc'])}: {said}"


def path(location: tuple[int | str, ...]) -> str:
    """``("a", 0, "b")`` as ``a[0].b``; the document itself is ``(document)``."""
    out = ""
    for part in location:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else str(part)
    return out or "(document)"


def _plain(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return "unknown field"
    if item["type"] == "missing":
        return "required, but missing"
    return str(item["msg"]).removeprefix("Value error, ")
