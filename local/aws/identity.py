"""Fake credentials per role, and back: which role does an access key belong to."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from local.aws.model import Credentials
from local.aws.sigv4 import Signer

#: Of the person who runs the engine: a user, not one of the pipeline's roles.
OPERATOR_KEY, OPERATOR_SECRET = "AKIALOCALENGINE00000", "local"


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
        role = self._assumed(access_key)
        return None if role is None else str(role.role_arn)

    def signer_of(self, access_key: str) -> Signer | None:
        """Who an access key signs for: one of ours, the operator, or a session that AssumeRole made."""
        if access_key == OPERATOR_KEY:
            arn = f"arn:aws:iam::{self.account}:user/operator"
            return Signer(arn, "AIDA" + _id(arn), OPERATOR_SECRET, "")
        known = self._roles.get(access_key)
        if known is not None:
            arn = self.caller_of(access_key) or known
            keys = self.credentials_of(known)
            return Signer(arn, _caller_id(arn), keys.secret_key, keys.token)
        role = self._assumed(access_key)
        if role is None:
            return None
        name = str(role.role_arn).rpartition("/")[2]
        arn = f"arn:aws:sts::{self.account}:assumed-role/{name}/{role.session_name}"
        return Signer(arn, _caller_id(arn), str(role.secret_access_key), str(role.session_token))

    def caller_of(self, access_key: str) -> str | None:
        """The ARN that GetCallerIdentity answers for one of our keys; None for foreign keys."""
        role = self._roles.get(access_key)
        if role is None or ":role/" not in role:
            return role
        name = role.rpartition("/")[2]
        return f"arn:aws:sts::{self.account}:assumed-role/{name}/{self._sessions[access_key]}"

    def _assumed(self, access_key: str) -> Any:
        from moto.sts.models import sts_backends

        for backend in sts_backends[self.account].values():
            role: Any = backend.get_assumed_role_from_access_key(access_key)
            if role is not None:
                return role
        return None


def _id(arn: str) -> str:
    return base64.b32encode(hashlib.sha256(arn.encode()).digest())[:17].decode()


def _caller_id(arn: str) -> str:
    """As IAM tells it: a user's id, or a role's with the session's name."""
    role, _, session = arn.rpartition("/")
    return f"AROA{_id(role)}:{session}" if ":assumed-role/" in arn else f"AIDA{_id(arn)}"
