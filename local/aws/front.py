"""The HTTP API on a free loopback port: requests become payload-2.0 events, answers become responses.

Follows "Working with AWS Lambda proxy integrations for HTTP APIs". Throttling is ignored. Routes with AWS_IAM
take only requests that one of the engine's access keys signed.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from local.aws.lambdas import Lambdas
from local.aws.model import EngineError, InvokeResult
from local.aws.sigv4 import Signer, signer_of_request
from local.aws.targets import Targets

_TEXT = re.compile(r"^(text/.*|application/(json|xml|javascript|.*\+json|.*\+xml))(;|$)", re.IGNORECASE)
_MAX_BODY = 10 * 1024 * 1024


@dataclass(frozen=True)
class Integration:
    """The function behind a route and how long the API waits for it."""

    function_arn: str
    seconds: float


@dataclass(frozen=True)
class Route:
    """`GET /a/{b}`, `ANY /a/{rest+}` or `$default`, compiled; `rank` orders the more specific first."""

    key: str
    method: str
    pattern: re.Pattern[str]
    rank: tuple[int, int, int]
    target: str
    signed: bool

    @classmethod
    def parse(cls, key: str, target: str, *, signed: bool) -> Route:
        if key == "$default":
            return cls(key, "ANY", re.compile(r".*"), (9, 0, 0), target, signed)
        method, _, path = key.partition(" ")
        greedy = len(re.findall(r"\{[^}]+\+\}", path))
        variables = len(re.findall(r"\{[^}]+\}", path))
        parts = re.split(r"(\{[^}]+\})", path)
        text = ""
        for part in parts:
            if part.startswith("{") and part.endswith("+}"):
                text += f"(?P<{part[1:-2]}>.+)"
            elif part.startswith("{"):
                text += f"(?P<{part[1:-1]}>[^/]+)"
            else:
                text += re.escape(part)
        return cls(key, method, re.compile(text), (greedy, variables, method == "ANY"), target, signed)


@dataclass
class Front:
    """One HTTP API; listens from its creation, so that its address can be given to functions."""

    api_id: str
    account: str
    lambdas: Lambdas
    targets: Targets
    signer_of: Callable[[str], Signer | None]
    access_log: Path
    region: str
    routes: list[Route] = field(default_factory=list)
    integrations: dict[str, Integration] = field(default_factory=dict)
    stages: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name=f"http-api {self.api_id}", daemon=True
        )
        self._thread.start()
        self._log_lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def match(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """The most specific route and the path parameters."""
        for route in sorted(self.routes, key=lambda r: r.rank):
            found = route.pattern.fullmatch(path) if route.method in (method, "ANY") else None
            if found is not None:
                return route, found.groupdict()
        return None

    def answer(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes, source_ip: str
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Handles one request; logs route key, status and request id, nothing else: paths carry secrets."""
        request_id = base64.b64encode(uuid.uuid4().bytes[:11]).decode().rstrip("=") + "="
        raw_path, _, query = target.partition("?")
        stage, path = self._stage(unquote(raw_path))
        matched = self.match(method, path) if stage is not None else None
        if matched is None or stage is None:
            status, answer_headers, answer = _message(404, "Not Found")
            self._log("-", status, request_id)
            return status, [*answer_headers, ("apigw-requestid", request_id)], answer
        route, parameters = matched
        signer = None
        if route.signed:
            signer = signer_of_request(method, target, headers, body, self.region, self.signer_of)
        if route.signed and signer is None:
            status, answer_headers, answer = _message(403, "Forbidden")
        else:
            event = self._event(route, stage, path, query, parameters, headers, body, source_ip, method)
            event["requestContext"]["requestId"] = request_id
            if signer is not None:
                event["requestContext"]["authorizer"] = {"iam": _iam(signer, self.account)}
            status, answer_headers, answer = self._call(route, event, stage)
        self._log(route.key, status, request_id)
        return status, [*answer_headers, ("apigw-requestid", request_id)], answer

    def _stage(self, path: str) -> tuple[str | None, str]:
        first = path.split("/")[1] if "/" in path else ""
        if first in self.stages:
            return first, path[len(first) + 1 :] or "/"
        return ("$default" if "$default" in self.stages else None), path

    def _call(
        self, route: Route, event: dict[str, Any], stage: str
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        integration = self.integrations[route.target]
        permitted = f"arn:aws:execute-api:{self.region}:{self.account}:{self.api_id}/{stage}"
        verb, _, path = route.key.partition(" ")
        source = f"{permitted}/{route.key if verb == '$default' else verb.replace('ANY', '*') + path}"
        try:
            function = self.lambdas.find(integration.function_arn)
        except KeyError:
            return _message(500, "Internal Server Error")
        if not self.targets.allowed(function.name, "apigateway.amazonaws.com", source):
            return _message(500, "Internal Server Error")
        outcome: list[InvokeResult] = []

        def run() -> None:
            try:
                outcome.append(self.lambdas.invoke(function.arn, json.dumps(event).encode()))
            except EngineError:
                return  # the engine stops

        worker = threading.Thread(target=run, name="http-api-call", daemon=True)
        worker.start()
        worker.join(integration.seconds)
        if not outcome:
            return _message(503, "Service Unavailable")
        if outcome[0].error is not None:
            return _message(500, "Internal Server Error")
        return to_response(outcome[0])

    def _event(
        self,
        route: Route,
        stage: str,
        path: str,
        query: str,
        parameters: dict[str, str],
        headers: list[tuple[str, str]],
        body: bytes,
        source_ip: str,
        method: str,
    ) -> dict[str, Any]:
        joined: dict[str, str] = {}
        cookies: list[str] = []
        for name, value in _lower(headers):
            if name == "cookie":
                cookies += [c.strip() for c in value.split(";") if c.strip()]
            else:
                joined[name] = f"{joined[name]},{value}" if name in joined else value
        host = joined.get("host", "")
        joined.setdefault("x-forwarded-proto", "http")
        joined.setdefault("x-forwarded-for", source_ip)
        now = datetime.now(UTC)
        context: dict[str, Any] = {
            "accountId": self.account,
            "apiId": self.api_id,
            "domainName": host,
            "domainPrefix": host.partition(".")[0],
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": source_ip,
                "userAgent": joined.get("user-agent", ""),
            },
            "routeKey": route.key,
            "stage": stage,
            "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(now.timestamp() * 1000),
        }
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": route.key,
            "rawPath": path,
            "rawQueryString": query,
            "headers": joined,
            "requestContext": context,
            "isBase64Encoded": False,
        }
        if cookies:
            event["cookies"] = cookies
        if query:
            pairs: dict[str, str] = {}
            for name, value in parse_qsl(query, keep_blank_values=True):
                pairs[name] = f"{pairs[name]},{value}" if name in pairs else value
            event["queryStringParameters"] = pairs
        if parameters:
            event["pathParameters"] = parameters
        if body:
            text = bool(_TEXT.match(joined.get("content-type", "text/plain")))
            event["isBase64Encoded"] = not text
            event["body"] = body.decode(errors="replace") if text else base64.b64encode(body).decode()
        return event

    def _log(self, route_key: str, status: int, request_id: str) -> None:
        line = json.dumps({"requestId": request_id, "routeKey": route_key, "status": str(status)})
        with self._log_lock, self.access_log.open("a", encoding="utf-8") as log:
            log.write(line + "\n")


