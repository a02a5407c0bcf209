"""One child process that holds one handler, and the Lambda Runtime API it talks to.

The API is the public one (GET next, POST response, POST error, POST init/error); each sandbox has its own
port, so requests need no further identification. Error documents come from `awslambdaric` and pass through
unchanged.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from local.aws.model import FunctionSpec, InvokeResult
from local.aws.processes import ForkServer

_PREFIX = "/2018-06-01/runtime/"
# AWS gives the init phase 10 s; imports on a shared machine with two cores may need longer.
_INIT_SECONDS = 60.0


class _Event:
    def __init__(self, body: bytes, request_id: str, arn: str, deadline_ms: int) -> None:
        self.body = body
        self.headers = {
            "Lambda-Runtime-Aws-Request-Id": request_id,
            "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": arn,
            "Lambda-Runtime-Trace-Id": "",
        }


class Sandbox:
    """Runs one invocation at a time; `alive` turns False for good when the process ends.

    The log file gets what AWS writes too: START, END and REPORT lines around the handler's own output.
    """

    def __init__(self, function: FunctionSpec, fork: ForkServer, env: dict[str, str], log: Any) -> None:
        self.function = function
        self.alive = True
        self.idle_since = time.monotonic()
        self._fork = fork
        self._log = log
        self._events: queue.SimpleQueue[_Event | None] = queue.SimpleQueue()
        self._reports: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._ready = False
        self._started = time.monotonic()
        self._server = _RuntimeApi(self._events, self._reports)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name=f"runtime-api {function.name}", daemon=True
        )
        self._thread.start()
        env = {**env, "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_port}"}
        try:
            self.pid = fork.spawn(
                env=env,
                path=[function.code, *function.python_path],
                cwd=function.code,
                handler=function.handler,
                log=log,
                on_exit=self._exited,
            )
        except BaseException:
            self._end_server()
            raise

    def invoke(self, body: bytes, request_id: str) -> InvokeResult:
        """Gives the event to the handler and waits; a handler that outlives its timeout is killed."""
        if not self._ready:
            try:
                kind, report = self._reports.get(timeout=_INIT_SECONDS)
            except queue.Empty:
                kind, report = "timeout", b""
            if kind != "ready":
                return self._failed(kind, report, request_id, self._started, _INIT_SECONDS)
            self._ready = True
        started = time.monotonic()
        timeout = self.function.timeout
        self._write(f"START RequestId: {request_id} Version: $LATEST")
        deadline_ms = int((time.time() + timeout) * 1000)
        self._events.put(_Event(body, request_id, self.function.arn, deadline_ms))
        try:
            kind, report = self._reports.get(timeout=timeout)
        except queue.Empty:
            kind, report = "timeout", b""
        duration = (time.monotonic() - started) * 1000
        if kind != "response":
            return self._failed(kind, report, request_id, started, timeout)
        self._write(
            f"END RequestId: {request_id}\nREPORT RequestId: {request_id}\tDuration: {duration:.2f} ms"
        )
        return InvokeResult(report, None, request_id, duration)

    def close(self) -> None:
        """Kills the process and frees the port."""
        self.alive = False
        self._fork.kill(self.pid)
        self._end_server()

    def _end_server(self) -> None:
        self._events.put(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def _failed(
        self, kind: str, report: bytes, request_id: str, started: float, limit: float
    ) -> InvokeResult:
        duration = (time.monotonic() - started) * 1000
        if kind == "timeout":
            self.alive = False
            self._fork.kill(self.pid)
            message = f"RequestId: {request_id} Error: Task timed out after {limit:.2f} seconds"
            report = _error("Sandbox.Timedout", message)
        elif kind == "exit":
            message = f"RequestId: {request_id} Error: Runtime exited with error: {report.decode()}"
            report = _error("Runtime.ExitError", message)
        elif kind == "init":
            self.alive = False
        status = f"\tStatus: {kind}" if kind != "error" else ""
        report_line = f"REPORT RequestId: {request_id}\tDuration: {duration:.2f} ms{status}"
        self._write(f"END RequestId: {request_id}\n{report_line}")
        return InvokeResult(report, "Unhandled", request_id, duration)

    def _exited(self, status: int) -> None:
        self.alive = False
        text = f"exit status {status}" if status >= 0 else f"signal {-status}"
        self._reports.put(("exit", text.encode()))

    def _write(self, text: str) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(text + "\n")


def _error(error_type: str, message: str) -> bytes:
    return json.dumps({"errorType": error_type, "errorMessage": message}).encode()


class _RuntimeApi(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, events: queue.SimpleQueue[_Event | None], reports: queue.SimpleQueue[tuple[str, bytes]]
    ) -> None:
        self.events = events
        self.reports = reports
        self.announced = False
        super().__init__(("127.0.0.1", 0), _RuntimeHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # a killed child leaves a broken connection behind; its end is reported by the fork server


class _RuntimeHandler(BaseHTTPRequestHandler):
    server: _RuntimeApi
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet for headers and body: no wait for a delayed acknowledgement

    def do_GET(self) -> None:
        if self.path != _PREFIX + "invocation/next":
            self._answer(404, b"{}", {})
            return
        if not self.server.announced:
            self.server.announced = True
            self.server.reports.put(("ready", b""))
        event = self.server.events.get()
        if event is None:
            self.close_connection = True
            return
        self._answer(200, event.body, event.headers)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        end = self.path.rpartition("/")[2]
        kind = {"response": "response", "error": "error"}.get(end)
        if kind is None:
            self._answer(404, b"{}", {})
            return
        # Answered first: the handler's process may go on to ask for the next event at once.
        self._answer(202, b'{"status":"OK"}', {})
        self.server.reports.put(("init" if self.path == _PREFIX + "init/error" else kind, body))

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        return
