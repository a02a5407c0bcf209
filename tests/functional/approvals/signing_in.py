"""What signing in takes: a real OpenID provider, one that lies, the API's front, and a browser's cookies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import boto3
import oidc_provider_mock
import urllib3
from aicr_pipeline import wiring
from joserfc import jwt
from joserfc.jwk import RSAKey

from local.aws.front import Front, Integration, Route
from tests.functional.approvals.conftest import Site
from tests.functional.approvals.support import CONTEXT, REGION

CLIENT = "approval-pages"
#: The cookies of an attempt to sign in, and of a session.
LOGIN, SESSION = "__Host-aicr-login", "__Host-aicr-session"
TABLE = "coordination"
PAGES = (
    "GET /approvals/{rollout}", "HEAD /approvals/{rollout}", "POST /approvals/{rollout}",
    "GET /login/{rollout}", "GET /callback", "POST /sign-out",
)  # fmt: skip
PEOPLE: dict[str, dict[str, Any]] = {
    "sub-alex": {"email": "Alex@example.com", "email_verified": True},
    "sub-kim": {"email": "kim@example.com", "email_verified": True},
    "sub-eve": {"email": "eve@example.com", "email_verified": True},
    "sub-mallory": {"email": "alex@example.com", "email_verified": False},
    "sub-sam": {"email": "sam@example.com", "email_verified": True, "groups": ["platform", "all"]},
}


def make_table() -> Any:
    """The coordination table."""
    dynamodb = boto3.client("dynamodb", region_name=REGION)
    dynamodb.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
    )
    return dynamodb


@dataclass
class Liar:
    """An issuer that does the flow right, PKCE included, and whose ID tokens are as a test wants them."""

    url: str = ""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}))
    signs_with: RSAKey | None = None
    alg: str = "RS256"
    changes: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    token: str = ""

    def code_for(self, url: str) -> dict[str, str]:
        """What the browser brings back after signing in at ``url``."""
        query = dict(parse_qsl(urlsplit(url).query))
        assert query["response_type"] == "code" and query["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}-secret"
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    def exchange(self, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        query = self.codes.pop(form.get("code", [""])[0], None)
        verifier = form.get("code_verifier", [""])[0]
        challenge = _encoded(hashlib.sha256(verifier.encode()).digest())
        if query is None or challenge != query["code_challenge"] or len(verifier) < 43:
            return 400, {"error": "invalid_grant"}
        now = int(datetime.now(UTC).timestamp())
        claims = {
            "iss": self.url, "aud": CLIENT, "sub": "sub-alex", "iat": now, "exp": now + 300,
            "nonce": query["nonce"], **PEOPLE["sub-alex"], **self.changes,
        }  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        self.token = self._signed(claims)
        return 200, {"access_token": "access-secret", "token_type": "Bearer", "id_token": self.token}

    def _signed(self, claims: dict[str, Any]) -> str:
        if self.alg in ("none", "HS256"):  # which a library does not lend itself to
            parts = ({"alg": self.alg, "typ": "JWT", "kid": "one"}, claims)
            text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
            mac = hmac.new(self.key.as_pem(private=False), text.encode(), hashlib.sha256).digest()
            return f"{text}.{_encoded(mac) if self.alg == 'HS256' else ''}"
        key = self.signs_with or self.key
        return jwt.encode({"alg": self.alg, "kid": key.kid or "one"}, claims, key, algorithms=[self.alg])

    def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        if path == "/jwks":
            return {"keys": [self.key.as_dict(private=False)]}
        return {
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token", "jwks_uri": f"{self.url}/jwks", **self.document,
        }  # fmt: skip


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@contextmanager
def lying(liar: Liar) -> Iterator[Liar]:
    """Serve it on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answer(200, liar.get(self.path))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self._answer(*liar.exchange(form))

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    liar.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield liar
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


class _InProcess:
    """The one function behind the front, called as a Lambda process is: one event at a time."""

    def __init__(self, handler: Any) -> None:
        self._handler, self._lock = handler, threading.Lock()

    def find(self, arn: str) -> Any:
        return SimpleNamespace(name="serve_approvals", arn=arn)

    def invoke(self, arn: str, payload: bytes) -> Any:
        with self._lock:
            answer = self._handler(json.loads(payload), CONTEXT)
        body = json.dumps(answer).encode()
        return SimpleNamespace(error=None, payload=body, json=lambda: answer)


