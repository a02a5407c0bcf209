"""What plain moto does where the engine corrects it; the corrected behaviour is in the other modules here.

When one of these fails after an upgrade, moto has learned it and the shim can go.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.functional.engine.signing import DIGEST, signed, verify

REGION = "us-west-2"
ROLE = "arn:aws:iam::123456789012:role/any"
Clients = Callable[[str], Any]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    """Moto's server without any of our shims."""
    from moto.core.config import default_user_config
    from moto.moto_api._internal.models import moto_api_backend
    from moto.server import ThreadedMotoServer

    monkeypatch.setitem(default_user_config, "stepfunctions", {"execute_state_machine": True})
    moto_api_backend.reset()
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setitem(os.environ, "MOTO_PORT", str(port))

    def client(service: str) -> Any:
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=f"http://{host}:{port}",
            aws_access_key_id="AKIAPLAIN",
            aws_secret_access_key="x",
        )

    yield client
    server.stop()
    assert server._server is not None
    server._server.server_close()
    moto_api_backend.reset()


def test_plain_kms_hashes_a_digest_again(plain: Clients) -> None:
    from cryptography.exceptions import InvalidSignature

    kms = plain("kms")
    key = kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    with pytest.raises(InvalidSignature):
        verify(kms, key, DIGEST, signed(kms, key, DIGEST))


def test_plain_ecr_tokens_are_long_expired(plain: Clients) -> None:
    token = plain("ecr").get_authorization_token()["authorizationData"][0]
    assert token["expiresAt"] < datetime(2020, 1, 1, tzinfo=UTC)


def test_plain_caller_identity_is_always_the_same(plain: Clients) -> None:
    assert plain("sts").get_caller_identity()["Arn"].endswith(":user/moto")


WAIT = {
    "StartAt": "Wait",
    "States": {
        "Wait": {
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
            "Parameters": {"QueueUrl": "URL", "MessageBody": {"token.$": "$$.Task.Token"}},
            "End": True,
        }
    },
}


@pytest.fixture
def waiting(plain: Clients) -> Iterator[tuple[Any, str, str, str]]:
    """A plain execution that waits: client, machine, execution, token. Ended by its token afterwards."""
    states, sqs = plain("stepfunctions"), plain("sqs")
    url = sqs.create_queue(QueueName="tokens")["QueueUrl"]
    definition = json.dumps(WAIT).replace("URL", url)
    machine = states.create_state_machine(name="m", definition=definition, roleArn=ROLE, publish=True)
    arn = machine["stateMachineArn"]
    execution = states.start_execution(stateMachineArn=arn, name="one", input="{}")["executionArn"]
    messages: list[Any] = []
    end = time.monotonic() + 10
    while not messages and time.monotonic() < end:
        messages = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0).get("Messages", [])
        time.sleep(0.02)
    token = json.loads(messages[0]["Body"])["token"]
    yield states, arn, execution, token


