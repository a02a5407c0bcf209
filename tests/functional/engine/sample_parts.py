"""Handlers and state machines of the engine's own tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from local.aws import EcrToken

EXPIRES = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def ecr_token(role: str) -> EcrToken:
    return EcrToken("AWS", f"for-{role.rpartition('/')[2]}", "https://127.0.0.1:1", EXPIRES)


HANDLERS = {
    # Answers with what it saw of its world.
    "look": """
import json, os
import shared
def handler(event, context):
    config = open(os.environ["CLUSTER_CONFIG"]).read()
    return {"event": event, "name": context.function_name, "pid": os.getpid(), "config": json.loads(config),
            "remaining": context.get_remaining_time_in_millis(), "layer": shared.WORD,
            "bucket": os.environ["BUCKET"], "arn": context.invoked_function_arn,
            "env": dict(os.environ)}
""",
    # Fails, dies, hangs or answers, as the event says.
    "act": """
import os, time
class TransientError(Exception): pass
def handler(event, context):
    kind = event.get("kind") if isinstance(event, dict) else None
    if kind == "raise": raise TransientError("try again: " + event.get("text", ""))
    if kind == "exit": os._exit(3)
    if kind == "sleep": time.sleep(event["seconds"])
    if kind == "twice":
        path = event["path"]
        seen = os.path.exists(path)
        open(path, "a").write("x")
        if not seen: raise TransientError("first time")
    print("acted on", kind)
    return {"kind": kind, "pid": os.getpid()}
""",
    "broken": "import nothing_of_this_name\n\ndef handler(event, context):\n    return 1\n",
    # Keeps every event it gets in the table.
    "keep": """
import json, os, boto3
table = boto3.client("dynamodb")
def handler(event, context):
    if isinstance(event, dict) and event.get("detail", {}).get("fail"):
        raise ValueError("asked to fail")
    item = {"pk": {"S": "KEPT"}, "sk": {"S": context.aws_request_id}, "event": {"S": json.dumps(event)}}
    table.put_item(TableName=os.environ["TABLE"], Item=item)
    return "kept"
""",
    # The other side of a task token: stores it.
    "wait": """
import os, boto3
table = boto3.client("dynamodb")
def handler(event, context):
    item = {"pk": {"S": "WAITERS"}, "sk": {"S": event["input"]}, "token": {"S": event["token"]}}
    table.put_item(TableName=os.environ["TABLE"], Item=item)
""",
    "who": """
import boto3
def handler(event, context):
    token = boto3.client("ecr").get_authorization_token()["authorizationData"][0]
    return {"caller": boto3.client("sts").get_caller_identity()["Arn"], "token": token["authorizationToken"],
            "endpoint": token["proxyEndpoint"], "expires": token["expiresAt"].isoformat(),
            "key": boto3.session.Session().get_credentials().access_key}
""",
    "page": """
def handler(event, context):
    if event["rawPath"].endswith("/plain"): return {"hello": "json"}
    if event["rawPath"].endswith("/fail"): raise RuntimeError("no")
    if event["rawPath"].endswith("/image"):
        return {"statusCode": 200, "headers": {"Content-Type": "image/png"}, "body": "iVBORw==",
                "isBase64Encoded": True}
    import json
    return {"statusCode": 201, "headers": {"Content-Type": "application/json", "X-One": "1"},
            "cookies": ["a=1; Path=/", "b=2"], "body": json.dumps(event)}
""",
}

LAYER = {
    "layer": {"python/shared.py": 'WORD = "from the layer"\n'},
    "packages": {
        "python/thing-1.0.dist-info/METADATA": "Name: thing\n",
        # Would break every handler if it were on the path.
        "python/boto3.py": "raise ImportError('the packages layer is for Lambda, not for here')\n",
    },
}

_RETRY = [
    {
        "ErrorEquals": ["TransientError"],
        "IntervalSeconds": 1,
        "MaxAttempts": 2,
        "BackoffRate": 1,
        "MaxDelaySeconds": 1,
        "JitterStrategy": "FULL",
    }
]


def call(function: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    state = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": f"@{function}@", "Payload": payload},
        "ResultSelector": {"value.$": "$.Payload"},
    }
    return {**state, **more}


def wait_token(payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    token = {"token.$": "$$.Task.Token", **payload}
    state = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
        "Parameters": {"FunctionName": "@wait@", "Payload": token},
    }
    return {**state, **more}


MAIN_MACHINE = {
    "StartAt": "Act",
    "States": {
        "Act": call(
            "act",
            {"kind.$": "$.kind", "path.$": "$.path"},
            Retry=_RETRY,
            Next="Wait",
            ResultPath="$.acted",
        ),
        "Wait": wait_token(
            {"input.$": "States.Format('{}-main', $$.Execution.Name)"},
            Next="Approved?",
            ResultPath="$.decision",
        ),
        "Approved?": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.decision.yes", "BooleanEquals": True, "Next": "Each"}],
            "Default": "Refused",
        },
        "Refused": {"Type": "Fail", "Error": "Rejected", "Cause": "a person said no"},
        "Each": {
            "Type": "Map",
            "ItemsPath": "$.items",
            "MaxConcurrency": 1,
            "ItemSelector": {"item.$": "$$.Map.Item.Value"},
            "ItemProcessor": {
                "ProcessorConfig": {"Mode": "INLINE"},
                "StartAt": "One",
                "States": {
                    "One": call("act", {"kind.$": "$.item"}, ResultPath="$.acted", Next="Hold"),
                    "Hold": wait_token(
                        {"input.$": "States.Format('{}-{}', $$.Execution.Name, $.item)"}, End=True
                    ),
                },
            },
            "Catch": [{"ErrorEquals": ["Degraded"], "ResultPath": "$.ended", "Next": "Record"}],
            "ResultPath": "$.steps",
            "Next": "Record",
        },
        "Record": {"Type": "Pass", "End": True},
    },
}

CATCH_MACHINE = {
    "StartAt": "Act",
    "States": {
        "Act": call(
            "act",
            {"kind.$": "$.kind", "text": "x"},
            Catch=[{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Done"}],
            Next="Done",
        ),
        "Done": {"Type": "Pass", "End": True},
    },
}

TIMED_MACHINE = {
    "TimeoutSeconds": 1,
    "StartAt": "Wait",
    "States": {"Wait": wait_token({"input": "t"}, End=True)},
}
