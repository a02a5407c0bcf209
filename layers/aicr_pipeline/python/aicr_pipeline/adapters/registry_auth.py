"""Who we are to a registry: Basic that is sent at once, or a Bearer token for one repository.

ECR takes Basic (user ``AWS``, a password of 12 hours) on every request. Publishers' registries give
anonymous tokens per repository: they answer 401 with the address of a token service. The ``oras``
library sends each body twice for Basic, and keeps one token for all repositories.
"""

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from aicr_pipeline.adapters.http import MAX_ERROR_BODY, Counters, Transport
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

EXPIRED = "authorization token has expired"

#: botocore's names for having no identity in AWS at all, which waiting does not change.
_NO_IDENTITY = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "UnauthorizedSSOTokenError", "SSOTokenLoadError"}
)


class Credentials(Protocol):
    """A user and password for one registry."""

    def get(self) -> tuple[str, str]:
        """The current pair; fetched, cached and renewed as its kind needs it.

        Raises ``RegistryCredentialsUnavailable`` when there is none to be had.
        """
        ...

    def renew(self, refused: tuple[str, str] | None = None) -> None:
        """Forget the cached pair: the registry called it expired.

        With ``refused`` only that pair is forgotten: of two requests that were refused together, the
        second must not throw away what the first has just been given.
        """
        ...


class FixedCredentials(NamedTuple):
    """A pair that is known already, for example one minted for a Job."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"FixedCredentials(user={self.user!r})"

    def get(self) -> tuple[str, str]:
        return self.user, self.password

    def renew(self, refused: tuple[str, str] | None = None) -> None:
        """There is no other pair."""


class StaticCredentials:
    """An administrator's pair from Secrets Manager: JSON with ``username`` and ``password``.

    Parameters
    ----------
    client:
        boto3's Secrets Manager client, or anything with its ``get_secret_value``.
    secret:
        Name or ARN of the secret. It is read again after a refusal, so a rotation needs no restart.
    """

    def __init__(self, client: Any, secret: str) -> None:
        self._client = client
        self._secret = secret
        self._pair: tuple[str, str] | None = None
        self._lock = threading.Lock()

    def get(self) -> tuple[str, str]:
        with self._lock:
            if self._pair is None:
                self._pair = self._read()
            return self._pair

    def renew(self, refused: tuple[str, str] | None = None) -> None:
        with self._lock:
            if refused in (None, self._pair):
                self._pair = None

    def _read(self) -> tuple[str, str]:
        from botocore.exceptions import BotoCoreError, ClientError

        doing = f"Reading the registry credentials from secret {self._secret}"
        try:
            text = self._client.get_secret_value(SecretId=self._secret)["SecretString"]
            found = json.loads(text)
            return str(found["username"]), str(found["password"])
        except (ClientError, BotoCoreError) as error:
            raise aws_error(error, doing) from error
        except (KeyError, TypeError, ValueError):
            # The cause is left out: it may quote the secret.
            raise PipelineError(
                Reason.RegistryCredentialsUnavailable,
                f"{doing}: it is not JSON with username and password; write it so.",
            ) from None


def aws_error(error: Exception, doing: str) -> PipelineError:
    """An AWS refusal as ours: throttling and outages may pass, the rest needs a person."""
    response: Mapping[str, Any] = getattr(error, "response", {})
    code = response.get("Error", {}).get("Code", type(error).__name__)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    passing = status >= 500 or not response or "Throttl" in code or code == "TooManyRequestsException"
    kind = TransientError if passing and code not in _NO_IDENTITY else PipelineError
    return kind(Reason.RegistryCredentialsUnavailable, f"{doing}: AWS answered {code}; check our role there.")


class Authorization:
    """The ``Authorization`` header of one repository, and what to do when it is refused."""

    def __init__(
        self,
        transport: Transport,
        repository: str,
        credentials: Credentials | None,
        counters: Counters,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._transport = transport
        self._repository = repository
        self._credentials = credentials
        self._counters = counters
        self._clock = clock
        self._bearer: tuple[str, float] | None = None
        self._scope: frozenset[str] = frozenset()
        self._renewed = False
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        """What to send. Known credentials go with the first request: bodies must not travel twice."""
        if self._bearer:
            token, until = self._bearer
            if self._clock() < until:
                return {"Authorization": f"Bearer {token}"}
        if self._credentials:
            return {"Authorization": basic(*self._credentials.get())}
        return {}

    def recover(self, sent: Mapping[str, str], status: int, challenge: str | None, text: str) -> bool:
        """Whether to ask once more, with what ``headers()`` gives now.

        Parameters
        ----------
        sent:
            What ``headers()`` gave for the request that was refused.
        status, challenge, text:
            Of the refusal: 401 or 403, its ``WWW-Authenticate``, its body.
        """
        with self._lock:
            # The other request that was under way may have done it already.
            return self.headers() != sent or self._recover(status, challenge, text)

    def _recover(self, status: int, challenge: str | None, text: str) -> bool:
        bearer = challenge is not None and challenge.lower().startswith("bearer ")
        # ECR says 403 without a challenge; to HEAD it cannot even say why. Others say 401 to a password that
        # was changed.
        if EXPIRED in text.lower() or (status == 403 and not text) or (status == 401 and not bearer):
            return self._renew()
        if status == 401 and challenge:
            fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
            if "realm" not in fields:
                return False
            # A service leaves out what it refuses. Asked again for the same, it leaves out the same.
            if fields.get("error") == "insufficient_scope" and self._parts(fields) == self._scope:
                return False
            # The service may refuse a password that was changed.
            return self._fetch_token(fields) or (self._renew() and self._fetch_token(fields))
        return False

    def _renew(self) -> bool:
        """Whether there is another pair than the one that was refused; looked for once."""
        if self._credentials is None or self._renewed:
            return False
        before = self._credentials.get()
        self._credentials.renew(before)
        self._renewed = True
        return self._credentials.get() != before

    def _fetch_token(self, fields: dict[str, str]) -> bool:
        """Ask a token service (the distribution project's token specification)."""
        scope = fields.get("scope") or f"repository:{self._repository}:pull"
        query = {key: value for key, value in (("service", fields.get("service")), ("scope", scope)) if value}
        headers = {"Accept": "application/json"}
        if self._credentials:
            headers["Authorization"] = basic(*self._credentials.get())
        realm = fields["realm"]
        answer = self._transport.send(
            "GET",
            f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}",
            doing=f"Asking for a token for {self._repository}",
            counters=self._counters,
            headers=headers,
        )
        body = answer.read(MAX_ERROR_BODY)
        if answer.status == 401 and self._renew():
            return self._fetch_token(fields)
        if answer.status != 200 or not body:
            return False
        try:
            found = json.loads(body)
            token = found.get("token") or found.get("access_token")
            lifetime = float(found.get("expires_in") or 60)
        except (ValueError, TypeError, AttributeError):
            return False
        if not isinstance(token, str) or not token:
            return False
        self._bearer = (token, self._clock() + lifetime * 0.9)
        self._scope = self._parts(fields)
        return True

    def _parts(self, fields: Mapping[str, str]) -> frozenset[str]:
        """A scope without its order, which registries change from answer to answer."""
        return frozenset(re.split("[:, ]", fields.get("scope", "")))


def basic(user: str, password: str) -> str:
    """The Basic scheme of RFC 7617."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
