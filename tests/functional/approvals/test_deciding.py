"""What a sent form may record, and everything it is refused for."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.approval import check_decision, form_nonce
from aicr_pipeline.model.rollout import Decision
from botocore.exceptions import ClientError

from tests.functional.approvals.answers import refused
from tests.functional.approvals.conftest import Site
from tests.functional.approvals.support import BASE_URL, DIGEST, KEY, Waiting, decision_of, seed


@pytest.mark.parametrize("decision", ["Approved", "Rejected", "Revoked"])
def test_what_was_typed_outlives_a_failure_of_ours(site: Site, waiting: Waiting, decision: str) -> None:
    """S3 is down between the page and the record."""
    approving = decision != "Revoked"
    if not approving:
        waiting.decide("Approved")
    form = site.form(
        waiting, decision=decision, reason="Read every <value>", expiry="2h" if approving else "(absent)"
    )
    put = Ledger.put_once

    def down(*_: object, **__: object) -> bool:
        raise ClientError({"Error": {"Code": "SlowDown", "Message": "secret words"}}, "PutObject")

    site.monkeypatch.setattr(Ledger, "put_once", down)
    page = site.post(waiting, form)
    assert page.status == 500 and "secret words" not in page.body + site.logs.getvalue()
    assert "Read every &lt;value&gt;" in page.body
    site.monkeypatch.setattr(Ledger, "put_once", put)
    kept = page.fields
    assert kept["decision"] == decision and kept["shortName"] == waiting.short
    again = site.post(waiting, kept)
    assert again.status == 403 and again.fields["reason"] == "Read every <value>", "with a nonce again"
    assert site.post(waiting, {**again.fields, "decision": decision}).status == 303


def test_approve(site: Site, waiting: Waiting) -> None:
    before = datetime.now(UTC)
    page = site.follow(site.post(waiting, site.form(waiting, preset="Planned maintenance", expiry="2h")))
    assert (page.status, page.state) == (200, "approved") and "Planned maintenance: Looks right" in page.body
    found = decision_of(waiting)
    at = parse_time(found["at"])
    assert before - timedelta(seconds=1) <= at <= datetime.now(UTC)
    assert parse_time(found["expiresAt"]) - at == timedelta(hours=2)
    assert {name: found[name] for name in found if name not in ("at", "expiresAt")} == {
        "rollout": waiting.name,
        "decision": "Approved",
        "requestDigest": waiting.request.digest,
        "by": ["alex"],
        "identity": "link",
        "issuer": "link",
        "reason": "Planned maintenance: Looks right",
    }
    # What the gate before each step will ask.
    check_decision(Decision(**_snake(found)), waiting.request, waiting.request.digest, datetime.now(UTC))


def _snake(found: dict[str, Any]) -> dict[str, Any]:
    plain = {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name): value for name, value in found.items()}
    return {**plain, "by": tuple(found["by"])}


def test_reject(site: Site, waiting: Waiting) -> None:
    form = site.form(waiting, decision="Rejected", expiry="nonsense is not looked at")
    page = site.follow(site.post(waiting, form))
    assert page.state == "rejected"
    assert decision_of(waiting)["decision"] == "Rejected"
    assert decision_of(waiting)["expiresAt"] == waiting.request.deadline


def test_expiry_defaults_to_the_deadline(site: Site, waiting: Waiting) -> None:
    site.follow(site.post(waiting, site.form(waiting, preset="(absent)")))
    assert decision_of(waiting)["expiresAt"] == waiting.request.deadline


def test_a_double_click_is_one_decision(site: Site, waiting: Waiting) -> None:
    form = site.form(waiting)
    first = site.post(waiting, form)
    once = decision_of(waiting)
    again = site.post(waiting, {**form, "reason": "another"})
    assert first.status == again.status == 303 and decision_of(waiting) == once


def test_approve_then_reject_is_refused(site: Site, waiting: Waiting) -> None:
    mine, theirs = site.form(waiting), site.form(waiting, "kim", decision="Rejected")
    assert site.post(waiting, mine).status == 303
    page = site.post(waiting, theirs, "kim")
    assert (page.status, page.state) == (409, "approved") and "By <strong>alex</strong>" in page.body
    page = site.post(waiting, {**mine, "decision": "Rejected"})
    assert page.status == 409 and decision_of(waiting)["decision"] == "Approved"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, 303),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": BASE_URL}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "none", "origin": BASE_URL}, 303),
        ({"sec-fetch-site": "(absent)", "origin": BASE_URL}, 303),
        ({"sec-fetch-site": "(absent)", "origin": BASE_URL.upper()}, 303),
        ({"sec-fetch-site": "(absent)", "origin": "https://approve.example", "host": "approve.example"}, 303),
        ({"sec-fetch-site": "(absent)", "origin": "http://approve.example", "host": "approve.example"}, 403),
        ({"sec-fetch-site": "(absent)", "origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "(absent)", "origin": "null"}, 403),
        ({"sec-fetch-site": "(absent)", "origin": BASE_URL + ".evil.example"}, 403),
        ({"sec-fetch-site": "(absent)"}, 403),
    ],
)
def test_where_a_form_may_come_from(
    site: Site, waiting: Waiting, headers: dict[str, str], status: int
) -> None:
    page = site.post(waiting, site.form(waiting), headers=headers)
    if status == 303:
        assert page.status == 303 and waiting.read("decision") is not None
    else:
        refused(waiting, page, 403, "not sent from its own page")


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"decision": "Maybe"}, 400, "Approve or Reject"),
        ({"decision": "approved"}, 400, "Approve or Reject"),
        ({"decision": "(absent)"}, 400, "Approve or Reject"),
        ({"surprise": "x"}, 400, "did not give it"),
        ({"nonce": "(absent)"}, 403, "open for more than an hour"),
        ({"nonce": "1." + "A" * 32}, 403, "open for more than an hour"),
        ({"nonce": "é" * 40}, 403, "open for more than an hour"),
        ({"digest": "(absent)"}, 403, "open for more than an hour"),
        ({"digest": DIGEST}, 403, "open for more than an hour"),
        ({"shortName": "(absent)"}, 422, "Type the short name exactly"),
        ({"shortName": "demo"}, 422, "Type the short name exactly"),
        ({"reason": ""}, 422, "Give a reason"),
        ({"reason": " \r\n "}, 422, "Give a reason"),
        ({"reason": "(absent)", "preset": "(absent)"}, 422, "Give a reason"),
        ({"reason": "x" * 1025}, 422, "1025 characters"),
        ({"reason": "x" * 1020, "preset": "Planned maintenance"}, 422, "at most 1024"),
        ({"reason": "bell \x07"}, 422, "cannot be printed"),
        ({"reason": "turn \u202e round"}, 422, "cannot be printed"),
        ({"preset": "Because I can"}, 422, "one of the reasons offered"),
        ({"expiry": "-6h"}, 422, "Write a duration"),
        ({"expiry": "soon"}, 422, "Write a duration"),
        ({"expiry": "0s"}, 422, "longer than zero"),
        ({"expiry": "7h"}, 422, "At most 5 h 59 min is left"),
        ({"expiry": "999999999d"}, 422, "At most 5 h 59 min is left"),
    ],
)
def test_a_wrong_form_changes_nothing(
    site: Site, waiting: Waiting, changes: dict[str, str], status: int, words: str
) -> None:
    refused(waiting, site.post(waiting, site.form(waiting, **changes)), status, words)


@pytest.mark.parametrize("reason", ["x" * 1024, "ü" * 1024, "😀" * 1024, "two\r\nlines"])
def test_what_a_reason_may_be(site: Site, waiting: Waiting, reason: str) -> None:
    assert site.post(waiting, site.form(waiting, reason=reason)).status == 303
    assert decision_of(waiting)["reason"] == reason.replace("\r\n", "\n")


def test_an_old_nonce_and_one_of_another_form(site: Site, waiting: Waiting) -> None:
    key, digest, now = KEY.encode(), waiting.request.digest, datetime.now(UTC)
    other = seed(site.s3, cluster="other")
    for nonce in (
        form_nonce(key, waiting.name, "alex", digest, now - timedelta(minutes=61)),
        form_nonce(key, waiting.name, "alex", digest, now + timedelta(minutes=5)),
        form_nonce(key, waiting.name, "kim", digest, now),
        form_nonce(key, other.name, "alex", digest, now),
    ):
        page = site.post(waiting, site.form(waiting, nonce=nonce, reason="kept"))
        refused(waiting, page, 403, "Look again")
        assert page.fields["reason"] == "kept" and page.fields["nonce"] != nonce
    assert site.post(waiting, {**page.fields, "decision": "Approved"}).status == 303


def test_a_superseded_digest_is_refused(site: Site, waiting: Waiting) -> None:
    nonce = form_nonce(KEY.encode(), waiting.name, "alex", DIGEST, datetime.now(UTC))
    page = site.post(waiting, site.form(waiting, nonce=nonce, digest=DIGEST, reason="kept"))
    refused(waiting, page, 409, "changed since this page was opened")
    assert page.fields["digest"] == waiting.request.digest and page.fields["reason"] == "kept"


def test_nothing_typed_is_lost(site: Site, waiting: Waiting) -> None:
    typed = {
        "reason": "\nA first line\nand <b>another</b> & \"more\"",
        "preset": "Fix that should not wait",
        "expiry": "9d",
        "shortName": "wr\"ong",
    }  # fmt: skip
    page = site.post(waiting, site.form(waiting, **typed))
    refused(waiting, page, 422, 'role="alert"')
    assert {name: page.fields[name] for name in typed} == typed
    for name in ("expiry", "short-name"):
        assert f'id="{name}-error"' in page.body and f'href="#{name}"' in page.body
        assert re.search(
            rf'id="{name}"[^>]*aria-describedby="[^"]*{name}-error"[^>]*aria-invalid="true"', page.body
        )
    assert 'id="reason-error"' not in page.body
    good = {**page.fields, "expiry": "", "shortName": f" {waiting.short.upper()} ", "decision": "Approved"}
    assert site.post(waiting, good).status == 303


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("(absent)", b"decision=Approved", 415),
        ("application/x-www-form-urlencoded", b"reason=" + b"x" * 70000, 413),
        ("application/x-www-form-urlencoded", b"reason=%ff", 400),
        ("application/x-www-form-urlencoded", b"reason=\xff", 400),
        ("application/x-www-form-urlencoded", b"decision=Approved&decision=Rejected", 400),
        ("application/x-www-form-urlencoded", b"&".join(b"a%d=1" % n for n in range(50)), 400),
        ("application/x-www-form-urlencoded", b"", 400),
    ],
)
def test_what_is_no_form(site: Site, waiting: Waiting, content_type: str, body: bytes, status: int) -> None:
    headers = {"sec-fetch-site": "same-origin"}
    if content_type != "(absent)":
        headers["content-type"] = content_type
    path, query = f"/approvals/{waiting.name}/alex", {"s": waiting.secret()}
    refused(waiting, site.send("POST", path, query, headers, body), status, "Nothing was recorded")


def test_wrong_secrets_do_not_decide(site: Site, waiting: Waiting) -> None:
    form = site.form(waiting)
    for secret in ("", "A" * 32, waiting.secret("kim"), waiting.secret()[:-1], waiting.secret() + "A"):
        refused(waiting, site.post(waiting, form, secret=secret), 404, "There is nothing here")


def test_an_approver_who_left_the_list(site: Site, waiting: Waiting) -> None:
    form = site.form(waiting)
    site.configure(approvers=[{"name": "kim"}])
    refused(waiting, site.post(waiting, form), 403, "not asked any more")
    assert site.get(waiting).status == 403
    assert site.get(waiting, "kim").status == 200
