"""People sign in: through the API's front and a real OpenID provider, and what a session is good for."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from aicr_pipeline.decide.approval import form_nonce
from aicr_pipeline.decide.sign_in import session_name

from tests.functional.approvals import signing_in
from tests.functional.approvals.conftest import Site
from tests.functional.approvals.signing_in import CLIENT, LOGIN, SESSION, Liar, SignIn, hidden
from tests.functional.approvals.support import KEY, Waiting, decision_of, seed


def test_a_person_signs_in_and_approves(pages: SignIn, provider: str, waiting: Waiting) -> None:
    pages.configure(provider)
    alex = pages.person()
    away = alex.get(f"/approvals/{waiting.name}")
    assert away.status == 302 and not away.body
    asked = dict(parse_qsl(urlsplit(away.location).query))
    assert away.location.startswith(f"{provider}/oauth2/authorize?")
    assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
    assert len(asked["code_challenge"]) == 43 and "code_verifier" not in asked
    assert asked["redirect_uri"] == f"{pages.url}/callback" and asked["client_id"] == CLIENT
    assert asked["nonce"].startswith(f"{waiting.request.digest}."), "the question that it is about"
    assert asked["state"].startswith(f"{waiting.name}.") and "http" not in asked["state"]
    assert not pages.rows(), "nothing is stored of somebody who only opened the link"

    back = alex.get(alex.at_provider(away.location, "sub-alex"))
    assert back.status == 303 and back.location == f"/approvals/{waiting.name}"
    page = alex.get(back.location)
    assert page.status == 200 and 'data-state="open"' in page.body and "alex" in page.body
    assert "shortName" not in page.body, "who signed in types no short name"
    done = alex.send("POST", f"/approvals/{waiting.name}", pages.form(page))
    assert done.status == 303 and done.location == f"/approvals/{waiting.name}", done.body
    assert 'data-state="approved"' in alex.get(done.location).body
    decision = decision_of(waiting)
    assert decision["by"] == ["alex"] and decision["identity"] == "signed-in"
    assert decision["issuer"] == provider and decision["principals"] == ["sub-alex"]


def test_cookies_are_host_only_and_hold_an_opaque_id(pages: SignIn, provider: str, waiting: Waiting) -> None:
    pages.configure(provider)
    alex = pages.person()
    away = alex.get(f"/approvals/{waiting.name}")
    back = alex.get(alex.at_provider(away.location, "sub-alex"))
    for line, name, seconds in (
        (away.set_cookies[0], LOGIN, 600),
        (back.set_cookies[0], SESSION, 900),
    ):
        value, *flags = line.split("; ")
        assert value.startswith(f"{name}=")
        assert sorted(flags) == sorted(["Path=/", f"Max-Age={seconds}", "HttpOnly", "Secure", "SameSite=Lax"])
    assert len(away.set_cookies) == len(back.set_cookies) == 1
    assert re.fullmatch(r"[0-9A-Za-z_-]{43}", alex.cookies[SESSION])
    [row] = pages.rows()
    assert row["pk"]["S"] == "SESSION" and alex.cookies[SESSION] not in str(row), "the table lets nobody in"
    assert 0 < int(row["expiresAt"]["N"]) - datetime.now(UTC).timestamp() <= 900


def test_a_session_known_before_lets_nobody_in(pages: SignIn, provider: str, waiting: Waiting) -> None:
    """Session fixation: a planted id is never taken over, and an old session ends with a new sign-in."""
    pages.configure(provider)
    alex = pages.person()
    planted = "A" * 43
    alex.cookies[SESSION] = planted
    away = alex.get(f"/approvals/{waiting.name}")
    assert away.status == 302
    alex.get(alex.at_provider(away.location, "sub-alex"))
    first = alex.cookies[SESSION]
    assert first != planted
    again = alex.get(f"/login/{waiting.name}")
    assert dict(parse_qsl(urlsplit(again.location).query))["prompt"] == "login"
    alex.get(alex.at_provider(again.location, "sub-alex"))
    assert alex.cookies[SESSION] != first and len(pages.rows()) == 1
    for stolen in (planted, first, "x", "B" * 43):
        other = pages.person()
        other.cookies[SESSION] = stolen
        assert other.get(f"/approvals/{waiting.name}").status == 302


@pytest.mark.parametrize("subject", ["sub-eve", "sub-mallory"])
def test_somebody_who_is_no_approver(pages: SignIn, provider: str, waiting: Waiting, subject: str) -> None:
    """Mallory's address is Alex's, and the issuer never verified it."""
    pages.configure(provider)
    person = pages.person()
    page = person.sign_in(waiting.name, subject)
    assert page.status == 403 and "not an approver" in page.body
    assert f'href="/login/{waiting.name}"' in page.body and waiting.request.digest not in page.body
    form = {"nonce": "x", "digest": waiting.request.digest, "reason": "mine", "decision": "Approved"}
    assert person.send("POST", f"/approvals/{waiting.name}", form).status == 403
    assert waiting.read("decision") is None


def test_an_approver_removed_after_the_mail(pages: SignIn, provider: str, waiting: Waiting) -> None:
    pages.configure(provider)
    alex = pages.person()
    page = alex.sign_in(waiting.name, "sub-alex")
    pages.configure(provider, approvers=[{"name": "kim", "subject": "sub-kim"}])
    refused = alex.send("POST", f"/approvals/{waiting.name}", pages.form(page))
    assert refused.status == 403 and "not an approver" in refused.body
    assert waiting.read("decision") is None


def test_a_session_that_ended_loses_nothing_that_was_typed(
    pages: SignIn, provider: str, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages.configure(provider)
    alex = pages.person()
    page = alex.sign_in(waiting.name, "sub-alex")
    form = pages.form(page, reason="Read every\nvalue <b>", expiry="2h", preset="Planned maintenance")
    real = pages.site.module.now
    monkeypatch.setattr(pages.site.module, "now", lambda: datetime.now(UTC) + timedelta(seconds=901))
    ended = alex.send("POST", f"/approvals/{waiting.name}", form)
    assert ended.status == 403 and not ended.location, "no redirect: form-action would stop it"
    assert f'href="/login/{waiting.name}"' in ended.body
    for typed in ("Read every\nvalue &lt;b&gt;", 'value="2h"', 'value="Planned maintenance"'):
        assert typed in ended.body
    assert waiting.name not in ended.body.replace(f"/login/{waiting.name}", ""), (
        "shows nothing of the rollout"
    )
    assert waiting.read("decision") is None
    monkeypatch.setattr(pages.site.module, "now", real)
    alex.cookies.pop(SESSION)
    alex.sign_in(waiting.name, "sub-alex")
    # The form of the page in between has no nonce yet; it comes back whole, with one.
    again = alex.send("POST", f"/approvals/{waiting.name}", {**form, "nonce": ""})
    assert again.status == 403 and "Read every\nvalue &lt;b&gt;" in again.body
    done = alex.send("POST", f"/approvals/{waiting.name}", {**form, "nonce": hidden(again.body, "nonce")})
    assert done.status == 303
    assert decision_of(waiting)["reason"] == "Planned maintenance: Read every\nvalue <b>"


def test_signing_out_ends_the_session_for_whoever_has_its_id(
    pages: SignIn, provider: str, waiting: Waiting
) -> None:
    pages.configure(provider)
    alex, thief = pages.person(), pages.person()
    page = alex.sign_in(waiting.name, "sub-alex")
    assert "Signed in as Alex@example.com" in page.body and 'action="/sign-out"' in page.body
    form = pages.form(page, reason="typed before")
    thief.cookies[SESSION] = alex.cookies[SESSION]
    assert alex.send("POST", "/sign-out", {}, sec_fetch_site="cross-site").status == 403
    assert alex.send("POST", "/sign-out", {}, sec_fetch_site="none").status == 403, "no proof, no end"
    assert thief.get(f"/approvals/{waiting.name}").status == 200, "the session held"
    out = alex.send("POST", "/sign-out", {})
    assert out.status == 200 and not out.location and "You are signed out" in out.body
    assert SESSION not in alex.cookies and LOGIN not in alex.cookies and not pages.rows()
    for line in out.set_cookies:
        assert sorted(line.split("; ")[1:]) == ["HttpOnly", "Max-Age=0", "Path=/", "SameSite=Lax", "Secure"]
    assert thief.get(f"/approvals/{waiting.name}").status == 302
    ended = alex.send("POST", f"/approvals/{waiting.name}", form)
    assert ended.status == 403 and "typed before" in ended.body and "Signed in as" not in ended.body
    assert pages.person().send("POST", "/sign-out", {}).status == 200, "twice is the same"
    assert waiting.read("decision") is None
    assert pages.person().get("/sign-out").status == 404, "opening an address ends nothing"


def test_a_form_is_bound_to_its_session(pages: SignIn, provider: str, waiting: Waiting) -> None:
    pages.configure(provider)
    alex, kim = pages.person(), pages.person()
    form = pages.form(alex.sign_in(waiting.name, "sub-alex"))
    kim.sign_in(waiting.name, "sub-kim")
    assert kim.send("POST", f"/approvals/{waiting.name}", form).status == 403
    assert alex.send("POST", f"/approvals/{waiting.name}", {**form, "nonce": ""}).status == 403
    assert (
        alex.send("POST", f"/approvals/{waiting.name}", {**form, "digest": "sha256:" + "0" * 64}).status
        == 403
    )
    cross = alex.send("POST", f"/approvals/{waiting.name}", form, sec_fetch_site="cross-site")
    assert cross.status == 403
    assert alex.send("POST", f"/approvals/{waiting.name}", {**form, "reason": ""}).status == 422
    assert waiting.read("decision") is None
    assert alex.send("POST", f"/approvals/{waiting.name}", form).status == 303


def test_a_quorum_is_of_distinct_people(pages: SignIn, provider: str, site: Site) -> None:
    """Alex twice is one; Sam, whom no list names, is asked for by a group."""
    waiting = seed(site.s3, min_approvals=2, groups=("platform",))
    pages.configure(provider, minApprovals=2, groups=["platform"])
    for _ in range(2):
        alex = pages.person()
        page = alex.sign_in(waiting.name, "sub-alex")
        if 'data-state="open"' in page.body:
            assert alex.send("POST", f"/approvals/{waiting.name}", pages.form(page)).status == 303
    assert waiting.read("decision") is None
    sam = pages.person()
    page = sam.sign_in(waiting.name, "sub-sam")
    assert sam.send("POST", f"/approvals/{waiting.name}", pages.form(page)).status == 303
    decision = decision_of(waiting)
    assert sorted(decision["by"]) == ["alex", "sam@example.com"]
    assert sorted(decision["principals"]) == ["sub-alex", "sub-sam"]
    pages.configure(provider, minApprovals=2)
    assert sam.get(f"/approvals/{waiting.name}").status == 403, "the group is asked for no more"


@pytest.mark.parametrize("subject", ["sub-eve", "sub-sam"])
def test_who_came_into_the_configuration_later_cannot_spoil_the_answer(
    pages: SignIn, provider: str, waiting: Waiting, subject: str
) -> None:
    """A decision is written once, and the gate takes none of somebody who was not asked."""
    later = [*signing_in.APPROVERS, {"name": "eve", "subject": "sub-eve"}]
    pages.configure(provider, approvers=later, groups=["platform"])
    person = pages.person()
    page = person.sign_in(waiting.name, subject)
    assert page.status == 200 and "You were not asked" in page.body
    assert 'value="Approved"' not in page.body and 'value="Rejected"' not in page.body
    digest = waiting.request.digest
    session = f"session:{session_name(person.cookies[SESSION])}"
    nonce = form_nonce(KEY.encode(), waiting.name, session, digest, datetime.now(UTC))
    for word in ("Approved", "Rejected"):
        form = {"nonce": nonce, "digest": digest, "reason": "mine", "decision": word}
        answer = person.send("POST", f"/approvals/{waiting.name}", form)
        assert answer.status == 403 and "You were not asked" in answer.body
    assert waiting.read("decision") is None
    form = {"nonce": hidden(page.body, "nonce"), "reason": "Stop", "decision": "Revoked"}
    assert person.send("POST", f"/approvals/{waiting.name}", form).status == 303, "anybody may stop it"


def test_reading_changes_nothing(pages: SignIn, provider: str, waiting: Waiting) -> None:
    pages.configure(provider)
    before = waiting.everything()
    for _ in range(10):
        for method in ("GET", "HEAD"):
            assert pages.person().send(method, f"/approvals/{waiting.name}").status == 302
    assert waiting.everything() == before and not pages.rows()


def test_locators_that_are_none_of_ours(pages: SignIn, provider: str, waiting: Waiting) -> None:
    pages.configure(provider)
    person = pages.person()
    for path in ("/approvals/nothing-here", "/login/nothing-here", "/approvals/-x", f"/approvals/{'a' * 99}"):
        assert person.get(path).status == 404
    assert person.get("/callback").status == 403
    linked = pages.site.get(waiting)
    assert linked.status == 404, "a link's secret is no way in where people sign in"
    pages.site.configure()
    for path in (f"/approvals/{waiting.name}", f"/login/{waiting.name}", "/callback?state=x"):
        assert person.get(path).status == 404, "where links decide nobody signs in"


def test_nothing_secret_of_signing_in_is_logged(
    pages: SignIn,
    liar: Liar,
    waiting: Waiting,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("POWERTOOLS_LOGGER_LOG_EVENT", "POWERTOOLS_DEV", "POWERTOOLS_DEBUG"):
        monkeypatch.setenv(name, "true")
    pages.configure(liar.url)
    alex = pages.person()
    away = alex.get(f"/approvals/{waiting.name}")
    login = alex.cookies[LOGIN]
    answer = liar.code_for(away.location)
    back = alex.get(f"/callback?{urlencode(answer)}")
    assert back.status == 303
    page = alex.get(back.location)
    form = pages.form(page, reason="a private reason")
    assert alex.send("POST", f"/approvals/{waiting.name}", form).status == 303
    failed = alex.get(f"/callback?{urlencode({**answer, 'error': 'a-foreign-word'})}")
    assert failed.status == 403
    captured = capfd.readouterr()
    access = (pages.site.folder / "access.log").read_text()
    text = pages.site.logs.getvalue() + captured.out + captured.err + access
    assert "signed-in" in text and "recorded-approved" in text, "the logs were captured"
    session = alex.cookies[SESSION]
    secrets = [
        login, session, hashlib.sha256(session.encode()).hexdigest(), answer["code"], answer["state"],
        liar.token, liar.token.split(".")[1], "access-secret", form["nonce"], "a private reason", KEY,
        dict(parse_qsl(urlsplit(away.location).query))["nonce"], "Alex@example.com", "sub-alex",
        "a-foreign-word",
    ]  # fmt: skip
    for word in secrets:
        assert word not in text, word
    for word in (session, login, answer["code"], answer["state"], liar.token, KEY):
        assert word not in page.body + failed.body + str(back.location), word
