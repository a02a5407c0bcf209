"""What every answer has where people sign in, what looking changes, and who else may be counted with them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from aicr_pipeline.adapters.approvals import approval_record_key

from tests.functional.approvals.answers import assert_headers
from tests.functional.approvals.conftest import Site
from tests.functional.approvals.signing_in import CLIENT, SESSION, SignIn
from tests.functional.approvals.support import BUCKET, CONTEXT, Waiting, decision_of, load_handler, seed

KIM = "arn:aws:iam::111122223333:role/kim"


def test_headers_of_every_answer(pages: SignIn, provider: str, waiting: Waiting) -> None:
    pages.configure(provider)
    alex, eve, nobody = pages.person(), pages.person(), pages.person()
    path = f"/approvals/{waiting.name}"
    away = alex.get(path)
    back = alex.get(alex.at_provider(away.location, "sub-alex"))
    page = alex.get(path)
    form = pages.form(page)
    answers = [
        away,
        back,
        page,
        alex.send("HEAD", path),
        alex.send("POST", path, {**form, "reason": ""}),
        alex.send("POST", path, {**form, "decision": "Maybe"}),
        alex.send("POST", path, form, sec_fetch_site="cross-site"),
        nobody.send("POST", path, form),
        nobody.get("/callback?state=x&code=y"),
        nobody.get("/login/no-such-rollout-1"),
        eve.sign_in(waiting.name, "sub-eve"),
        alex.send("POST", path, form),
    ]
    assert [answer.status for answer in answers] == [
        302, 303, 200, 200, 422, 400, 403, 403, 403, 404, 403, 303
    ]  # fmt: skip
    for answer in answers:
        assert_headers(answer.headers, answer.body)
    nonces = {answer.headers["content-security-policy"] for answer in answers}
    assert len(nonces) == len(answers), "a style nonce is used once"


def test_looking_with_a_session_changes_nothing(pages: SignIn, provider: str, waiting: Waiting) -> None:
    """Neither the ledger nor the session's row."""
    pages.configure(provider)
    alex = pages.person()
    alex.sign_in(waiting.name, "sub-alex")
    before, rows = waiting.everything(), pages.rows()
    for number in range(20):
        method = "GET" if number % 2 else "HEAD"
        assert alex.send(method, f"/approvals/{waiting.name}").status == 200
    query = "decision=Approved&reason=x&digest=" + waiting.request.digest
    assert alex.get(f"/approvals/{waiting.name}?{query}").status == 200
    assert (waiting.everything(), pages.rows()) == (before, rows)


@pytest.mark.parametrize("rollout", ["-x", "a.b", "_x", "r" * 200, "..%2fx", "x%0ay", "%00"])
def test_malformed_locators_are_refused_before_any_read(
    pages: SignIn, waiting: Waiting, rollout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_read(*_: object, **__: object) -> None:
        raise AssertionError("something was read")

    pages.configure("https://issuer.example.com", oidc={"issuer": "https://i.example", "clientId": CLIENT})
    monkeypatch.setattr("aicr_pipeline.adapters.ledger.Ledger.get", no_read)
    monkeypatch.setattr("aicr_pipeline.adapters.oidc.Issuer.__init__", no_read)
    monkeypatch.setenv("APPROVAL_KEY_ARN", "")
    person = pages.person()
    person.cookies[SESSION] = "A" * 43
    for method, path in (("GET", "approvals"), ("HEAD", "approvals"), ("GET", "login")):
        assert person.send(method, f"/{path}/{rollout}").status == 404
    form = {"decision": "Approved", "nonce": "x", "reason": "x"}
    assert person.send("POST", f"/approvals/{rollout}", form).status in (403, 404)


def test_a_quorum_of_a_signed_in_person_and_one_at_a_terminal_records_each_identity(
    pages: SignIn, provider: str, site: Site
) -> None:
    waiting = seed(site.s3, min_approvals=2)
    approvers = [{"name": "alex", "email": "alex@example.com"}, {"name": "kim", "iam": KIM, "subject": "s"}]
    pages.configure(provider, minApprovals=2, approvers=approvers)
    site.monkeypatch.setenv("INBOX_BUCKET", "inbox")
    terminal = load_handler("serve_operators")
    alex = pages.person()
    page = alex.sign_in(waiting.name, "sub-alex")
    assert alex.send("POST", f"/approvals/{waiting.name}", pages.form(page)).status == 303
    assert waiting.read("decision") is None
    assert _decide(terminal, waiting, "arn:aws:sts::111122223333:assumed-role/kim/any-session") == 200

    each = {name: _record(waiting, name) for name in ("alex", "kim")}
    assert {name: (one["identity"], one["issuer"], one["principals"]) for name, one in each.items()} == {
        "alex": ("signed-in", provider, ["sub-alex"]),
        "kim": ("aws-iam", "aws:111122223333", [KIM]),
    }
    decision = decision_of(waiting)
    assert (decision["by"], decision["principals"]) == (["alex", "kim"], ["sub-alex", KIM])
    assert (decision["identity"], decision["issuer"]) == ("signed-in", provider), "no more than each proved"


def _record(waiting: Waiting, name: str) -> dict[str, Any]:
    key = approval_record_key(waiting.name, name)
    found: dict[str, Any] = json.loads(waiting.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
    return found


def _decide(terminal: Any, waiting: Waiting, who: str) -> int:
    """A signed request, as API Gateway hands it on."""
    path = f"/operators/rollouts/{waiting.name}/decision"
    wish = {"decision": "Approved", "reason": "Looks right", "digest": waiting.request.digest}
    event = {
        "version": "2.0", "routeKey": "POST /x", "rawPath": path, "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {
            "http": {"method": "POST", "path": path}, "requestId": "r", "stage": "$default",
            "authorizer": {"iam": {"userArn": who, "userId": "AROAEXAMPLEID:x"}},
        },
        "isBase64Encoded": True, "body": base64.b64encode(json.dumps(wish).encode()).decode(),
    }  # fmt: skip
    status: int = terminal.handler(event, CONTEXT)["statusCode"]
    return status
