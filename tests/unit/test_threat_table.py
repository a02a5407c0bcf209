"""Every test that the page about security names exists; rules on approvals and evidence each name one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "security.md"
#: `unit/test_x.py::test_y`, below tests/.
_NAMED = re.compile(r"`([a-z_]+(?:/[a-z_0-9]+)*/test_[a-z_0-9]+\.py)::([A-Za-z_0-9.]+)`")
#: `test_y` alone, wherever it is.
_ALONE = re.compile(r"`(test_[a-z_0-9]+)`")


def section(title: str) -> str:
    """The text under a heading, up to the next of its level or above."""
    text = PAGE.read_text()
    begins = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert begins, title
    rest = text[begins.end() :]
    ends = re.search(rf"^#{{1,{len(begins[1])}}} ", rest, re.MULTILINE)
    return rest[: ends.start()] if ends else rest


def rows(text: str) -> list[list[str]]:
    """The cells of every table line under a head of its own."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = {number - 1 for number, row in enumerate(cells) if set("".join(row)) <= set("-: ")}
    return [row for number, row in enumerate(cells) if number not in heads and number - 1 not in heads]


@cache
def functions(file: Path) -> frozenset[str]:
    """Tests of a file by name: functions, and what classes hold; a state machine's is its own class."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(name for name in found if name.lower().startswith("test"))


APPROVALS = rows(section("Approvals, threat by threat"))
EVIDENCE = rows(section("Evidence and qualification, threat by threat"))


def test_the_tables_are_there() -> None:
    assert len(APPROVALS) > 50 and len(EVIDENCE) > 10


@pytest.mark.parametrize("row", [*APPROVALS, *EVIDENCE], ids=lambda row: row[0][:60])
def test_each_row_names_tests_that_exist(row: list[str]) -> None:
    threat, held_off, named = row
    assert threat and held_off
    found = _NAMED.findall(named)
    assert found, "a row without a test"
    assert _NAMED.sub("", named).strip(" ,") == "", "the last column is tests and nothing else"
    for file, test in found:
        assert test in functions(TESTS / file), f"{file} has no {test}"


def test_no_test_is_named_that_is_gone() -> None:
    there = {name for file in TESTS.rglob("test_*.py") for name in functions(file)}
    named = set(_ALONE.findall(PAGE.read_text())) | {name for _, name in _NAMED.findall(PAGE.read_text())}
    assert named and named - there == set()
