"""Constraints of a recipe against a snapshot: ``K8s.server.version`` and the like. Pure."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Any


def measured(snapshot: dict[str, Any], name: str) -> str | None:
    """The value a constraint speaks of, or None: ``<type>.<subtype>.<key>``, the key may hold dots."""
    kind, _, rest = name.partition(".")
    subtype, _, key = rest.partition(".")
    for measurement in snapshot.get("measurements") or []:
        if measurement.get("type") != kind:
            continue
        for entry in measurement.get("subtypes") or []:
            if entry.get("subtype") == subtype and key in (entry.get("data") or {}):
                return str(entry["data"][key])
    return None


def satisfied(actual: str, wanted: str) -> bool:
    """True when ``actual`` meets ``wanted``: an exact value, or a comparison with a version."""
    found = re.fullmatch(r"\s*(>=|<=|>|<|==)?\s*(.+?)\s*", wanted)
    if not found:
        return False
    operator, value = found[1], found[2]
    if operator in (None, "=="):
        return actual == value
    order = _compare(_numbers(actual), _numbers(value))
    return {">=": order >= 0, "<=": order <= 0, ">": order > 0, "<": order < 0}[operator]


def _numbers(version: str) -> list[int]:
    """The leading dotted numbers: ``v1.34.2-eks-b3`` is 1.34.2."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return [int(part) for part in found[1].split(".")] if found else []


def _compare(left: list[int], right: list[int]) -> int:
    for one, other in zip_longest(left, right, fillvalue=0):
        if one != other:
            return 1 if one > other else -1
    return 0
