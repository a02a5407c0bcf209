"""Tokens of Amazon ECR. They carry the rights of the role that asks, and live 12 hours.

Called by the mirror (its own pushes), by ``refresh_credentials`` (Argo CD's Secret) and by the
functions that mint a token for a Job.
"""

import base64
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

    def get(self) -> tuple[str, str]:
        token = self.token()
        return token.user, token.password

    def token(self) -> EcrToken:
        """The current token with its expiry and host."""
        now, token = self._clock(), self._token  # which another thread may forget meanwhile
        if token is None or now >= self._renew_at:
            token = fetch_token(self._client)
            self._renew_at = token.expires_at - min(MARGIN, (token.expires_at - now) / 2)
            self._token = token
        return token

    def renew(self) -> None:
        self._token = None
