"""Tokens of service accounts, as the TokenRequest API hands them out."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from local.kube.objects import Object, meta, rfc3339
from local.kube.rbac import AUTHENTICATED, Identity
from local.kube.resources import SERVICE_ACCOUNTS
from local.kube.store import Store


@dataclass(frozen=True)
class _Issued:
    namespace: str
    name: str
    uid: str
    expires: datetime


class TokenIssuer:
    """Random tokens, known only here, that end with their time or their account."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._issued: dict[str, _Issued] = {}

    def issue(self, namespace: str, name: str, seconds: int = 3600) -> Object:
        """The status of a TokenRequest: `token`, `expirationTimestamp`. Raises ApiError 404."""
        account = self._store.get(SERVICE_ACCOUNTS, name, namespace)
        now = self._clock()
        self._issued = {token: entry for token, entry in self._issued.items() if entry.expires > now}
        token, expires = secrets.token_urlsafe(48), now + timedelta(seconds=seconds)
        self._issued[token] = _Issued(namespace, name, str(meta(account)["uid"]), expires)
        return {"token": token, "expirationTimestamp": rfc3339(expires)}

    def identify(self, token: str) -> Identity | None:
        """Whose token it is; None when it is not from here, is past its time, or its account is gone."""
        entry = self._issued.get(token)
        if entry is None or entry.expires <= self._clock():
            return None
        account = self._store.find(SERVICE_ACCOUNTS, entry.name, entry.namespace)
        if account is None or meta(account)["uid"] != entry.uid:
            return None
        return Identity(
            f"system:serviceaccount:{entry.namespace}:{entry.name}",
            ("system:serviceaccounts", f"system:serviceaccounts:{entry.namespace}", AUTHENTICATED),
        )
