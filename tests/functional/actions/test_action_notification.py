"""Argo CD's notifications: whoever has the secret can make the sweeper look, and nobody anything else."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from aicr_pipeline.actions.receive_notification import MOST_BYTES, receive_notification
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.webhook_secret import WebhookSecret
from botocore.exceptions import ClientError
from moto import mock_aws

from tests.conftest import ROOT

SECRET, NEWER, NEWEST = "s" * 48, "n" * 48, "w" * 48


class Desk:
    """The secret in Secrets Manager, a clock, and what was woken."""

    def __init__(self) -> None:
        self.client = boto3.client(
            "secretsmanager",
            region_name="us-west-2",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        self.arn = self.client.create_secret(Name="webhook", SecretString=SECRET)["ARN"]
        self.now = datetime.now(UTC)
        self.woken = self.reads = 0
        made = WebhookSecret(self, self.arn, lambda: self.now)
        self.secret = made

    def get_secret_value(self, **asked: Any) -> Any:
        self.reads += 1
        return self.client.get_secret_value(**asked)

    def change(self, value: str) -> None:
        self.client.put_secret_value(SecretId=self.arn, SecretString=value)

    def later(self, **by: float) -> None:
        self.now += timedelta(**by)

    def send(self, secret: str | None = SECRET, body: str = "{}", **more: Any) -> int:
        def wake() -> None:
            self.woken += 1

        headers = {} if secret is None else {"x-aicr-webhook-secret": secret}
        return receive_notification(
            {"headers": headers, "body": body, **more}, lambda: self.secret, wake
        ).status


@pytest.fixture
def desk() -> Iterator[Desk]:
    with mock_aws():
        yield Desk()


def test_the_secret_wakes_the_sweeper_each_time(desk: Desk) -> None:
    assert [desk.send() for _ in range(3)] == [202] * 3
    assert desk.woken == 3


@pytest.mark.parametrize(
    "given", [None, "", "wrong", SECRET[:-1], SECRET + "s", SECRET.upper(), "sch\u00f6n", "s" * 9000]
)
def test_without_the_secret_nothing_is_woken(desk: Desk, given: str | None) -> None:
    assert desk.send(given) == 401
    assert desk.woken == 0


def test_nothing_is_read_for_who_brings_no_secret(desk: Desk) -> None:
    assert desk.send(None) == desk.send("") == 401
    assert desk.reads == 0


def test_strangers_cost_one_look_at_the_secret_a_minute(desk: Desk) -> None:
    desk.send()
    before = desk.reads
    for _ in range(50):
        assert desk.send("wrong") == 401
    assert desk.reads == before
    desk.later(seconds=61)
    for _ in range(50):
        desk.send("wrong")
    assert desk.reads <= before + 2


def test_what_a_notification_says_is_not_read(desk: Desk) -> None:
    for body in ("", "{", "null", '{"application": "../../x"}', "\x00" * 100, "s" * MOST_BYTES):
        assert desk.send(body=body) == 202
    assert desk.send(body="\ud7ff" * MOST_BYTES) == 413
    assert desk.send(body="s" * (MOST_BYTES + 1)) == 413
    coded = base64.b64encode(b"s" * MOST_BYTES).decode()
    assert desk.send(body=coded, isBase64Encoded=True) == 202
    assert desk.send(body=coded + "!", isBase64Encoded=True) == 413
    assert desk.send("wrong", body="s" * (MOST_BYTES + 1)) == 401, "the secret comes first"


def test_both_values_count_while_it_is_changed(desk: Desk) -> None:
    desk.send()
    desk.change(NEWER)
    assert desk.send(SECRET) == 202
    desk.later(seconds=61)
    assert desk.send(NEWER) == 202, "known at the next look"
    assert desk.send(SECRET) == 202
    desk.later(hours=24, minutes=1)
    assert desk.send(SECRET) == 401, "a day later only the new one"
    assert desk.send(NEWER) == 202


def test_a_value_that_leaked_is_out_after_two_changes(desk: Desk) -> None:
    desk.change(NEWER)
    desk.change(NEWEST)
    assert [desk.send(value) for value in (SECRET, NEWER, NEWEST)] == [401, 202, 202]


@pytest.mark.parametrize("value", ["", " ", "short"])
def test_an_empty_or_short_secret_lets_nobody_in(desk: Desk, value: str) -> None:
    desk.client.update_secret(SecretId=desk.arn, SecretString=value or "x")
    desk.later(days=2)
    assert desk.send(value or "x") == 401


def test_a_secret_that_cannot_be_read_is_an_error_not_a_pass(desk: Desk) -> None:
    desk.client.delete_secret(SecretId=desk.arn, ForceDeleteWithoutRecovery=True)
    with pytest.raises(ClientError):
        desk.send()
    assert desk.woken == 0


def test_nothing_of_it_is_logged(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The real handler, where somebody switched event logging on."""
    monkeypatch.setenv("POWERTOOLS_LOGGER_LOG_EVENT", "true")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "receive_notification")
    monkeypatch.setenv("WEBHOOK_SECRET_ARN", desk.arn)
    monkeypatch.setenv("SWEEP_FUNCTION_ARN", "arn:aws:lambda:us-west-2:111122223333:function:sweep")
    invoked: list[dict[str, Any]] = []
    clients = {"secretsmanager": desk.client, "lambda": SimpleNamespace(invoke=lambda **a: invoked.append(a))}
    monkeypatch.setattr(aws, "client", lambda service: clients[service])
    handler = load(ROOT / "functions" / "receive_notification" / "handler.py")
    log = io.StringIO()
    handler.logger.handlers[0].stream = log
    context = SimpleNamespace(
        function_name="f", memory_limit_in_mb=1, invoked_function_arn="a", aws_request_id="r"
    )
    for secret in (SECRET, "a-wrong-secret", None):
        headers = {} if secret is None else {"x-aicr-webhook-secret": secret}
        event = {"version": "2.0", "rawPath": "/argocd", "headers": headers, "body": "a-private-body"}
        handler.handler(event, context)
    (call,) = invoked
    assert call["InvocationType"] == "Event", "nobody waits for the sweep"
    assert json.loads(call["Payload"]) == {"source": "notification"}
    captured = capfd.readouterr()
    text = log.getvalue() + captured.out + captured.err
    assert text.count("answered") == 3 and '"NotificationsRefused"' in text, "the logs were captured"
    for word in (SECRET, "a-wrong-secret", "a-private-body", "rawPath"):
        assert word not in text, word


def load(file: Path) -> Any:
    """The handler's module, of its own: other tests import handlers too."""
    spec = importlib.util.spec_from_file_location("handler_of_notifications", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
