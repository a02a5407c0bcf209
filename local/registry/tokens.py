"""Passwords that say what they allow and until when, signed so that nobody writes their own.

They stand for ECR's authorization tokens, which carry the rights of the role that fetched them.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

USER = "AWS"


@dataclass(frozen=True)
class Scope:
    """Actions (``pull``, ``push``) on the repositories whose name starts with ``prefix``.

    A ``*`` inside stands for anything, as in the resources of IAM.
    """

    prefix: str
    actions: frozenset[str]


@dataclass(frozen=True)
class Grant:
    """What a password says. ``scopes`` None allows everything."""

    scopes: tuple[Scope, ...] | None
    expires_at: float
    expired: bool

    def allows(self, repository: str, action: str) -> bool:
        """Whether the password reaches that repository. A prefix ends at a path segment."""
        return self.scopes is None or any(
            action in scope.actions and _pattern(scope.prefix).match(f"{repository}/") is not None
            for scope in self.scopes
        )


def _pattern(prefix: str) -> re.Pattern[str]:
    whole = f"{prefix.rstrip('/*')}/".lstrip("/")
    return re.compile(".*".join(re.escape(part) for part in whole.split("*")))


class TokenIssuer:
    """Issues and checks passwords; both sides share one secret.

    Parameters
    ----------
    secret:
        Random by default. Processes that must accept each other's tokens are given the same.
    clock:
        Seconds since the epoch; tests move it.
    """

    def __init__(self, secret: bytes | None = None, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret or secrets.token_bytes(32)
        self._clock = clock

    def issue(
        self, scopes: Iterable[Scope] | None = None, lifetime: timedelta = timedelta(hours=12)
    ) -> tuple[str, str, datetime]:
        """A user, a password and its end. ``scopes`` None allows everything."""
        until = self._clock() + lifetime.total_seconds()
        allowed = None if scopes is None else [[scope.prefix, sorted(scope.actions)] for scope in scopes]
        payload = json.dumps({"until": until, "scopes": allowed, "id": secrets.token_hex(4)}).encode()
        body = base64.urlsafe_b64encode(payload).decode()
        return USER, f"{body}.{self._sign(body)}", datetime.fromtimestamp(until, UTC)

    def read(self, user: str, password: str) -> Grant | None:
        """What a password grants, or None when it is not one of ours."""
        body, _, signature = password.partition(".")
        if user != USER or not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
            return None
        payload = json.loads(base64.urlsafe_b64decode(body))
        scopes = payload["scopes"]
        return Grant(
            None
            if scopes is None
            else tuple(Scope(prefix, frozenset(actions)) for prefix, actions in scopes),
            payload["until"],
            self._clock() >= payload["until"],
        )

    def _sign(self, body: str) -> str:
        return hmac.new(self._secret, body.encode(), hashlib.sha256).hexdigest()
