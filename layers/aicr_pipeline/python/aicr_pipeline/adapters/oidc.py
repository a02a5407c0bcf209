"""An OpenID Connect issuer: where its sign-in is, its keys, and who an authorization code is of.

Authlib speaks the authorization code flow with PKCE, joserfc reads ID tokens. Both are imported when
somebody signs in, not with the pages.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aicr_pipeline.decide.id_token import IdTokenError, UnknownKeyError, verify_id_token
from aicr_pipeline.decide.sign_in import Attempt, Identity
from aicr_pipeline.model.addresses import is_loopback
from aicr_pipeline.model.approvers import Oidc

if TYPE_CHECKING:
    from authlib.integrations.requests_client import OAuth2Session  # type: ignore[import-untyped]

#: Seconds to connect, and between two pieces of an answer. A page has 15 in all.
TIMEOUT = (3.05, 5.0)
#: How long the issuer's addresses and keys are kept; and the least time between two looks for newer keys.
KEEP_SECONDS = 3600.0
LOOK_AGAIN_SECONDS = 60.0
_MOST_BYTES = 256 << 10
_SCOPE = "openid email"


class SignInError(Exception):
    """Signing in did not work. ``why`` is for the log: a word of ours, never what somebody sent."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class Endpoints:
    """What the issuer's discovery document names."""

    authorization: str
    token: str
    keys: str


class Issuer:
    """One issuer, for the life of a process."""

    def __init__(
        self,
        oidc: Oidc,
        client_secret: Callable[[], str | None],
        redirect_uri: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.oidc = oidc
        self._secret = client_secret
        self._redirect_uri = redirect_uri
        self._monotonic = monotonic
        self._endpoints: tuple[float, Endpoints] | None = None
        self._keys: tuple[float, Mapping[str, Any]] | None = None

    def sign_in_url(self, attempt: Attempt, **more: str) -> str:
        """Where the browser goes: authorization code, PKCE with S256. ``more`` are OpenID's own parameters.

        Raises SignInError when the issuer does not tell its addresses.
        """
        endpoint = self._discovered().authorization
        with self._session() as session:
            url, _ = session.create_authorization_url(
                endpoint,
                state=attempt.state,
                code_verifier=attempt.verifier,
                nonce=attempt.nonce,
                redirect_uri=self._redirect_uri,
                **more,
            )
        return str(url)

    def identity(self, code: str, attempt: Attempt, now: datetime) -> Identity:
        """Exchange a code, once, and say who it is of.

        Raises SignInError when the issuer does not take the code, or its ID token does not hold.
        """
        token = self._exchange(code, attempt)
        try:
            try:
                return verify_id_token(token, self._jwks(KEEP_SECONDS), self.oidc, attempt.nonce, now)
            except UnknownKeyError:
                return verify_id_token(token, self._jwks(LOOK_AGAIN_SECONDS), self.oidc, attempt.nonce, now)
        except IdTokenError as error:
            raise SignInError(f"id-token-{error.why}") from None

    def _exchange(self, code: str, attempt: Attempt) -> str:
        from authlib.common.errors import AuthlibBaseError  # type: ignore[import-untyped]
        from requests import RequestException

        endpoint = self._discovered().token
        try:
            with self._session(self._secret()) as session:
                answer = session.fetch_token(
                    endpoint,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=attempt.verifier,
                    redirect_uri=self._redirect_uri,
                    timeout=TIMEOUT,
                    allow_redirects=False,
                )
        except AuthlibBaseError:
            raise SignInError("code-refused") from None
        except (RequestException, ValueError):
            raise SignInError("issuer-unreachable") from None
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise SignInError("no-id-token")
        return token

    def _discovered(self) -> Endpoints:
        now = self._monotonic()
        if self._endpoints is None or now - self._endpoints[0] > KEEP_SECONDS:
            document = self._json(f"{self.oidc.issuer.rstrip('/')}/.well-known/openid-configuration")
            if document.get("issuer") != self.oidc.issuer:
                raise SignInError("another-issuer")
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            self._endpoints = (now, Endpoints(*(self._safe(document.get(name)) for name in names)))
        return self._endpoints[1]

    def _jwks(self, oldest: float) -> Mapping[str, Any]:
        now = self._monotonic()
        if self._keys is None or now - self._keys[0] > oldest:
            self._keys = (now, self._json(self._discovered().keys))
        return self._keys[1]

    def _json(self, url: str) -> Mapping[str, Any]:
        import requests

        try:
            with (
                self._session() as session,
                session.get(
                    url, withhold_token=True, timeout=TIMEOUT, allow_redirects=False, stream=True
                ) as answer,
            ):
                body = answer.raw.read(_MOST_BYTES + 1, decode_content=True)
                if answer.status_code != 200 or len(body) > _MOST_BYTES:
                    raise SignInError("issuer-unreadable")
            document = json.loads(body)
        except (requests.RequestException, OSError, ValueError):
            raise SignInError("issuer-unreachable") from None
        if not isinstance(document, dict):
            raise SignInError("issuer-unreadable")
        return document

    def _safe(self, url: object) -> str:
        """An address of the discovery document: TLS, except where the issuer itself is on loopback."""
        parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
        plain = (
            parts.scheme == "http"
            and is_loopback(parts.netloc)
            and is_loopback(urlsplit(self.oidc.issuer).netloc)
        )
        if not parts.hostname or not (parts.scheme == "https" or plain):
            raise SignInError("issuer-unsafe")
        return str(url)

    def _session(self, secret: str | None = None) -> "OAuth2Session":
        from authlib.integrations.requests_client import OAuth2Session

        session = OAuth2Session(
            self.oidc.client_id,
            secret,
            scope=_SCOPE,
            code_challenge_method="S256",
        )
        # Neither a .netrc nor a proxy of the environment; one authority file as for every other request.
        session.trust_env = False
        session.verify = os.environ.get("SSL_CERT_FILE") or True
        return session
