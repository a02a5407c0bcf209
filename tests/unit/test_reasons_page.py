"""docs/reasons.md has what people see for each reason, from a run of the whole machine."""

import re
from pathlib import Path

import pytest
from aicr_pipeline.model.reasons import Reason

PAGE = Path(__file__).parents[2] / "docs" / "reasons.md"


def entries() -> dict[str, str]:
    parts = re.split(r"^## (\w+)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_reason_has_its_entry_in_their_order() -> None:
    assert list(entries()) == [str(reason) for reason in Reason]


@pytest.mark.parametrize("reason", list(Reason))
def test_it_was_seen_on_a_whole_machine(reason: Reason) -> None:
    said = entries()[str(reason)]
    assert "No run of" not in said
    assert re.search(r"^> \S", said, re.MULTILINE), "the sentence"
    assert "Terminal, `python -m aicr_pipeline.status`:" in said
    assert "\nPage:\n" in said or "no page" in said or "nobody has a link" in said


def test_nothing_of_the_machine_it_was_made_on_is_left() -> None:
    text = PAGE.read_text()
    assert not re.search(r"/tmp/|/work/|/root/", text)
    assert not re.search(r"\?s=[\w-]{10}", text), "no link's secret"
