"""Signing in that fails: states and codes of others, and an issuer that lies or refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from aicr_pipeline.adapters import oidc as oidc_adapter
from joserfc.jwk import RSAKey

from tests.functional.approvals.signing_in import CLIENT, SESSION, Liar, SignIn
from tests.functional.approvals.support import Waiting


def test_a_state_of_another_browser_is_refused(pages: SignIn, provider: str, waiting: Waiting) -> None:
    pages.configure(provider)
    alex, victim = pages.person(), pages.person()
    away = alex.get(f"/approvals/{waiting.name}")
    path = alex.at_provider(away.location, "sub-alex")
    assert victim.get(path).status == 403, "no cookie at all"
    victim.get(f"/approvals/{waiting.name}")
    assert victim.get(path).status == 403, "the cookie of another sign-in"
    assert SESSION not in victim.cookies and not pages.rows()
    for change in ("x", f"{waiting.name}.1.{'A' * 22}.{'B' * 43}", "https://evil.example/"):
        query = {**dict(parse_qsl(urlsplit(path).query)), "state": change}
        answer = alex.get(f"/callback?{urlencode(query)}")
        assert answer.status == 403 and "evil" not in answer.body and not answer.location


def test_a_state_older_than_ten_minutes_is_refused(
    pages: SignIn, liar: Liar, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages.configure(liar.url)
    alex = pages.person()
    answer = liar.code_for(alex.get(f"/approvals/{waiting.name}").location)
    later = datetime.now(UTC) + timedelta(seconds=601)
    monkeypatch.setattr(pages.site.module, "now", lambda: later)
    assert alex.get(f"/callback?{urlencode(answer)}").status == 403 and not pages.rows()


def test_a_code_works_once(pages: SignIn, provider: str, waiting: Waiting) -> None:
    pages.configure(provider)
    alex = pages.person()
    away = alex.get(f"/approvals/{waiting.name}")
    kept = dict(alex.cookies)
    path = alex.at_provider(away.location, "sub-alex")
    assert alex.get(path).status == 303
    replay = pages.person()
    replay.cookies = kept
    refused = replay.get(path)
    assert refused.status == 403 and f'href="/login/{waiting.name}"' in refused.body
    assert SESSION not in replay.cookies and len(pages.rows()) == 1


def _hours(hours: float) -> int:
    return int((datetime.now(UTC) + timedelta(hours=hours)).timestamp())


LIES: dict[str, tuple[Callable[[Liar], None], str]] = {
    "nonce": (lambda liar: liar.changes.update(nonce="sha256:" + "0" * 64), "id-token-nonce"),
    "no nonce": (lambda liar: liar.changes.update(nonce=None), "id-token-"),
    "issuer": (lambda liar: liar.changes.update(iss="https://other.example"), "id-token-iss"),
    "audience": (lambda liar: liar.changes.update(aud="somebody-else"), "id-token-aud"),
    "several audiences": (lambda liar: liar.changes.update(aud=[CLIENT, "another"]), "id-token-azp"),
    "azp": (lambda liar: liar.changes.update(azp="another"), "id-token-azp"),
    "expired": (lambda liar: liar.changes.update(exp=_hours(-0.02), iat=_hours(-0.05)), "id-token-exp"),
    "no exp": (lambda liar: liar.changes.update(exp=None), "id-token-"),
    "old": (lambda liar: liar.changes.update(iat=_hours(-1)), "id-token-iat"),
    "of tomorrow": (lambda liar: liar.changes.update(iat=_hours(24)), "id-token-"),
    "no subject": (lambda liar: liar.changes.update(sub=None), "id-token-"),
    "alg none": (lambda liar: setattr(liar, "alg", "none"), "id-token-signature"),
}


def test_an_id_token_that_lies_lets_nobody_in(pages: SignIn, liar: Liar, waiting: Waiting) -> None:
    pages.configure(liar.url)
    for lie, (tell, why) in LIES.items():
        liar.changes, liar.alg = {}, "RS256"
        tell(liar)
        alex = pages.person()
        answer = liar.code_for(alex.get(f"/approvals/{waiting.name}").location)
        page = alex.get(f"/callback?{urlencode(answer)}")
        assert page.status == 403 and "not signed in" in page.body, lie
        assert SESSION not in alex.cookies and not pages.rows(), lie
        assert f"sign-in-{why}" in pages.site.logs.getvalue(), f"{lie}: the log says which"
    liar.changes, liar.alg = {}, "RS256"
    alex = pages.person()
    answer = liar.code_for(alex.get(f"/approvals/{waiting.name}").location)
    assert alex.get(f"/callback?{urlencode(answer)}").status == 303, "the truth does"


def test_a_key_that_is_not_the_issuers_lets_nobody_in(pages: SignIn, liar: Liar, waiting: Waiting) -> None:
    pages.configure(liar.url)
    forgers: list[tuple[str, Any]] = [
        ("RS256", RSAKey.generate_key(2048, {"kid": "one"})),
        # The public key, taken for a shared secret.
        ("HS256", liar.key),
        ("RS256", RSAKey.generate_key(2048, {"kid": "two"})),
    ]
    for alg, forged in forgers:
        liar.alg, liar.signs_with = alg, forged
        alex = pages.person()
        answer = liar.code_for(alex.get(f"/approvals/{waiting.name}").location)
        assert alex.get(f"/callback?{urlencode(answer)}").status == 403
        assert SESSION not in alex.cookies
    assert liar.asked.count("/jwks") == 1, "an unknown key makes nobody ask more than once a minute"


def test_new_keys_of_the_issuer_are_found(
    pages: SignIn, liar: Liar, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages.configure(liar.url)
    monkeypatch.setattr(oidc_adapter, "LOOK_AGAIN_SECONDS", -1.0)
    for kid in ("one", "two"):
        if kid == "two":
            liar.key = RSAKey.generate_key(2048, {"kid": "two", "use": "sig"})
        alex = pages.person()
        answer = liar.code_for(alex.get(f"/approvals/{waiting.name}").location)
        assert alex.get(f"/callback?{urlencode(answer)}").status == 303


@pytest.mark.parametrize(
    "document", [{"issuer": "https://other.example"}, {"token_endpoint": "http://other.example/token"}]
)
def test_a_discovery_document_that_leads_elsewhere(
    pages: SignIn, liar: Liar, waiting: Waiting, document: dict[str, str]
) -> None:
    liar.document = document
    pages.configure(liar.url)
    page = pages.person().get(f"/approvals/{waiting.name}")
    assert page.status == 502 and not page.location


def test_the_issuer_says_no(pages: SignIn, liar: Liar, waiting: Waiting) -> None:
    pages.configure(liar.url)
    alex = pages.person()
    state = liar.code_for(alex.get(f"/approvals/{waiting.name}").location)["state"]
    query = {"error": "access_denied", "error_description": "<b>secret</b>", "state": state}
    page = alex.get(f"/callback?{urlencode(query)}")
    assert page.status == 403 and "secret" not in page.body and SESSION not in alex.cookies
