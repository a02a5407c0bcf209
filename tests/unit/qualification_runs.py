"""The command that tells whether what runs is qualified, run on a ledger's folder, with signed evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.qualification import main

from tests.unit.qualified import RUNNING, put_bound, qualified, seal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return qualified(tmp_path)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["--from", ".", "--key", "key.der", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def told(run: Run, *arguments: str) -> dict[str, Any]:
    code, out, _ = run("--json", *arguments)
    made: dict[str, Any] = json.loads(out)
    assert made["code"] == code
    return made


def rows(made: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["row"], one["part"]) for one in made["differences"]]


def running(folder: Path, **changes: Any) -> None:
    """Something else is deployed."""
    (folder / "running.json").write_text(json.dumps(RUNNING.model_copy(update=changes).wire()))


def only(folder: Path, document: dict[str, Any]) -> str:
    """Another envelope in place of the one that is there."""
    for file in (folder / "ledger" / "evidence").rglob("*.json"):
        file.unlink()
    return put_bound(folder, seal(document))
