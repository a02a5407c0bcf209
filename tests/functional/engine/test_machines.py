"""State machines: tokens, maps, catches, aliases, stops, and the events that tell of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from local.aws import ExecutionView, LocalAws
from tests.functional.engine.test_moto_plain import REDRIVES


def start(engine: LocalAws, machine: str, name: str, document: dict[str, Any]) -> str:
    arn = engine.client("stepfunctions").start_execution(
        stateMachineArn=machine, name=name, input=json.dumps(document)
    )["executionArn"]
    return str(arn)


def token_of(engine: LocalAws, waiter: str) -> str:
    """The token the waiting function stored, once it did."""
    key = {"pk": {"S": "WAITERS"}, "sk": {"S": waiter}}
    found: list[str] = []

    def there() -> bool:
        item = engine.client("dynamodb").get_item(TableName=engine.physical("Table"), Key=key).get("Item")
        if item:
            found.append(item["token"]["S"])
        return bool(found)

    engine.wait_until(there, timeout=10, what=f"token of {waiter}")
    engine.client("dynamodb").delete_item(TableName=engine.physical("Table"), Key=key)
    return found[0]


def answer(engine: LocalAws, waiter: str, output: dict[str, Any]) -> str:
    token = token_of(engine, waiter)
    engine.client("stepfunctions").send_task_success(taskToken=token, output=json.dumps(output))
    return token


def status_events(engine: LocalAws, arn: str) -> list[dict[str, Any]]:
    return [e for e in engine.events if e["source"] == "aws.states" and e["detail"]["executionArn"] == arn]


def test_whole_machine_by_its_alias(engine: LocalAws, tmp_path: Path) -> None:
    alias = engine.physical("MainAlias")
    assert alias.endswith(":stateMachine:main:live")
    document = {"kind": "twice", "path": str(tmp_path / "seen"), "items": ["one", "two"]}
    arn = start(engine, alias, "whole", document)
    answer(engine, "whole-main", {"yes": True})
    answer(engine, "whole-one", {})
    token = answer(engine, "whole-two", {"last": True})
    done = engine.wait_execution(arn, timeout=15)
    assert done.status == "SUCCEEDED", done
    assert done.output["steps"][1] == {"last": True}
    assert (tmp_path / "seen").read_text() == "xx", "the transient error was retried"
    described = engine.client("stepfunctions").describe_execution(executionArn=arn)
    assert described["stateMachineArn"] == engine.physical("Main")
    assert described["stateMachineAliasArn"] == alias
    assert described["stateMachineVersionArn"] == engine.physical("Main") + ":1"
    listed = engine.client("stepfunctions").list_executions(stateMachineArn=alias)["executions"]
    assert arn in [e["executionArn"] for e in listed]
    states = engine.client("stepfunctions")
    with pytest.raises(states.exceptions.TaskTimedOut):
        states.send_task_success(taskToken=token, output="{}")
    with pytest.raises(states.exceptions.TaskTimedOut):
        states.send_task_failure(taskToken=token, error="E", cause="c")
    with pytest.raises(states.exceptions.TaskDoesNotExist):
        states.send_task_success(taskToken="nobody", output="{}")


def test_executions_have_a_redrive_count(engine: LocalAws) -> None:
    states = engine.client("stepfunctions")
    role = "arn:aws:iam::111122223333:role/any"
    machine = states.create_state_machine(name="redrives", definition=json.dumps(REDRIVES), roleArn=role)
    arn = start(engine, machine["stateMachineArn"], "counted", {})
    done = engine.wait_execution(arn, timeout=10)
    assert (done.status, done.output) == ("SUCCEEDED", {"redrives": 0})


def test_names_are_taken(engine: LocalAws) -> None:
    states = engine.client("stepfunctions")
    alias = engine.physical("MainAlias")
    document = {"kind": "x", "path": "", "items": []}
    arn = start(engine, alias, "taken", document)
    assert start(engine, alias, "taken", document) == arn, (
        "the same input while it runs is the same execution"
    )
    with pytest.raises(states.exceptions.ExecutionAlreadyExists):
        start(engine, alias, "taken", {**document, "more": 1})
    states.stop_execution(executionArn=arn)
    engine.wait_execution(arn, timeout=10)
    with pytest.raises(states.exceptions.ExecutionAlreadyExists):
        start(engine, alias, "taken", document)


def test_failure_keeps_error_and_cause(engine: LocalAws) -> None:
    document = {"kind": "x", "path": "", "items": ["bad"]}
    arn = start(engine, engine.physical("MainAlias"), "caught", document)
    answer(engine, "caught-main", {"yes": True})
    token = token_of(engine, "caught-bad")
    engine.client("stepfunctions").send_task_failure(taskToken=token, error="Degraded", cause="pods crash")
    done = engine.wait_execution(arn, timeout=10)
    assert done.status == "SUCCEEDED", done
    assert done.output["ended"] == {"Error": "Degraded", "Cause": "pods crash"}


def test_fail_state_and_its_event(engine: LocalAws) -> None:
    alias = engine.physical("MainAlias")
    arn = start(engine, alias, "refused", {"kind": "x", "path": "", "items": []})
    answer(engine, "refused-main", {"yes": False})
    done = engine.wait_execution(arn, timeout=10)
    assert (done.status, done.error, done.cause) == ("FAILED", "Rejected", "a person said no")
    told = engine.client("stepfunctions").get_execution_history(executionArn=arn)["events"]
    seen = engine.history(arn)
    assert [e["type"] for e in seen] == [e["type"] for e in told]
    assert abs(seen[0]["timestamp"] - told[0]["timestamp"]).total_seconds() < 0.01
    engine.quiet()
    first, last = status_events(engine, arn)
    assert first["detail"]["status"] == "RUNNING"
    assert first["detail"]["stopDate"] is None
    assert first["detail"]["stateMachineAliasArn"] == alias
    assert last["detail-type"] == "Step Functions Execution Status Change"
    assert last["resources"] == [arn]
    detail = last["detail"]
    assert detail["stateMachineArn"] == engine.physical("Main")
    assert detail["stateMachineAliasArn"] == alias
    assert (detail["status"], detail["error"], detail["cause"]) == ("FAILED", "Rejected", "a person said no")
    assert detail["stopDate"] >= detail["startDate"] > 1_600_000_000_000
    assert json.loads(detail["input"])["kind"] == "x"
    assert first["id"] != last["id"]
    assert kept(engine, arn), "the rule on ends reached its function"


def kept(engine: LocalAws, text: str) -> bool:
    items = engine.client("dynamodb").scan(TableName=engine.physical("Table"))["Items"]
    return any(text in i.get("event", {}).get("S", "") for i in items)


@pytest.mark.parametrize(
    ("kind", "error"), [("raise", "TransientError"), ("exit", "Runtime.ExitError"), ("sleep", None)]
)
def test_error_names_reach_catch(engine: LocalAws, kind: str, error: str | None) -> None:
    machine = engine.physical("Catching")
    arn = start(engine, machine, f"catch-{kind}", {"kind": kind})
    done = engine.wait_execution(arn, timeout=15)
    assert done.status == "SUCCEEDED", done
    # Without "seconds" in its event the handler fails with a KeyError, like any bug would.
    assert done.output["error"]["Error"] == (error or "KeyError")


@pytest.mark.parametrize("waiting_in_map", [False, True])
def test_stop_ends_a_token_wait(engine: LocalAws, waiting_in_map: bool) -> None:
    name = f"stopped-{waiting_in_map}"
    arn = start(engine, engine.physical("Main"), name, {"kind": "x", "path": "", "items": ["held"]})
    if waiting_in_map:
        answer(engine, f"{name}-main", {"yes": True})
        token = token_of(engine, f"{name}-held")
    else:
        token = token_of(engine, f"{name}-main")
    states = engine.client("stepfunctions")
    states.stop_execution(executionArn=arn, error="Operator", cause="enough")
    done = engine.wait_execution(arn, timeout=5)
    assert (done.status, done.error, done.cause) == ("ABORTED", "Operator", "enough")
    with pytest.raises(states.exceptions.TaskTimedOut):
        states.send_task_success(taskToken=token, output="{}")
    engine.quiet()
    assert [e["detail"]["status"] for e in status_events(engine, arn)] == ["RUNNING", "ABORTED"]


def test_machine_timeout(engine: LocalAws) -> None:
    arn = start(engine, engine.physical("Timed"), "timed", {})
    token_of(engine, "t")
    done: ExecutionView = engine.wait_execution(arn, timeout=6)
    assert done.status == "TIMED_OUT"
    assert done.stopped is not None
    engine.wait_until(lambda: len(status_events(engine, arn)) == 2, timeout=5, what="status event")
    assert status_events(engine, arn)[-1]["detail"]["status"] == "TIMED_OUT"


def test_many_executions_at_once(engine: LocalAws) -> None:
    started = time.monotonic()
    arns = [start(engine, engine.physical("Catching"), f"many-{i}", {"kind": "x"}) for i in range(12)]
    assert {engine.wait_execution(a, timeout=30).status for a in arns} == {"SUCCEEDED"}
    assert time.monotonic() - started < 20
    assert len(engine.executions("Catching")) >= 12
