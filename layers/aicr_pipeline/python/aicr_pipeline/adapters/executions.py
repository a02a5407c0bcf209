"""Starting state machines under derived names: the same purpose never starts twice."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from botocore.exceptions import ClientError

from aicr_pipeline.adapters.aws import error_code


class Executions:
    """One state machine, by its alias."""

    def __init__(self, stepfunctions: Any, alias_arn: str) -> None:
        self._sfn = stepfunctions
        self._alias = alias_arn

    def start(self, name: str, state: Mapping[str, Any]) -> bool:
        """Start an execution. False when one of that name runs or ran: a name stays taken for 90 days."""
        try:
            self._sfn.start_execution(stateMachineArn=self._alias, name=name, input=json.dumps(state))
        except ClientError as error:
            if error_code(error) == "ExecutionAlreadyExists":
                return False
            raise
        return True

    def running(self) -> list[str]:
        """Names of the executions that run, newest first, at most a hundred; a moment old."""
        answer = self._sfn.list_executions(
            stateMachineArn=self._alias.rpartition(":")[0], statusFilter="RUNNING", maxResults=100
        )
        return [str(found["name"]) for found in answer["executions"]]

    def state(self, name: str) -> Literal["absent", "running", "ended"]:
        """Whether the execution of that name runs, ended, or was never started."""
        machine = self._alias.rpartition(":")[0]
        arn = f"{machine.replace(':stateMachine:', ':execution:')}:{name}"
        try:
            status: str = self._sfn.describe_execution(executionArn=arn)["status"]
        except ClientError as error:
            if error_code(error) == "ExecutionDoesNotExist":
                return "absent"
            raise
        return "running" if status in ("RUNNING", "PENDING_REDRIVE") else "ended"