def ended(states: Any, execution: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if states.describe_execution(executionArn=execution)["status"] != "RUNNING":
            return True
        time.sleep(0.05)
    return False


def test_plain_stop_leaves_a_token_wait_running(waiting: tuple[Any, str, str, str]) -> None:
    states, _, execution, token = waiting
    states.stop_execution(executionArn=execution)
    assert not ended(states, execution, 0.5)
    states.send_task_success(taskToken=token, output="{}")


def test_plain_failure_loses_its_cause(waiting: tuple[Any, str, str, str]) -> None:
    states, _, execution, token = waiting
    states.send_task_failure(taskToken=token, error="Degraded", cause="pods crash")
    assert ended(states, execution, 5)
    assert "cause" not in states.describe_execution(executionArn=execution)


def test_plain_second_answer_is_an_invalid_token(waiting: tuple[Any, str, str, str]) -> None:
    states, _, execution, token = waiting
    states.send_task_success(taskToken=token, output="{}")
    assert ended(states, execution, 5)
    with pytest.raises(states.exceptions.InvalidToken):
        states.send_task_success(taskToken=token, output="{}")


def test_plain_aliases_do_not_start(waiting: tuple[Any, str, str, str]) -> None:
    states, arn, _, token = waiting
    route = [{"stateMachineVersionArn": f"{arn}:1", "weight": 100}]
    alias = states.create_state_machine_alias(name="live", routingConfiguration=route)["stateMachineAliasArn"]
    with pytest.raises(states.exceptions.StateMachineDoesNotExist):
        states.start_execution(stateMachineArn=alias, name="two", input="{}")
    states.send_task_success(taskToken=token, output="{}")


def test_plain_status_changes_raise_no_event(plain: Clients) -> None:
    """And rules cannot deliver to a function at all."""
    events = plain("events")
    events.put_rule(Name="all", EventPattern='{"source": ["aws.states", "own"]}')
    function = f"arn:aws:lambda:{REGION}:123456789012:function:f"
    events.put_targets(Rule="all", Targets=[{"Id": "f", "Arn": function}])
    states = plain("stepfunctions")
    definition = json.dumps({"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}})
    arn = states.create_state_machine(name="p", definition=definition, roleArn=ROLE)["stateMachineArn"]
    execution = states.start_execution(stateMachineArn=arn, name="one", input="{}")["executionArn"]
    assert ended(states, execution, 5), "an event to a function would have ended it with NotImplementedError"
    with pytest.raises(ClientError):
        client = boto3.client(
            "events",
            region_name=REGION,
            endpoint_url=events.meta.endpoint_url,
            aws_access_key_id="AKIAPLAIN",
            aws_secret_access_key="x",
            config=Config(retries={"total_max_attempts": 1}),
        )
        client.put_events(Entries=[{"Source": "own", "DetailType": "x", "Detail": '{"a": 1}'}])


def test_plain_s3_events_share_one_id(plain: Clients) -> None:
    s3, sqs, events = plain("s3"), plain("sqs"), plain("events")
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    events.put_rule(Name="s3", EventPattern='{"source": ["aws.s3"]}')
    events.put_targets(Rule="s3", Targets=[{"Id": "q", "Arn": f"arn:aws:sqs:{REGION}:123456789012:q"}])
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_notification_configuration(
        Bucket="bucket", NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    s3.put_object(Bucket="bucket", Key="1", Body=b"")
    s3.put_object(Bucket="bucket", Key="2", Body=b"")
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    bodies = [json.loads(m["Body"]) for m in messages]
    kinds = [b["detail-type"] for b in bodies]
    assert kinds.count("Object Created") == 2
    assert len({b["id"] for b in bodies}) == 1
    assert kinds.count("Object Tags Added") == 2, "nobody set a tag"


def test_plain_bucket_policies_have_no_conditions(plain: Clients) -> None:
    s3 = plain("s3")
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    deny = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}, "Null": {"s3:if-none-match": "true"}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    s3.put_bucket_policy(Bucket="bucket", Policy=policy)
    with pytest.raises(ClientError, match="403"):
        s3.put_object(Bucket="bucket", Key="k", Body=b"1", IfNoneMatch="*")


REDRIVES = {
    "StartAt": "Count",
    "States": {
        "Count": {"Type": "Pass", "Parameters": {"redrives.$": "$$.Execution.RedriveCount"}, "End": True}
    },
}


def test_plain_executions_have_no_redrive_count(plain: Clients) -> None:
    states = plain("stepfunctions")
    machine = states.create_state_machine(name="r", definition=json.dumps(REDRIVES), roleArn=ROLE)
    arn = machine["stateMachineArn"]
    execution = states.start_execution(stateMachineArn=arn, name="one", input="{}")["executionArn"]
    assert ended(states, execution, 5)
    assert states.describe_execution(executionArn=execution)["status"] == "FAILED"


def test_plain_account_is_motos_own(plain: Clients) -> None:
    assert plain("sts").get_caller_identity()["Account"] == "123456789012"


def test_plain_retry_waits_with_the_answered_token(plain: Clients) -> None:
    """It fails at once with the answer before. The engine's waits anew, as test_jobs needs it."""
    states, sqs = plain("stepfunctions"), plain("sqs")
    url = sqs.create_queue(QueueName="again")["QueueUrl"]
    retry = [{"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    wait = {**WAIT, "States": {"Wait": {**WAIT["States"]["Wait"], "Retry": retry}}}
    definition = json.dumps(wait).replace("URL", url)
    machine = states.create_state_machine(name="again", definition=definition, roleArn=ROLE)
    arn = states.start_execution(stateMachineArn=machine["stateMachineArn"], name="one", input="{}")[
        "executionArn"
    ]
    messages: list[Any] = []
    until = time.monotonic() + 10
    while not messages and time.monotonic() < until:
        messages = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0).get("Messages", [])
        time.sleep(0.02)
    states.send_task_failure(taskToken=json.loads(messages[0]["Body"])["token"], error="Again")
    assert ended(states, arn, 5), "nobody answered the second wait"
