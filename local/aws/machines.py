"""Step Functions: executions, their status events, and task states that call functions in process.

The definitions run in moto's ASL interpreter; `machine_shims` corrects the API around it.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from local.aws import machine_shims
from local.aws.events import Bus
from local.aws.lambdas import Lambdas
from local.aws.model import ExecutionView
from local.aws.patches import Patches


class Machines:
    """Executions and their ends; `changed` is notified at every status change."""

    def __init__(self, account: str, region: str, lambdas: Lambdas, bus: Bus) -> None:
        self.changed = threading.Condition()
        self._account = account
        self._region = region
        self._lambdas = lambdas
        self._bus = bus

    def backend(self) -> Any:
        from moto.stepfunctions.parser.models import stepfunctions_parser_backends

        return stepfunctions_parser_backends[self._account][self._region]

    def install(self, patches: Patches) -> None:
        from moto.core.config import default_user_config
        from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
        from moto.stepfunctions.parser.backend import execution as execution_module

        before = dict(default_user_config)
        default_user_config["stepfunctions"] = {"execute_state_machine": True}
        patches.on_undo(lambda: default_user_config.update(before))  # type: ignore[typeddict-item]  # same type
        machines = self
        patches.replace(lambda_eval_utils, "_invoke_lambda_function", self._invoke)
        machine_shims.install(patches)

        communication = execution_module.BaseExecutionWorkerCommunication
        original_terminated = communication.terminated

        def terminated(worker: Any) -> None:
            original_terminated(worker)
            if worker.execution.exec_status == "TIMED_OUT":
                machine_shims.interrupt_tokens(worker.execution)
            machines._status_changed(worker.execution)

        original_start = execution_module.Execution.start

        def start(execution: Any) -> None:
            execution.version_arn, execution.alias_arn = machine_shims.starting_qualifiers()
            original_start(execution)
            machines._status_changed(execution, "RUNNING")

        patches.replace(communication, "terminated", terminated)
        patches.replace(execution_module.Execution, "start", start)

    def views(self, machine: str | None) -> list[ExecutionView]:
        """Executions of a machine (name or ARN), or of all, oldest first."""
        name = machine.split(":")[6] if machine is not None and machine.count(":") >= 6 else machine
        found = [
            view(execution)
            for state_machine in self.backend().state_machines
            if name is None or state_machine.name == name
            for execution in list(state_machine.executions)
        ]
        return sorted(found, key=lambda v: v.started)

    def stop_all(self, timeout: float = 5.0) -> None:
        """Aborts what runs, so that no thread outlives the engine."""
        running = [
            e for m in self.backend().state_machines for e in m.executions if e.exec_status == "RUNNING"
        ]
        for execution in running:
            machine_shims.stop(execution, error=None, cause="the engine stops")
        end = time.monotonic() + timeout
        with self.changed:
            while any(e.exec_status == "RUNNING" for e in running) and time.monotonic() < end:
                self.changed.wait(0.1)

    def _invoke(self, parameters: dict[str, Any], region: str, state_credentials: Any) -> dict[str, Any]:
        try:
            result = self._lambdas.invoke(parameters["FunctionName"], parameters.get("Payload") or b"{}")
        except KeyError as error:
            message = f"Function not found: {parameters['FunctionName']}"
            response = {
                "Error": {"Code": "ResourceNotFoundException", "Message": message},
                "ResponseMetadata": {"HTTPStatusCode": 404, "RequestId": "local"},
            }
            raise ClientError(response, "Invoke") from error  # type: ignore[arg-type]  # the fields it reads
        answer: dict[str, Any] = {
            "StatusCode": 200,
            "ExecutedVersion": "$LATEST",
            "Payload": result.json(),
            "SdkHttpMetadata": {"HttpStatusCode": 200},
            "SdkResponseMetadata": {"RequestId": result.request_id},
        }
        if result.error:
            answer["FunctionError"] = result.error
        return answer

    def _status_changed(self, execution: Any, status: str | None = None) -> None:
        detail = status_detail(execution, status or str(execution.exec_status.value))
        self._bus.emit(
            self._bus.service_event(
                "aws.states", "Step Functions Execution Status Change", [execution.exec_arn], detail
            )
        )
        with self.changed:
            self.changed.notify_all()


def view(execution: Any) -> ExecutionView:
    # moto lists an execution a moment before it gives it a status.
    status = str(execution.exec_status.value) if execution.exec_status else "RUNNING"
    return ExecutionView(
        arn=execution.exec_arn,
        name=execution.name,
        machine=execution.exec_arn.split(":")[6],
        status=status,
        input=execution.input_data,
        output=execution.output if status == "SUCCEEDED" else None,
        error=execution.error,
        cause=execution.cause,
        started=execution.start_date,
        stopped=execution.stop_date if status != "RUNNING" else None,
    )


def status_detail(execution: Any, status: str) -> dict[str, Any]:
    """The detail of a status change, after the Step Functions guide's "Event schema" page."""
    ended = status != "RUNNING"
    output = json.dumps(execution.output) if status == "SUCCEEDED" else None
    return {
        "executionArn": execution.exec_arn,
        "stateMachineArn": _machine_arn(execution),
        "stateMachineVersionArn": execution.version_arn,
        "stateMachineAliasArn": execution.alias_arn,
        "name": execution.name,
        "status": status,
        "startDate": int(execution.start_date.timestamp() * 1000),
        "stopDate": int(execution.stop_date.timestamp() * 1000) if ended and execution.stop_date else None,
        "input": execution.execution_input,
        "inputDetails": {"included": True},
        "output": output,
        "outputDetails": {"included": True} if output is not None else None,
        "error": execution.error if ended else None,
        "cause": execution.cause if ended else None,
        "redriveCount": 0,
        "redriveDate": None,
        "redriveStatus": "REDRIVABLE" if status in ("FAILED", "TIMED_OUT", "ABORTED") else "NOT_REDRIVABLE",
        "redriveStatusReason": None,
    }


def _machine_arn(execution: Any) -> str:
    return ":".join(str(execution.state_machine_arn).split(":")[:7])


def history(execution: Any) -> list[dict[str, Any]]:
    """The events so far as GetExecutionHistory gives them to boto3 users: timestamps are datetimes."""
    events = copy.deepcopy(list(execution.to_history_output()["events"]))
    for event in events:
        if isinstance(event["timestamp"], str):
            event["timestamp"] = datetime.fromisoformat(event["timestamp"])
    return events
