"""docs/commands.md and the README name every command; the page has each one's options and exit statuses."""

import re
from importlib import import_module
from pathlib import Path

import aicr_pipeline
import pytest

ROOT = Path(__file__).parents[2]
PAGE, README = (ROOT / "docs" / "commands.md").read_text(), (ROOT / "README.md").read_text()
#: Modules that can be run.
COMMANDS = sorted(
    file.stem
    for file in Path(aicr_pipeline.__file__).parent.glob("*.py")
    if '__name__ == "__main__"' in file.read_text()
)


def section(command: str) -> str:
    return PAGE.partition(f"\n## {command}\n")[2].partition("\n## ")[0]


def test_these_are_the_commands() -> None:
    assert COMMANDS == [
        "approvals",
        "describe",
        "evidence_pack",
        "mirror",
        "qualification",
        "reproduce",
        "status",
        "submit",
        "verify",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_named(command: str) -> None:
    assert f"aicr_pipeline.{command} " in README
    assert f"](#{command})" in PAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_is_in_its_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        import_module(f"aicr_pipeline.{command}").main(["--help"])
    assert ended.value.code == 0
    options = set(re.findall(r"(--[a-z-]+)", capsys.readouterr().out.partition("\n\n")[0]))
    lines = re.findall(rf"^python -m aicr_pipeline\.{command} .*$", section(command), re.MULTILINE)
    assert set(re.findall(r"(--[a-z-]+)", " ".join(lines))) == options


@pytest.mark.parametrize("command", COMMANDS)
def test_each_exit_status_is_told(command: str) -> None:
    told = section(command)
    for status in range(4):
        assert re.search(rf"^\| {status} \||\b{status} [a-z]", told, re.MULTILINE), status
