"""Attempts to sign in, and who a signed-in person is here."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.approval import check_decision
from aicr_pipeline.decide.sign_in import Identity, approver_name, begin, is_address, resume, resumed
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.approvers import Approvals
from aicr_pipeline.model.rollout import ApprovalRequest, Decision

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEY, BROWSER, SALT, DIGEST = b"k" * 64, "b" * 43, "s" * 22, "sha256:" + "1" * 64


def test_an_attempt_comes_back_to_its_rollout_and_is_the_same() -> None:
    made = begin(KEY, BROWSER, "demo-1", DIGEST, SALT, NOW)
    assert resume(KEY, BROWSER, made.state, NOW + timedelta(minutes=10)) == "demo-1"
    assert resumed(KEY, BROWSER, "demo-1", made.state, DIGEST) == made
    assert 43 <= len(made.verifier) <= 128, "RFC 7636, 4.1"
    assert made.verifier not in made.state + made.nonce and BROWSER not in made.state
    other = begin(KEY, BROWSER, "demo-1", DIGEST, "t" * 22, NOW)
    assert len({made.state, other.state, made.verifier, other.verifier, made.nonce, other.nonce}) == 6


@pytest.mark.parametrize(
    "change",
    [
        lambda key, browser, state, now: (b"j" * 64, browser, state, now),
        lambda key, browser, state, now: (key, "c" * 43, state, now),
        lambda key, browser, state, now: (key, "", state, now),
        lambda key, browser, state, now: (key, browser, state.replace("demo-1", "demo-2"), now),
        lambda key, browser, state, now: (key, browser, state[:-1] + "é", now),
        lambda key, browser, state, now: (key, browser, "", now),
        lambda key, browser, state, now: (key, browser, state, now + timedelta(seconds=601)),
        lambda key, browser, state, now: (key, browser, state, now - timedelta(minutes=5)),
    ],
)
def test_any_other_state_leads_nowhere(change: Any) -> None:
    state = begin(KEY, BROWSER, "demo-1", DIGEST, SALT, NOW).state
    assert resume(*change(KEY, BROWSER, state, NOW)) is None


APPROVALS = Approvals.model_validate_json(
    '{"identity": "signed-in", "groups": ["platform"], "approvers": ['
    '{"name": "alex", "email": "Alex@example.com"},'
    '{"name": "kim", "email": "kim@example.com", "subject": "00u1"},'
    '{"name": "alek", "email": "alek@example.com"}, {"name": "ake", "email": "åke@example.com"}]}'
)


@pytest.mark.parametrize(
    ("who", "name"),
    [
        (Identity("i", "x", "alex@EXAMPLE.com"), "alex"),
        (Identity("i", "x", None), None),
        (Identity("i", "00u1"), "kim"),
        (Identity("i", "x", "kim@example.com"), None),
        (Identity("i", "00U1"), None),
        (Identity("i", "alex", None, ("platform",)), "sub:alex"),
        (Identity("i", "y", "sam@example.com", ("other", "platform")), "sam@example.com"),
        (Identity("i", "y", "sam@example.com", ("Platform",)), None),
        (Identity("i", "00u1", "alex@example.com"), "kim"),
        # Letters that lower-case to others: a Kelvin sign is not a k, a full-width a no a.
        (Identity("i", "x", "ale\u212a@example.com"), None),
        (Identity("i", "x", "\uff41lex@example.com"), None),
        (Identity("i", "x", "\u212bke@example.com"), None),
    ],
)
def test_who_somebody_is(who: Identity, name: str | None) -> None:
    assert approver_name(APPROVALS, who) == name


@pytest.mark.parametrize(
    ("by", "principals", "groups", "holds"),
    [
        (("alex", "sam@example.com"), ("1", "2"), ("platform",), True),
        (("alex", "sam@example.com"), ("1", "2"), None, False),
        (("alex", "sam@example.com"), ("1", "1"), ("platform",), False),
        (("alex", "mallory"), ("1", "2"), ("platform",), False),
    ],
)
def test_the_gate_counts_members_only_where_a_group_was_asked(
    by: tuple[str, ...], principals: tuple[str, ...], groups: tuple[str, ...] | None, holds: bool
) -> None:
    later = rfc3339(NOW + timedelta(hours=1))
    request = ApprovalRequest(
        rollout="demo-1", short_name="d1", digest=DIGEST, deadline=later, asked=("alex", "kim"),
        asked_at=rfc3339(NOW), min_approvals=2, identity="signed-in", groups=groups,
    )  # fmt: skip
    decision = Decision(
        rollout="demo-1", decision="Approved", request_digest=DIGEST, by=by, identity="signed-in",
        issuer="https://login.example.com", reason="r", at=rfc3339(NOW), expires_at=later,
        principals=principals,
    )  # fmt: skip
    if holds:
        check_decision(decision, request, DIGEST, NOW)
    else:
        with pytest.raises(PipelineError, match="does not count"):
            check_decision(decision, request, DIGEST, NOW)


@pytest.mark.parametrize(
    "address", ["kim", "@example.com", "kim@", "alex, kim@x.example", "alex kim@x.example", "sub:kim@x"]
)
def test_what_could_be_another_name_or_two_is_no_address(address: str) -> None:
    assert not is_address(address)
