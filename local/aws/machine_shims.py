"""Corrections of moto's Step Functions API around its ASL interpreter.

- StartExecution on a version or an alias; versions and aliases in Describe and List.
- StopExecution and a machine's TimeoutSeconds end an execution that waits for a task token.
- The context object's Execution has a RedriveCount, as on AWS (0: nothing here can be redriven).
- A state that is retried waits with a token of its own: moto's would be the answered one, and fail at once.
- SendTask*: the cause of a failure is kept, a settled or dead token says TaskTimedOut or TaskDoesNotExist.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from local.aws.patches import Patches


def install(patches: Patches) -> None:
    _install_parse(patches)
    _install_versions(patches)
    _install_stop(patches)
    _install_tokens(patches)
    _install_redrive_count(patches)
    _install_retry_tokens(patches)


#: Definition to its syntax tree, for the life of the process: moto reads it anew at every start, 0.5 s each.
_TREES: dict[str, Any] = {}


def _install_parse(patches: Patches) -> None:
    from moto.stepfunctions.parser.asl.parse import asl_parser
    from moto.stepfunctions.parser.asl.parse.preprocessor import Preprocessor

    original = asl_parser.AmazonStateLanguageParser.parse

    def parse(definition: str) -> tuple[Any, Any]:
        tree = _TREES.get(definition)
        if tree is None:
            program, _TREES[definition] = original(definition)
            return program, _TREES[definition]
        # The states themselves are made anew: some remember what they do.
        return Preprocessor().visit(tree), tree

    patches.replace(asl_parser.AmazonStateLanguageParser, "parse", staticmethod(parse))


def _install_retry_tokens(patches: Patches) -> None:
    from moto.stepfunctions.parser.asl.component.common.retry.retry_outcome import RetryOutcome
    from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState

    original: Any = ExecutionState._handle_retry

    def handle_retry(state: Any, env: Any, failure_event: Any) -> Any:
        outcome = original(state, env, failure_event)
        context = env.states.context_object
        if outcome == RetryOutcome.CanRetry and "Task" in context.context_object_data:
            env.callback_pool_manager.add(context.update_task_token())
        return outcome

    patches.replace(ExecutionState, "_handle_retry", handle_retry)


def _install_redrive_count(patches: Patches) -> None:
    from moto.stepfunctions.parser.backend import execution_worker

    original: Any = vars(execution_worker)["ExecutionData"]
    patches.replace(
        execution_worker, "ExecutionData", lambda **fields: {**original(**fields), "RedriveCount": 0}
    )


def starting_qualifiers() -> tuple[str | None, str | None]:
    """Version and alias ARN of the execution that this thread is starting; (None, None) without."""
    found: tuple[str | None, str | None] = getattr(_STARTING, "qualifiers", (None, None))
    return found


def _install_versions(patches: Patches) -> None:
    """StartExecution, ListExecutions and DescribeExecution with version and alias ARNs."""
    from moto.core.responses import ActionResult
    from moto.stepfunctions import models, responses
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend

    original_start: Any = StepFunctionsParserBackend.start_execution

    def start_execution(
        backend: Any, state_machine_arn: str, name: str, execution_input: str | None = None, **kwargs: Any
    ) -> Any:
        version, alias_arn = _resolve_machine(backend, state_machine_arn)
        if version is None:
            return original_start(backend, state_machine_arn, name, execution_input, **kwargs)
        machine = next(m for m in backend.state_machines if m.arn == version.source_arn)
        # The machine runs with the version's definition for the moment in which the interpreter copies it.
        with _SWITCH:
            current = (machine.definition, machine.roleArn)
            machine.definition, machine.roleArn = version.definition, version.roleArn
            _STARTING.qualifiers = (version.arn, alias_arn)
            try:
                return original_start(backend, machine.arn, name, execution_input, **kwargs)
            finally:
                machine.definition, machine.roleArn = current
                del _STARTING.qualifiers

    original_list = models.StepFunctionBackend.list_executions

    def list_executions(backend: Any, state_machine_arn: str, **kwargs: Any) -> Any:
        version, _ = _resolve_machine(backend, state_machine_arn)
        return original_list(backend, version.source_arn if version else state_machine_arn, **kwargs)

    original_list_response = responses.StepFunctionResponse.list_executions

    def list_executions_response(response: Any) -> Any:
        arn = response._get_param("stateMachineArn")
        version, alias_arn = _resolve_machine(response.stepfunction_backend, arn)
        if version is None:
            return original_list_response(response)
        executions, token = response.stepfunction_backend.list_executions(
            arn,
            status_filter=response._get_param("statusFilter"),
            max_results=response._get_int_param("maxResults"),
            next_token=response._get_param("nextToken"),
        )
        chosen = [e for e in executions if (alias_arn or version.arn) in (e.version_arn, e.alias_arn)]
        items = [
            {
                "executionArn": e.execution_arn,
                "name": e.name,
                "startDate": e.start_date,
                "stateMachineArn": version.source_arn,
                "stateMachineVersionArn": e.version_arn,
                "stateMachineAliasArn": e.alias_arn,
                "status": e.status,
                "stopDate": e.stop_date,
            }
            for e in chosen
        ]
        return ActionResult({"executions": items, "nextToken": token})

    original_describe: Any = responses.StepFunctionResponse.describe_execution

    def describe_execution(response: Any) -> Any:
        result = original_describe(response)
        execution = response.stepfunction_backend.describe_execution(response._get_param("executionArn"))
        for field, attribute in (
            ("stateMachineVersionArn", "version_arn"),
            ("stateMachineAliasArn", "alias_arn"),
            ("stopDate", "stop_date"),
        ):
            value = getattr(execution, attribute, None)
            if value is not None:
                result.result[field] = value
        result.result["redriveCount"] = 0
        return result

    patches.replace(StepFunctionsParserBackend, "start_execution", start_execution)
    patches.replace(models.StepFunctionBackend, "list_executions", list_executions)
    patches.replace(responses.StepFunctionResponse, "list_executions", list_executions_response)
    patches.replace(responses.StepFunctionResponse, "describe_execution", describe_execution)


_PARSE_SECONDS = 30.0
_SWITCH = threading.Lock()
# Version and alias of the execution that this thread starts: its first event must name them already.
_STARTING = threading.local()


def _resolve_machine(backend: Any, arn: str) -> tuple[Any | None, str | None]:
    """The version behind a version or alias ARN, and the alias ARN; (None, None) for a machine's own ARN."""
    parts = arn.split(":")
    if len(parts) != 8:
        return None, None
    machine = next((m for m in backend.state_machines if m.arn == ":".join(parts[:7])), None)
    if machine is None:
        return None, None
    if parts[7].isdigit():
        return machine.versions.get(int(parts[7])), None
    alias = machine.aliases.get(parts[7])
    if alias is None:
        return None, None
    # Two routes of an alias are for gradual deployments; the heavier one stands for both here.
    route = max(alias.routing_configuration, key=lambda r: r["weight"])
    return machine.versions.get(int(route["stateMachineVersionArn"].rpartition(":")[2])), arn


