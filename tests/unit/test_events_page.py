"""docs/events.md has a row for each event that the program puts, and for no other."""

import re
from pathlib import Path

import aicr_pipeline

PAGE = Path(__file__).parents[2] / "docs" / "events.md"
#: Constants that hold a detail type: two words with capitals, such as "Plan Ready".
_NAMED = re.compile(r'^[A-Z_]+ = "([A-Z][a-z]+ [A-Z][a-z]+)"$', re.MULTILINE)


def test_each_event_has_its_row() -> None:
    (root,) = aicr_pipeline.__path__
    put = {name for file in Path(root).rglob("*.py") for name in _NAMED.findall(file.read_text())}
    rows = re.findall(r"^\| `([A-Z][a-z]+ [A-Z][a-z]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(put) >= 8, "the search finds no constants any more"
    assert sorted(rows) == sorted(put)
