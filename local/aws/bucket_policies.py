"""Bucket policies, enforced: moto ignores their conditions, so a TLS-only policy denies everything.

Only Deny statements matter here, since IAM itself is not enforced. Conditions that the templates use are
evaluated on the request; one that is not known makes loading fail, never pass.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from local.aws.identity import Identities
from local.aws.model import EngineError
from local.aws.patches import Patches

_ACCESS_KEY = re.compile(r"Credential=([^/]+)/")


@dataclass(frozen=True)
class S3Request:
    """What conditions look at: the headers, and the ARN of the role that signed (a person: ``person``)."""

    headers: Mapping[str, str]
    principal: str = "person"


#: Condition operator and key -> the value this request has, None for absent. Loopback stands for TLS.
_VALUES: Mapping[tuple[str, str], Callable[[S3Request], str | None]] = {
    ("Bool", "aws:SecureTransport"): lambda request: "true",
    ("Null", "s3:if-none-match"): lambda request: request.headers.get("If-None-Match"),
    # PutObject is what moto asks about; CopyObject and the parts of an upload come under the same name there.
    ("Bool", "s3:ObjectCreationOperation"): lambda request: "true",
    ("ArnNotEquals", "aws:PrincipalArn"): lambda request: request.principal,
}


def check(policy: Mapping[str, Any]) -> None:
    """Raises EngineError for a condition in a Deny statement that this cannot evaluate."""
    for statement in policy["Statement"]:
        if statement["Effect"] != "Deny":
            continue
        for operator, keys in statement.get("Condition", {}).items():
            for key in keys:
                if (operator, key) not in _VALUES:
                    message = f"A bucket policy denies by {operator} {key}, which is not evaluated here."
                    raise EngineError(message)


def denies(policy: Mapping[str, Any], action: str, resource: str, request: S3Request) -> bool:
    """Whether a Deny statement of the policy covers this request."""
    return any(
        statement["Effect"] == "Deny"
        and _matches(statement["Action"], action)
        and _covers(statement, resource)
        and all(
            _holds(operator, key, wanted, request)
            for operator, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
        for statement in policy["Statement"]
    )


def install(patches: Patches, identities: Identities) -> None:
    """Evaluate the stored policy of a bucket with the conditions of the request at hand."""
    from flask import has_request_context, request
    from moto.iam.access_control import PermissionResult
    from moto.s3.exceptions import S3AccessDeniedError
    from moto.s3.models import FakeBucket

    def get_permission(bucket: Any, action: str, resource: str) -> Any:
        asked = S3Request(dict(request.headers)) if has_request_context() else S3Request({})
        key = _ACCESS_KEY.search(asked.headers.get("Authorization", ""))
        role = identities.identity_of(key[1]) if key else None
        asked = replace(asked, principal=role or asked.principal)
        if bucket.policy is None or not denies(json.loads(bucket.policy), action, resource, asked):
            return PermissionResult.NEUTRAL
        # DeleteObjects lists what it could not delete. Elsewhere moto would answer 403 without a code.
        if action == "s3:DeleteObject" and has_request_context() and request.method == "POST":
            return PermissionResult.DENIED
        raise S3AccessDeniedError()

    patches.replace(FakeBucket, "get_permission", get_permission)


def _matches(patterns: str | list[str], value: str) -> bool:
    every = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatch.fnmatchcase(value, pattern) for pattern in every)


def _covers(statement: Mapping[str, Any], resource: str) -> bool:
    if "NotResource" in statement:
        return not _matches(statement["NotResource"], resource)
    return _matches(statement["Resource"], resource)


def _holds(operator: str, key: str, wanted: Any, request: S3Request) -> bool:
    found = _VALUES[operator, key](request)
    if operator == "ArnNotEquals":
        return not _matches(wanted, str(found))
    text = str(wanted).lower()
    return str(found is None).lower() == text if operator == "Null" else found == text
