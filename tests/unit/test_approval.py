"""Links, nonces, decisions and deadlines: what holds, and for how long."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.decide.approval import (
    NONCE_SECONDS,
    approval_url,
    check_deadline,
    check_decision,
    form_nonce,
    is_form_nonce,
    is_link_secret,
    link_secret,
    summary,
)
from aicr_pipeline.decide.assess import assess
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import decision, plan, refused, release, request, sha

KEY, OTHER = b"k" * 64, b"o" * 64
NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def test_a_links_secret_is_derived_and_long_enough() -> None:
    secret = link_secret(KEY, "demo-1", "alex")
    assert secret == link_secret(KEY, "demo-1", "alex"), "retries and reminders send the same link"
    assert re.fullmatch(r"[0-9A-Za-z_-]{32}", secret), "192 bits, base64url"
    others = {
        link_secret(OTHER, "demo-1", "alex"),
        link_secret(KEY, "demo-2", "alex"),
        link_secret(KEY, "demo-1", "kim"),
        link_secret(KEY, "demo-1a", "lex"),
        link_secret(KEY, "demo-1\0a", "lex"),
        form_nonce(KEY, "demo-1", "alex", "", NOW).partition(".")[2],
    }
    assert len(others) == 6
    assert secret not in others


@pytest.mark.parametrize("given", ["", "x", "a" * 32, "a" * 1000])
def test_other_secrets_are_refused(given: str) -> None:
    assert not is_link_secret(KEY, "demo-1", "alex", given)
    assert is_link_secret(KEY, "demo-1", "alex", link_secret(KEY, "demo-1", "alex"))


def test_every_changed_character_of_a_secret_is_refused() -> None:
    secret = link_secret(KEY, "demo-1", "alex")
    for at, had in enumerate(secret):
        changed = secret[:at] + ("A" if had != "A" else "B") + secret[at + 1 :]
        assert not is_link_secret(KEY, "demo-1", "alex", changed)


def test_links_are_short_whatever_the_names() -> None:
    base = "https://a1b2c3d4e5.execute-api.us-west-2.amazonaws.com/"
    url = approval_url(base, "d" * 40 + "-12345678-12", "a" * 40, link_secret(KEY, "r", "a"))
    assert len(url) < 200
    assert "//approvals" not in url.removeprefix("https://")


@pytest.mark.parametrize(
    ("age", "holds"),
    [(0, True), (1, True), (NONCE_SECONDS, True), (NONCE_SECONDS + 1, False), (-60, True), (-61, False)],
)
def test_a_nonces_age(age: int, holds: bool) -> None:
    nonce = form_nonce(KEY, "demo-1", "alex", sha("d"), NOW)
    later = NOW + timedelta(seconds=age)
    assert is_form_nonce(KEY, "demo-1", "alex", sha("d"), nonce, later) is holds


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": OTHER},
        {"rollout": "demo-2"},
        {"approver": "kim"},
        {"digest": sha("other")},
    ],
    ids=["key", "rollout", "approver", "digest"],
)
def test_a_nonce_is_of_one_form(wrong: dict[str, Any]) -> None:
    of = {"key": KEY, "rollout": "demo-1", "approver": "alex", "digest": sha("d")}
    nonce = form_nonce(**of, now=NOW)
    assert is_form_nonce(**of, nonce=nonce, now=NOW)
    assert not is_form_nonce(**(of | wrong), nonce=nonce, now=NOW)


@pytest.mark.parametrize(
    "nonce", ["", ".", "1", "1.", ".x", "-1.x", "1e3.x", "٣.x", "9" * 13 + ".x", "0x1.y"]
)
def test_no_nonces(nonce: str) -> None:
    assert not is_form_nonce(KEY, "demo-1", "alex", sha("d"), nonce, NOW)


def test_a_nonces_time_cannot_be_moved() -> None:
    issued, _, mac = form_nonce(KEY, "demo-1", "alex", sha("d"), NOW).partition(".")
    later = NOW + timedelta(hours=2)
    assert not is_form_nonce(KEY, "demo-1", "alex", sha("d"), f"{int(issued) + 7200}.{mac}", later)
    assert not is_form_nonce(KEY, "demo-1", "alex", sha("d"), f"0{issued}.{mac}", NOW)


@pytest.mark.parametrize(
    ("changes", "at", "reason", "said"),
    [
        ({}, "2026-01-02T00:00:00.000Z", Reason.RolloutExpired, "of alex expired at 2026-01-02"),
        ({}, "2026-03-01T00:00:00.000Z", Reason.RolloutExpired, "expired"),
        (
            {"expires_at": "2026-01-02T02:00:00+02:00"},
            "2026-01-02T00:00:00Z",
            Reason.RolloutExpired,
            "expired",
        ),
        ({"decision": "Rejected"}, "2026-01-01T12:00:00Z", Reason.RolloutRejected, "Rejected by alex: Looks"),
        ({"decision": "Rejected"}, "2026-03-01T00:00:00Z", Reason.RolloutRejected, "Rejected"),
        (
            {"decision": "Rejected", "request_digest": sha("x")},
            "2026-01-01T12:00:00Z",
            Reason.RolloutRejected,
            "Rejected",
        ),
        ({"request_digest": sha("x")}, "2026-01-01T12:00:00Z", Reason.RolloutFailed, "another request"),
        ({"request_digest": sha("x")}, "2026-03-01T00:00:00Z", Reason.RolloutFailed, "another request"),
        ({"by": ("alex", "kim")}, "2026-03-01T00:00:00Z", Reason.RolloutExpired, "alex, kim"),
    ],
)
def test_decisions_that_do_not_hold(changes: dict[str, Any], at: str, reason: Reason, said: str) -> None:
    with refused(reason, said):
        check_decision(decision(**changes), request(), sha("request"), datetime.fromisoformat(at))


def test_no_decision() -> None:
    with refused(Reason.RolloutFailed, "No approval is recorded"):
        check_decision(None, request(), sha("request"), NOW)


@pytest.mark.parametrize("at", ["2026-01-01T00:00:00Z", "2026-01-01T23:59:59.999Z"])
def test_a_decision_that_holds(at: str) -> None:
    check_decision(decision(), request(), sha("request"), datetime.fromisoformat(at))


@pytest.mark.parametrize(
    ("asked", "by", "said"),
    [
        (None, ("alex",), "another request"),
        ({"digest": sha("x")}, ("alex",), "another request"),
        ({}, ("mallory",), "by mallory; 1 of alex, kim were to give it"),
        ({}, ("alex", "mallory"), "by alex, mallory"),
        ({"asked": ("kim",)}, ("alex",), "1 of kim"),
        ({"min_approvals": 2}, ("alex",), "by alex; 2 of alex, kim"),
        ({"min_approvals": 2}, ("alex", "alex"), "by alex; 2 of"),
        ({"min_approvals": 3}, ("alex", "kim"), "by alex, kim; 3 of"),
    ],
)
def test_approvals_by_others_than_were_asked_or_by_too_few(
    asked: dict[str, Any] | None, by: tuple[str, ...], said: str
) -> None:
    with refused(Reason.RolloutFailed, said):
        check_decision(decision(by=by), None if asked is None else request(**asked), sha("request"), NOW)


def test_enough_people_of_those_who_were_asked() -> None:
    check_decision(decision(by=("kim",)), request(), sha("request"), NOW)
    check_decision(decision(by=("alex", "kim")), request(min_approvals=2), sha("request"), NOW)


def test_deadlines() -> None:
    check_deadline("2026-01-01T12:00:00.001Z", NOW)
    for passed in ("2026-01-01T12:00:00.000Z", "2025-12-31T00:00:00Z", "2026-01-01T13:00:00+02:00"):
        with refused(Reason.RolloutExpired, passed):
            check_deadline(passed, NOW)


def test_a_summary_is_three_lines_whatever_the_plan() -> None:
    many = [release(f"r{n}", "1.0.0") for n in range(9)]
    lines = summary(assess(None, plan(*many), always_ask=True, from_is_whole=True))
    assert lines == [
        "9 releases: 9 Install",
        "r0 1.0.0, r1 1.0.0, r2 1.0.0, r3 1.0.0 and 5 more",
        "asked because: first install, approvals.always",
    ]
    after = [release("r0", "1.1.0"), *many[1:]]
    assert summary(assess(plan(*many), plan(*after), always_ask=False, from_is_whole=True)) == [
        "9 releases: 1 Upgrade, 8 Unchanged",
        "r0 1.0.0 -> 1.1.0",
        "asked because: r0: unknown (no-record)",
    ]
    assert len(summary(assess(plan(*many), plan(*many), always_ask=True, from_is_whole=True))) == 2
