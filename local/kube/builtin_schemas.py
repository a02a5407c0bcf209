"""Structural schemas of the built-in kinds, taken from the models of the official Python client.

The client is generated from the server's own OpenAPI document; so unknown fields and wrong types are found
here as a real server finds them, without a second description to keep. The models are read as text, not
imported: importing them costs seconds and a hundred megabytes, and only a few are needed.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path

from local.kube.objects import Object

_MODELS = {
    "ConfigMap": "V1ConfigMap",
    "Deployment": "V1Deployment",
    "Event": "CoreV1Event",
    "Job": "V1Job",
    "Lease": "V1Lease",
    "Namespace": "V1Namespace",
    "Node": "V1Node",
    "Pod": "V1Pod",
    "Role": "V1Role",
    "RoleBinding": "V1RoleBinding",
    "ClusterRole": "V1ClusterRole",
    "ClusterRoleBinding": "V1ClusterRoleBinding",
    "Secret": "V1Secret",
    "Service": "V1Service",
    "ServiceAccount": "V1ServiceAccount",
    "StatefulSet": "V1StatefulSet",
    "ValidatingAdmissionPolicy": "V1ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding": "V1ValidatingAdmissionPolicyBinding",
}
# The client calls a resource.Quantity a string; the server also takes a number.
_QUANTITIES = frozenset(
    {"limits", "requests", "capacity", "allocatable", "overhead", "sizeLimit", "divisor", "podFixed"}
)
_QUANTITY: Object = {
    "anyOf": [{"type": "string"}, {"type": "number"}],
    "x-kubernetes-preserve-unknown-fields": True,
}
_ANY: Object = {"x-kubernetes-preserve-unknown-fields": True}
_SCALARS: dict[str, Object] = {
    "str": {"type": "string"},
    "datetime": {"type": "string", "format": "date-time"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string"},
    "object": _ANY,
}
_IMPORT = re.compile(r"^from kubernetes\.client\.models\.(\w+) import (\w+)$", re.MULTILINE)
_LITERAL = r"    {}: ClassVar\[Dict\[str, str\]\] = (\{{.*?\n    \}})"
_REQUIRED = re.compile(r"^    (\w+): (?!Optional\[|ClassVar\[)[^\n=]*(?:= Field\(.*)?$", re.MULTILINE)


@cache
def schema_of(kind: str) -> Object | None:
    """The schema of a built-in kind; None where everything is kept (a CRD's schema has no end)."""
    model = _MODELS.get(kind)
    return None if model is None else _model(f"{_snake(model)}")


@cache
def _folder() -> Path:
    spec = importlib.util.find_spec("kubernetes")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the package kubernetes is not installed")
    return Path(spec.submodule_search_locations[0], "client", "models")


def _snake(model: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", model).lower()


@cache
def _model(module: str) -> Object:
    text = (_folder() / f"{module}.py").read_text()
    types, names = _literal(text, "openapi_types"), _literal(text, "attribute_map")
    modules = {model: file for file, model in _IMPORT.findall(text)}
    properties = {names[field]: _typed(names[field], kind, modules) for field, kind in types.items()}
    needed = [names[field] for field in _REQUIRED.findall(text) if field in names]
    schema: Object = {"type": "object", "properties": properties}
    if needed:
        schema["required"] = needed
    return schema


def _literal(text: str, name: str) -> dict[str, str]:
    match = re.search(_LITERAL.format(name), text, re.DOTALL)
    if match is None:
        raise RuntimeError(f"this version of the kubernetes client has no {name} in its models")
    literal: dict[str, str] = ast.literal_eval(match[1])
    return literal


def _typed(field: str, kind: str, modules: dict[str, str]) -> Object:
    if match := re.fullmatch(r"[Ll]ist\[(.*)\]", kind):
        return {"type": "array", "items": _typed(field, match[1], modules)}
    if match := re.fullmatch(r"[Dd]ict\[str, (.*)\]", kind):
        return {"type": "object", "additionalProperties": _typed(field, match[1], modules)}
    if kind == "str" and field in _QUANTITIES:
        return _QUANTITY
    return _SCALARS[kind] if kind in _SCALARS else _model(modules[kind])
