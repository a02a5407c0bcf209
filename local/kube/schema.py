"""Structural schemas: pruning of unknown fields, defaults, validation (apiextensions-apiserver).

A schema is the openAPIV3Schema of a CustomResourceDefinition, as JSON. Messages follow kube-openapi's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from local.kube.errors import Cause, invalid_value
from local.kube.objects import Object, copy_json

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


def prune_resource(obj: Object, schema: Object) -> list[str]:
    """Remove unknown fields of a whole object in place; its apiVersion, kind and metadata are always known.

    Returns the paths of what went.
    """
    return prune(obj, {**schema, EMBEDDED: True})


def prune(value: Any, schema: Object, path: str = "") -> list[str]:
    """Remove unknown fields from `value` in place; returns their paths."""
    removed: list[str] = []
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                removed += prune(item, items, f"{path}[{index}]")
        return removed
    if not isinstance(value, dict):
        return removed
    properties: Object = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    is_resource = bool(schema.get(EMBEDDED))
    keeps_all = bool(schema.get(PRESERVE)) or additional is True
    for key in list(value):
        here = f"{path}.{key}" if path else key
        if is_resource and key in _TYPE_META:
            continue
        if key in properties:
            removed += prune(value[key], properties[key], here)
        elif isinstance(additional, dict):
            removed += prune(value[key], additional, here)
        elif not keeps_all:
            del value[key]
            removed.append(here)
    return removed


def apply_defaults(value: Any, schema: Object) -> None:
    """Fill in defaults in place; nulls of fields that may not be null go, or become the default."""
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                apply_defaults(item, items)
    elif isinstance(value, dict):
        properties: Object = schema.get("properties") or {}
        for key, field in properties.items():
            if key in value and value[key] is None and not _may_be_null(field):
                del value[key]
            if key not in value and "default" in field:
                value[key] = copy_json(field["default"])
            if key in value:
                apply_defaults(value[key], field)
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            for key in [k for k in value if k not in properties]:
                if value[key] is None and not _may_be_null(additional):
                    del value[key]
                else:
                    apply_defaults(value[key], additional)


def _may_be_null(schema: Object) -> bool:
    untyped = "type" not in schema and not schema.get(INT_OR_STRING)
    return bool(schema.get("nullable")) or untyped


def validate(value: Any, schema: Object, path: str = "") -> Iterator[Cause]:
    """What is wrong with `value`; nothing when it fits the schema."""
    if value is None and _may_be_null(schema):
        return
    problem = _type_problem(value, schema)
    if problem:
        shown = _type_name(value)
        where = path or "<root>"
        yield Cause(
            path,
            invalid_value(shown, f'{where} in body must be of type {problem}: "{shown}"'),
            "FieldValueTypeInvalid",
        )
        return
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(f'"{item}"' for item in schema["enum"])
        yield Cause(
            path, f'Unsupported value: "{value}": supported values: {allowed}', "FieldValueNotSupported"
        )
    if isinstance(value, str):
        yield from _string_problems(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_problems(value, schema, path)
    elif isinstance(value, list):
        yield from _list_problems(value, schema, path)
    elif isinstance(value, dict):
        yield from _object_problems(value, schema, path)
    yield from _combined_problems(value, schema, path)


def _type_name(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _type_problem(value: Any, schema: Object) -> str | None:
    if schema.get(INT_OR_STRING):
        return None if _type_name(value) in ("integer", "string") else "integer,string"
    wanted = schema.get("type")
    if wanted is None:
        return None
    have = _type_name(value)
    if have == wanted or (wanted == "number" and have == "integer"):
        return None
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        return None
    return str(wanted)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z"))


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _string_problems(value: str, schema: Object, path: str) -> Iterator[Cause]:
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        yield Cause(path, f"Too long: may not be more than {schema['maxLength']} bytes", "FieldValueTooLong")
    if "minLength" in schema and len(value) < schema["minLength"]:
        why = f"{path} in body should be at least {schema['minLength']} chars long"
        yield Cause(path, invalid_value(value, why))
    if "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        yield Cause(path, invalid_value(value, f"{path} in body should match '{schema['pattern']}'"))
    if schema.get("format") == "date-time" and not _DATE_TIME.fullmatch(value):
        why = f'{path} in body must be of type date-time: "{value}"'
        yield Cause(path, invalid_value(value, why))


def _number_problems(value: float, schema: Object, path: str) -> Iterator[Cause]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
        or_equal = "" if schema.get("exclusiveMinimum") else " or equal to"
        yield Cause(path, invalid_value(value, f"{path} in body should be greater than{or_equal} {low}"))
    if high is not None and (value >= high if schema.get("exclusiveMaximum") else value > high):
        or_equal = "" if schema.get("exclusiveMaximum") else " or equal to"
        yield Cause(path, invalid_value(value, f"{path} in body should be less than{or_equal} {high}"))
    multiple = schema.get("multipleOf")
    if multiple and value % multiple:
        yield Cause(path, invalid_value(value, f"{path} in body should be a multiple of {multiple}"))


def _list_problems(value: list[Any], schema: Object, path: str) -> Iterator[Cause]:
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        why = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        yield Cause(path, why, "FieldValueTooMany")
    if "minItems" in schema and len(value) < schema["minItems"]:
        why = f"{path} in body should have at least {schema['minItems']} items"
        yield Cause(path, invalid_value(len(value), why))
    is_set = schema.get("uniqueItems") or schema.get("x-kubernetes-list-type") == "set"
    if is_set:
        for index, item in enumerate(value):
            if item in value[:index]:
                yield Cause(f"{path}[{index}]", f"Duplicate value: {item!r}", "FieldValueDuplicate")
    if schema.get("x-kubernetes-list-type") == "map":
        keys = schema.get("x-kubernetes-list-map-keys") or []
        seen: list[list[Any]] = []
        for index, item in enumerate(value):
            key = [item.get(k) for k in keys] if isinstance(item, dict) else []
            if key in seen:
                yield Cause(f"{path}[{index}]", f"Duplicate value: {key!r}", "FieldValueDuplicate")
            seen.append(key)
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from validate(item, items, f"{path}[{index}]")


def _object_problems(value: Object, schema: Object, path: str) -> Iterator[Cause]:
    properties: Object = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if name not in value:
            yield Cause(f"{path}.{name}" if path else name, "Required value", "FieldValueRequired")
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        why = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        yield Cause(path, why, "FieldValueTooMany")
    if "minProperties" in schema and len(value) < schema["minProperties"]:
        why = f"{path} in body should have at least {schema['minProperties']} properties"
        yield Cause(path, invalid_value(len(value), why))
    for key, item in value.items():
        field = properties.get(key, additional if isinstance(additional, dict) else None)
        if field is not None:
            yield from validate(item, field, f"{path}.{key}" if path else key)


def _combined_problems(value: Any, schema: Object, path: str) -> Iterator[Cause]:
    for part in schema.get("allOf") or ():
        yield from validate(value, part, path)
    if schema.get("anyOf") and not any(_fits(value, part) for part in schema["anyOf"]):
        yield Cause(path, invalid_value(value, f"{path} in body must validate at least one schema (anyOf)"))
    if schema.get("oneOf") and sum(_fits(value, part) for part in schema["oneOf"]) != 1:
        yield Cause(
            path, invalid_value(value, f"{path} in body must validate one and only one schema (oneOf)")
        )
    if "not" in schema and _fits(value, schema["not"]):
        yield Cause(path, invalid_value(value, f"{path} in body must not validate the schema (not)"))


def _fits(value: Any, schema: Object) -> bool:
    return next(validate(value, schema), None) is None