def open_front(handler: Any, folder: Path, tls: ssl.SSLContext | None = None) -> Front:
    """The local engine's API front with the routes of the stack; over TLS for browsers, and their cookies."""
    everything: Any = SimpleNamespace(allowed=lambda *_: True)
    front = Front(
        "a1b2c3d4e5", "111122223333", _InProcess(handler), everything, lambda _: None, folder / "access.log",
        REGION,
    )  # type: ignore[arg-type]  # fmt: skip
    front.integrations["integrations/pages"] = Integration("arn:pages", 30)
    front.routes += [Route.parse(key, "integrations/pages", signed=False) for key in PAGES]
    front.stages.add("$default")
    if tls is not None:
        front._server.socket = tls.wrap_socket(front._server.socket, server_side=True)
    return front


@dataclass
class Got:
    """An answer as a browser has it."""

    status: int
    headers: dict[str, str]
    set_cookies: list[str]
    body: str

    @property
    def location(self) -> str:
        return self.headers.get("location", "")


class Person:
    """A browser without scripts: keeps cookies, follows nothing by itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cookies: dict[str, str] = {}
        self._http = urllib3.PoolManager(timeout=urllib3.Timeout(connect=3, read=20), retries=False)

    def send(self, method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> Got:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = None
        if form is not None:
            body = urlencode(form)
            sent = {
                "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin", **sent
            }  # fmt: skip
        answer = self._http.request(method, f"{self.url}{path}", body=body, headers=sent, redirect=False)
        lines = answer.headers.getlist("set-cookie")
        for line in lines:
            name, _, rest = line.partition("=")
            if "max-age=0" in line.lower():
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = rest.partition(";")[0]
        found = {name.lower(): value for name, value in answer.headers.items()}
        return Got(answer.status, found, lines, answer.data.decode())

    def get(self, path: str) -> Got:
        return self.send("GET", path)

    def at_provider(self, url: str, subject: str) -> str:
        """Sign in at the real provider; returns where it sends the browser, as a path of ours."""
        form = self._http.request("GET", url, redirect=False)
        assert form.status == 200, form.data[:300]
        answer = self._http.request(
            "POST", url, fields={"sub": subject}, encode_multipart=False, redirect=False
        )
        assert answer.status == 302, answer.data[:300]
        target = urlsplit(answer.headers["location"])
        return f"{target.path}?{target.query}"

    def sign_in(self, rollout: str, subject: str) -> Got:
        """The whole way, from the link to the page."""
        away = self.get(f"/approvals/{rollout}")
        assert away.status == 302, away.body
        back = self.get(self.at_provider(away.location, subject))
        assert back.status == 303, back.body
        return self.get(back.location)


def hidden(body: str, name: str) -> str:
    """A hidden field's value."""
    found = re.search(rf'name="{name}" value="([^"]*)"', body)
    assert found is not None, name
    return found[1]


APPROVERS = [{"name": "alex", "email": "alex@example.com"}, {"name": "kim", "subject": "sub-kim"}]


@contextmanager
def real_provider() -> Iterator[str]:
    """A whole OpenID provider on loopback: its issuer address."""
    users = [oidc_provider_mock.User(sub=sub, claims=claims) for sub, claims in PEOPLE.items()]
    with oidc_provider_mock.run_server_in_thread(user_claims=users) as server:
        yield f"http://localhost:{server.server_port}"


def forget_issuer() -> None:
    """What the process kept of the issuer and of sessions is gone."""
    wiring.issuer.cache_clear()
    wiring.sessions.cache_clear()


class SignIn:
    """The pages of a cluster whose people sign in, and what stands behind them."""

    def __init__(self, site: Site, url: str) -> None:
        self.site, self.url, self.dynamodb = site, url, make_table()
        secrets = boto3.client("secretsmanager", region_name=REGION)
        self.secret_arn = secrets.create_secret(Name="oidc", SecretString="client-secret")["ARN"]

    def configure(self, issuer: str, **approvals: Any) -> None:
        oidc = {"issuer": issuer, "clientId": CLIENT}
        if "localhost" in issuer:  # the real provider takes no public clients; the other is one
            oidc["clientSecretArn"] = self.secret_arn
        settings: dict[str, Any] = {"identity": "signed-in", "approvers": APPROVERS, "oidc": oidc}
        self.site.configure(**{**settings, **approvals})
        self.site.monkeypatch.setenv("COORDINATION_TABLE", TABLE)
        self.site.monkeypatch.setenv("APPROVAL_URL", self.url)
        forget_issuer()

    def person(self) -> Person:
        return Person(self.url)

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.dynamodb.scan(TableName=TABLE)["Items"]
        return found

    def form(self, page: Got, **more: str) -> dict[str, str]:
        typed = {"reason": "Looks right", "preset": "", "expiry": "", "decision": "Approved"}
        return {"nonce": hidden(page.body, "nonce"), "digest": hidden(page.body, "digest"), **typed, **more}
