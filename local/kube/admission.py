"""From a request's body to the object that is stored: decoding, defaults, what stays from before, checks.

Pure but for the errors: everything from the outside comes as an argument.
"""

from __future__ import annotations

import random
import string
from typing import Any

from local.kube import crds, defaults, errors, rules, schema, validation
from local.kube.builtin_schemas import schema_of
from local.kube.objects import Object, copy_json, drop_empty, meta, name_of
from local.kube.options import WriteOptions
from local.kube.resources import Resource

_OBJECT_META = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_SERVER_SET = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_REQUIRED = "FieldValueRequired"
_SUFFIX = "".join(c for c in string.ascii_lowercase + string.digits if c not in "aeiou013y")


def decode(resource: Resource, body: Any, namespace: str | None, options: WriteOptions) -> Object:
    """A copy of the body as this resource: its kind and namespace settled, unknown fields gone.

    Raises ApiError 400 for a body of another kind or namespace, for fields of the wrong type in built-in
    kinds, and for unknown fields when the request asks for strict decoding.
    """
    if not isinstance(body, dict):
        raise errors.bad_request(
            f"the object provided is unrecognized: {type(body).__name__} is not an object"
        )
    for field, wanted in (("apiVersion", resource.ref.api_version), ("kind", resource.kind)):
        given = body.get(field)
        if given not in (None, "", wanted):
            raise errors.bad_request(
                f"the {field} in the data ({given}) does not match the expected {field} ({wanted})"
            )
    # apiVersion and kind first, as every answer of the server begins
    obj: Object = {"apiVersion": resource.ref.api_version, "kind": resource.kind, **copy_json(body)}
    obj["apiVersion"], obj["kind"] = resource.ref.api_version, resource.kind
    if not isinstance(obj.get("metadata", {}), dict):
        raise errors.bad_request("metadata must be an object")
    metadata = meta(obj)
    _settle_namespace(resource, metadata, namespace)
    unknown = [f"metadata.{key}" for key in metadata if key not in _OBJECT_META]
    for key in unknown:
        del metadata[key.removeprefix("metadata.")]
    for key in [key for key, value in metadata.items() if value is None]:
        del metadata[key]
    drop_empty(metadata, "labels", "annotations", "finalizers", "ownerReferences", "managedFields")
    structure = structure_of(resource)
    if structure is not None:
        unknown += schema.prune_resource(obj, structure)
    _report(unknown, options)
    if not resource.custom and structure is not None:
        schema.apply_defaults(obj, structure)  # typed kinds treat null as absent
        problems = schema.validate(obj, structure)
        wrong = next((cause for cause in problems if cause.reason != _REQUIRED), None)
        if wrong is not None:
            raise errors.bad_request(
                f'{resource.kind} in version "{resource.ref.version}" cannot be handled as '
                f"a {resource.kind}: {wrong.field}: {wrong.message}"
            )
    return obj


def structure_of(resource: Resource) -> Object | None:
    """The structural schema of a resource; None when nothing is known of it."""
    return resource.schema if resource.custom else schema_of(resource.kind)


def _settle_namespace(resource: Resource, metadata: Object, namespace: str | None) -> None:
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.get("namespace") or namespace
    if namespace and given != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not given:
        raise errors.bad_request("an empty namespace may not be set during creation")
    metadata["namespace"] = given


def _report(unknown: list[str], options: WriteOptions) -> None:
    if unknown and options.field_validation == "Strict":
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise errors.bad_request(f"strict decoding error: {listed}")
    if options.field_validation == "Warn":
        for path in unknown:
            options.warn(f'unknown field "{path}"')


def complete_new(resource: Resource, obj: Object, uid: str, now: str) -> None:
    """Make a decoded body a new object, in place. Raises ApiError 422."""
    metadata = meta(obj)
    for key in (*_SERVER_SET, "resourceVersion"):
        metadata.pop(key, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + "".join(random.choices(_SUFFIX, k=5))
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now
    if resource.generation:
        metadata["generation"] = 1
    defaults.prepare_create(resource, obj)
    _check(resource, obj, None, now)


def complete_changed(resource: Resource, live: Object, new: Object, subresource: str, now: str) -> Object:
    """The object that a decoded body makes of the live one. Raises ApiError 409 when the body is older, 422.

    `subresource` "status" takes nothing but the status from the body; without it the status stays, where the
    resource has that subresource.
    """
    _check_version(resource, live, new)
    if subresource:
        result = {**live, "metadata": dict(meta(live)), "status": new.get("status")}
        if result["status"] is None:
            del result["status"]
        meta(result)["managedFields"] = meta(new).get("managedFields")
        if not resource.custom:
            for key in ("labels", "annotations", "finalizers"):
                meta(result)[key] = meta(new).get(key)
        drop_empty(meta(result), "managedFields", "labels", "annotations", "finalizers")
        result = copy_json(result)
    else:
        result = new
        if resource.status:
            result.pop("status", None)
            if "status" in live:
                result["status"] = copy_json(live["status"])
    metadata = meta(result)
    for key in (*_SERVER_SET, "resourceVersion", "name", "namespace", "generateName"):
        metadata.pop(key, None)
        if key in meta(live):
            metadata[key] = meta(live)[key]
    result["apiVersion"], result["kind"] = resource.ref.api_version, resource.kind
    defaults.prepare_update(resource, result, live)
    _check(resource, result, live, now)
    if resource.generation and _wish(resource, result) != _wish(resource, live):
        metadata["generation"] = int(metadata.get("generation") or 1) + 1
    return result


def _wish(resource: Resource, obj: Object) -> Object:
    """The part of an object whose changes make a new generation: all but metadata and a separate status."""
    ignored = {"metadata", "apiVersion", "status"} if resource.status else {"metadata", "apiVersion"}
    return {key: value for key, value in obj.items() if key not in ignored}


def _check_version(resource: Resource, live: Object, new: Object) -> None:
    ref = resource.ref
    given = meta(new).get("resourceVersion")
    if given and given != meta(live)["resourceVersion"]:
        raise errors.conflict(ref.group, ref.plural, name_of(live), errors.STALE)
    uid = meta(new).get("uid")
    if uid and uid != meta(live)["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta(live)['uid']}"
        raise errors.conflict(ref.group, ref.plural, name_of(live), why)


def _check(resource: Resource, obj: Object, live: Object | None, now: str) -> None:
    if resource.custom and resource.schema is not None:
        schema.apply_defaults(obj, resource.schema)
        causes = list(schema.validate({k: v for k, v in obj.items() if k != "metadata"}, _body(resource)))
        if not causes:  # rules are only evaluated on what fits the schema
            before = () if live is None else (live,)
            causes = list(rules.broken(resource.schema, obj, *before))
        if causes:
            raise errors.invalid(resource.ref.group, resource.kind, name_of(obj), causes)
    if resource.kind == "CustomResourceDefinition" and not resource.custom:
        crds.check(obj)
        crds.prepare(obj, now)
    validation.check(resource, obj, live, _missing(resource, obj))


def _missing(resource: Resource, obj: Object) -> list[errors.Cause]:
    """Required fields that a built-in kind lacks; those of its status are the server's own business."""
    structure = None if resource.custom else structure_of(resource)
    if structure is None:
        return []
    wish = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    problems = schema.validate(wish, structure)
    return [cause for cause in problems if cause.reason == _REQUIRED and cause.field != "metadata"]


def _body(resource: Resource) -> Object:
    structure: Object = resource.schema or {}
    required = [name for name in structure.get("required") or () if name != "metadata"]
    return {**structure, "required": required}
