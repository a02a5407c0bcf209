"""The table of rights in ``docs/security.md`` is what the functions have: a reviewer reads the page."""

import re
from pathlib import Path

import pytest
from aicr_pipeline.model.config import load_cluster_config

from infra.granting import Arns
from infra.rights import _RIGHTS, Grants

ROOT = Path(__file__).resolve().parents[2]
_ROW = re.compile(r"\| `(\w+)` \| (.*) \|")
_NAMES = ("inbox", "ledger", "table", "bus", "key", "secret", "sweep", "keys", "alias", "notifications")


def told() -> dict[str, list[str]]:
    """Function to its columns: inbox, what it reads and what it puts in the ledger, and the rest."""
    page = (ROOT / "docs" / "security.md").read_text()
    rows = (match for line in page.splitlines() if (match := _ROW.fullmatch(line)))
    found: dict[str, list[str]] = {}
    for row in rows:
        if row[1] in _RIGHTS:
            found.setdefault(row[1], [column.strip() for column in row[2].split(" | ")])
    return found


def keys(column: str) -> set[str]:
    """``a/{b,c}.json`` is two keys."""
    found: set[str] = set()
    for key in re.findall(r"`([^`]+)`", column):
        several = re.fullmatch(r"(.*)\{(.*)\}(.*)", key)
        found |= {f"{several[1]}{part}{several[3]}" for part in several[2].split(",")} if several else {key}
    return found


@pytest.mark.parametrize("function", _RIGHTS)
def test_what_a_function_may_read_and_put_is_on_the_page(function: str) -> None:
    arns = Arns(*_NAMES, ("topic",), *(f"{one}-{two}" for one in ("m", "e") for two in ("r", "o")))
    config = load_cluster_config(ROOT / "clusters" / "demo.yaml")
    rights = Grants(arns, config, None).of(function)

    def granted(action: str, bucket: str) -> set[str]:
        return {
            resource.removeprefix(f"{bucket}/")
            for right in rights
            if action in right.actions
            for resource in right.resources
            if resource.startswith(f"{bucket}/")
        }

    inbox, reads, puts, *_ = told()[function]
    assert keys(reads) == granted("s3:GetObject", "ledger")
    assert keys(puts) == granted("s3:PutObject", "ledger")
    assert ("read" in inbox) is bool(granted("s3:GetObject", "inbox"))
    assert ("put" in inbox) is bool(granted("s3:PutObject", "inbox"))
