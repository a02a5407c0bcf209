"""The command line of the mirror command: what it understands, and that nothing of it is quoted back."""

import json
import os
from pathlib import Path

import pytest
from aicr_pipeline import mirror as command
from aicr_pipeline import registry_access
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from hypothesis import given, settings
from hypothesis import strategies as st

TO = ("--to", "oci://registry.example/aicr/demo")
LOCAL = ("--to", "oci://127.0.0.1:1/aicr/demo")
V, X = ("--version", "1"), ("--chart", "x", "--version", "1")
OCI = ("--from", "oci://h.example/c/d", "--version", "1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "required"),
        (("--from", "https://h.example/c", *V, *TO), "--chart is needed"),
        (("--from", "https://h.example/c", "--chart", "../x", *V, *TO), "not the name of a chart"),
        (("--from", "https://h.example/c", "--chart", "oci://h/x", *V, *TO), "not the name"),
        (("--from", "https://h.example/c", "--chart", "x", "--version", "", *TO), "--version is empty"),
        (("--from", "ftp://h.example/c", *X, *TO), "neither"),
        (("--from", "no-such-folder", *X, *TO), "neither"),
        (("--from", "a" * 5000, *X, *TO), "neither"),
        (("--from", "oci://h.example/c:1", *V, *TO), "without tag"),
        ((*OCI, "--to", "https://h.example/x"), "--to is not"),
        ((*OCI, "--to", "oci://h.example"), "--to is not"),
        ((*OCI, "--plain-http", *TO), "on loopback"),
        (("--from", "http://h.example/c", *X, "--plain-http", *LOCAL), "on loopback"),
        (("--from", "http://127.0.0.1:1", *X, *LOCAL), "with --plain-http"),
        (("--from", "https://me:secret-word@h.example/c", *X, *TO), "without user"),
        (("--from", "https://h.example/c?t=secret-word", *X, *TO), "query"),
        (("--from", "oci://me:secret-word@h.example/c/d", *V, *TO), "user or password"),
        ((*OCI, "--to", "oci://me:secret-word@h.example/x"), "--to"),
        ((*OCI, *TO, "--password", "secret-word"), "no option --password"),
        ((*OCI, *TO, "--password=secret-word"), "no option --password"),
        ((*OCI, *TO, "--json=secret-word"), "--json"),
        ((*OCI, *TO, "secret-word"), "without an option"),
    ],
)  # fmt: skip
def test_usage(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(list(arguments))
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (2, "")
    assert said in printed.err
    assert "secret-word" not in printed.err


def test_a_crash_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def crash(*_: object) -> None:
        raise AttributeError("never seen before")

    monkeypatch.setattr(command, "_mirror", crash)
    assert command.main([*OCI, *TO, "--json"]) == 1
    assert "stopped unexpectedly (AttributeError)" in json.loads(capsys.readouterr().out)["message"]


def test_ecr_hosts_are_asked_for_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without an AWS identity nothing else is tried, whatever the Docker configuration says."""
    host = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)  # it keeps the identity that another test had
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    (tmp_path / "config.json").write_text(json.dumps({"auths": {host: {"username": "u", "password": "p"}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    credentials = registry_access.credentials_of(host)
    assert credentials is not None
    with pytest.raises(PipelineError, match="NoCredentialsError") as caught:
        credentials.get()
    assert (caught.value.reason, caught.value.retry) == (Reason.RegistryCredentialsUnavailable, False)


_WORDS = st.one_of(
    st.sampled_from(["--from", "--to", "--chart", "--version", "--json", "--plain-http", "--verbose", "-h="]),
    st.sampled_from(
        ["oci://127.0.0.1:1/a/b", "http://127.0.0.1:1/x", ".", "https://", "oci://", "oci://[::1", "1.2"]
    ),
    st.text(max_size=20),
)


@given(st.lists(_WORDS, max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_command_line_ends_in_an_exit_status(arguments: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_mirror", _never)
        try:
            code = command.main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
    assert code in (0, 1, 2)


def _never(*_: object) -> None:
    raise PipelineError(Reason.ChartSourceUnsupported, "Not mirrored in this test.")
