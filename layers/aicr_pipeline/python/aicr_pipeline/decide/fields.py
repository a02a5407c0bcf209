"""Reading fields out of another program's JSON: each must be there, of its kind, and is named when not."""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason


class Fields:
    """An object of a document, with where it stands; unknown fields are ignored."""

    def __init__(self, value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise unsupported(place, "is not an object")
        self._value: Mapping[str, Any] = value
        self._place = place

    def text(self, name: str) -> str:
        """A text that is not empty."""
        value = self._value.get(name)
        if not isinstance(value, str) or not value:
            raise unsupported(self._at(name), "is not text" if name in self._value else "is missing")
        return value

    def text_or_empty(self, name: str) -> str:
        """A text; absent is empty."""
        value = self._value.get(name, "")
        if not isinstance(value, str):
            raise unsupported(self._at(name), "is not text")
        return value

    def count(self, name: str) -> int:
        """A whole number that is not negative."""
        value = self._value.get(name)
        if type(value) is not int or value < 0:
            raise unsupported(self._at(name), "is not a whole number")
        return value

    def inner(self, name: str) -> "Fields":
        """The object under ``name``."""
        return Fields(self._value.get(name), self._at(name))

    def items(self, name: str) -> list["Fields"]:
        """The objects of the list under ``name``."""
        value = self._value.get(name)
        if not isinstance(value, list):
            raise unsupported(self._at(name), "is not a list")
        return [Fields(item, f"{self._at(name)}[{index}]") for index, item in enumerate(value)]

    def names(self) -> list[str]:
        """The names of its fields, sorted."""
        return sorted(self._value)

    def raw(self) -> Mapping[str, Any]:
        """The object itself."""
        return self._value

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._value.get(name) is not None

    def _at(self, name: str) -> str:
        return f"{self._place}.{name}"


def unsupported(place: str, problem: str) -> PipelineError:
    """What is not as this version of the pipeline knows it."""
    return PipelineError(
        Reason.AICRArtifactUnsupported,
        f"AICR's evidence: {place} {problem}. This pipeline does not know such evidence; pin an AICR version "
        "that it supports.",
    )
