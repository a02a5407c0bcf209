"""What a decision's form may hold, and from where it may come. No I/O, no clock.

Whatever is refused names its field, so that the page can show the form again as it was typed.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.approval_page import duration_words
from aicr_pipeline.model.fields import seconds

#: What a form may say: an answer, that the rollout is to stop, or that a manual step's work was done.
FormWord = Literal["Approved", "Rejected", "Revoked", "Acknowledged"]

MOST_BODY_BYTES = 64 << 10
MOST_REASON_CHARACTERS = 1024
#: Reasons that need one tap.
COMMON_REASONS = (
    "Reviewed the changes, they look right",
    "Planned maintenance",
    "Fix that should not wait",
    "Not at this time",
    "The changes need more review",
)
REVOKE_REASONS = (
    "Something looks wrong in the cluster",
    "Approved by mistake",
    "It should wait",
)
ACKNOWLEDGE_REASONS = (
    "Done, as the record says",
    "Somebody else did it, and I looked",
    "It does not concern this cluster",
)

_ROLLOUT = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,79}")
_APPROVER = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_SECRET = re.compile(r"[0-9A-Za-z_-]{32}")
_OFFERED = {"Revoked": REVOKE_REASONS, "Acknowledged": ACKNOWLEDGE_REASONS}
_NONCE = re.compile(r"[0-9]{1,12}\.[0-9A-Za-z_-]{32}")
_FIELDS = frozenset({"decision", "nonce", "digest", "shortName", "preset", "reason", "expiry", "release"})
# Controls other than tab and line feed, what breaks lines or reorders text, halves of characters: a reason is
# printed in terminals and mail, beside who gave it.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]"
)
# Letters and symbols that print as nothing.
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")


class FormError(Exception):
    """The body as a whole is no form of ours; ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Form:
    """The form as it was typed."""

    decision: str = ""
    nonce: str = ""
    digest: str = ""
    short_name: str = ""
    preset: str = ""
    reason: str = ""
    expiry: str = ""
    #: Of an acknowledgement: whose step.
    release: str = ""


@dataclass(frozen=True)
class Checked:
    """What the typed fields come to: errors by field, or a reason and an absolute expiry."""

    errors: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    expires_at: str = ""


def is_locator(rollout: str, approver: str, secret: str) -> bool:
    """Whether a link has the form of ours; nothing is read for one that has not."""
    return bool(_ROLLOUT.fullmatch(rollout) and _APPROVER.fullmatch(approver) and _SECRET.fullmatch(secret))


def is_rollout_name(rollout: str) -> bool:
    """Whether a signed-in person's link has the form of ours: the locator is all there is."""
    return _ROLLOUT.fullmatch(rollout) is not None


def is_same_origin(headers: Mapping[str, str], base_url: str) -> bool:
    """Whether a form was sent by our own page.

    Fetch Metadata decides where it is clear; else the Origin must be the public address or the host that
    was asked. With neither there is no proof, so no. ``headers`` have lower-case names.
    """
    site = headers.get("sec-fetch-site", "").strip().lower()
    if site == "same-origin":
        return True
    origin = headers.get("origin", "").strip().lower()
    if site == "cross-site" or not origin:
        return False
    public = urlsplit(base_url.lower())
    host = headers.get("host", "").strip().lower()
    return origin == f"{public.scheme}://{public.netloc}" or (bool(host) and origin == f"https://{host}")


def read_form(body: str | None, is_base64: bool, content_type: str) -> Form:
    """The form of a body as API Gateway hands it over.

    Raises
    ------
    FormError
        415 for another type, 413 above 64 KiB, 400 for what is no form or repeats a field.
    """
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise FormError(415, "This address takes the form of its own page only.")
    text = body or ""
    if len(text) > MOST_BODY_BYTES * (2 if is_base64 else 1):
        raise FormError(413, "That is more than the form can hold.")
    try:
        raw = base64.b64decode(text, validate=True) if is_base64 else text.encode()
        if len(raw) > MOST_BODY_BYTES:
            raise FormError(413, "That is more than the form can hold.")
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20)
    except (ValueError, binascii.Error):
        raise FormError(400, "The form could not be read.") from None
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names) or not _FIELDS.issuperset(names):
        raise FormError(400, "The form has fields that the page did not give it.")
    typed = dict(pairs)
    return Form(
        decision=typed.get("decision", ""),
        nonce=typed.get("nonce", ""),
        digest=typed.get("digest", ""),
        short_name=typed.get("shortName", ""),
        preset=typed.get("preset", ""),
        # Browsers send CRLF; a line end counts once.
        reason=typed.get("reason", "").replace("\r\n", "\n"),
        expiry=typed.get("expiry", ""),
        release=typed.get("release", ""),
    )


def decision_word(form: Form) -> FormWord | None:
    """The decision, or None when it is not of the closed set."""
    found: FormWord | None = next((word for word in get_args(FormWord) if word == form.decision), None)
    return found


def is_nonce_shaped(nonce: str) -> bool:
    """Only what can be one of ours is worth comparing (and text outside ASCII cannot be compared)."""
    return _NONCE.fullmatch(nonce) is not None


def check_fields(form: Form, short_name: str | None, deadline: str, now: datetime) -> Checked:
    """The typed fields, all of them, so that one look tells everything that is wrong.

    The short name counts only where it is asked for. A rejection or revocation does not expire: its expiry is
    the deadline, whatever the field says.
    """
    errors: dict[str, str] = {}
    reason = _reason(form)
    offered = _OFFERED.get(form.decision, COMMON_REASONS)
    if form.preset and form.preset not in offered:
        errors["reason"] = "Choose one of the reasons offered, or write your own."
    elif not any(map(_is_seen, reason)):
        errors["reason"] = "Give a reason: choose one, or write your own."
    elif _UNPRINTABLE.search(reason):
        errors["reason"] = "The reason holds characters that cannot be printed; remove them."
    elif len(reason) > MOST_REASON_CHARACTERS:
        errors["reason"] = (
            f"The reason has {len(reason)} characters; at most {MOST_REASON_CHARACTERS} can be recorded."
        )
    expires_at = rfc3339(parse_time(deadline))
    if decision_word(form) == "Approved":
        try:
            expires_at = expiry(form.expiry, deadline, now)
        except ValueError as error:
            errors["expiry"] = str(error)
    if short_name is not None and form.short_name.strip().lower() != short_name.lower():
        errors["shortName"] = f"Type the short name exactly: {short_name}"
    return Checked(errors, reason, expires_at)


def expiry(typed: str, deadline: str, now: datetime) -> str:
    """When an approval ends, absolute. Empty means the deadline.

    Raises ValueError with a sentence when it is no duration, is zero, or lies beyond the deadline.
    """
    end, text = parse_time(deadline), typed.strip().lower()
    if not text:
        return rfc3339(end)
    try:
        wanted = seconds(text)
    except ValueError:
        raise ValueError("Write a duration such as 90m, 6h or 1d, or leave it empty.") from None
    if wanted <= 0:
        raise ValueError("An approval must last longer than zero.")
    left = (end - now).total_seconds()
    if wanted > left:
        limit = duration_words(left) or "nothing"
        raise ValueError(f"At most {limit} is left until the deadline; leave it empty for all of it.")
    return rfc3339(now + timedelta(seconds=wanted))


def _is_seen(character: str) -> bool:
    """Whether there is something to see: a reason of zero-width characters says nothing to who reads it."""
    return unicodedata.category(character)[0] in "LNPS" and character not in _BLANK


def _reason(form: Form) -> str:
    return ": ".join(part for part in (form.preset, form.reason.strip()) if part)
