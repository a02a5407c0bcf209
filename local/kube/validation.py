"""What the server checks of every object and of the built-in kinds (apimachinery, kubernetes/pkg/apis)."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any

from local.kube import errors
from local.kube.errors import Cause, invalid_value
from local.kube.objects import Object, meta, name_of
from local.kube.resources import RBAC, Resource

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_MAX_DATA = 1048576  # bytes, of a Secret or ConfigMap
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    rf"'{_LABEL}(\.{_LABEL})*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    f"regex used for validation is '{_LABEL}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def check(resource: Resource, obj: Object, old: Object | None, missing: list[Cause]) -> None:
    """Raise ApiError 422 with every problem of `obj`; `old` is what it replaces, None for a create.

    `missing` are the required fields that its schema misses.
    """
    causes = [*_name(resource, obj), *_metadata(obj), *_kind_specific(resource, obj)]
    if old is not None:
        causes += _changes(resource, obj, old)
    known = {cause.field for cause in causes}
    causes += [cause for cause in missing if cause.field not in known]
    if causes:
        raise errors.invalid(resource.ref.group, resource.kind, name_of(obj), causes)


def _name(resource: Resource, obj: Object) -> Iterator[Cause]:
    name = name_of(obj)
    if not name:
        yield Cause("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
    elif resource.ref.group == RBAC:
        if name in (".", "..") or "/" in name or "%" in name:
            yield Cause("metadata.name", invalid_value(name, "may not contain '/' or '%'"))
    elif resource.kind in ("Namespace", "Service"):
        if len(name) > 63:
            yield Cause("metadata.name", invalid_value(name, "must be no more than 63 characters"))
        elif not re.fullmatch(_LABEL, name):
            yield Cause("metadata.name", invalid_value(name, _LABEL_TEXT))
    elif len(name) > 253:
        yield Cause("metadata.name", invalid_value(name, "must be no more than 253 characters"))
    elif not re.fullmatch(_SUBDOMAIN, name):
        yield Cause("metadata.name", invalid_value(name, _SUBDOMAIN_TEXT))


def _qualified_name(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not re.fullmatch(_SUBDOMAIN, prefix):
        return False
    return len(name) <= 63 and re.fullmatch(_QUALIFIED, name) is not None


def _metadata(obj: Object) -> Iterator[Cause]:
    metadata = meta(obj)
    for field in ("labels", "annotations"):
        values = metadata.get(field) or {}
        if not isinstance(values, dict):
            raise errors.bad_request(f"metadata.{field} must be a map of strings")
        for key, value in values.items():
            where = f"metadata.{field}"
            if not isinstance(value, str):
                raise errors.bad_request(
                    f"json: cannot unmarshal {type(value).__name__} into Go struct field "
                    f"ObjectMeta.{where} of type string"
                )
            if not _qualified_name(key.lower() if field == "annotations" else key):
                yield Cause(where, invalid_value(key, _KEY_TEXT))
            if field == "labels" and (len(value) > 63 or not re.fullmatch(_VALUE, value)):
                yield Cause(where, invalid_value(value, _VALUE_TEXT))
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                field = f"metadata.ownerReferences[{index}].{key}"
                yield Cause(field, 'Invalid value: "": must not be empty')
    for finalizer in metadata.get("finalizers") or ():
        if not _qualified_name(finalizer):
            yield Cause("metadata.finalizers", invalid_value(finalizer, _KEY_TEXT))


def _kind_specific(resource: Resource, obj: Object) -> Iterator[Cause]:
    if resource.kind == "Secret" and not resource.custom:
        yield from _secret(obj)
    elif resource.kind == "ConfigMap" and not resource.custom:
        yield from _data(obj, "data")
        yield from _data(obj, "binaryData")
        if _size(obj) > _MAX_DATA:
            yield Cause("", f"Too long: may not be more than {_MAX_DATA} bytes", "FieldValueTooLong")
    elif resource.kind == "Job" and not resource.custom:
        yield from _job(obj)
    elif resource.kind == "Pod" and not resource.custom:
        yield from _pod_spec(obj.get("spec") or {}, "spec")
    elif resource.ref.group == RBAC and resource.kind.endswith("Binding"):
        yield from _binding(obj)


def _data(obj: Object, field: str) -> Iterator[Cause]:
    for key in obj.get(field) or {}:
        if not _KEY.fullmatch(key):
            why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
            yield Cause(f"{field}[{key}]", invalid_value(key, why))


def _size(obj: Object) -> int:
    texts = [*(obj.get("data") or {}).values(), *(obj.get("binaryData") or {}).values()]
    return sum(len(text.encode()) for text in texts if isinstance(text, str))


_REQUIRED_DATA = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/tls": "tls.crt",
    "kubernetes.io/basic-auth": "username",
    "kubernetes.io/ssh-auth": "ssh-privatekey",
}


def _secret(obj: Object) -> Iterator[Cause]:
    yield from _data(obj, "data")
    data, size = obj.get("data") or {}, 0
    for key, value in data.items():
        try:
            content = base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise errors.bad_request(
                f'Secret in version "v1" cannot be handled as a Secret: illegal base64 data in data.{key}'
            ) from error
        size += len(content)
        if key == ".dockerconfigjson" and obj.get("type") == "kubernetes.io/dockerconfigjson":
            try:
                json.loads(content)
            except ValueError as error:
                yield Cause(f"data[{key}]", invalid_value("<secret contents redacted>", str(error)))
    if size > _MAX_DATA:
        yield Cause("data", f"Too long: may not be more than {_MAX_DATA} bytes", "FieldValueTooLong")
    needed = _REQUIRED_DATA.get(str(obj.get("type")))
    if needed and needed not in data:
        yield Cause(f"data[{needed}]", "Required value", "FieldValueRequired")


def _job(obj: Object) -> Iterator[Cause]:
    if len(name_of(obj)) > 63:
        yield Cause("metadata.name", invalid_value(name_of(obj), "must be no more than 63 characters"))
    spec = (obj.get("spec") or {}).get("template", {}).get("spec") or {}
    yield from _pod_spec(spec, "spec.template.spec")
    restart = spec.get("restartPolicy")
    if restart not in ("OnFailure", "Never"):
        where = "spec.template.spec.restartPolicy"
        if restart in (None, "Always"):
            why = 'Required value: valid values: "OnFailure", "Never"'
            yield Cause(where, why, "FieldValueRequired")
        else:
            yield Cause(where, f'Unsupported value: "{restart}"', "FieldValueNotSupported")


def _pod_spec(spec: Object, path: str) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield Cause(f"{path}.containers", "Required value", "FieldValueRequired")
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            name = container.get("name") or ""
            if not name:
                yield Cause(f"{where}.name", "Required value", "FieldValueRequired")
            elif len(name) > 63 or not re.fullmatch(_LABEL, name):
                yield Cause(f"{where}.name", invalid_value(name, _LABEL_TEXT))
            elif name in seen:
                yield Cause(f"{where}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
            seen.add(name)
            if not container.get("image"):
                yield Cause(f"{where}.image", "Required value", "FieldValueRequired")
            for place, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") not in volumes:
                    field_path = f"{where}.volumeMounts[{place}].name"
                    yield Cause(field_path, f'Not found: "{mount.get("name")}"', "FieldValueNotFound")


def _binding(obj: Object) -> Iterator[Cause]:
    role = obj.get("roleRef") or {}
    if role.get("apiGroup") not in (RBAC, None, ""):
        yield Cause(
            "roleRef.apiGroup", f'Unsupported value: "{role.get("apiGroup")}"', "FieldValueNotSupported"
        )
    allowed = ("ClusterRole",) if obj.get("kind") == "ClusterRoleBinding" else ("Role", "ClusterRole")
    if role.get("kind") not in allowed:
        yield Cause("roleRef.kind", f'Unsupported value: "{role.get("kind")}"', "FieldValueNotSupported")
    if not role.get("name"):
        yield Cause("roleRef.name", "Required value", "FieldValueRequired")
    for index, subject in enumerate(obj.get("subjects") or ()):
        if subject.get("kind") not in ("User", "Group", "ServiceAccount"):
            text = f'Unsupported value: "{subject.get("kind")}"'
            yield Cause(f"subjects[{index}].kind", text, "FieldValueNotSupported")
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
            yield Cause(f"subjects[{index}].namespace", "Required value", "FieldValueRequired")


def _changes(resource: Resource, obj: Object, old: Object) -> Iterator[Cause]:
    immutable: list[tuple[str, Any, Any]] = []
    if resource.kind in ("Secret", "ConfigMap") and old.get("immutable"):
        for field in ("data", "binaryData", "immutable"):
            if obj.get(field) != old.get(field):
                yield Cause(
                    field, "Forbidden: field is immutable when `immutable` is set", "FieldValueForbidden"
                )
    if resource.kind == "Secret":
        immutable.append(("type", obj.get("type"), old.get("type")))
    if resource.kind == "Job":
        for field in ("template", "selector", "completionMode"):
            new_value, old_value = (o.get("spec", {}).get(field) for o in (obj, old))
            if not (old.get("spec", {}).get("suspend") and field == "template"):
                immutable.append((f"spec.{field}", new_value, old_value))
    if (
        resource.ref.group == RBAC
        and resource.kind.endswith("Binding")
        and obj.get("roleRef") != old.get("roleRef")
    ):
        yield Cause("roleRef", invalid_value(obj.get("roleRef"), "cannot change roleRef"))
    for field, new_value, old_value in immutable:
        if new_value != old_value:
            yield Cause(field, invalid_value(new_value, "field is immutable"))
    added = set(meta(obj).get("finalizers") or ()) - set(meta(old).get("finalizers") or ())
    if meta(old).get("deletionTimestamp") and added:
        why = (
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers {sorted(added)}"
        )
        yield Cause("metadata.finalizers", why, "FieldValueForbidden")
