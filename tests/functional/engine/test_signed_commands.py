"""The commands against the real template over HTTP: signed, decided, submitted."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import boto3
import pytest
from aicr_pipeline import approvals, qualification, submit
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.signed_api import SignedApi
from botocore.exceptions import ClientError

from infra.ledger_writers import LEDGER_WRITERS
from infra.sources import ROOT
from local import terminal
from local.aws import LocalAws
from tests.functional.approvals.support import config, seed
from tests.functional.engine.test_ledger_writers import s3_of
from tests.unit.test_dsse import PEM

ACCOUNT = "111122223333"
SSO = f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_Approve_0123456789abcdef"
ALEX, KIM = f"{SSO}/alex@example.com", f"arn:aws:sts::{ACCOUNT}:assumed-role/kim/session"
APPROVERS = [
    {"name": "alex", "iam": f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_Approve_*/alex@example.com"},
    {"name": "kim", "iam": f"arn:aws:iam::{ACCOUNT}:role/kim"},
    {"name": "sam", "iam": f"arn:aws:iam::{ACCOUNT}:user/sam"},
]
RUNTIME = ROOT / "local/samples/clusterruntime.yaml"


@pytest.fixture(scope="module")
def pipeline(demo_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    work: Path = tmp_path_factory.mktemp("work")
    document = work / "cluster.json"
    document.write_text(json.dumps(config(approvers=APPROVERS)))
    (assets,) = demo_template.glob("asset.*/cluster/assets.json")
    shutil.copy(assets, work)
    with LocalAws(
        demo_template,
        "aicr-pipeline-demo",
        workdir=work,
        schedule_scale=0,
        env_overrides={"CLUSTER_CONFIG": str(document)},
    ) as engine:
        yield engine


@dataclass
class Ran:
    """What a command left."""

    status: int
    out: str
    err: str


@dataclass
class Person:
    """Somebody at a terminal."""

    engine: LocalAws
    arn: str
    monkeypatch: pytest.MonkeyPatch

    def run(self, module: Any, *arguments: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with self.monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in self.engine.person(self.arn).items():
                patch.setenv(name, value)
            patch.setenv("AICR_PIPELINE_API", self.engine.api_url)
            boto3.DEFAULT_SESSION = None
            status = module.main(list(arguments))
        return Ran(status, out.getvalue(), err.getvalue())


@pytest.fixture
def alex(pipeline: LocalAws, monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(pipeline, ALEX, monkeypatch)


@pytest.fixture
def kim(pipeline: LocalAws, monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(pipeline, KIM, monkeypatch)


class Writers:
    """S3 for the support module's seed: each record is put by a function that may, into the real ledger."""

    def __init__(self, engine: LocalAws) -> None:
        self.engine = engine

    def list_objects_v2(self, *, Bucket: str, **asked: Any) -> Any:
        return self.engine.client("s3").list_objects_v2(Bucket=self.engine.outputs["LedgerBucket"], **asked)

    def get_object(self, *, Bucket: str, Key: str) -> Any:
        return self.engine.client("s3").get_object(Bucket=self.engine.outputs["LedgerBucket"], Key=Key)

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:
        function = next(names[0] for _, pattern, names in LEDGER_WRITERS if fnmatchcase(Key, pattern))
        s3 = s3_of(self.engine, function)
        Ledger(s3, self.engine.outputs["LedgerBucket"]).put_same(Key, Body)


def record(engine: LocalAws, key: str) -> dict[str, Any]:
    body = engine.client("s3").get_object(Bucket=engine.outputs["LedgerBucket"], Key=key)["Body"].read()
    found: dict[str, Any] = json.loads(body)
    return found


def test_a_rollout_is_described_approved_and_revoked_from_a_terminal(
    pipeline: LocalAws, alex: Person, kim: Person
) -> None:
    waiting = seed(Writers(pipeline))
    told = alex.run(approvals, "describe", waiting.name)
    assert told.status == 0, told.err
    assert waiting.request.digest in told.out
    assert "four eyes   not enforced: the submitter is unknown" in told.out
    assert "you         alex" in told.out
    assert "gpu-operator  v25.3.0 -> v25.3.1" in told.out

    refused = alex.run(approvals, "approve", waiting.name, "--reason", "Yes", "--digest", "0" * 12)
    assert (refused.status, "Nothing was recorded" in refused.err) == (1, True)
    approved = alex.run(approvals, "approve", waiting.name, "--reason", "Yes", "--expires", "1h", "--json")
    assert approved.status == 0, approved.err
    assert json.loads(approved.out)["state"] == "approved"
    decision = record(pipeline, f"rollouts/{waiting.name}/decision.json")
    assert (decision["by"], decision["identity"], decision["principals"]) == (["alex"], "aws-iam", [ALEX])

    late = kim.run(approvals, "reject", waiting.name, "--reason", "No", "--json")
    assert (late.status, json.loads(late.out)["reason"]) == (1, "Conflict")
    listed = kim.run(approvals, "list")
    assert f"approved           {waiting.name}" in listed.out

    # A process of its own, as a person has it.
    done = subprocess.run(
        [sys.executable, "-m", "aicr_pipeline.approvals", "revoke", waiting.name, "--reason", "Stop",
         "--api", pipeline.api_url],
        env={**pipeline.person(KIM), "PYTHONPATH": str(ROOT / "layers/aicr_pipeline/python")},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"recorded: {waiting.name} is revoked\n"), done.stderr
    assert record(pipeline, f"rollouts/{waiting.name}/revocation.json")["by"] == "kim"


