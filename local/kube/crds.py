"""CustomResourceDefinitions: what is checked of them, what is filled in, which resources they add."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from local.kube import errors
from local.kube.errors import Cause, invalid_value
from local.kube.objects import Object, name_of
from local.kube.resources import Ref, Resource
from local.kube.rules import uncompilable


def prepare(crd: Object, now: str) -> None:
    """Fill in what the server fills in; names are accepted and the definition is established at once."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = str(names.get("kind") or "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    status = crd.setdefault("status", {})
    status["acceptedNames"] = dict(names)
    stored = status.setdefault("storedVersions", [])
    for version in spec.get("versions") or ():
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    if not status.get("conditions"):
        status["conditions"] = [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ]


def _condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }


def check(crd: Object) -> None:
    """Raise ApiError 422 for what the server would refuse, and for rules that cannot be evaluated here."""
    causes = list(_problems(crd))
    if causes:
        raise errors.invalid("apiextensions.k8s.io", "CustomResourceDefinition", name_of(crd), causes)


def _problems(crd: Object) -> Iterator[Cause]:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    wanted = f"{names.get('plural')}.{spec.get('group')}"
    if name_of(crd) != wanted:
        yield Cause("metadata.name", invalid_value(name_of(crd), 'must be spec.names.plural+"."+spec.group'))
    for field in ("plural", "kind"):
        if not names.get(field):
            yield Cause(f"spec.names.{field}", "Required value", "FieldValueRequired")
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        text = f'Unsupported value: "{spec.get("scope")}": supported values: "Cluster", "Namespaced"'
        yield Cause("spec.scope", text, "FieldValueNotSupported")
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = invalid_value("", "must have exactly one version marked as storage version")
        yield Cause("spec.versions", text)
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not isinstance(schema, dict):
            yield Cause(path, "Required value: schemas are required", "FieldValueRequired")
            continue
        if schema.get("type") != "object":
            yield Cause(f"{path}.type", invalid_value(schema.get("type") or "", "must be object at the root"))
        yield from _structure(schema, path)
        yield from uncompilable(schema, path)


def _structure(schema: Object, path: str) -> Iterator[Cause]:
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if "type" not in schema and not free:
        text = "Required value: must not be empty for specified object fields"
        yield Cause(f"{path}.type", text, "FieldValueRequired")
    for name, child in (schema.get("properties") or {}).items():
        yield from _structure(child, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _structure(schema[key], f"{path}.{key}")


def resources_of(crd: Object) -> list[Resource]:
    """What a definition serves: one resource for each served version."""
    spec: dict[str, Any] = crd["spec"]
    names = spec["names"]
    return [
        Resource(
            ref=Ref(spec["group"], version["name"], names["plural"]),
            kind=names["kind"],
            singular=names["singular"],
            namespaced=spec["scope"] == "Namespaced",
            status="status" in (version.get("subresources") or {}),
            generation=True,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            schema=version["schema"]["openAPIV3Schema"],
            selectable=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
            custom=True,
        )
        for version in spec["versions"]
        if version.get("served")
    ]
