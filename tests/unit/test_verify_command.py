"""The command that verifies evidence: its exit codes are what scripts read."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.dsse import fingerprint
from aicr_pipeline.decide.evidence import statement
from aicr_pipeline.decide.verify import INCOMPLETE, INVALID, Verdict
from aicr_pipeline.verify import main

from tests.unit.bound import BOUND, PLAN_TEXT, SEALED, seal
from tests.unit.test_dsse import DER, PEM

MARK = fingerprint(DER)
#: An archive of a file that no archive of evidence has, packed and not compressed.
ARCHIVE = layout.pack({"a": b"x"}, "e")
FILES = {
    "e": SEALED, "k": PEM, "p": PLAN_TEXT, "bad": b"x", "empty": b"", "tar": gzip.decompress(ARCHIVE),
    "zip": b"PK\x03\x04" + b"\0" * 99, "none.tar.gz": gzip.compress(b""),
    "no.tar.gz": gzip.compress(b"\0" * 1024),
    "json": b" \n{}", "list": b"[]",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
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
        (["empty", "--key", "k"], 2, "FAIL archive: the file is empty"),
        (["tar", "--key", "k"], 2, "FAIL archive: it is a tar that is not compressed: compress it"),
        (["tar"], 2, "FAIL archive: it is a tar that is not compressed"),
        (["zip", "--key", "k"], 2, "FAIL archive: it is neither an archive (tar.gz) nor an envelope (JSON)"),
        (["list", "--key", "k"], 2, "FAIL archive: it is neither"),
        (["none.tar.gz", "--key", "k"], 2, "FAIL archive: the archive is empty"),
        (["no.tar.gz", "--key", "k"], 2, "FAIL archive: the archive is empty"),
        (["json", "--key", "k"], 2, "FAIL envelope: the envelope has no signatures"),
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


@pytest.mark.parametrize(
    ("arguments", "code", "check"),
    [
        (["none"], 3, "given"),
        (["e", "--key", "none", "--plan", "gone"], 3, "given"),
        (["e" * 300], 3, "given"),
        (["empty"], 2, "archive"),
        (["e"], 3, "key"),
    ],
)
def test_machines_are_told_in_json_whatever_happens(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], code: int, check: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    assert main([*arguments, "--json"]) == code
    made = json.loads(capsys.readouterr().out)
    assert (made["code"], made["checks"][-1]["name"], made["binding"]) == (code, check, None)
    assert made["checks"][-1]["detail"]


def test_what_cannot_be_read_was_not_judged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("aicr_pipeline.verify._packed", refused)
    monkeypatch.chdir(folder)
    assert main(["tar", "--json"]) == INCOMPLETE
    printed = capsys.readouterr()
    assert json.loads(printed.out)["code"] == INCOMPLETE
    assert "INCOMPLETE: cannot be read: Permission denied" in printed.err


def test_a_crash_is_not_exit_status_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(*_: object, **__: object) -> Verdict:
        raise AttributeError("never seen before")

    monkeypatch.setattr("aicr_pipeline.verify.look_at_envelope", crash)
    monkeypatch.chdir(folder)
    assert main(["e", "--key", "k", "--plan", "p"]) == INVALID
    assert "cannot be judged (AttributeError)" in capsys.readouterr().err
    assert main(["e", "--key", "k", "--plan", "p", "--json"]) == INVALID
    assert json.loads(capsys.readouterr().out)["code"] == INVALID


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["e", "--fingerprint", "A" * 64],
        ["e", "--fingerprint", "abc"],
        ["e", "--fingerprint", ""],
        ["e", "--live"],
        ["e", "--ledger", "bucket"],
        ["e", "--live", "--ledger", "bucket", "--registry", "https://host/prefix"],
        ["e", "--live", "--ledger", "bucket", "--registry", "oci://host"],
        ["e", "--live", "--ledger", "bucket", "--registry", "oci://host/Prefix:tag"],
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
