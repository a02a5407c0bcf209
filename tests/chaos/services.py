"""What answers the functions of a run in this process: AWS, a registry, and their own modules."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from aicr_pipeline import event_source
from aicr_pipeline import step as step_module
from botocore.auth import SigV4Auth
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError
from moto import mock_aws
from moto.core.base_backend import BaseBackend

from infra.functions import ROLLOUT_FUNCTIONS
from local.registry import LocalRegistry, TokenIssuer
from tests.conftest import ROOT
from tests.functional.actions.support import aws_error

if TYPE_CHECKING:
    from tests.chaos.world import World

REGION = "us-west-2"
EVENTS = ("start_rollout", "sweep_waiters", "record_stall")


@cache
def clients() -> dict[str, Any]:
    """Made once: a client costs more than a rollout."""
    settings = Config(retries={"mode": "standard", "total_max_attempts": 4})
    session = boto3.Session("testing", "testing", region_name=REGION)
    with mock_aws():
        made = {name: session.client(name, config=settings) for name in ("s3", "dynamodb", "events", "sns")}
    return made


_signed = SigV4Auth.add_auth


def sign(signer: SigV4Auth, request: Any) -> None:
    """Whose request it is, without the signature: moto does not look at it, and it costs a tenth of a run.

    Of what is put, signing also says how its body is sent.
    """
    if request.method == "PUT":
        _signed(signer, request)
        return
    scope = f"20260101/{REGION}/{signer._service_name}/aws4_request"
    request.headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential=testing/{scope}, Signature=none"


_urls_of: Any = BaseBackend.urls
_urls: dict[type[BaseBackend], Any] = {}


def addresses(backend: BaseBackend) -> Any:
    """The addresses of a service. moto makes the table anew for every request: a fifth of its time."""
    if type(backend) not in _urls:
        _urls[type(backend)] = _urls_of.fget(backend)
    return _urls[type(backend)]


@cache
def handlers() -> dict[str, Any]:
    """The modules of the functions that a rollout needs."""
    os.environ.setdefault("POWERTOOLS_METRICS_NAMESPACE", "chaos")
    os.environ.setdefault("POWERTOOLS_SERVICE_NAME", "chaos")
    found = {}
    for name in (*ROLLOUT_FUNCTIONS, *EVENTS):
        file = ROOT / "functions" / name / "handler.py"
        spec = importlib.util.spec_from_file_location(f"chaos_{name}", file)
        assert spec and spec.loader
        found[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[name])
    for module in (step_module, event_source):
        module.logger.setLevel("CRITICAL")
    return found


class StepFunctions:
    """The calls of Step Functions that functions make, each as fallible as the others."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start_execution(self, stateMachineArn: str, name: str, input: str) -> None:
        self._call("StartExecution", lambda: self._world.start(name, json.loads(input)))

    def describe_execution(self, executionArn: str) -> dict[str, str]:
        def found() -> dict[str, str]:
            execution = self._world.executions.get(executionArn.rpartition(":")[2])
            if execution is None:
                raise aws_error("ExecutionDoesNotExist")
            return {"status": execution.status}

        return self._call("DescribeExecution", found)

    def send_task_success(self, taskToken: str, output: str) -> None:
        self._call("SendTaskSuccess", lambda: self._world.answer(taskToken, output=json.loads(output)))

    def send_task_failure(self, taskToken: str, error: str, cause: str) -> None:
        self._call("SendTaskFailure", lambda: self._world.answer(taskToken, error=error, cause=cause))

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        """As botocore does: a broken connection is tried again, three times more."""
        for attempt in range(4):
            try:
                return self._world.faults.pass_on(
                    f"states {what}", call, lambda: ConnectionClosedError(endpoint_url="states")
                )
            except ConnectionClosedError:
                if attempt == 3:
                    raise
        raise AssertionError


ISSUER = TokenIssuer()


@contextmanager
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry(ISSUER) as found:
        yield found
