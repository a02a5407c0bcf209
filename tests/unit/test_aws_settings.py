"""Without a region, or with a profile that does not exist: one exit status, whichever command it is."""

import importlib
import json
from pathlib import Path

import pytest
from aicr_pipeline.adapters import aws
from aicr_pipeline.command import USAGE

API = ["--api", "https://api.example.com"]
CLUSTER = ["--cluster", "demo"]
LEDGER = ["--ledger", "some-bucket"]
CHART = ["--from", "https://charts.example.com", "--chart", "c", "--version", "1", "--to"]
#: Those that ask CloudFormation, or sign for a place that does not name its region.
ASK_THE_REGION = [
    ("status", CLUSTER),
    ("status", API),
    ("approvals", ["list", *CLUSTER]),
    ("approvals", ["list", *API]),
    ("submit", ["runtime.yaml", *CLUSTER]),
    ("submit", ["runtime.yaml", *API]),
    ("qualification", ["demo", "--fingerprint", "0" * 64]),
]
ASK_THE_PROFILE = [
    *ASK_THE_REGION,
    ("describe", ["12345678", *LEDGER]),
    ("reproduce", ["12345678", "--dir", "again", *LEDGER]),
    ("evidence_pack", ["demo-12345678-1", *LEDGER]),
    ("qualification", ["--fingerprint", "0" * 64, *LEDGER]),
    ("mirror", [*CHART, "oci://111122223333.dkr.ecr.us-west-2.amazonaws.com/aicr"]),
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a key and nothing else."""
    (tmp_path / "runtime.yaml").write_text("x")
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    # Clients are kept, and one that another test made would do.
    monkeypatch.setattr(aws, "client", aws.client.__wrapped__)


def code_of(command: str, arguments: list[str]) -> int:
    main = importlib.import_module(f"aicr_pipeline.{command}").main
    try:
        return int(main(arguments))
    except SystemExit as ended:
        return int(str(ended.code))


@pytest.mark.parametrize(("command", "arguments"), ASK_THE_REGION)
def test_without_a_region(command: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(command, arguments) == USAGE
    said = capsys.readouterr()
    assert "set AWS_REGION" in said.err and said.out == ""
    assert code_of(command, [*arguments, "--json"]) == USAGE
    assert "AWS_REGION" in json.loads(capsys.readouterr().out)["message"]


@pytest.mark.parametrize(("command", "arguments"), ASK_THE_PROFILE)
def test_a_profile_that_does_not_exist(
    command: str, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert code_of(command, arguments) == USAGE
    said = capsys.readouterr()
    assert "ProfileNotFound" in said.err and "AWS_PROFILE" in said.err
    assert "Traceback" not in said.err
