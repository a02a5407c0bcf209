"""Handlers run for real: their world, their errors, their processes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from local.aws import LocalAws


def test_function_sees_its_world(engine: LocalAws) -> None:
    seen = engine.invoke("LookFunction", '{"a": 1}').json()
    assert seen["event"] == {"a": 1}
    assert seen["config"] == {"from": "the override"}
    assert seen["layer"] == "from the layer"
    assert seen["bucket"] == engine.physical("Inbox")
    assert 3000 < seen["remaining"] <= 5000
    assert seen["arn"].startswith("arn:aws:lambda:us-west-2:111122223333:function:Sample-LookFunction-")
    env = seen["env"]
    assert env["API"] == engine.api_url
    assert env["AWS_ENDPOINT_URL"] == engine.endpoint
    assert env["AWS_LAMBDA_FUNCTION_NAME"] == seen["name"]
    assert env["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "128"
    assert "PYTEST_CURRENT_TEST" not in env, "nothing of this process's environment reaches a handler"
    assert engine.identity_of(env["AWS_ACCESS_KEY_ID"]) == "arn:aws:iam::111122223333:role/sample-look"


def test_warm_process_is_reused_and_fast(engine: LocalAws) -> None:
    first = engine.invoke("LookFunction", "{}").json()["pid"]
    started = time.perf_counter()
    for _ in range(20):
        assert engine.invoke("LookFunction", "{}").json()["pid"] == first
    each = (time.perf_counter() - started) / 20
    print(f"warm invocation: {each * 1000:.1f} ms")
    assert each < 0.25, (
        "a warm invocation takes milliseconds; this much is a lost connection or a new process"
    )


def test_errors_are_the_handlers_own(engine: LocalAws) -> None:
    result = engine.invoke("ActFunction", '{"kind": "raise", "text": "disk"}')
    assert result.error == "Unhandled"
    document = result.json()
    assert document["errorType"] == "TransientError"
    assert document["errorMessage"] == "try again: disk"
    assert "handler.py" in "".join(document["stackTrace"])
    assert "[ERROR] TransientError: try again: disk" in engine.logs("ActFunction")


def test_dead_hanging_and_unimportable_handlers(engine: LocalAws) -> None:
    died = engine.invoke("ActFunction", '{"kind": "exit"}').json()
    assert died["errorType"] == "Runtime.ExitError"
    assert "exit status 3" in died["errorMessage"]
    started = time.perf_counter()
    hung = engine.invoke("ActFunction", '{"kind": "sleep", "seconds": 30}').json()
    assert hung["errorType"] == "Sandbox.Timedout"
    assert hung["errorMessage"].endswith("Task timed out after 1.00 seconds")
    assert time.perf_counter() - started < 5
    broken = engine.invoke("BrokenFunction", "{}").json()
    assert broken["errorType"] == "Runtime.ImportModuleError"
    assert "nothing_of_this_name" in broken["errorMessage"]
    assert engine.invoke("ActFunction", '{"kind": "fine"}').json()["kind"] == "fine"


def test_api_invoke_is_the_same(engine: LocalAws) -> None:
    client = engine.client("lambda")
    good = client.invoke(FunctionName=engine.physical("ActFunction"), Payload=b'{"kind": "x"}')
    assert good["StatusCode"] == 200
    assert "FunctionError" not in good
    assert json.loads(good["Payload"].read())["kind"] == "x"
    bad = client.invoke(FunctionName=engine.physical("ActFunction"), Payload=b'{"kind": "raise"}')
    assert bad["FunctionError"] == "Unhandled"
    later = client.invoke(
        FunctionName=engine.physical("ActFunction"), InvocationType="Event", Payload=b'{"kind": "later"}'
    )
    assert later["StatusCode"] == 202
    engine.quiet()
    assert "acted on later" in engine.logs("ActFunction")


def test_async_retries_then_destination(engine: LocalAws) -> None:
    engine.put_event("sample", "Fail", {"fail": True})
    engine.quiet()
    queue = engine.physical("Failed")
    received = engine.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=0)["Messages"]
    record = json.loads(received[0]["Body"])
    assert record["requestContext"]["approximateInvokeCount"] == 3
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    assert record["responsePayload"]["errorMessage"] == "asked to fail"
    assert record["requestPayload"]["detail"] == {"fail": True}


def test_functions_are_found_by_every_kind_of_name(engine: LocalAws) -> None:
    name = engine.physical("ActFunction")
    arn = f"arn:aws:lambda:us-west-2:111122223333:function:{name}"
    for spelling in (name, arn, f"{arn}:live", f"{name}:$LATEST", f"111122223333:function:{name}"):
        assert engine._lambdas.find(spelling).name == name, spelling
    with pytest.raises(KeyError):
        engine._lambdas.find("nobody")
    client = engine.client("lambda")
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.invoke(FunctionName="nobody")


def test_processes_stay_under_the_limit(engine: LocalAws) -> None:
    for name in ("LookFunction", "ActFunction", "WhoFunction", "PageFunction"):
        engine.invoke(name, '{"rawPath": "/plain"}')
    engine.invoke("KeepFunction", "{}")
    views = engine.processes()
    assert len(views) <= 4
    assert all(view.resident_bytes > 0 for view in views)


def test_role_credentials_reach_sts_and_ecr(engine: LocalAws) -> None:
    seen = engine.invoke("WhoFunction", "{}").json()
    assert seen["caller"].startswith("arn:aws:sts::111122223333:assumed-role/sample-who/")
    assert seen["endpoint"] == "https://127.0.0.1:1"
    assert seen["expires"] == "2030-01-02T03:04:05+00:00"
    assert engine.identity_of(seen["key"]) == "arn:aws:iam::111122223333:role/sample-who"


def test_assets_stay_clean(engine: LocalAws, tmp_path: Path) -> None:
    engine.invoke("LookFunction", "{}")
    code = engine.functions[engine.physical("LookFunction")].code
    assert not list(code.parent.rglob("__pycache__"))
