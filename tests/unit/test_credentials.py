"""What is wrong with Argo CD's registry token, as tables: reasons, words, and which registry it is for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.credentials import (
    EXPIRES_AT,
    encoded,
    in_doubt,
    is_for,
    repo_creds,
    trouble_with,
    why_not,
)
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import config

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FACT = {"mintedAt": rfc3339(NOON), "expiresAt": rfc3339(NOON + timedelta(hours=12))}


def fact(**changes: Any) -> dict[str, Any]:
    return {**FACT, "checkedAt": rfc3339(NOON), **changes}


def trouble(minutes: float, *, proven: bool = False) -> dict[str, Any]:
    at = rfc3339(NOON + timedelta(minutes=minutes))
    return {"at": at, "reason": "Unauthorized", "message": "refused", "proven": proven}


UNAVAILABLE, STALE = Reason.RegistryCredentialsUnavailable, Reason.RegistryCredentialsStale


@pytest.mark.parametrize(
    ("known", "met", "hours", "doubt", "reason", "words"),
    [
        (None, None, 0, False, UNAVAILABLE, "no registry token that is known of"),
        (None, trouble(-5), 0, True, Reason.Unauthorized, "refused"),
        (fact(), None, 1, False, UNAVAILABLE, "last seen"),
        (fact(), trouble(-5), 1, False, UNAVAILABLE, "last seen"),
        (fact(), trouble(0), 1, False, UNAVAILABLE, "last seen"),
        (fact(), trouble(5), 1, True, Reason.Unauthorized, "refused"),
        # No newer token is to be had, but this one works: what counts is how long it lives.
        (fact(), trouble(5, proven=True), 1, False, UNAVAILABLE, "last seen"),
        (fact(), trouble(5, proven=True), 11.9, False, Reason.Unauthorized, "refused"),
        (fact(), trouble(-5), 11.9, False, STALE, "too soon"),
        (fact(), None, 11.5, False, STALE, "too soon"),
        (fact(), None, 13, False, STALE, "too soon"),
        # Of a program that did not note when it looked: a token was tried before it counted.
        (FACT, trouble(-5), 11.9, False, STALE, "too soon"),
    ],
)
def test_why_a_step_cannot_have_the_token(
    known: dict[str, Any] | None,
    met: dict[str, Any] | None,
    hours: float,
    doubt: bool,
    reason: Reason,
    words: str,
) -> None:
    found, message = why_not(known, met, NOON + timedelta(hours=hours))
    assert (in_doubt(known, met), found) == (doubt, reason)
    assert words in message


GOOD = {"type": "oci", "url": config().registry.repository, "username": "AWS", "password": "p"}


@pytest.mark.parametrize(
    ("change", "expires", "reason", "words"),
    [
        ({}, 1, None, ""),
        ({"project": "theirs"}, 1, None, ""),
        ({"password": ""}, 1, UNAVAILABLE, "holds no credentials yet"),
        ({"username": ""}, 1, UNAVAILABLE, "holds no credentials yet"),
        ({"url": "oci://elsewhere/x"}, 1, UNAVAILABLE, "its url is another"),
        ({"type": "git", "url": "x"}, 1, UNAVAILABLE, "its type, url is another"),
        ({}, None, UNAVAILABLE, "does not say when"),
        ({}, 0, STALE, "expired at 2026-01-01T12:00:00Z"),
        ({}, -1, STALE, "expired at"),
    ],
)
def test_what_is_wrong_with_a_secret(
    change: dict[str, str], expires: float | None, reason: Reason | None, words: str
) -> None:
    until = rfc3339(NOON + timedelta(hours=expires)) if expires is not None else "soon"
    secret = {"metadata": {"annotations": {EXPIRES_AT: until}}, "data": encoded({**GOOD, **change})}
    found = trouble_with(repo_creds(config())[0], secret, NOON)
    assert (found.reason if found else None) == reason
    assert words in (found.message if found else "")


def test_a_secret_that_holds_no_text() -> None:
    data = {**encoded(GOOD), "password": "/////w=="}
    found = trouble_with(repo_creds(config())[0], {"metadata": {}, "data": data}, NOON)
    assert found is not None
    assert found.reason is UNAVAILABLE


@pytest.mark.parametrize(
    ("token", "registry", "good"),
    [
        ("1" * 12 + ".dkr.ecr.us-west-2.amazonaws.com", "1" * 12 + ".dkr.ecr.us-west-2.amazonaws.com", True),
        ("1" * 12 + ".dkr.ecr.us-west-2.amazonaws.com", "1" * 12 + ".dkr-ecr.us-west-2.on.aws", True),
        (
            "1" * 12 + ".dkr.ecr.us-west-2.amazonaws.com",
            "1" * 12 + ".dkr.ecr-fips.us-west-2.amazonaws.com",
            True,
        ),
        ("1" * 12 + ".dkr.ecr.us-west-2.amazonaws.com", "2" * 12 + ".dkr.ecr.us-west-2.amazonaws.com", True),
        ("1" * 12 + ".dkr.ecr.us-west-2.amazonaws.com", "1" * 12 + ".dkr.ecr.us-east-1.amazonaws.com", False),
        (
            "1" * 12 + ".dkr.ecr.cn-north-1.amazonaws.com.cn",
            "1" * 12 + ".dkr.ecr.us-west-2.amazonaws.com",
            False,
        ),
        ("127.0.0.1:5000", "127.0.0.1:5000", True),
        ("127.0.0.1:5000", "127.0.0.1:5001", False),
        ("1" * 12 + ".dkr.ecr.us-west-2.amazonaws.com", "registry.example.com", False),
    ],
)
def test_which_registries_a_token_is_for(token: str, registry: str, good: bool) -> None:
    assert is_for(token, registry) is good
