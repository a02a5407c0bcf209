"""JSON objects as Kubernetes keeps them, and the small helpers every module of the cluster uses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

Object = dict[str, Any]
T = TypeVar("T")


def copy_json(value: T) -> T:
    """A deep copy of a JSON value; several times faster than copy.deepcopy, which also follows cycles."""
    return _copy(value)  # type: ignore[no-any-return]


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def meta(obj: Object) -> Object:
    """The object's metadata, made when it has none."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = obj["metadata"] = {}
    return metadata


def name_of(obj: Object) -> str:
    """The object's name, empty when it has none."""
    return str(meta(obj).get("name") or "")


def rfc3339(moment: datetime) -> str:
    """A time as metav1.Time writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def drop_empty(metadata: Object, *keys: str) -> None:
    """Remove keys whose value is empty, as the server's omitempty does."""
    for key in keys:
        if key in metadata and not metadata[key]:
            del metadata[key]
