"""The verdict on a move, by what is recorded: tables, and what holds for any record."""

from __future__ import annotations

import pytest
from aicr_pipeline.decide.upgrade_verdict import judge
from aicr_pipeline.decide.version_range import parse_range, version_key
from aicr_pipeline.model.rollout import Verdict
from aicr_pipeline.model.upgrades import ComponentRecord
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.upgrades import boundary, record

SAFE = boundary("<2.0.0", ">=2.0.0 <=2.1.0")
MANUAL = boundary("<2.0.0", ">=2.0.0 <=2.1.0", "manual")
BLOCKED = boundary(">=1.5.0 <2.0.0", ">=2.0.0 <=2.1.0", "blocked")
LATER = boundary(">=2.0.0 <3.0.0", ">=3.0.0 <3.5.0", "manual")
FLOORED = boundary(">=1.5.0 <2.0.0", ">=2.0.0 <=2.1.0", "manual")


@pytest.mark.parametrize(
    ("boundaries", "move", "expected", "stop_at"),
    [
        pytest.param([SAFE], "1.0.0 2.0.0", "safe recorded", None, id="safe"),
        pytest.param([SAFE], "v1.0.0 v2.1.0", "safe recorded", None, id="safe up to its ceiling"),
        pytest.param([MANUAL], "1.0.0 2.1.0", "manual recorded", None, id="manual"),
        pytest.param([BLOCKED], "1.6.0 2.0.0", "blocked recorded", "2.0.0", id="its own record blocks"),
        pytest.param(
            [BLOCKED], "1.0.0 2.0.0", "blocked record-blocks", "2.0.0", id="another origin's blocks"
        ),
        pytest.param([BLOCKED, LATER], "1.6.0 3.0.0", "blocked record-blocks", "2.0.0", id="a block first"),
        pytest.param(
            [LATER, SAFE], "1.0.0 3.0.0", "blocked multiple-boundaries", "2.0.0", id="two boundaries"
        ),
        pytest.param(
            [SAFE, boundary("<3.0.0", ">=3.0.0 <=3.0.0")],
            "1.0.0 3.0.0",
            "blocked multiple-boundaries",
            "2.0.0",
            id="two safe ones",
        ),
        pytest.param([FLOORED], "1.4.9 2.0.0", "blocked undefined-origin", "1.5.0", id="below every origin"),
        pytest.param(
            [boundary(">=1.0.0 <1.2.0", ">=2.0.0 <=2.1.0", "manual")],
            "1.3.0 2.0.0",
            "blocked undefined-origin",
            None,
            id="in a gap of origins",
        ),
        pytest.param(
            [MANUAL], "1.0.0 2.2.0", "blocked beyond-record-ceiling", "2.1.0", id="past the ceiling"
        ),
        pytest.param(
            [LATER],
            "2.0.0 3.5.0",
            "blocked beyond-record-ceiling",
            "the last version below 3.5.0",
            id="at an open ceiling",
        ),
        pytest.param([MANUAL], "2.0.0 2.2.0", "blocked beyond-record-ceiling", "2.1.0", id="inside, past it"),
        pytest.param([MANUAL], "2.2.0 2.3.0", "blocked beyond-record-ceiling", "2.1.0", id="above, further"),
        pytest.param([MANUAL], "2.0.0 2.1.0", "unknown no-boundary-crossed", None, id="inside the range"),
        pytest.param([MANUAL], "1.0.0 1.9.0", "unknown no-boundary-crossed", None, id="below the boundary"),
        pytest.param([MANUAL], "2.2.0 2.2.0", "unknown no-boundary-crossed", None, id="the same version"),
        pytest.param([SAFE], "2.1.0 1.0.0", "unknown downgrade", None, id="downgrade"),
        pytest.param([SAFE], "2.0.0 2.0.0-rc.1", "unknown downgrade", None, id="to a release candidate"),
        pytest.param([SAFE], "2.0.0-rc.1 2.0.0", "safe recorded", None, id="from a release candidate"),
        pytest.param([SAFE], "1.0.0 main", "unversioned not-comparable", None, id="a branch"),
        pytest.param([SAFE], "sha-abc 2.0.0", "unversioned not-comparable", None, id="from a commit"),
        pytest.param([], "1.0.0 1.0.1", "unknown no-record", None, id="an empty record"),
        pytest.param(None, "1.0.0 1.0.1", "unknown no-record", None, id="no record"),
        pytest.param(None, "1.0.1 1.0.0", "unknown downgrade", None, id="no record, downgrade"),
        pytest.param(
            [boundary("<0.1.0-alpha.12", "0.1.0-alpha.12", "manual")],
            "0.1.0-alpha.8 v0.1.0-alpha.12",
            "manual recorded",
            None,
            id="a prerelease's own boundary",
        ),
        pytest.param(
            [boundary("<3.0.0", ">3.0.0 <4.0.0", "manual")],
            "1.0.0 3.0.0",
            "unknown no-boundary-crossed",
            None,
            id="just below an open floor",
        ),
    ],
)
def test_one_move(boundaries: list[object] | None, move: str, expected: str, stop_at: str | None) -> None:
    before, after = move.split()
    known = None if boundaries is None else record("app", *boundaries)  # type: ignore[arg-type]
    found = judge(known, before, after)
    assert (f"{found.verdict} {found.reason}", found.stop_at) == (expected, stop_at)
    assert (found.guidance is not None) == (found.reason == "recorded")


