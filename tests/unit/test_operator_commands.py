"""The command lines of approvals and submit, and how what the API says becomes a reason."""

import json
from argparse import Namespace
from itertools import permutations
from pathlib import Path
from typing import Any

import boto3
import pytest
from aicr_pipeline import approvals, submit
from aicr_pipeline.adapters.signed_api import SignedApi, find_endpoint
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.operators import open_api
from botocore.stub import Stubber

from tests.unit.upgrades import boundary

API = ["--api", "http://127.0.0.1:9"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required"),
        (["delete", "x-1", *API], "invalid choice"),
        (["list", "x-1", *API], "list takes no rollout"),
        (["describe", *API], "describe which rollout?"),
        (["describe", "../x", *API], "no rollout's name"),
        (["approve", "x-1", *API], "approve needs --reason"),
        (["revoke", "x-1", "--reason", "  ", *API], "revoke needs --reason"),
        (["describe", "x-1", "--reason", "r", *API], "takes no --reason"),
        (["reject", "x-1", "--reason", "r", "--expires", "1h", *API], "--expires is for approve"),
        (["approve", "x-1", "--reason", "r", "--digest", "abc", *API], "at least 8 hexes"),
        (["revoke", "x-1", "--reason", "r", "--digest", "abcdef12", *API], "--digest is for"),
        (["acknowledge", "x-1", "--reason", "r", *API], "the step of which release?"),
        (["acknowledge", "x-1", "gpu-operator", *API], "acknowledge needs --reason"),
        (["approve", "x-1", "gpu-operator", "--reason", "r", *API], "approve takes no release"),
        (["list"], "name the API"),
        (["list", *API, "--cluster", "demo"], "not allowed with"),
    ],
)
def test_command_lines_that_are_not_understood(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AICR_PIPELINE_API", raising=False)
    with pytest.raises(SystemExit) as ended:
        approvals.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"AWS_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-1"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({}, None),
    ],
)
def test_the_region_is_found_as_aws_finds_it(
    variables: dict[str, str], region: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert open_api(Namespace(api="https://api.example.com", cluster="")).session.region_name == region


def test_the_parts_of_a_command_line_stand_in_any_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Understood, and told by the API, which is away."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    parts = [["approve"], ["x-1"], ["--reason", "r"], ["--expires", "1h"], API]
    for order in permutations(parts):
        line = [word for part in order for word in part]
        if line.index("approve") < line.index("x-1"):
            assert approvals.main(line) == 3, line
            assert "127.0.0.1:9 cannot be reached" in capsys.readouterr().err


HELD = {
    "index": 2,
    "of": 5,
    "release": "gpu-operator",
    "reason": "AwaitingAcknowledgement",
    "message": "do it first",
    "since": "2026-01-01T00:00:00.000Z",
    "digest": "sha256:" + "a" * 64,
    "guidance": boundary("<2.0.0", ">=2.0.0 <=2.1.0", "manual").guidance.wire(),
}


def test_what_waits_is_acknowledged_by_its_digest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[Any] = []
    waiting: dict[str, Any] = {"held": HELD}

    def ask(self: SignedApi, method: str, path: str, body: bytes = b"") -> Any:
        sent.append((method, path, json.loads(body) if body else None))
        return {**DESCRIBED, **waiting} if method == "GET" else {"state": "approved"}

    monkeypatch.setattr(SignedApi, "ask", ask)
    words = ["acknowledge", "x-1", "gpu-operator", "--reason", "drained", *API]
    assert approvals.main(words) == 0
    assert sent[-1] == (
        "POST",
        "/operators/rollouts/x-1/decision",
        {
            "decision": "Acknowledged",
            "reason": "drained",
            "expiry": "",
            "digest": HELD["digest"],
            "release": "gpu-operator",
        },
    )
    told = capsys.readouterr()
    assert "recorded: x-1 is approved" in told.out
    for line in (
        "waits       step 2/5 gpu-operator: do it first",
        "  1. Drain the queue. (Jobs would be lost.)",
    ):
        assert line in told.err
    assert approvals.main([*words, "--digest", "bbbbbbbb"]) == 1
    assert sent[-1][0] == "GET", "nothing was sent"
    monkeypatch.setitem(waiting, "held", None)
    assert approvals.main(words) == 0, "said again, when nothing waits any more"
    assert (sent[-1][0], sent[-1][2]["digest"]) == ("POST", DESCRIBED["digest"])


DESCRIBED: dict[str, Any] = {
    "rollout": {"name": "x-1", "cluster": "demo", "toPlan": "p", "submitter": "s", "deadline": "d"},
    "state": "approved",
    "digest": "sha256:" + "c" * 64,
    "report": None,
    "you": {"principal": "p", "approver": "kim", "mayApprove": True},
    "fourEyes": {"enforced": True, "because": None},
    "summary": "1 release",
    **{name: [] for name in ("approvedBy", "because", "warnings", "history")},
    "remaining": "1 h",
    "needed": 1,
}


def test_a_file_that_cannot_be_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit.main([str(tmp_path / "none.yaml"), *API]) == 1
    assert "InvalidRuntime" in capsys.readouterr().err
    (tmp_path / "large.yaml").write_bytes(b"#" * (256 * 1024 + 1))
    assert submit.main([str(tmp_path / "large.yaml"), *API]) == 1
    assert "ContentTooLarge" in capsys.readouterr().err


def test_the_address_comes_from_the_clusters_stack() -> None:
    session = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s", region_name="us-west-2")
    client = session.client("cloudformation")
    session.client = lambda name: client  # type: ignore[assignment,method-assign,misc,return-value]
    stack = {"StackName": "aicr-pipeline-demo", "CreationTime": "2026-01-01T00:00:00Z", "StackStatus": "S"}
    address = "https://a1b2.execute-api.us-west-2.amazonaws.com"
    outputs = [{"OutputKey": "ApprovalUrl", "OutputValue": address}]
    with Stubber(client) as stub:
        asked = {"StackName": "aicr-pipeline-demo"}
        stub.add_response("describe_stacks", {"Stacks": [{**stack, "Outputs": outputs}]}, asked)
        assert find_endpoint("", "demo", session) == address
        stub.add_client_error("describe_stacks", "ValidationError")
        with pytest.raises(PipelineError, match="ValidationError"):
            find_endpoint("", "demo", session)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://example.com",
        "ftp://127.0.0.1",
        "https://u:p@example.com",
        "https://h?x=1",
        "https://[",
        "x",
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(PipelineError) as refused:
        find_endpoint(address or "https://", "", None)
    assert refused.value.reason is Reason.InvalidConfiguration
    assert "u:p" not in refused.value.message


@pytest.mark.parametrize(
    ("status", "content", "kind", "reason"),
    [
        (409, b'{"status":"refused","reason":"Conflict","message":"m"}', PipelineError, Reason.Conflict),
        (503, b'{"status":"transient","reason":"Conflict","message":"m"}', TransientError, Reason.Conflict),
        (403, b'{"message":"Forbidden"}', PipelineError, Reason.Unauthorized),
        (429, b'{"message":"Too Many Requests"}', TransientError, Reason.RegistryUnreachable),
        (500, b"<html>", TransientError, Reason.RegistryUnreachable),
        (200, b"<html>", PipelineError, Reason.InvalidConfiguration),
        (302, b"", PipelineError, Reason.InvalidConfiguration),
        (400, b'{"reason":"Invented","message":"m"}', PipelineError, Reason.InvalidConfiguration),
        (400, b'{"reason":["x"]}', PipelineError, Reason.InvalidConfiguration),
    ],
)
def test_what_the_api_says_becomes_a_reason(
    status: int, content: bytes, kind: type[Any], reason: Reason
) -> None:
    with pytest.raises(PipelineError) as refused:
        SignedApi("https://api.example.com", None)._read(status, content)
    assert type(refused.value) is kind
    assert refused.value.reason is reason
