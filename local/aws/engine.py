"""Starts and ends the AWS of one machine. See the package's docstring for the whole surface."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3
from botocore.config import Config

from local.aws import bucket_policies, machines, moto_server, shims
from local.aws.events import Bus, Event
from local.aws.front import Front
from local.aws.identity import OPERATOR_KEY, OPERATOR_SECRET, Identities
from local.aws.lambdas import PRELOAD, Lambdas
from local.aws.loader import Loading, load
from local.aws.machines import Machines
from local.aws.messages import Outbox
from local.aws.model import (
    Credentials,
    EcrToken,
    EngineError,
    ExecutionView,
    FunctionSpec,
    InvokeResult,
    LoadReport,
    Message,
    ProcessView,
    Resource,
)
from local.aws.patches import Patches
from local.aws.pending import Pending
from local.aws.processes import ForkServer
from local.aws.scheduler import Ticker
from local.aws.targets import DeliveryError, Targets
from local.aws.template import read_stack

_ONE_AT_A_TIME = threading.Lock()


class LocalAws:
    """One stack, running. Raises EngineError when it cannot be loaded; nothing is left running then."""

    def __init__(
        self,
        cdk_out: Path,
        stack: str,
        *,
        workdir: Path,
        opt_overrides: Mapping[str, Path] | None = None,
        env_overrides: Mapping[str, str] | None = None,
        function_env: Mapping[str, Mapping[str, str]] | None = None,
        ecr_token: Callable[[str], EcrToken] | None = None,
        max_processes: int = 6,
        soft_processes: int = 3,
        idle_seconds: float = 5.0,
        preload: Sequence[str] = PRELOAD,
        schedule_scale: float = 1.0,
        retry_delays: Sequence[float] = (0.5, 1.0),
        allow_unknown: Collection[str] = (),
    ) -> None:
        self._stack = read_stack(cdk_out, stack)
        self.account = self._stack.account
        self.region = self._stack.region
        self.workdir = workdir.resolve()
        self.problems: list[str] = []
        self.outputs: dict[str, str] = {}
        self._opt_overrides = dict(opt_overrides or {})
        self._env_overrides = dict(env_overrides or {})
        self._function_env = dict(function_env or {})
        self._ecr_token = ecr_token
        self._limits = (max_processes, soft_processes, idle_seconds)
        self._preload = tuple(preload)
        self._schedule_scale = schedule_scale
        self._retry_delays = tuple(retry_delays)
        self._allow_unknown = tuple(allow_unknown)
        self._identities = Identities(self.account)
        self._clients: dict[str, Any] = {}
        self._client_lock = threading.Lock()
        self._session: Any = None
        self._on_stop: list[Callable[[], object]] = []
        self.endpoint = ""

    def __enter__(self) -> LocalAws:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        if not _ONE_AT_A_TIME.acquire(blocking=False):
            raise EngineError("Another local engine runs in this process; moto's state is global to it.")
        self._on_stop.append(_ONE_AT_A_TIME.release)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every process, thread and port of the engine; may be called twice."""
        while self._on_stop:
            self._on_stop.pop()()
        self._clients.clear()

    def _start(self) -> None:
        logs = self.workdir / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        fork = ForkServer(self._preload, self.workdir)
        self._on_stop.append(fork.stop)
        self._on_stop.append(moto_server.isolate_environment())
        fork.start()  # its imports run while moto is imported here
        self.endpoint, stop_moto = moto_server.start()
        self._on_stop.append(stop_moto)
        self._pending = Pending()
        most, soft, idle = self._limits
        self._lambdas = Lambdas(
            fork=fork,
            identities=self._identities,
            logs=logs,
            base_env=self._base_env(),
            pending=self._pending,
            max_processes=most,
            soft_processes=soft,
            idle_seconds=idle,
            retry_delays=self._retry_delays,
            problems=self.problems,
        )
        self._on_stop.append(self._lambdas.stop)
        self._targets = Targets(self._lambdas, self.client)
        self._lambdas.deliver = self._destination
        self._bus = Bus(
            account=self.account,
            region=self.region,
            targets=self._targets,
            pending=self._pending,
            problems=self.problems,
        )
        self._on_stop.append(self._bus.stop)
        self._machines = Machines(self.account, self.region, self._lambdas, self._bus)
        self._outbox = Outbox(self._targets, self.problems)
        self._ticker = Ticker(self._targets, self._pending, self.problems, self._schedule_scale)
        self._patch()
        self._on_stop.append(self._machines.stop_all)
        self._fronts: dict[str, Front] = {}
        loading = Loading(
            stack=self._stack,
            client=self.client,
            lambdas=self._lambdas,
            targets=self._targets,
            ticker=self._ticker,
            fronts=self._fronts,
            new_front=self._new_front,
            workdir=self.workdir,
            opt_overrides=self._opt_overrides,
            env_overrides=self._env_overrides,
            function_env=self._function_env,
        )
        self.report: LoadReport = loading.report
        self.outputs = load(loading, self._allow_unknown)
        self.access_entries = loading.access_entries
        self.resources: dict[str, Resource] = loading.values.resources
        fork.preload(*self._program())
        for function in self._lambdas.functions.values():
            self._identities.credentials_of(function.role, session=function.name)
        self._ticker.start()
        self._on_stop.append(self._ticker.stop)

    def _program(self) -> tuple[list[str], list[Path]]:
        """Modules of the functions' layers that read no environment, and the layers' folders.

        Documents and pure functions take most of a cold start here, as adapters take the rest.
        """
        layers = sorted({folder for f in self._lambdas.functions.values() for folder in f.python_path})
        files = (
            file.relative_to(layer)
            for layer in layers
            for part in ("model", "decide", "adapters")
            for file in sorted(layer.glob(f"*/{part}/*.py"))
        )
        return [".".join(file.with_suffix("").parts) for file in files], layers

    def _patch(self) -> None:
        patches = Patches()
        self._on_stop.append(patches.undo)
        moto_server.remember(patches)
        shims.install_account(patches, self.account)
        shims.install_kms_digest(patches)
        bucket_policies.install(patches, self._identities)
        shims.install_ecr_token(patches, self._identities, self._ecr_token)
        shims.install_caller_identity(patches, self._identities)
        shims.install_lambda(patches, self._lambdas)
        self._bus.install(patches)
        self._machines.install(patches)
        self._outbox.install(patches)

    def _new_front(self, api_id: str, logical_id: str) -> Front:
        front = Front(
            api_id=api_id,
            account=self.account,
            lambdas=self._lambdas,
            targets=self._targets,
            signer_of=self._identities.signer_of,
            access_log=self.workdir / "logs" / f"api-{logical_id}.access.log",
            region=self.region,
        )
        self._on_stop.append(front.stop)
        return front

    def _destination(self, arn: str, payload: str, source_arn: str) -> None:
        try:
            self._targets.send(arn, payload, principal=None, source_arn=source_arn)
        except DeliveryError as error:
            self.problems.append(f"destination {arn} of {source_arn}: {error}")

    def _base_env(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.workdir),
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.endpoint,
            **moto_server.isolated_settings(),
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def client(self, service: str) -> Any:
        """A boto3 client of this engine's account, cached; clients are safe to share between threads."""
        with self._client_lock:
            if self._session is None:
                self._session = boto3.session.Session()
            if service not in self._clients:
                self._clients[service] = self._session.client(
                    service,
                    region_name=self.region,
                    endpoint_url=self.endpoint,
                    aws_access_key_id=OPERATOR_KEY,
                    aws_secret_access_key=OPERATOR_SECRET,
                    config=Config(proxies={}, retries={"total_max_attempts": 2}, max_pool_connections=20),
                )
            return self._clients[service]

    def environment(self) -> dict[str, str]:
        """AWS_* variables for a child process that is a person or a command, not a function."""
        env = {k: v for k, v in self._base_env().items() if k.startswith("AWS_") or k == "NO_PROXY"}
        return {**env, "AWS_ACCESS_KEY_ID": OPERATOR_KEY, "AWS_SECRET_ACCESS_KEY": OPERATOR_SECRET}

    @property
    def functions(self) -> dict[str, FunctionSpec]:
        return self._lambdas.functions

    @property
    def messages(self) -> list[Message]:
        return self._outbox.messages

    @property
    def events(self) -> list[Event]:
        return list(self._bus.seen)

    @property
    def api_urls(self) -> dict[str, str]:
        return {api_id: front.url for api_id, front in self._fronts.items()}

    @property
    def api_url(self) -> str:
        if len(self._fronts) != 1:
            raise EngineError(f"The stack has {len(self._fronts)} HTTP APIs; use api_urls.")
        return next(iter(self._fronts.values())).url

    def physical(self, which: str) -> str:
        """Ref of a resource by logical id, construct path, or the end of one. Raises KeyError."""
        if which in self.resources:
            return self.resources[which].ref
        ends = (f"/{which}", f"/{which}/Resource", f"/{which}/Default")
        found = [r for r in self.resources.values() if r.path == which or r.path.endswith(ends)]
        if len(found) != 1:
            raise KeyError(f"{len(found)} resources are called {which!r}: {[r.path for r in found]}")
        return found[0].ref

    def invoke(self, function: str, event: bytes | str) -> InvokeResult:
        """Invokes a function by name, ARN or logical id with a JSON document, synchronously."""
        body = event.encode() if isinstance(event, str) else event
        return self._lambdas.invoke(self._function_name(function), body)

    def set_environment(self, function: str, variables: Mapping[str, str]) -> None:
        """Changes a function's environment, as UpdateFunctionConfiguration does, from its next process on."""
        spec = self.functions[self._function_name(function)]
        self.functions[spec.name] = replace(spec, environment={**spec.environment, **variables})

    def logs(self, function: str) -> str:
        return self._lambdas.logs(self._function_name(function))

    def _function_name(self, function: str) -> str:
        by_id = {f.logical_id: f.name for f in self.functions.values()}
        return by_id.get(function, function)

    def processes(self) -> list[ProcessView]:
        return self._lambdas.processes()

    def credentials_of(self, role_arn: str) -> Credentials:
        return self._identities.credentials_of(role_arn)

    def person(self, arn: str) -> dict[str, str]:
        """AWS_* variables of a person: ``arn`` of a user, or of a session as GetCallerIdentity tells it."""
        keys = self._identities.credentials_of(arn)
        made = {"AWS_ACCESS_KEY_ID": keys.access_key, "AWS_SECRET_ACCESS_KEY": keys.secret_key}
        return {**self.environment(), **made, "AWS_SESSION_TOKEN": keys.token}

    def identity_of(self, access_key: str) -> str | None:
        return self._identities.identity_of(access_key)

    def executions(self, machine: str | None = None) -> list[ExecutionView]:
        if machine in self.resources:
            machine = self.resources[machine].ref
        return self._machines.views(machine)

    def execution(self, arn: str) -> ExecutionView:
        return machines.view(self._machines.backend().describe_execution(arn))

    def history(self, arn: str) -> list[dict[str, Any]]:
        return machines.history(self._machines.backend().describe_execution(arn))

    def wait_execution(self, arn: str, *, timeout: float) -> ExecutionView:
        """Waits until the execution ended. Raises TimeoutError, with where it stands."""
        end = time.monotonic() + timeout
        with self._machines.changed:
            while (current := self.execution(arn)).status == "RUNNING":
                left = end - time.monotonic()
                if left <= 0:
                    entered = [e for e in self.history(arn) if "stateEnteredEventDetails" in e]
                    last = entered[-1]["stateEnteredEventDetails"]["name"] if entered else "no state"
                    raise TimeoutError(f"{arn} still runs after {timeout} s; last entered: {last}")
                self._machines.changed.wait(min(left, 1.0))
        return current

    def wait_until(self, condition: Callable[[], bool], *, timeout: float, what: str) -> None:
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"{what} did not happen within {timeout} s; problems: {self.problems}")
            time.sleep(0.02)

    def quiet(self, timeout: float = 10.0) -> None:
        """Returns when no delivery, asynchronous invocation or retry is pending. Raises TimeoutError."""
        if not self._pending.wait(timeout):
            raise TimeoutError(f"Deliveries are still pending after {timeout} s; problems: {self.problems}")

    def put_event(self, source: str, detail_type: str, detail: Mapping[str, Any]) -> str:
        """Puts an event on the default bus as an AWS service would; any source is allowed. Returns its id."""
        event = self._bus.service_event(source, detail_type, [], dict(detail))
        self._bus.emit(event)
        return str(event["id"])

    def emit(self, event: Event) -> None:
        """Puts a whole event on the default bus: deliveries may come twice, late, or from a replay."""
        self._bus.emit(event)

    def fire(self, schedule_name: str) -> None:
        """Fires a schedule now, by its name or the end of it after a slash."""
        self._ticker.fire(schedule_name)
