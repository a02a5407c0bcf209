"""The HTTP API: payload-2.0 events in, responses out, and an access log without paths."""

from __future__ import annotations

import base64
import http.client
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys

from local.aws import LocalAws
from local.aws.front import Route


def ask(
    engine: LocalAws, method: str, path: str, body: bytes = b"", headers: list[tuple[str, str]] | None = None
) -> tuple[int, list[tuple[str, str]], bytes]:
    connection = http.client.HTTPConnection(urlsplit(engine.api_url).netloc, timeout=20)
    try:
        connection.putrequest(method, path)
        for name, value in headers or []:
            connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


def event_of(answer: tuple[int, list[tuple[str, str]], bytes]) -> dict[str, Any]:
    assert answer[0] == 201
    event: dict[str, Any] = json.loads(answer[2])
    return event


def test_get_becomes_an_event_and_the_answer_a_response(engine: LocalAws) -> None:
    answer = ask(
        engine,
        "GET",
        "/approvals/demo-1/a%20b?secret=x%2By&n=1&n=2",
        headers=[("Cookie", "s=1; t=2"), ("X-Two", "a"), ("X-Two", "b"), ("User-Agent", "test")],
    )
    event = event_of(answer)
    assert event["version"] == "2.0"
    assert event["routeKey"] == "GET /approvals/{rollout}/{approver}"
    assert event["pathParameters"] == {"rollout": "demo-1", "approver": "a b"}
    assert event["rawPath"] == "/approvals/demo-1/a b"
    assert event["rawQueryString"] == "secret=x%2By&n=1&n=2"
    assert event["queryStringParameters"] == {"secret": "x+y", "n": "1,2"}
    assert event["cookies"] == ["s=1", "t=2"]
    assert "cookie" not in event["headers"]
    assert event["headers"]["x-two"] == "a,b"
    assert "body" not in event
    http_part = event["requestContext"]["http"]
    assert (http_part["method"], http_part["sourceIp"], http_part["userAgent"]) == (
        "GET",
        "127.0.0.1",
        "test",
    )
    assert event["requestContext"]["stage"] == "$default"
    headers = [(k.lower(), v) for k, v in answer[1]]
    assert [v for k, v in headers if k == "set-cookie"] == ["a=1; Path=/", "b=2"]
    assert ("x-one", "1") in headers


@pytest.mark.parametrize(
    ("content_type", "encoded"),
    [("application/x-www-form-urlencoded", True), ("application/json", False), ("text/plain", False)],
)
def test_bodies(engine: LocalAws, content_type: str, encoded: bool) -> None:
    event = event_of(ask(engine, "POST", "/approvals/r/a", b"a=1&b=2", [("Content-Type", content_type)]))
    assert event["isBase64Encoded"] is encoded
    body = base64.b64decode(event["body"]).decode() if encoded else event["body"]
    assert body == "a=1&b=2"


def test_head_other_routes_and_refusals(engine: LocalAws) -> None:
    status, headers, body = ask(engine, "HEAD", "/approvals/r/a")
    assert (status, body) == (201, b"")
    assert int(dict(headers)["Content-Length"]) > 0
    assert ask(engine, "PUT", "/approvals/r/a")[0] == 404
    assert ask(engine, "GET", "/approvals/r/a/more")[0] == 404
    event = event_of(ask(engine, "DELETE", "/files/a/b/c"))
    assert event["routeKey"] == "ANY /files/{rest+}"
    assert event["pathParameters"] == {"rest": "a/b/c"}
    assert ask(engine, "GET", "/files/x/plain")[2] == b'{"hello": "json"}'
    assert json.loads(ask(engine, "GET", "/files/x/fail")[2]) == {"message": "Internal Server Error"}
    assert ask(engine, "GET", "/files/x/image")[2] == base64.b64decode("iVBORw==")


ROLE = "arn:aws:iam::111122223333:role/sample-look"


