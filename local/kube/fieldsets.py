"""Sets of fields as metadata.managedFields records them (FieldsV1), and the merge of server-side apply.

A field is a path of segments: `f:name` of a map, `k:{...}` of a list item told apart by keys, `v:...` of a
set's item.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from local.kube.lists import ListKind, MapList, SetList, builtin_list, item_key, schema_list
from local.kube.objects import Object, copy_json

Path = tuple[str, ...]
FieldSet = frozenset[Path]

# Maps and structs that are owned as a whole (`+structType=atomic`, `+mapType=atomic` in k8s.io/api).
_ATOMIC = frozenset(
    {"selector", "labelSelector", "nodeSelector", "fieldRef", "secretKeyRef", "configMapKeyRef", "roleRef"}
)
_UNTRACKED = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        *(
            ("f:metadata", f"f:{key}")
            for key in (
                "name",
                "namespace",
                "generateName",
                "creationTimestamp",
                "uid",
                "generation",
                "managedFields",
                "resourceVersion",
                "selfLink",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            )
        ),
    }
)


@dataclass(frozen=True)
class Shape:
    """What is known about a place in an object: its schema, or (None: built-in) its field name."""

    schema: Object | None
    field: str = ""

    def child(self, field: str) -> Shape:
        """The shape of a member of this map."""
        if self.schema is None or (field == "metadata" and self.field == ""):
            return Shape(None, field)
        known = (self.schema.get("properties") or {}).get(field)
        additional = self.schema.get("additionalProperties")
        return Shape(known or (additional if isinstance(additional, dict) else {}), field)

    def item(self) -> Shape:
        """The shape of an item of this list."""
        return Shape(None if self.schema is None else self.schema.get("items") or {}, "item")

    def list_kind(self) -> ListKind:
        """How this list merges."""
        return builtin_list(self.field) if self.schema is None else schema_list(self.schema)

    def is_atomic_map(self) -> bool:
        """Whether this map is owned as a whole."""
        if self.schema is None:
            return self.field in _ATOMIC
        return self.schema.get("x-kubernetes-map-type") == "atomic"


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def key_segment(item: Any, kind: MapList) -> str | None:
    """`k:{"name":"c"}`; None when the item lacks a key."""
    values = item_key(item, kind)
    return None if values is None else "k:" + _dump(dict(zip(kind.keys, values, strict=True)))


_PRESENT = object()  # the value of a list item as such: equal for everybody who has it


def leaves(obj: Object, shape: Shape) -> dict[Path, Any]:
    """Every owned field of an object with its value."""
    return dict(_leaves(obj, shape, ()))


def _leaves(value: Any, shape: Shape, path: Path) -> Iterator[tuple[Path, Any]]:
    if path in _UNTRACKED:
        return
    if isinstance(value, dict) and not shape.is_atomic_map():
        if not value and path:
            yield path, value
        for key, item in value.items():
            yield from _leaves(item, shape.child(key), (*path, f"f:{key}"))
        return
    if isinstance(value, list):
        kind = shape.list_kind()
        if isinstance(kind, SetList):
            for item in value:
                yield (*path, "v:" + _dump(item)), _PRESENT
            return
        if isinstance(kind, MapList):
            segments = [key_segment(item, kind) for item in value]
            if all(segments):
                for segment, item in zip(segments, value, strict=True):
                    here = (*path, str(segment))
                    yield here, _PRESENT
                    for key, member in item.items():
                        yield from _leaves(member, shape.item().child(key), (*here, f"f:{key}"))
                return
    yield path, value


def encode(fields: Iterable[Path]) -> Object:
    """FieldsV1 of a set."""
    root: Object = {}
    for path in sorted(fields):
        node = root
        for segment in path:
            node = node.setdefault(segment, {})
        node["."] = {}
    _drop_lone_dots(root)
    return root


def _drop_lone_dots(node: Object) -> None:
    for key, child in node.items():
        if key != ".":
            if list(child) == ["."]:
                child.clear()
            _drop_lone_dots(child)


def decode(fields: Object) -> FieldSet:
    """The set of a FieldsV1."""

    def walk(node: Object, path: Path) -> Iterator[Path]:
        if path and (not node or "." in node):
            yield path
        for segment, child in node.items():
            if segment != ".":
                yield from walk(child, (*path, segment))

    return frozenset(walk(fields, ()))


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """The applied configuration laid over the live value; what it does not name stays."""
    if isinstance(applied, dict) and isinstance(live, dict) and not shape.is_atomic_map():
        result = dict(live)
        for key, value in applied.items():
            result[key] = merge(live[key], value, shape.child(key)) if key in live else copy_json(value)
        return result
    if isinstance(applied, list) and isinstance(live, list):
        kind = shape.list_kind()
        if isinstance(kind, SetList):
            return [*live, *(item for item in applied if item not in live)]
        if isinstance(kind, MapList):
            return _merge_items(live, applied, kind, shape.item())
    return copy_json(applied)


def _merge_items(live: list[Any], applied: list[Any], kind: MapList, shape: Shape) -> list[Any]:
    result = list(live)
    places = {key_segment(item, kind): index for index, item in enumerate(live)}
    for item in applied:
        index = places.get(key_segment(item, kind))
        if index is None:
            result.append(copy_json(item))
        else:
            result[index] = merge(result[index], item, shape)
    return result


def remove(value: Any, path: Path) -> Any:
    """The value without the field at `path`, and without maps and lists that this leaves empty."""
    segment, rest = path[0], path[1:]
    if segment.startswith("f:"):
        key = segment[2:]
        if not isinstance(value, dict) or key not in value:
            return value
        result = dict(value)
        child = remove(value[key], rest) if rest else None
        if child is None or (child in ({}, []) and value[key] != child):
            del result[key]
        else:
            result[key] = child
        return result
    if not isinstance(value, list):
        return value
    wanted = json.loads(segment[2:])
    kept: list[Any] = []
    for item in value:
        if not _is_item(item, segment, wanted):
            kept.append(item)
        elif rest:
            kept.append(remove(item, rest))
    return kept


def _is_item(item: Any, segment: str, wanted: Any) -> bool:
    if segment.startswith("v:"):
        return bool(item == wanted)
    defaults = {"protocol": "TCP"}
    return isinstance(item, dict) and all(item.get(k, defaults.get(k)) == v for k, v in wanted.items())


def show(path: Path) -> str:
    """A path as messages write it: `.spec.containers[name="c"].image`."""
    text = ""
    for segment in path:
        if segment.startswith("f:"):
            text += f".{segment[2:]}"
        elif segment.startswith("k:"):
            keys = json.loads(segment[2:])
            text += "[" + ",".join(f"{key}={_dump(value)}" for key, value in keys.items()) + "]"
        else:
            text += f"[={segment[2:]}]"
    return text
