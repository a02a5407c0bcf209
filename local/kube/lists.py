"""How lists inside objects merge: by key, as sets, or as one value.

For built-in kinds these are the patch strategies and list types of the real types (k8s.io/api), by field
name: within the kinds served here a field name has one meaning. Custom resources say it in their schema.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from local.kube.objects import Object


class MapList(NamedTuple):
    """A list of objects told apart by `keys`; defaults stand for keys that an item leaves out."""

    keys: tuple[str, ...]
    defaults: tuple[tuple[str, Any], ...] = ()


class SetList(NamedTuple):
    """A list of scalars, each at most once."""


ListKind = MapList | SetList | None  # None: atomic

_NAMED = MapList(("name",))
_PORTS = MapList(("containerPort", "protocol"), (("protocol", "TCP"),))

_BUILTIN: dict[str, ListKind] = {
    "containers": _NAMED,
    "initContainers": _NAMED,
    "ephemeralContainers": _NAMED,
    "env": _NAMED,
    "volumes": _NAMED,
    "imagePullSecrets": _NAMED,
    "volumeMounts": MapList(("mountPath",)),
    "volumeDevices": MapList(("devicePath",)),
    "ports": _PORTS,
    "hostAliases": MapList(("ip",)),
    "topologySpreadConstraints": MapList(("topologyKey", "whenUnsatisfiable")),
    "conditions": MapList(("type",)),
    "addresses": MapList(("type",)),
    "taints": MapList(("key", "effect")),
    "validations": None,
    "finalizers": SetList(),
    "ownerReferences": MapList(("uid",)),
}
# In a strategic merge the patch key may be shorter than the key of server-side apply.
_STRATEGIC_KEY = {"ports": "containerPort", "taints": "key", "topologySpreadConstraints": "topologyKey"}


def builtin_list(field: str) -> ListKind:
    """How the list called `field` merges in a built-in kind (and in every object's metadata)."""
    return _BUILTIN.get(field)


def schema_list(schema: Object) -> ListKind:
    """How a list with this OpenAPI schema merges."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        properties = (schema.get("items") or {}).get("properties") or {}
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        defaults = tuple((k, properties[k]["default"]) for k in keys if "default" in properties.get(k, {}))
        return MapList(keys, defaults)
    return SetList() if kind == "set" else None


def strategic_key(field: str, kind: MapList) -> str:
    """The one key by which a strategic merge patch tells items apart."""
    return _STRATEGIC_KEY.get(field, kind.keys[0])


def item_key(item: Any, kind: MapList) -> tuple[Any, ...] | None:
    """The values of an item's keys; None when one is missing."""
    if not isinstance(item, dict):
        return None
    defaults = dict(kind.defaults)
    values = tuple(item.get(key, defaults.get(key)) for key in kind.keys)
    return None if any(value is None for value in values) else values