def sign(
    engine: LocalAws, body: bytes = b"", *, arn: str = ROLE, service: str = "execute-api", age: int = 0
) -> list[tuple[str, str]]:
    """The headers with which botocore would send this body to /signed."""
    keys = engine.credentials_of(arn)
    request = AWSRequest("POST", f"{engine.api_url}/signed?n=2&a=x%20y", data=body)
    auth = SigV4Auth(Keys(keys.access_key, keys.secret_key, keys.token), service, "us-west-2")
    moment = datetime.now(UTC) - timedelta(seconds=age)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.auth.get_current_datetime", lambda: moment)
        auth.add_auth(request)
    return list(request.headers.items())


def send(engine: LocalAws, headers: list[tuple[str, str]], body: bytes = b"") -> Any:
    return ask(engine, "POST", "/signed?n=2&a=x%20y", body, headers)


@pytest.mark.parametrize(
    ("arn", "caller"),
    [
        (ROLE, "arn:aws:sts::111122223333:assumed-role/sample-look/"),
        ("arn:aws:iam::111122223333:user/alex", "arn:aws:iam::111122223333:user/alex"),
        ("arn:aws:sts::111122223333:assumed-role/A/b", "arn:aws:sts::111122223333:assumed-role/A/b"),
    ],
)
def test_signed_routes_know_who_signed(engine: LocalAws, arn: str, caller: str) -> None:
    event = event_of(send(engine, sign(engine, b"{}", arn=arn), b"{}"))
    iam = event["requestContext"]["authorizer"]["iam"]
    assert iam["userArn"].startswith(caller)
    assert iam["userId"].startswith(("AROA", "AIDA"))


def test_what_is_not_signed_or_signed_otherwise_never_reaches_the_function(engine: LocalAws) -> None:
    good = sign(engine)
    assert send(engine, good)[0] == 201
    wrong = [
        [],
        [(name, value[:-1] + ("0" if value[-1] != "0" else "1")) for name, value in good],
        [(name, value) for name, value in good if name != "X-Amz-Security-Token"],
        [(name, value.replace("SignedHeaders=host;", "SignedHeaders=")) for name, value in good],
        sign(engine, service="s3"),
        sign(engine, age=400),
        [*good, ("X-Amz-Content-SHA256", "UNSIGNED-PAYLOAD")],
    ]
    for headers in wrong:
        assert send(engine, headers)[0] == 403, headers
    assert send(engine, good, b"another body")[0] == 403
    assert ask(engine, "POST", "/signed?n=3&a=x%20y", headers=good)[0] == 403


def test_the_most_specific_route_wins() -> None:
    keys = ["$default", "ANY /a/{rest+}", "GET /a/{x}", "ANY /a/{x}", "GET /a/b"]
    routes = sorted((Route.parse(k, "t", signed=False) for k in keys), key=lambda r: r.rank)

    def winner(method: str, path: str) -> str:
        found = (r for r in routes if r.method in (method, "ANY") and r.pattern.fullmatch(path))
        return next(found).key

    assert winner("GET", "/a/b") == "GET /a/b"
    assert winner("GET", "/a/c") == "GET /a/{x}"
    assert winner("POST", "/a/c") == "ANY /a/{x}"
    assert winner("POST", "/a/c/d") == "ANY /a/{rest+}"
    assert winner("POST", "/other") == "$default"


def test_access_log_has_no_path(engine: LocalAws) -> None:
    ask(engine, "GET", "/approvals/hidden-rollout/hidden-person?secret=hidden")
    log = (engine.workdir / "logs" / "api-Api.access.log").read_text()
    assert "hidden" not in log
    last = json.loads(log.splitlines()[-1])
    assert last["routeKey"] == "GET /approvals/{rollout}/{approver}"
    assert last["status"] == "201"
    assert set(last) == {"requestId", "routeKey", "status"}


def test_addresses_in_outputs(engine: LocalAws) -> None:
    assert engine.outputs["ApiUrl"] == engine.api_url
    assert engine.outputs["BuiltUrl"] == engine.api_url + "/"
