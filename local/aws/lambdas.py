"""Lambda: finds a sandbox for each invocation, and the asynchronous invocations with their retries.

Moto keeps the functions' configuration for API calls; running them is ours. `LambdaFunction.invoke` is
replaced (it would need Docker), and the ASL interpreter's call goes straight to `Lambdas.invoke` instead of
through HTTP.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from local.aws.identity import Identities
from local.aws.model import EngineError, FunctionSpec, InvokeResult, ProcessView
from local.aws.pending import Pending
from local.aws.processes import ForkServer
from local.aws.sandbox import Sandbox

# Imported before the fork, so that a cold start pays for the handler only. Nothing here reads the environment
# at import in a way that matters.
PRELOAD: tuple[str, ...] = (
    "logging.config",
    "http.client",
    "concurrent.futures",
    "decimal",
    "boto3.session",
    "botocore.httpsession",
    "botocore.endpoint",
    "botocore.parsers",
    "botocore.signers",
    "yaml",
    "pydantic",
    "aws_lambda_powertools",
    "aws_lambda_powertools.event_handler",
    "aws_lambda_powertools.utilities.typing",
    "jinja2",
    "rfc8785",
    "kubernetes.config",
    "kubernetes.dynamic",
    "oras.client",
)

Destination = Callable[[str, str, str], None]


@dataclass(frozen=True)
class AsyncConfig:
    """Retries and destination of a function's asynchronous invocations (EventInvokeConfig)."""

    retries: int = 2
    on_failure: str | None = None
    on_success: str | None = None


