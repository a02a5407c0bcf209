"""Refusals, as the Status objects that the real API server answers (k8s.io/apimachinery, api/errors)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from local.kube.objects import Object


class Cause(NamedTuple):
    """One reason of an invalid object: `field` is its path, `reason` a metav1.CauseType."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class ApiError(Exception):
    """A refused request.

    `code` is the HTTP status, `reason` the metav1.StatusReason, `message` the sentence for the caller.
    """

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def body(self) -> Object:
        """The Status object of the answer."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            status["details"] = self.details
        return status


def qualified(group: str, plural: str) -> str:
    """`applications.argoproj.io`, or `secrets` in the core group."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, plural: str, name: str) -> Object:
    details: Object = {"kind": plural}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    return details


def not_found(group: str, plural: str, name: str) -> ApiError:
    """404 for an object that does not exist."""
    return ApiError(
        404, "NotFound", f'{qualified(group, plural)} "{name}" not found', _details(group, plural, name)
    )


def unknown_path() -> ApiError:
    """404 for a path that no resource serves."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str) -> ApiError:
    """409 for a create of a name that is taken."""
    message = f'{qualified(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    """409 for a write that lost a race."""
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(group, plural, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    """403, by RBAC or by admission."""
    subject = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", _details(group, plural, name))


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with one cause per invalid field."""
    texts = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    subject = qualified(group, kind)
    details = _details(group, kind, name)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiError(422, "Invalid", f'{subject} "{name}" is invalid: {listed}', details)


def bad_request(message: str) -> ApiError:
    """400 for a request that cannot be read."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """410 for a resourceVersion or a continue token older than the history."""
    return ApiError(410, "Expired", message)


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415 for a body format that this resource does not take."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
        accepted
    )
    return ApiError(415, "UnsupportedMediaType", message, {})


def invalid_value(value: Any, why: str) -> str:
    """The message of field.Invalid."""
    shown = f'"{value}"' if isinstance(value, str) else value
    return f"Invalid value: {shown}: {why}"
