"""Label and field selectors of list and watch requests (apimachinery pkg/labels, pkg/fields)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from local.kube import errors
from local.kube.objects import Object, meta
from local.kube.resources import Resource

Predicate = Callable[[Object], bool]

_SET = re.compile(r"^(?P<key>[^\s!=<>(),]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_COMPARE = re.compile(r"^(?P<key>[^\s!=<>(),]+)\s*(?P<op>==|=|!=|<|>)\s*(?P<value>[^\s!=<>(),]*)$")
_EXISTS = re.compile(r"^(?P<not>!?)\s*(?P<key>[^\s!=<>(),]+)$")


def _split(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _requirement(text: str) -> Callable[[dict[str, str]], bool]:
    if match := _SET.match(text):
        key = match["key"]
        values = {value.strip() for value in match["values"].split(",")}
        if match["op"] == "in":
            return lambda labels: key in labels and labels[key] in values
        return lambda labels: labels.get(key) not in values
    if match := _COMPARE.match(text):
        key, value, op = match["key"], match["value"], match["op"]
        if op in ("=", "=="):
            return lambda labels: labels.get(key) == value
        if op == "!=":
            return lambda labels: labels.get(key) != value
        return _numeric(key, op, value)
    if match := _EXISTS.match(text):
        key, absent = match["key"], bool(match["not"])
        return lambda labels: (key in labels) is not absent
    raise errors.bad_request(f"unable to parse requirement: {text!r}")


def _numeric(key: str, op: str, value: str) -> Callable[[dict[str, str]], bool]:
    if not re.fullmatch(r"-?\d+", value):
        raise errors.bad_request(f"for 'Gt', 'Lt' operators, the value must be an integer: {value!r}")

    def test(labels: dict[str, str]) -> bool:
        have = labels.get(key, "")
        if not re.fullmatch(r"-?\d+", have):
            return False
        return int(have) > int(value) if op == ">" else int(have) < int(value)

    return test


def label_predicate(selector: str) -> Predicate | None:
    """The test that a label selector names; None when it selects everything. Raises ApiError 400."""
    requirements = [_requirement(part) for part in _split(selector)]
    if not requirements:
        return None

    def test(obj: Object) -> bool:
        labels = meta(obj).get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return test


def _field(obj: Object, path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "source":
        value = value.get("component") if isinstance(value, dict) else ""
    if value is None:
        return {"spec.unschedulable": "false", "status.successful": "0"}.get(path, "")
    return str(value).lower() if isinstance(value, bool) else str(value)


def field_predicate(resource: Resource, selector: str) -> Predicate | None:
    """The test that a field selector names; None when it selects everything.

    Raises ApiError 400 for a field that this resource cannot be selected by.
    """
    tests: list[tuple[str, str, bool]] = []
    for part in _split(selector):
        match = re.match(r"^(?P<path>[^=!]+?)(?P<op>!=|==|=)(?P<value>.*)$", part)
        if match is None:
            raise errors.bad_request(f"invalid field selector: {part!r}")
        path = match["path"]
        if path not in ("metadata.name", "metadata.namespace", *resource.selectable):
            raise errors.bad_request(f"field label not supported: {path}")
        tests.append((path, match["value"], match["op"] != "!="))
    if not tests:
        return None
    return lambda obj: all((_field(obj, path) == value) is equal for path, value, equal in tests)


def predicate(resource: Resource, label_selector: str, field_selector: str) -> Predicate:
    """Both selectors as one test."""
    tests = [
        test
        for test in (label_predicate(label_selector), field_predicate(resource, field_selector))
        if test is not None
    ]
    return lambda obj: all(test(obj) for test in tests)
