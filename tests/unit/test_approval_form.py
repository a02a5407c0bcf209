"""The approval page's form: expiry, reasons, locators, and where it may come from."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.decide.approval_form import (
    COMMON_REASONS,
    Form,
    FormError,
    check_fields,
    expiry,
    is_locator,
    is_same_origin,
    read_form,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.approval_records import DEADLINE, NOW, SECRET, at


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", DEADLINE), ("  ", DEADLINE), ("1h", at(hours=1)), (" 90M ", at(minutes=90)), ("6h", DEADLINE),
        ("361m", ValueError), ("-1h", ValueError), ("0h", ValueError), ("1", ValueError),
        ("1h30m", ValueError), ("1.5h", ValueError), ("9999999999h", ValueError), ("999999999d", ValueError),
    ],
)  # fmt: skip
def test_expiry(typed: str, expected: Any) -> None:
    if isinstance(expected, str):
        assert expiry(typed, DEADLINE, NOW) == expected
    else:
        with pytest.raises(ValueError):
            expiry(typed, DEADLINE, NOW)


def test_no_expiry_is_beyond_the_deadline_nor_past() -> None:
    for minutes in range(1, 361):
        assert NOW < datetime.fromisoformat(expiry(f"{minutes}m", DEADLINE, NOW)) <= NOW + timedelta(hours=6)


def test_a_form_tells_everything_that_is_wrong() -> None:
    checked = check_fields(Form(decision="Approved", expiry="x", short_name="y"), "demo-1", DEADLINE, NOW)
    assert set(checked.errors) == {"reason", "expiry", "shortName"}


@pytest.mark.parametrize(
    ("preset", "reason", "recorded"),
    [
        (COMMON_REASONS[0], "", COMMON_REASONS[0]),
        ("", " mine ", "mine"),
        (COMMON_REASONS[1], "and more", f"{COMMON_REASONS[1]}: and more"),
    ],
)
def test_reasons(preset: str, reason: str, recorded: str) -> None:
    form = Form(decision="Approved", short_name=" DEMO-1 ", preset=preset, reason=reason)
    checked = check_fields(form, "demo-1", DEADLINE, NOW)
    assert (checked.errors, checked.reason, checked.expires_at) == ({}, recorded, DEADLINE)


@pytest.mark.parametrize(
    "unseen",
    ["\u200b", "\u200c\u200d", "\ufeff", "\xad", "\u2060", "\u3164", "\uffa0", "\u2800", "\u115f", "\u0301",
     "\ufe0f", "\U000e0041", "\U000e0100", "\ue000", "\ufdd0", "\u3000", " \n\t "],
)  # fmt: skip
def test_a_reason_that_nobody_can_see_is_none(unseen: str) -> None:
    for reason in (unseen, unseen * 100, f" {unseen}\n{unseen}"):
        checked = check_fields(Form(decision="Rejected", reason=reason), None, DEADLINE, NOW)
        assert checked.errors == {"reason": "Give a reason: choose one, or write your own."}, ascii(reason)
    assert check_fields(Form(decision="Rejected", reason=f"a{unseen}b"), None, DEADLINE, NOW).errors == {}


@pytest.mark.parametrize(
    "code", [0x00, 0x07, 0x0B, 0x0D, 0x1B, 0x7F, 0x85, 0x9B, 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F),
             *range(0x2066, 0x2070), 0xD800, 0xDFFF],
)  # fmt: skip
def test_what_a_terminal_or_a_mail_would_not_print_in_its_place(code: int) -> None:
    checked = check_fields(Form(decision="Approved", reason=f"fine{chr(code)}too"), None, DEADLINE, NOW)
    assert "cannot be printed" in checked.errors["reason"]


@pytest.mark.parametrize(
    "reason",
    [
        "ok",
        "好",
        "👍",
        "👩\u200d💻",
        "🏴\U000e0067\U000e0062\U000e007f",
        "می\u200cخواهم",
        "e\u0301",
        "…",
        "1",
    ],
)
def test_reasons_of_every_script_are_taken(reason: str) -> None:
    checked = check_fields(Form(decision="Approved", reason=reason), None, DEADLINE, NOW)
    assert (checked.errors, checked.reason) == ({}, reason)


@pytest.mark.parametrize(
    ("rollout", "approver", "secret", "fits"),
    [
        ("demo-0a1b2c3d-1", "alex", SECRET, True),
        ("d" * 80, "a" * 40, SECRET, True),
        ("d" * 81, "alex", SECRET, False),
        ("demo-1", "a" * 41, SECRET, False),
        ("demo-1\n", "alex", SECRET, False),
        ("demo-1", "alex\n", SECRET, False),
        ("demo-1", "alex", SECRET + "\n", False),
        ("../x", "alex", SECRET, False),
        ("", "alex", SECRET, False),
        ("demo-1", "", SECRET, False),
        ("demo-1", "alex", "", False),
        ("demo-1", "alex", "é" * 32, False),
        ("demo-1", "alex", SECRET + "A", False),
    ],
)
def test_locators(rollout: str, approver: str, secret: str, fits: bool) -> None:
    assert is_locator(rollout, approver, secret) is fits


@pytest.mark.parametrize(
    ("headers", "base", "same"),
    [
        ({"sec-fetch-site": "same-origin"}, "https://a.example", True),
        ({"sec-fetch-site": "cross-site", "origin": "https://a.example"}, "https://a.example", False),
        ({"sec-fetch-site": "surprise", "origin": "https://a.example"}, "https://a.example", True),
        ({"origin": "https://a.example"}, "https://a.example/", True),
        ({"origin": "http://a.example"}, "https://a.example", False),
        ({"origin": "https://a.example:444"}, "https://a.example", False),
        ({"origin": "http://127.0.0.1:8123"}, "http://127.0.0.1:8123", True),
        ({"origin": "https://"}, "https://a.example", False),
        ({"origin": "https://", "host": ""}, "https://a.example", False),
        ({"origin": "https://b.example", "host": "b.example"}, "https://a.example", True),
        ({"origin": "null", "host": "null"}, "https://a.example", False),
        ({"host": "a.example"}, "https://a.example", False),
        ({}, "https://a.example", False),
    ],
)
def test_origins(headers: dict[str, str], base: str, same: bool) -> None:
    assert is_same_origin(headers, base) is same


@given(st.text(max_size=200), st.booleans())
def test_a_body_is_a_form_or_is_refused(body: str, is_base64: bool) -> None:
    try:
        form = read_form(body, is_base64, "application/x-www-form-urlencoded; charset=utf-8")
    except FormError as error:
        assert error.status in (400, 413)
    else:
        assert isinstance(form, Form)
