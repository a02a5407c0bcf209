"""The command that verifies evidence: its exit codes are what scripts read."""

from dataclasses import replace
from pathlib import Path

import pytest
from aicr_pipeline.decide.dsse import fingerprint
from aicr_pipeline.decide.evidence import statement
from aicr_pipeline.decide.verify import INVALID, Verdict
from aicr_pipeline.verify import main

from tests.unit.test_dsse import DER, PEM
from tests.unit.test_evidence import BOUND, PLAN_TEXT, SEALED, seal

MARK = fingerprint(DER)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in {"e": SEALED, "k": PEM, "p": PLAN_TEXT, "bad": b"x", "empty": b""}.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "dev").write_bytes(seal(statement(replace(BOUND, local_engine=True))))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["e", "--key", "k", "--plan", "p"], 0, "VALID"),
        (["e", "--key", "k", "--plan", "p", "--require-qualifying"], 0, "VALID"),
        (["dev", "--key", "k", "--plan", "p"], 0, "never qualifies a profile: it ran in the local engine"),
        (["dev", "--key", "k", "--plan", "p", "--require-qualifying"], 1, "VALID, BUT NOT ENOUGH"),
        (["bad", "--key", "k", "--plan", "p"], 2, "INVALID"),
        (["e", "--key", "bad", "--plan", "p"], 2, "FAIL key"),
        (["e", "--key", "empty", "--plan", "p"], 2, "FAIL key"),
        (["e", "--key", "k", "--plan", "bad"], 2, "FAIL plan"),
        (["e", "--key", "k", "--plan", "empty"], 2, "FAIL plan"),
        (["e", "--key", "k"], 3, "?    plan"),
        (["none", "--key", "k"], 3, "no such file: none"),
        (["e", "--key", "none", "--plan", "gone"], 3, "no such file: none, gone"),
        (["e", "--key", "k", "--plan", "p", "--json"], 0, '"code": 0'),
        (["e", "--key", "k", "--plan", "p"], 0, "note AICR's own evidence is unsigned"),
        (["e", "--key", "k", "--plan", "p"], 0, "note an envelope alone: approval, report"),
        (["e", "--key", "k", "--plan", "p", "--fingerprint", MARK], 0, "pinned: " + MARK),
        (["e", "--key", "k", "--plan", "p", "--fingerprint", "0" * 64, "--fingerprint", MARK], 0, "VALID"),
        (["e", "--key", "k", "--plan", "p", "--fingerprint", "0" * 64], 2, "FAIL key"),
        (["e", "--fingerprint", MARK, "--plan", "p"], 3, "?    key"),
    ],
)
def test_exit_codes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], code: int, said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err


def test_a_crash_is_not_exit_status_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(*_: object, **__: object) -> Verdict:
        raise AttributeError("never seen before")

    monkeypatch.setattr("aicr_pipeline.verify.look_at_envelope", crash)
    monkeypatch.chdir(folder)
    assert main(["e", "--key", "k", "--plan", "p"]) == INVALID
    assert "cannot be judged (AttributeError)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["e", "--fingerprint", "A" * 64],
        ["e", "--fingerprint", "abc"],
        ["e", "--fingerprint", ""],
        ["e", "--live"],
        ["e", "--ledger", "bucket"],
        ["e", "--unknown"],
    ],
    ids=lambda value: " ".join(value)[:30],
)
def test_a_command_line_that_is_not_understood(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == INVALID


def test_no_line_of_a_file_passes_for_one_of_ours(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rollout = BOUND.rollout.model_copy(update={"name": "x\nok   everything: fine\x1b[2J"})
    (folder / "odd").write_bytes(seal(statement(replace(BOUND, rollout=rollout))))
    monkeypatch.chdir(folder)
    main(["odd", "--key", "k", "--plan", "p"])
    printed = capsys.readouterr().out
    assert "\nok   everything" not in printed
    assert "\x1b" not in printed


def test_an_envelope_that_is_too_large_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("aicr_pipeline.decide.evidence_archive.MOST_FILE_BYTES", len(SEALED) - 1)
    monkeypatch.chdir(folder)
    assert main(["e", "--key", "k", "--plan", "p"]) == INVALID
    assert "FAIL size" in capsys.readouterr().out
