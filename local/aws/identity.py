"""Fake credentials per role, and back: which role does an access key belong to."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from local.aws.model import Credentials


class Identities:
    """Access keys derived from role ARNs. Thread-safe: entries are only added, and always the same."""

    def __init__(self, account: str) -> None:
        self.account = account
        self._roles: dict[str, str] = {}
        self._sessions: dict[str, str] = {}

    def credentials_of(self, role_arn: str, *, session: str = "local") -> Credentials:
        """Keys of a role; the access key depends on the role alone, so identity_of can be asked ahead."""
        digest = hashlib.sha256(role_arn.encode()).digest()
        access_key = "ASIA" + base64.b32encode(digest)[:16].decode()
        self._roles[access_key] = role_arn
        self._sessions.setdefault(access_key, session)
        secret = hashlib.sha256(b"secret" + digest).hexdigest()[:40]
        return Credentials(access_key, secret, f"local-{digest.hex()}")

    def identity_of(self, access_key: str) -> str | None:
        """Role ARN of an access key: one of ours, or of a session that AssumeRole made; None otherwise."""
        known = self._roles.get(access_key)
        if known is not None:
            return known
        from moto.sts.models import sts_backends

        for backend in sts_backends[self.account].values():
            role: Any = backend.get_assumed_role_from_access_key(access_key)
            if role is not None:
                return str(role.role_arn)
        return None

    def caller_of(self, access_key: str) -> str | None:
        """The ARN that GetCallerIdentity answers for one of our keys; None for foreign keys."""
        role = self._roles.get(access_key)
        if role is None:
            return None
        name = role.rpartition("/")[2]
        return f"arn:aws:sts::{self.account}:assumed-role/{name}/{self._sessions[access_key]}"
