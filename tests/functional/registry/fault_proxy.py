"""Stands before a real registry or publisher and breaks one request by its number; the others pass."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import urllib3

from tests.functional.registry.fake import Reply, Seen


@dataclass(frozen=True)
class Fault:
    """What happens to one request.

    ``reply`` answers in place of the real server. ``before`` and ``after`` run before the real server is
    asked and before its answer is handed on. Of the request's or the answer's body only half gets through
    with ``half_body`` and ``half_answer``; then the connection is closed. ``lost`` closes it after the real
    server has done its work, without a word of its answer.
    """

    reply: Reply | None = None
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None
    half_body: bool = False
    half_answer: bool = False
    lost: bool = False


@dataclass
class Faults:
    """Shared by proxies, so that requests are numbered over all of them as they come."""

    #: Asked for each request: its number and itself.
    choose: Callable[[int, Seen], Fault | None] = lambda number, seen: None
    seen: list[Seen] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, seen: Seen) -> Fault:
        with self._lock:
            self.seen.append(seen)
            return self.choose(len(self.seen) - 1, seen) or Fault()

    def start_over(self, choose: Callable[[int, Seen], Fault | None] | None = None) -> None:
        """Number from zero again, with other faults."""
        with self._lock:
            self.seen.clear()
            self.choose = choose or (lambda number, seen: None)

    def lines(self) -> list[str]:
        """``METHOD path`` of every request, without the query."""
        return [f"{one.method} {one.path.partition('?')[0]}" for one in self.seen]


@contextmanager
def before(host: str, faults: Faults) -> Iterator[str]:
    """Serve on a free loopback port in front of ``host``; yields ``host:port``."""
    pool = urllib3.HTTPConnectionPool(
        host.partition(":")[0], int(host.partition(":")[2]), maxsize=4, retries=False, timeout=30
    )

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            fault = faults.take(Seen(self.command, self.path, dict(self.headers.items()), b""))
            if fault.half_body and size > 1:
                self.rfile.read(size // 2)
                if fault.before:
                    fault.before()
                self._hang_up()
                return
            body = self.rfile.read(size)
            if fault.before:
                fault.before()
            if fault.reply:
                self._answer(fault.reply.status, fault.reply.headers, fault.reply.body, fault)
                return
            # The Host stays the proxy's, so that addresses in answers lead back here.
            answer = pool.request(
                self.command, self.path, body=body or None, headers=dict(self.headers.items()),
                redirect=False, decode_content=False,
            )  # fmt: skip
            if fault.after:
                fault.after()
            if fault.lost:
                self._hang_up()
                return
            skip = ("connection", "transfer-encoding", "date", "server")
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in skip}
            self._answer(answer.status, kept, answer.data, fault)

        def _answer(self, status: int, headers: dict[str, str], body: bytes, fault: Fault) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "content-length" not in {name.lower() for name in headers}:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if fault.half_answer else body)
            if fault.half_answer:
                self._hang_up()

        def _hang_up(self) -> None:
            self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = _serve

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # clients that are killed are part of the tests

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
        pool.close()