def _install_stop(patches: Patches) -> None:
    """StopExecution wakes token waits and keeps the caller's error and cause; nothing overwrites the stop."""
    from moto.core.responses import ActionResult
    from moto.stepfunctions import responses
    from moto.stepfunctions.parser.asl.eval import environment, program_state

    original_set_error = environment.Environment.set_error

    def set_error(env: Any, error: Any) -> None:
        # The woken wait ends in an error of its own; the execution was stopped before it.
        ended = (program_state.ProgramStopped, program_state.ProgramTimedOut)
        if not isinstance(env._program_state, ended):
            original_set_error(env, error)

    def stop_execution(response: Any) -> Any:
        execution = response.stepfunction_backend.describe_execution(response._get_param("executionArn"))
        stop(execution, response._get_param("error"), response._get_param("cause"))
        return ActionResult({"stopDate": execution.stop_date or _now()})

    patches.replace(environment.Environment, "set_error", set_error)
    patches.replace(responses.StepFunctionResponse, "stop_execution", stop_execution)


def _now() -> Any:
    from moto.core.utils import utcnow

    return utcnow()


def stop(execution: Any, error: str | None, cause: str | None) -> None:
    # Its thread parses the definition first; until then there is nothing that could be stopped.
    end = time.monotonic() + _PARSE_SECONDS
    while execution.exec_status == "RUNNING" and time.monotonic() < end:
        env = execution.exec_worker.env
        if env is not None and env.is_running():
            break
        time.sleep(0.01)
    if execution.exec_status != "RUNNING":
        return
    execution.error, execution.cause = error, cause
    execution.stop(stop_date=_now(), error=error, cause=cause)
    interrupt_tokens(execution)


def interrupt_tokens(execution: Any) -> None:
    env = execution.exec_worker.env
    if env is not None:
        for endpoint in list(env.callback_pool_manager._pool.values()):
            endpoint.interrupt_all()


def _install_tokens(patches: Patches) -> None:
    """SendTaskSuccess and SendTaskFailure: one answer per token, and the cause arrives."""
    from moto.core.responses import EmptyResult
    from moto.stepfunctions import responses

    def settle(response: Any, send: Callable[[Any], None]) -> Any:
        token = response._get_param("taskToken")
        endpoint = _endpoint(response.stepfunction_backend, token)
        if endpoint is None:
            raise _refusal("TaskDoesNotExist", f"Task does not exist: '{token}'")
        # Interrupted or answered: the wait is over. AWS calls both a timed-out task.
        if endpoint._notify_event.is_set():
            raise _refusal("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
        send(token)
        return EmptyResult()

    def send_task_success(response: Any) -> Any:
        output = response._get_param("output")
        try:
            json.loads(output)
        except (TypeError, ValueError) as error:
            raise _refusal("InvalidOutput", f"Invalid Output: {error}") from error
        backend = response.stepfunction_backend
        return settle(response, lambda token: backend.send_task_success(token, output))

    def send_task_failure(response: Any) -> Any:
        error, cause = response._get_param("error"), response._get_param("cause")
        backend = response.stepfunction_backend
        return settle(response, lambda token: backend.send_task_failure(token, error=error, cause=cause))

    patches.replace(responses.StepFunctionResponse, "send_task_success", send_task_success)
    patches.replace(responses.StepFunctionResponse, "send_task_failure", send_task_failure)


def _refusal(code: str, message: str) -> Exception:
    from moto.core.exceptions import AWSError

    return AWSError(message, exception_type=code, status=400)


def _endpoint(backend: Any, token: str) -> Any | None:
    for execution in backend._get_executions():
        env = execution.exec_worker.env if execution.exec_worker else None
        endpoint = env.callback_pool_manager.get(token) if env is not None else None
        if endpoint is not None:
            return endpoint
    return None
