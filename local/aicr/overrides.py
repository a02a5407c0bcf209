"""``--set`` and ``--set-json``: which components they take out, and what they do to values. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from local.aicr import AICR_VERSION
from local.aicr.errors import AicrError, Code, log

_ENABLED = "enabled"


@dataclass(frozen=True)
class Overrides:
    """Paths and values by component, and the components that are taken out."""

    values: dict[str, dict[str, Any]]
    removed: frozenset[str]

    @property
    def some(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.values or self.removed)


def read(scalars: Iterable[str], typed: Iterable[str], components: list[str]) -> Overrides:
    """Read the flags.

    Parameters
    ----------
    scalars, typed
        What ``--set`` and ``--set-json`` were given; typed values win.
    components
        Of the recipe. They may be written without their hyphens.

    Raises
    ------
    AicrError
        INVALID_REQUEST for a malformed flag, a toggle among the typed ones, values of a component that is
        taken out, and for an unknown component. Releases before 1.0 dropped overrides of such a one.
    """
    values: dict[str, dict[str, Any]] = {}
    removed: set[str] = set()
    for flag, items in (("--set", scalars), ("--set-json", typed)):
        for item in items:
            named, path, text = _split(flag, item)
            component = _component(named, components)
            if component is None:
                if AICR_VERSION.removeprefix("v").startswith("0."):
                    log("override of an unknown component dropped", component=named)
                    continue
                raise AicrError(
                    Code.INVALID_REQUEST,
                    f"unknown component {named!r}: recipe declares: {', '.join(components)}",
                )
            if path == _ENABLED:
                if flag != "--set":
                    raise AicrError(Code.INVALID_REQUEST, f"{named}: 'enabled' must be set with --set")
                if text == "false":
                    removed.add(component)
                elif text != "true":
                    raise AicrError(Code.INVALID_REQUEST, f"invalid --set enabled value {text!r}")
                continue
            values.setdefault(component, {})[path] = text if flag == "--set" else _json(item, text)
    for component in sorted(removed & values.keys()):
        raise AicrError(
            Code.INVALID_REQUEST, f"--set {component}: cannot take effect, enabled=false removed it"
        )
    return Overrides(values, frozenset(removed))


def apply(values: dict[str, Any], overrides: dict[str, Any]) -> None:
    """Write overrides into values: shallow paths first, objects merge, null in them deletes, others replace.

    Raises
    ------
    AicrError
        INVALID_REQUEST for a path through something that is no map.
    """
    for path, value in sorted(overrides.items(), key=lambda item: (item[0].count("."), item[0])):
        *before, last = path.split(".")
        target = values
        for part in before:
            inner = target.setdefault(part, {})
            if not isinstance(inner, dict):
                raise AicrError(
                    Code.INVALID_REQUEST, f"{path}: path segment {part!r} exists but is not a map"
                )
            target = inner
        if isinstance(value, dict):
            present = target.get(last)
            target[last] = present if isinstance(present, dict) else {}
            _merge(target[last], value)
        else:
            target[last] = deepcopy(value)


def _merge(into: dict[str, Any], value: dict[str, Any]) -> None:
    for key, inner in value.items():
        if inner is None:
            into.pop(key, None)
        elif isinstance(inner, dict):
            present = into.get(key)
            into[key] = present if isinstance(present, dict) else {}
            _merge(into[key], inner)
        else:
            into[key] = deepcopy(inner)


def _split(flag: str, text: str) -> tuple[str, str, str]:
    found = re.fullmatch(r"([^:=]+):([^=]+)=(.*)", text, re.DOTALL)
    if not found:
        raise AicrError(Code.INVALID_REQUEST, f"invalid {flag} {text!r}: want component:path=value")
    return found[1], found[2], found[3]


def _component(named: str, components: list[str]) -> str | None:
    plain = {name.replace("-", ""): name for name in components}
    return named if named in components else plain.get(named.replace("-", ""))


def _json(flag: str, text: str) -> Any:
    try:
        # Go reads every number as a double.
        return json.loads(text, parse_int=_number)
    except ValueError as error:
        raise AicrError(Code.INVALID_REQUEST, f"--set-json {flag!r} holds no JSON: {error}") from error


def _number(text: str) -> int | float:
    exact = int(text)
    return exact if abs(exact) <= 2**53 else float(text)
