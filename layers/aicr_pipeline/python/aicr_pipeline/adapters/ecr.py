"""Tokens of Amazon ECR. They carry the rights of the role that asks, and live 12 hours.

Called by the mirror (its own pushes), by ``refresh_credentials`` (Argo CD's Secret) and by the
functions that mint a token for a Job.
"""

import base64
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from aicr_pipeline.adapters.registry_auth import aws_error
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: Renewed this long before its end, so that a token never dies in the middle of a push.
MARGIN = timedelta(minutes=10)


@dataclass(frozen=True)
class EcrToken:
    """One answer of GetAuthorizationToken."""

    user: str
    password: str = field(repr=False)
    expires_at: datetime
    #: From ``proxyEndpoint``: its form differs by partition and endpoint kind, so it is never built here.
    host: str


def fetch_token(client: Any) -> EcrToken:
    """Ask ECR for a token.

    Parameters
    ----------
    client:
        boto3's ECR client, or anything with its ``get_authorization_token``.

    Raises
    ------
    PipelineError
        ``RegistryCredentialsUnavailable``; transient where AWS throttles or fails.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    doing = "Asking ECR for an authorization token"
    try:
        data = client.get_authorization_token()["authorizationData"][0]
        user, _, password = base64.b64decode(data["authorizationToken"]).decode().partition(":")
        expires_at = data["expiresAt"].astimezone(UTC)
        endpoint = str(data["proxyEndpoint"])
    except (ClientError, BotoCoreError) as error:
        raise aws_error(error, doing) from error
    except (LookupError, ValueError, AttributeError):
        raise PipelineError(
            Reason.RegistryCredentialsUnavailable, f"{doing}: the answer holds no usable token; try again."
        ) from None
    return EcrToken(user, password, expires_at, urlsplit(endpoint).netloc or endpoint)


class EcrCredentials:
    """Credentials kept fresh by the clock, and again when ECR calls them expired.

    Parameters
    ----------
    client:
        boto3's ECR client.
    clock:
        The time, with a zone.
    """

    def __init__(self, client: Any, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._client = client
        self._clock = clock
        self._token: EcrToken | None = None
        self._renew_at = datetime.min.replace(tzinfo=UTC)
        self._lock = threading.Lock()

    def get(self) -> tuple[str, str]:
        token = self.token()
        return token.user, token.password

    def token(self) -> EcrToken:
        """The current token with its expiry and host."""
        with self._lock:  # two requests may be under way, and one fetch serves both
            now = self._clock()
            if self._token is None or now >= self._renew_at:
                self._token = fetch_token(self._client)
                self._renew_at = self._token.expires_at - min(MARGIN, (self._token.expires_at - now) / 2)
            return self._token

    def renew(self, refused: tuple[str, str] | None = None) -> None:
        with self._lock:
            if self._token and refused in (None, (self._token.user, self._token.password)):
                self._token = None
