"""Argo CD says that an Application changed. It only wakes the sweeper, which reads everything itself.

So a notification that comes twice, late, never or falsely changes nothing but when somebody looks.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.adapters.webhook_secret import WebhookSecret

#: As HTTP APIs write it.
HEADER = "x-aicr-webhook-secret"
MOST_BYTES = 16 * 1024


@dataclass(frozen=True)
class Receipt:
    """The status that the caller gets, and the size of what it sent."""

    status: int
    size: int = 0


def receive_notification(
    request: Mapping[str, Any], secret: Callable[[], WebhookSecret], wake: Callable[[], None]
) -> Receipt:
    """Check the secret, then wake the sweeper. What the body says is not read.

    Parameters
    ----------
    request:
        An HTTP API's event, payload 2.0.
    wake:
        Invokes the sweeper without waiting for it.

    Returns
    -------
    Receipt
        401 without the secret, before anything else is looked at; 413 above 16 KB; 202.
    """
    given = (request.get("headers") or {}).get(HEADER)
    if not given or not secret().accepts(str(given)):
        return Receipt(401)
    size = _size(request)
    if size > MOST_BYTES:
        return Receipt(413, size)
    wake()
    return Receipt(202, size)


def _size(request: Mapping[str, Any]) -> int:
    body = str(request.get("body") or "")
    if not request.get("isBase64Encoded"):
        return len(body.encode())
    try:
        return len(base64.b64decode(body, validate=True))
    except binascii.Error:
        return len(body)
