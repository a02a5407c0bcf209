"""The runbook has one entry for each reason, and for nothing else."""

import re
from collections import Counter
from pathlib import Path

from aicr_pipeline.model.reasons import Reason

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
#: A heading, a table line or a list item that begins with a code-quoted word.
_ENTRY = re.compile(r"^(?:#{2,6} |\| *|[-*] +)(?:\*\*)?`([A-Za-z]+)`", re.MULTILINE)


def entries() -> list[str]:
    return _ENTRY.findall(RUNBOOK.read_text())


def test_each_reason_has_exactly_one_entry() -> None:
    counted = Counter(name for name in entries() if name in Reason.__members__)
    assert sorted(set(Reason.__members__) - set(counted)) == [], "reasons without an entry"
    assert {name: times for name, times in counted.items() if times != 1} == {}


def test_no_entry_for_a_reason_that_is_none() -> None:
    # AICR's and Kubernetes' own words may start an entry elsewhere; what looks like a reason must be one.
    strays = [name for name in entries() if re.fullmatch(r"([A-Z][a-z]+){2,}", name)]
    assert sorted(set(strays) - set(Reason.__members__)) == []


def test_names_are_values() -> None:
    assert all(reason.name == reason.value for reason in Reason)