def to_response(result: InvokeResult) -> tuple[int, list[tuple[str, str]], bytes]:
    """Format 2.0 of a function's answer; an answer without statusCode is a JSON body with 200."""
    try:
        answer = result.json()
    except ValueError:
        return _message(500, "Internal Server Error")
    if not isinstance(answer, dict) or "statusCode" not in answer:
        return 200, [("content-type", "application/json")], result.payload
    headers = {str(k).lower(): str(v) for k, v in (answer.get("headers") or {}).items()}
    headers.setdefault("content-type", "text/plain;charset=utf-8")
    body = answer.get("body") or ""
    try:
        raw = base64.b64decode(body, validate=True) if answer.get("isBase64Encoded") else str(body).encode()
        status = int(answer["statusCode"])
    except (binascii.Error, ValueError):
        return _message(500, "Internal Server Error")
    cookies = [("set-cookie", str(c)) for c in answer.get("cookies") or []]
    return status, [*headers.items(), *cookies], raw


def _iam(signer: Signer, account: str) -> dict[str, Any]:
    return {
        "accountId": account,
        "callerId": signer.id,
        "userArn": signer.arn,
        "userId": signer.id,
        "accessKey": "",
        "cognitoIdentity": None,
        "principalOrgId": None,
    }


def _lower(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in headers]


def _message(status: int, text: str) -> tuple[int, list[tuple[str, str]], bytes]:
    return status, [("content-type", "application/json")], json.dumps({"message": text}).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, front: Front) -> None:
        self.front = front
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 65

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MAX_BODY:
            status, headers, body = _message(413, "Request Entity Too Large")
            self.close_connection = True
        else:
            given = self.rfile.read(length)
            status, headers, body = self.server.front.answer(
                self.command, self.path, list(self.headers.items()), given, str(self.client_address[0])
            )
        self.send_response_only(status)
        self.send_header("Date", self.date_time_string(time.time()))
        for name, value in headers:
            if name not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)
        self.wfile.flush()

    do_GET = _serve  # noqa: N815  the names http.server looks for
    do_HEAD = _serve  # noqa: N815
    do_POST = _serve  # noqa: N815
    do_PUT = _serve  # noqa: N815
    do_DELETE = _serve  # noqa: N815
    do_PATCH = _serve  # noqa: N815
    do_OPTIONS = _serve  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        return  # the access log is written by Front, without the path
