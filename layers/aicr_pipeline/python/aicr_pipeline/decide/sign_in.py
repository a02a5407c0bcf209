"""Signing in: what ties a sign-in to one browser and one question, and who a signed-in person is here.

Nothing is stored until somebody is signed in: the state, the PKCE verifier and the nonce of an attempt are
derived from the browser's own random id, which only its cookie holds, and a key that only the pages have.
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from datetime import datetime

from aicr_pipeline.model.approvers import Approvals

#: From the redirect to the issuer until its answer.
LOGIN_SECONDS = 600
SESSION_SECONDS = 900
LOGIN_COOKIE = "__Host-aicr-login"
SESSION_COOKIE = "__Host-aicr-session"

_ID = re.compile(r"[0-9A-Za-z_-]{43}")
_STATE = re.compile(r"([0-9A-Za-z][0-9A-Za-z_-]{0,79})\.([0-9]{1,12})\.[0-9A-Za-z_-]{22}\.[0-9A-Za-z_-]{43}")


@dataclass(frozen=True)
class Identity:
    """Who the issuer says somebody is. ``email`` is set only where the issuer verified it."""

    issuer: str
    subject: str
    email: str | None = None
    groups: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """How a page names the person."""
        return self.email or self.subject


@dataclass(frozen=True)
class Attempt:
    """One way to the issuer and back."""

    rollout: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    nonce: str = field(repr=False)


def is_id(text: str) -> bool:
    """Whether a cookie's value can be one of ours: 256 bits, base64url."""
    return _ID.fullmatch(text) is not None


def begin(key: bytes, browser: str, rollout: str, digest: str, salt: str, now: datetime) -> Attempt:
    """A sign-in that leads to a rollout's page.

    Takes the id in the browser's cookie, the digest of what is asked there and 22 random characters.
    """
    head = f"{rollout}.{int(now.timestamp())}.{salt}"
    return _attempt(key, browser, rollout, f"{head}.{_mac(key, 'state', browser, head)}", digest)


def resume(key: bytes, browser: str, state: str, now: datetime) -> str | None:
    """The rollout that a state leads back to; None when it is not this browser's, or older than ten minutes.

    What it names is a rollout, never an address: whoever forges one cannot send a person elsewhere.
    """
    match = _STATE.fullmatch(state)
    if match is None or not is_id(browser):
        return None
    head, _, mac = state.rpartition(".")
    if not hmac.compare_digest(_mac(key, "state", browser, head), mac):
        return None
    age = now.timestamp() - int(match[2])
    return match[1] if -60 <= age <= LOGIN_SECONDS else None


def resumed(key: bytes, browser: str, rollout: str, state: str, digest: str) -> Attempt:
    """The attempt of a state that ``resume`` accepted: its verifier and nonce once more."""
    return _attempt(key, browser, rollout, state, digest)


def session_name(session: str) -> str:
    """What stands for a session in tables and nonces: its id alone lets somebody in."""
    return hashlib.sha256(session.encode()).hexdigest()


def approver_name(approvals: Approvals, who: Identity) -> str | None:
    """The name that a person decides under, or None for somebody who is no approver.

    Where an approver's subject is configured it decides, else the verified e-mail address. Members of a
    configured group decide under their address or subject, which no approver's name can look like.
    """
    for approver in approvals.approvers:
        if approver.subject is not None and hmac.compare_digest(
            approver.subject.encode(), who.subject.encode()
        ):
            return approver.name
    # Whoever stands there by subject is found by then: an address never makes another person of them.
    for approver in approvals.approvers:
        if (
            approver.subject is None
            and approver.email is not None
            and who.email is not None
            and hmac.compare_digest(_folded(approver.email), _folded(who.email))
        ):
            return approver.name
    if set(approvals.groups) & set(who.groups):
        return who.email or f"sub:{who.subject}"
    return None


def is_address(text: str) -> bool:
    """Whether somebody can be named by it as by an e-mail address: an approver's name has no ``@``.

    Names stand in lists, so nothing that could make two of one is taken.
    """
    local, at, domain = text.rpartition("@")
    return bool(local and at and domain) and not any(one.isspace() or one in ",;:" for one in text)


def is_member_name(name: str) -> bool:
    """Whether somebody decided under this name as a member of a group."""
    return "@" in name or name.startswith("sub:")


def _folded(address: str) -> bytes:
    """Case is folded in ASCII alone: elsewhere a letter becomes another one (a Kelvin sign a ``k``)."""
    return address.encode().lower()


def _attempt(key: bytes, browser: str, rollout: str, state: str, digest: str) -> Attempt:
    # The nonce is the digest of what is asked, tied to this browser's attempt: an ID token of another
    # question, browser or attempt does not fit.
    nonce = f"{digest}.{_mac(key, 'nonce', browser, state, digest)}"
    return Attempt(rollout, state, _mac(key, "verifier", browser, state), nonce)


def _mac(key: bytes, *parts: str) -> str:
    message = "\0".join(("sign-in", *parts)).encode()
    return base64.urlsafe_b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode().rstrip("=")