NUMBERS = st.tuples(*[st.integers(0, 3)] * 3)
VERSIONS = NUMBERS.map(lambda numbers: ".".join(map(str, numbers)))


@st.composite
def records(draw: st.DrawFn) -> ComponentRecord:
    made = []
    for _ in range(draw(st.integers(0, 4))):
        origin, floor, ceiling = sorted(draw(st.lists(NUMBERS, min_size=3, max_size=3, unique=True)))
        words = [".".join(map(str, numbers)) for numbers in (origin, floor, ceiling)]
        starts = draw(st.sampled_from([f"<{words[1]}", f">={words[0]} <{words[1]}"]))
        verdict = draw(st.sampled_from(["safe", "manual", "blocked"]))
        made.append(boundary(starts, f">={words[1]} <={words[2]}", verdict))
    return record("app", *made)


def crossed(known: ComponentRecord, before: str, after: str) -> int:
    low, high = version_key(before), version_key(after)
    assert low is not None
    assert high is not None
    floors = [parse_range(one.guidance.applies_to).lower for one in known.boundaries]
    return sum(floor is not None and low < floor.key <= high for floor in floors)


@given(records(), VERSIONS, VERSIONS)
def test_what_holds_for_every_record(known: ComponentRecord, before: str, after: str) -> None:
    found, many = judge(known, before, after), crossed(known, before, after)
    low, high = version_key(before), version_key(after)
    assert low is not None
    assert high is not None
    if high < low:
        assert (found.verdict, found.reason) == (Verdict.unknown, "downgrade")
    if many >= 2:
        assert found.verdict is Verdict.blocked
    if found.verdict in (Verdict.safe, Verdict.manual):
        assert many == 1
        assert found.guidance is not None
        assert parse_range(found.guidance.applies_from).holds(low)
        assert parse_range(found.guidance.applies_to).holds(high)
    if found.verdict is Verdict.safe:
        assert any(one.verdict == "safe" and one.guidance == found.guidance for one in known.boundaries)
    if many == 0 and high >= low:
        assert found.verdict in (Verdict.unknown, Verdict.blocked)
    if found.verdict is not Verdict.blocked:
        assert found.stop_at is None


@given(VERSIONS, VERSIONS)
def test_without_a_record_nothing_is_known(before: str, after: str) -> None:
    assert judge(None, before, after).verdict is Verdict.unknown


@given(records(), st.text(max_size=12), VERSIONS)
def test_any_text_has_a_verdict(known: ComponentRecord, before: str, after: str) -> None:
    found = judge(known, before, after)
    assert found.verdict is not Verdict.safe or version_key(before) is not None
