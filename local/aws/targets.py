"""Sends a payload to whatever an ARN names, as EventBridge, Scheduler, SNS and Lambda destinations do."""

from __future__ import annotations

import fnmatch
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local.aws.lambdas import Lambdas
from local.aws.model import EngineError


class DeliveryError(Exception):
    """A target did not take the payload; `code` goes into the dead letter's ERROR_CODE."""

    def __init__(self, code: str, message: str, *, retry: bool) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retry = retry


@dataclass(frozen=True)
class Permission:
    """One resource-based permission of a function."""

    principal: str
    source_arn: str | None


class Targets:
    """Delivers to functions, state machines, topics, queues and event buses.

    A service that calls a function needs its AWS::Lambda::Permission, as on AWS: there a missing one shows
    only as silence, here as a DeliveryError.
    """

    def __init__(self, lambdas: Lambdas, client: Callable[[str], Any]) -> None:
        self.permissions: dict[str, list[Permission]] = {}
        self._lambdas = lambdas
        self._client = client

    def allowed(self, function_name: str, principal: str, source_arn: str) -> bool:
        """Whether a permission lets this service act for this source (ArnLike, `*` also crosses `/`)."""
        return any(
            p.principal in (principal, "*")
            and (p.source_arn is None or fnmatch.fnmatchcase(source_arn, p.source_arn))
            for p in self.permissions.get(function_name, [])
        )

    def send(
        self,
        arn: str,
        payload: str,
        *,
        principal: str | None = None,
        source_arn: str = "",
        parameters: dict[str, Any] | None = None,
    ) -> None:
        """Delivers one payload. Raises DeliveryError.

        `principal` is the service when it relies on a function's resource policy, None when it brings a role.
        """
        parameters = parameters or {}
        service = arn.split(":")[2] if arn.count(":") >= 5 else ""
        try:
            if service == "lambda":
                self._function(arn, payload, principal, source_arn)
            elif service == "states":
                self._client("stepfunctions").start_execution(
                    stateMachineArn=arn, name=str(uuid.uuid4()), input=payload
                )
            elif service == "sns":
                self._client("sns").publish(TopicArn=arn, Message=payload)
            elif service == "sqs":
                self.queue(arn, payload, {})
            elif service == "events":
                event = json.loads(payload)
                self._client("events").put_events(
                    Entries=[
                        {
                            "EventBusName": arn,
                            "Source": parameters.get("Source") or event["source"],
                            "DetailType": parameters.get("DetailType") or event["detail-type"],
                            "Detail": json.dumps(event.get("detail", event)),
                        }
                    ]
                )
            else:
                raise DeliveryError("UNSUPPORTED_TARGET", f"no delivery to {arn} here", retry=False)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            raise DeliveryError(code, str(error), retry=status >= 500) from error
        except BotoCoreError as error:
            raise DeliveryError("SDK_CLIENT_ERROR", str(error), retry=True) from error

    def queue(self, arn: str, body: str, attributes: dict[str, str]) -> None:
        """Puts one message into a queue, with String attributes."""
        account, name = arn.split(":")[4:6]
        sqs = self._client("sqs")
        sqs.send_message(
            QueueUrl=f"{sqs.meta.endpoint_url}/{account}/{name}",
            MessageBody=body,
            MessageAttributes={
                key: {"DataType": "String", "StringValue": value}
                for key, value in attributes.items()
                if value
            },
        )

    def _function(self, arn: str, payload: str, principal: str | None, source_arn: str) -> None:
        try:
            function = self._lambdas.find(arn)
        except KeyError as error:
            raise DeliveryError("RESOURCE_NOT_FOUND", f"no function {arn}", retry=False) from error
        if principal is not None and not self.allowed(function.name, principal, source_arn):
            message = f"function {function.name} has no permission for {principal} from {source_arn}"
            raise DeliveryError("NO_PERMISSIONS", message, retry=False)
        try:
            self._lambdas.invoke_async(arn, payload.encode())
        except EngineError as error:
            raise DeliveryError("ENGINE_STOPPED", str(error), retry=False) from error