def test_a_runtime_is_submitted_by_somebody(pipeline: LocalAws, alex: Person, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(RUNTIME.read_text().replace("intent:", "intention:"))
    refused = alex.run(submit, str(bad))
    assert (refused.status, refused.out) == (1, "")
    assert "InvalidRuntime" in refused.err
    assert "spec.intention: unknown field" in refused.err

    done = alex.run(submit, str(RUNTIME), "--json")
    assert done.status == 0, done.err
    told = json.loads(done.out)
    assert told["submitter"] == ALEX
    assert record(pipeline, f"runtimes/{told['runtimeVersion']}.json")["submitter"] == ALEX
    pipeline.wait_until(
        lambda: told["run"] in {one.name for one in pipeline.executions()}, timeout=20, what="the run"
    )


def test_whether_what_runs_is_qualified(
    pipeline: LocalAws, alex: Person, demo_template: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The ledger and what is deployed, of the stack itself: nothing succeeded on it yet."""
    (tmp_path / "key.pem").write_bytes(PEM)
    monkeypatch.setattr(qualification, "stack_outputs", lambda cluster, _: pipeline.outputs)
    done = alex.run(qualification, "demo", "--key", str(tmp_path / "key.pem"), "--json")
    assert done.status == 1, done.err
    told = json.loads(done.out)
    assert told["because"] == "no rollout has succeeded on this cluster"
    assert told["cluster"] == "demo"
    (assets,) = demo_template.glob("asset.*/cluster/assets.json")
    session = boto3.Session(region_name="us-west-2")
    with monkeypatch.context() as patch:
        for name, value in pipeline.person(KIM).items():
            patch.setenv(name, value)
        running = SignedApi(pipeline.api_url, session).ask("GET", "/operators/running")
    assert running["pipeline"] == json.loads(assets.read_text())
    assert running["aicr"]["image"] == config()["aicr"]["image"]


def test_nobody_else_says_who_submitted(pipeline: LocalAws) -> None:
    for s3 in (pipeline.client("s3"), s3_of(pipeline, "start_rollout"), s3_of(pipeline, "serve_approvals")):
        with pytest.raises(ClientError, match="AccessDenied"):
            s3.put_object(
                Bucket=pipeline.outputs["LedgerBucket"], Key="runtimes/v1.json", Body=b"{}", IfNoneMatch="*"
            )


def test_a_stranger_and_a_wrong_secret_get_nowhere(
    pipeline: LocalAws, alex: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = Person(pipeline, f"arn:aws:iam::{ACCOUNT}:user/robin", monkeypatch)
    waiting = seed(Writers(pipeline), cluster="other")
    before = stranger.run(approvals, "approve", waiting.name, "--reason", "Mine")
    assert (before.status, "is no approver" in before.err) == (1, True)
    called = pipeline.logs("aicr-pipeline-demo-serve_operators").count('"answered"')
    with monkeypatch.context() as patch:
        good = pipeline.person
        patch.setattr(pipeline, "person", lambda arn: {**good(arn), "AWS_SECRET_ACCESS_KEY": "guessed"})
        forged = alex.run(approvals, "approve", waiting.name, "--reason", "Yes")
    assert (forged.status, "Unauthorized" in forged.err, "execute-api:Invoke" in forged.err) == (
        1,
        True,
        True,
    )
    assert pipeline.logs("aicr-pipeline-demo-serve_operators").count('"answered"') == called
    keys = pipeline.client("s3").list_objects_v2(Bucket=pipeline.outputs["LedgerBucket"])["Contents"]
    assert f"rollouts/{waiting.name}/decision.json" not in {one["Key"] for one in keys}


def test_an_api_that_is_away_may_come_back(alex: Person) -> None:
    gone = alex.run(approvals, "list", "--api", "http://127.0.0.1:9", "--json")
    assert gone.status == 3
    assert json.loads(gone.out)["status"] == "transient"
    assert alex.run(approvals, "list", "--api", "http://example.com").status == 1, (
        "plain http is for loopback"
    )


def test_a_file_for_the_shell_makes_an_approver_of_another_terminal(
    pipeline: LocalAws, tmp_path: Path
) -> None:
    waiting, file = (
        seed(Writers(pipeline), cluster="shell", asked=("sam",)),
        tmp_path / "its own folder" / "terminal.env",
    )
    file.parent.mkdir()
    file.touch(mode=0o644)
    terminal.write(pipeline, f"arn:aws:iam::{ACCOUNT}:user/sam", file)
    assert file.stat().st_mode & 0o777 == 0o600, "nobody else reads keys"
    described = terminal.lines(shlex.quote(sys.executable), file, waiting.name).splitlines()[1]
    rejected = described.replace("describe", "reject --reason Later").replace(" )", "; echo $AWS_REGION )")
    for typed, words in ((described, "you         sam"), (rejected, f"{waiting.name} is rejected")):
        done = subprocess.run(
            ["sh", "-c", f"{typed}; echo after: $AICR_PIPELINE_API."],
            env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert words in done.stdout, done.stderr
        assert "after: ." in done.stdout, "the shell itself is as it was"
    assert record(pipeline, f"rollouts/{waiting.name}/decision.json")["by"] == ["sam"]
