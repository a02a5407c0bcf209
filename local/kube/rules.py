"""Validation rules of custom resources: `x-kubernetes-validations`, evaluated with `local.kube.cel`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from local.kube.cel import CelError, compile_rule
from local.kube.errors import Cause
from local.kube.lists import MapList, item_key, schema_list
from local.kube.objects import Object

KEY = "x-kubernetes-validations"
_TRANSITION = re.compile(r"\boldSelf\b")
_SHOWN = {
    dict: '"object"',
    list: '"array"',
    str: '"string"',
    bool: '"boolean"',
    int: '"integer"',
    float: '"number"',
}
_ABSENT = object()


def uncompilable(schema: Object, path: str) -> Iterator[Cause]:
    """Rules of a schema that cannot be evaluated here."""
    for index, rule in enumerate(schema.get(KEY) or ()):
        for field in ("rule", "messageExpression"):
            try:
                if field in rule:
                    compile_rule(rule[field])
            except CelError as error:
                text = f'Invalid value: "{rule[field]}": compilation failed: ERROR: {error}'
                yield Cause(f"{path}.{KEY}[{index}].{field}", text)
    for name, child in (schema.get("properties") or {}).items():
        yield from uncompilable(child, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from uncompilable(schema[key], f"{path}.{key}")


def broken(schema: Object, value: Any, old: Any = _ABSENT, path: str = "") -> Iterator[Cause]:
    """Rules that `value` breaks. Transition rules (with oldSelf) hold only where there is an old value."""
    for rule in schema.get(KEY) or ():
        yield from _evaluate(rule, value, old, path)
    if isinstance(value, dict):
        additional = schema.get("additionalProperties")
        for key, item in value.items():
            field = (schema.get("properties") or {}).get(key, additional)
            if isinstance(field, dict):
                before = old.get(key, _ABSENT) if isinstance(old, dict) else _ABSENT
                yield from broken(field, item, before, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        kind = schema_list(schema)
        known = old if isinstance(old, list) and isinstance(kind, MapList) else []
        for index, item in enumerate(value):
            before = _ABSENT
            if isinstance(kind, MapList):
                same = [o for o in known if item_key(o, kind) == item_key(item, kind)]
                before = same[0] if same else _ABSENT
            yield from broken(schema["items"], item, before, f"{path}[{index}]")


def _evaluate(rule: Object, value: Any, old: Any, path: str) -> Iterator[Cause]:
    text = str(rule.get("rule") or "")
    env = {"self": value}
    if _TRANSITION.search(text):
        if old is _ABSENT:
            return
        env["oldSelf"] = old
    shown = _SHOWN.get(type(value), "null")
    where = path + str(rule.get("fieldPath") or "")
    try:
        if compile_rule(text)(env) is True:
            return
        message = str(rule.get("message") or f"failed rule: {text}")
        if "messageExpression" in rule:
            message = str(compile_rule(rule["messageExpression"])(env))
    except CelError as error:
        message = f"rule evaluation error: {error}"
    yield Cause(where, f"Invalid value: {shown}: {message}", str(rule.get("reason") or "FieldValueInvalid"))
