"""On a whole machine: functions whose process is killed, and notifications, change nothing but time."""

import os
import signal
import threading
import time
from typing import Any

import pytest
import urllib3

from local.aws.model import InvokeResult
from local.kube import APPLICATIONS
from tests.workflow.small.machine import RELEASES, SmallMachine

#: Each is killed once, while it works.
KILLED = (
    "start_rollout",
    "assess_transition",
    "request_approval",
    "check_gate",
    "apply_release",
    "wait_until_ready",
    "sweep_waiters",
    "confirm_criteria",
    "bind_evidence",
    "record_outcome",
)


class Killer:
    """Kills the process of each function at its first invocation, a moment after that began."""

    def __init__(self, small: SmallMachine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.aws = small.pipeline.aws
        self.left = {self._name(function): function for function in KILLED}
        self.killed: list[str] = []
        self._lock = threading.Lock()
        invoke = self.aws._lambdas.invoke

        def invoked(name: str, body: bytes) -> InvokeResult:
            found = self.aws._lambdas.find(name).name
            with self._lock:
                function = self.left.pop(found, None)
            if function is None:
                return invoke(name, body)
            over = threading.Event()
            killer = threading.Thread(target=self._kill, args=(found, function, over))
            killer.start()
            try:
                return invoke(name, body)
            finally:
                over.set()
                killer.join()

        monkeypatch.setattr(self.aws._lambdas, "invoke", invoked)

    def _name(self, function: str) -> str:
        return next(name for name in self.aws.functions if name.endswith(f"-{function}"))

    def _kill(self, name: str, function: str, over: threading.Event) -> None:
        while not over.is_set():
            busy = [process for process in self.aws.processes() if process.function == name and process.busy]
            if busy:
                # One after the other a little later in its work.
                over.wait(0.01 * (1 + KILLED.index(function)))
                os.kill(busy[0].pid, signal.SIGKILL)
                self.killed.append(function)
                return
            time.sleep(0.002)


def test_every_function_is_killed_once_and_the_rollout_comes_through(
    small: SmallMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = Killer(small, monkeypatch)
    small.start(small.plan())
    small.approve()
    ended = small.ended()
    assert ended.status == "SUCCEEDED", (ended.error, ended.cause)
    assert small.outcome(ended.name)["installed"] == list(RELEASES)
    assert len(killer.killed) >= len(KILLED) - 1, f"still there: {killer.left}"
    applications = small.pipeline.kube.store.list(APPLICATIONS, "argocd")
    # Argo CD's history has one entry an operation that it ran.
    ran = {a["metadata"]["name"]: len(a["status"].get("history") or []) for a in applications}
    assert ran == dict.fromkeys(RELEASES, 1), "nothing was synced twice"
    table = small.pipeline.aws.outputs["CoordinationTable"]
    rows = small.pipeline.aws.client("dynamodb").scan(TableName=table)["Items"]
    assert [row for row in rows if row["pk"]["S"] in ("LOCK", "WAITERS")] == []


def notify(small: SmallMachine, secret: str, body: bytes = b"{}") -> int:
    aws = small.pipeline.aws
    headers = {"X-Aicr-Webhook-Secret": secret, "Content-Type": "application/json"}
    answer = urllib3.request("POST", f"{aws.api_url}/argocd", body=body, headers=headers, retries=False)
    return int(answer.status)


def secret_of(small: SmallMachine) -> str:
    """What an administrator copies into Argo CD's Secret."""
    aws = small.pipeline.aws
    found: dict[str, Any] = aws.client("secretsmanager").get_secret_value(
        SecretId=aws.outputs["NotificationSecret"]
    )
    return str(found["SecretString"])


def test_notifications_false_and_double_change_nothing(small: SmallMachine) -> None:
    secret = secret_of(small)
    assert notify(small, "x" * 48) == 401
    assert notify(small, secret, b"x" * 20_000) == 413
    small.start(small.plan())
    for _ in range(3):
        assert notify(small, secret, b'{"application": "no-such"}') == 202
    small.approve()
    for _ in range(10):
        assert notify(small, secret) == 202
        time.sleep(0.05)
    ended = small.ended()
    assert ended.status == "SUCCEEDED", (ended.error, ended.cause)
    assert small.outcome(ended.name)["installed"] == list(RELEASES)
    log = small.pipeline.aws.logs(
        next(name for name in small.pipeline.aws.functions if name.endswith("-receive_notification"))
    )
    assert secret not in log
