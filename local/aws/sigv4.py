"""Signature version 4 as API Gateway checks it on routes with AWS_IAM: computed again, and compared.

Follows "Create a signed AWS API request". Whether the caller may invoke the route (``execute-api:Invoke``) is
not checked: IAM's policies are not enforced here.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys

SERVICE = "execute-api"
#: How far the signer's clock may be off.
SKEW = timedelta(minutes=5)

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[A-Z0-9]+)/(?P<date>\d{8})/(?P<region>[a-z0-9-]+)"
    r"/(?P<service>[a-z-]+)/aws4_request, ?SignedHeaders=(?P<signed>[a-z0-9;-]+)"
    r", ?Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class Signer:
    """Whose access key it is. ``token`` is empty for keys of users."""

    arn: str
    id: str
    secret: str
    token: str


def signer_of_request(
    method: str,
    target: str,
    headers: list[tuple[str, str]],
    body: bytes,
    region: str,
    find: Callable[[str], Signer | None],
) -> Signer | None:
    """Who signed this very request, None when nobody did whom ``find`` knows by the access key."""
    given = {name.lower(): value for name, value in headers}
    scope = _AUTHORIZATION.fullmatch(given.get("authorization", ""))
    if scope is None or (scope["region"], scope["service"]) != (region, SERVICE):
        return None
    signer, signed = find(scope["key"]), scope["signed"].split(";")
    if signer is None or not {"host", "x-amz-date"} <= set(signed) <= set(given):
        return None
    if len(given) != len(headers) or not _is_fresh(given["x-amz-date"], scope["date"]):
        return None
    if signer.token != given.get("x-amz-security-token", ""):
        return None
    if (
        given.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())
        != hashlib.sha256(body).hexdigest()
    ):
        return None
    auth = SigV4Auth(Keys(scope["key"], signer.secret), SERVICE, region)
    request = AWSRequest(
        method=method,
        url=f"http://{given['host']}{target}",
        headers={name: given[name] for name in signed},
        data=body,
    )
    request.context["timestamp"] = given["x-amz-date"]
    expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return signer if hmac.compare_digest(expected, scope["signature"]) else None


def _is_fresh(timestamp: str, date: str) -> bool:
    try:
        moment = datetime.strptime(timestamp, SIGV4_TIMESTAMP).replace(tzinfo=UTC)
    except ValueError:
        return False
    return timestamp.startswith(date) and abs(datetime.now(UTC) - moment) <= SKEW
