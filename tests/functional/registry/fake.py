"""A server whose every answer is written by the test, for what no real registry can be made to say."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """An answer. ``cut`` closes the connection after that many bytes of the body."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


Answer = Reply | Callable[[Seen], Reply]


class Fake:
    """Rules in order of registration; each pattern's replies are used up one by one, the last one stays."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.host = ""
        self._rules: list[tuple[re.Pattern[str], list[Answer]]] = []
        self._lock = threading.Lock()

    def on(self, pattern: str, *answers: Answer) -> None:
        """Answer requests whose ``METHOD path`` matches."""
        self._rules.append((re.compile(pattern), list(answers)))

    def answer(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
            for pattern, answers in self._rules:
                if pattern.search(f"{seen.method} {seen.path}"):
                    answer = answers.pop(0) if len(answers) > 1 else answers[0]
                    break
            else:
                return Reply(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no rule"}]}')
        return answer(seen) if callable(answer) else answer

    def lines(self) -> list[str]:
        """``METHOD path`` of every request, without the query."""
        return [f"{one.method} {one.path.partition('?')[0]}" for one in self.seen]


@contextmanager
def faking() -> Iterator[Fake]:
    """Serve a fake on a free loopback port."""
    fake = Fake()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = fake.answer(Seen(self.command, self.path, dict(self.headers.items()), body))
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in reply.headers:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
            if reply.cut is not None:
                self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = _serve

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # clients that hang up are part of the tests

    server = Server(("127.0.0.1", 0), Handler)
    fake.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