class Lambdas:
    """Runs functions. Thread-safe.

    At most `max_processes` children exist; an invocation beyond that waits for one, after an idle child of
    another function was ended. Above `soft_processes`, children idle for `idle_seconds` end.
    """

    def __init__(
        self,
        *,
        fork: ForkServer,
        identities: Identities,
        logs: Path,
        base_env: Mapping[str, str],
        pending: Pending,
        max_processes: int,
        soft_processes: int,
        idle_seconds: float,
        retry_delays: Sequence[float],
        problems: list[str],
    ) -> None:
        self.functions: dict[str, FunctionSpec] = {}
        self.async_configs: dict[str, AsyncConfig] = {}
        self.deliver: Destination | None = None
        self._fork = fork
        self._identities = identities
        self._logs = logs
        self._base_env = dict(base_env)
        self._pending = pending
        self._problems = problems
        self._max = max_processes
        self._soft = soft_processes
        self._idle_seconds = idle_seconds
        self._retry_delays = tuple(retry_delays) or (0.0,)
        self._condition = threading.Condition()
        self._idle: list[Sandbox] = []  # least recently used first
        self._busy: list[Sandbox] = []
        self._starting = 0
        self._stopped = threading.Event()
        self._workers = ThreadPoolExecutor(max_workers=8, thread_name_prefix="lambda-async")
        self._evictor = threading.Thread(target=self._evict, name="lambda-idle", daemon=True)
        self._evictor.start()

    def find(self, name_or_arn: str) -> FunctionSpec:
        """The function of a name, partial ARN or ARN, with or without qualifier. Raises KeyError."""
        name = name_or_arn
        if ":" in name:
            parts = name.split(":")
            if "function" in parts:
                name = parts[parts.index("function") + 1]
            else:  # name:qualifier, or account:name
                name = parts[1] if parts[0].isdigit() else parts[0]
        return self.functions[name]

    def invoke(self, name_or_arn: str, body: bytes) -> InvokeResult:
        """Runs the handler and returns what it answered or the error document. Raises KeyError if unknown."""
        function = self.find(name_or_arn)
        request_id = str(uuid.uuid4())
        sandbox = self._acquire(function)
        try:
            return sandbox.invoke(body or b"{}", request_id)
        finally:
            self._release(sandbox)

    def invoke_async(self, name_or_arn: str, body: bytes) -> str:
        """Queues an invocation: two more attempts on errors, then the on-failure destination or the DLQ."""
        function = self.find(name_or_arn)
        request_id = str(uuid.uuid4())
        self._pending.add()
        try:
            self._workers.submit(self._attempts, function, body, request_id)
        except RuntimeError:  # shut down: the engine is stopping
            self._pending.done()
        return request_id

    def logs(self, name_or_arn: str) -> str:
        path = self._log_path(self.find(name_or_arn))
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def processes(self) -> list[ProcessView]:
        with self._condition:
            known = [(s, True) for s in self._busy] + [(s, False) for s in self._idle]
        return [ProcessView(s.pid, s.function.name, busy, _resident(s.pid)) for s, busy in known]

    def stop(self) -> None:
        self._stopped.set()
        with self._condition:
            sandboxes = [*self._idle, *self._busy]
            self._idle.clear()
            self._condition.notify_all()
        for sandbox in sandboxes:
            sandbox.close()
        self._workers.shutdown(wait=True, cancel_futures=True)
        self._evictor.join(timeout=5)

    def _acquire(self, function: FunctionSpec) -> Sandbox:
        with self._condition:
            while True:
                if self._stopped.is_set():
                    raise EngineError(f"Function {function.name} was called while the engine stops.")
                victim: Sandbox | None = None
                for sandbox in reversed(self._idle):
                    if sandbox.function is function:
                        self._idle.remove(sandbox)
                        if sandbox.alive:
                            self._busy.append(sandbox)
                            return sandbox
                        victim = sandbox
                        break
                if victim is None and len(self._idle) + len(self._busy) + self._starting >= self._max:
                    if not self._idle:
                        self._condition.wait()
                        continue
                    victim = self._idle.pop(0)
                self._starting += 1
                break
        sandbox_new: Sandbox | None = None
        try:
            if victim is not None:
                victim.close()
            sandbox_new = Sandbox(function, self._fork, self._environment(function), self._log_path(function))
        finally:
            with self._condition:
                self._starting -= 1
                if sandbox_new is not None:
                    self._busy.append(sandbox_new)
                self._condition.notify_all()
        return sandbox_new

    def _release(self, sandbox: Sandbox) -> None:
        with self._condition:
            self._busy.remove(sandbox)
            keep = sandbox.alive and not self._stopped.is_set()
            if keep:
                sandbox.idle_since = time.monotonic()
                self._idle.append(sandbox)
            self._condition.notify_all()
        if not keep:
            sandbox.close()

    def _evict(self) -> None:
        while not self._stopped.wait(min(1.0, max(0.1, self._idle_seconds / 2))):
            limit = time.monotonic() - self._idle_seconds
            with self._condition:
                surplus = len(self._idle) + len(self._busy) + self._starting - self._soft
                gone = [s for s in self._idle if s.idle_since < limit or not s.alive][: max(0, surplus)]
                for sandbox in gone:
                    self._idle.remove(sandbox)
                self._condition.notify_all()
            for sandbox in gone:
                sandbox.close()

    def _attempts(self, function: FunctionSpec, body: bytes, request_id: str) -> None:
        config = self.async_configs.get(function.name, AsyncConfig())
        try:
            for attempt in range(config.retries + 1):
                result = self.invoke(function.arn, body)
                if result.error is None:
                    if config.on_success:
                        self._settle(config.on_success, function, body, result, request_id, attempt + 1)
                    return
                if attempt < config.retries:
                    delay = self._retry_delays[min(attempt, len(self._retry_delays) - 1)]
                    if self._stopped.wait(delay):
                        return
            self._problems.append(
                f"function {function.name}: asynchronous invocation gave up after {config.retries + 1} "
                f"attempts: {result.payload[:300].decode(errors='replace')}"
            )
            if config.on_failure:
                self._settle(config.on_failure, function, body, result, request_id, config.retries + 1)
            elif function.dead_letter and self.deliver is not None:
                # A dead-letter queue gets the event itself, a destination gets a record about it.
                self.deliver(function.dead_letter, body.decode(), function.arn)
        except (EngineError, KeyError):
            if not self._stopped.is_set():
                raise
        finally:
            self._pending.done()

    def _settle(
        self,
        target: str,
        function: FunctionSpec,
        body: bytes,
        result: InvokeResult,
        request_id: str,
        count: int,
    ) -> None:
        if self.deliver is None:
            return
        record = {
            "version": "1.0",
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "requestContext": {
                "requestId": request_id,
                "functionArn": f"{function.arn}:$LATEST",
                "condition": "Success" if result.error is None else "RetriesExhausted",
                "approximateInvokeCount": count,
            },
            "requestPayload": _parsed(body),
            "responseContext": {
                "statusCode": 200,
                "executedVersion": "$LATEST",
                **({"functionError": result.error} if result.error else {}),
            },
            "responsePayload": _parsed(result.payload),
        }
        self.deliver(target, json.dumps(record), function.arn)

    def _log_path(self, function: FunctionSpec) -> Path:
        return self._logs / f"{function.name}.log"

    def _environment(self, function: FunctionSpec) -> dict[str, str]:
        keys = self._identities.credentials_of(function.role, session=function.name)
        return {
            **self._base_env,
            **function.environment,
            "_HANDLER": function.handler,
            "LAMBDA_TASK_ROOT": str(function.code),
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.runtime}",
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory),
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": f"local/[$LATEST]{uuid.uuid4().hex}",
            "AWS_ACCESS_KEY_ID": keys.access_key,
            "AWS_SECRET_ACCESS_KEY": keys.secret_key,
            "AWS_SESSION_TOKEN": keys.token,
        }


def _parsed(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode(errors="replace")


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
