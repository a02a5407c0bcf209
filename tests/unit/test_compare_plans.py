"""Two plans side by side: what happens to each release, and which values change, as tables."""

from typing import Any

import pytest
from aicr_pipeline.decide.canonical import canonical, equal
from aicr_pipeline.decide.compare_plans import compare, differences
from aicr_pipeline.decide.describe import plan_wire, tell
from aicr_pipeline.decide.text_table import cut, plain, shown, table
from aicr_pipeline.model.plan import Plan
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import chart, plan, release


def found(before: Any, after: Any) -> list[dict[str, Any]]:
    return [difference.wire() for difference in differences(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 1.0}, {}),
        ({"a": 1}, {"a": True}, {"a": (1, True)}),
        ({"a": 0}, {"a": False}, {"a": (0, False)}),
        ({"a": 1}, {"a": "1"}, {"a": (1, "1")}),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, {"a.b.c": (1, 2)}),
        ({"a": {"b": 1}}, {"a": 1}, {"a": ({"b": 1}, 1)}),
        ({"a": [1, 2]}, {"a": [1, 3]}, {"a[1]": (2, 3)}),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, {"a[0].b": (1, 2)}),
        ({"a": [1, 2]}, {"a": [0, 1, 2]}, {"a": ([1, 2], [0, 1, 2])}),
        ({"a": []}, {"a": [1]}, {"a": ([], [1])}),
        ({"x.y/z": {"b": 1}}, {"x.y/z": {"b": 2}}, {'["x.y/z"].b': (1, 2)}),
        ({"m": {"x.y": 1}}, {"m": {"x.y": 2}}, {'m["x.y"]': (1, 2)}),
        (1, 2, {"(all)": (1, 2)}),
    ],
)
def test_where_values_differ(before: Any, after: Any, paths: dict[str, tuple[Any, Any]]) -> None:
    wanted = [{"path": path, "before": one, "after": other} for path, (one, other) in paths.items()]
    assert canonical(found(before, after), "found") == canonical(wanted, "wanted")


def test_absent_is_not_null() -> None:
    assert found({"gone": 1, "none": None}, {"new": None}) == [
        {"path": "gone", "before": 1},
        {"path": "new", "after": None},
        {"path": "none", "before": None},
    ]


def test_a_list_that_grew_or_shrank_at_its_end_is_told_by_what_came_or_went() -> None:
    assert found({"a": [1]}, {"a": [1, 2]}) == [{"path": "a[1]", "after": 2}]
    assert found({"a": [1, {"b": 2}]}, {"a": [1]}) == [{"path": "a[1]", "before": {"b": 2}}]


def test_what_looks_like_a_credential_is_not_shown() -> None:
    secret = "s3cr3t-value"
    before = {"adminPassword": "x", "env": [{"url": "x"}], "secretName": "one", "db": {"token": "t"}}
    after = {
        "adminPassword": secret,
        "env": [{"url": f"https://u:{secret}@h"}],
        "secretName": "two",
        "db": {"token": secret},
    }
    told = found(before, after)
    assert secret not in str(told)
    assert {"path": "secretName", "before": "one", "after": "two"} in told
    assert [item["path"] for item in told] == ["adminPassword", "db.token", "env[0].url", "secretName"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab.", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values, json_values)
def test_nothing_differs_exactly_where_the_canonical_form_is_one(one: Any, other: Any) -> None:
    """The plan's digest and this comparison have one idea of what the same values are."""
    same = canonical(one, "one") == canonical(other, "other")
    assert equal(one, other) == same
    told = list(differences(one, other))
    assert (told == []) == same
    paths = [difference.path for difference in told]
    assert len(set(paths)) == len(paths), "a path says one place"


BEFORE = plan(
    release("same"),
    release("upgraded", "1.0.0"),
    release("configured", values={"replicas": 1}),
    release("moved"),
    release("gone"),
)


def after() -> Plan:
    return plan(
        release("same"),
        release("upgraded", "1.1.0", values={"replicas": 1, "log": "debug"}),
        release("configured", values={"replicas": 2}),
        release("moved", namespace="monitoring"),
        release("new"),
        release("hook", kind="wrapper", chart=chart("hook")),
        **{"aicr.version": "v1.2.0"},
    )


def test_what_happens_to_each_release() -> None:
    made = compare(BEFORE, after())
    assert [(change.release, change.action) for change in made.releases] == [
        ("same", "Unchanged"),
        ("upgraded", "Upgrade"),
        ("configured", "Reconfigure"),
        ("moved", "Move"),
        ("new", "Install"),
        ("hook", "Install"),
        ("gone", "Remove"),
    ]
    wire = {change["release"]: change for change in made.wire()["releases"]}
    assert wire["configured"]["values"] == [{"path": "replicas", "before": 1, "after": 2}]
    assert wire["configured"]["fields"] == []
    assert wire["upgraded"]["values"] == [{"path": "log", "after": "debug"}]
    assert [item["path"] for item in wire["upgraded"]["fields"]] == [
        "chart.contentDigest",
        "chart.manifestDigest",
        "chart.version",
    ]
    assert wire["moved"]["fields"] == [{"path": "namespace", "before": "gpu-operator", "after": "monitoring"}]
    assert wire["gone"] == {
        "release": "gone", "action": "Remove", "fromVersion": "1.0.0", "fields": [], "values": [],
    }  # fmt: skip
    assert made.wire()["plan"] == [{"path": "aicr.version", "before": "v1.1.2", "after": "v1.2.0"}]


def test_another_order_is_told() -> None:
    one, other = release("one"), release("two")
    (difference,) = compare(plan(one, other), plan(other, one)).plan
    assert difference.wire() == {
        "path": "releases (order)", "before": ["one", "two"], "after": ["two", "one"],
    }  # fmt: skip


def test_a_first_install_has_nothing_to_compare_with() -> None:
    made = compare(None, BEFORE)
    assert made.before is None
    assert {change.action for change in made.releases} == {"Install"}
    assert not any(change.fields or change.values for change in made.releases)


def test_nothing_is_unchanged_between_two_plans() -> None:
    assert [change.action for change in compare(BEFORE, BEFORE, from_is_whole=False).releases] == [
        "Reconfigure"
    ] * 5


@pytest.mark.parametrize("width", [80, 100, 110])
def test_lines_fit_a_terminal(width: int) -> None:
    long = "x" * 53
    wide = plan(
        *(release(f"release-{number}", "1.0.0-" + "y" * 40) for number in range(3)),
        release(long, namespace="n" * 60, values={"a": "v " * 150, "list": ["w " * 150]}),
    )
    narrow = plan(release(long, namespace="n" * 60, values={"a": "u " * 150, "b": 1}))
    comparison = compare(narrow, wide)
    lines = tell({"plan": plan_wire(wide), "rollout": None}, comparison, width)
    assert max(map(len, lines)) <= max(width, 90)  # a digest with its label is 90
    assert any(line.startswith("    + ") for line in lines), "sides that do not fit have their own lines"


def test_a_pipe_gets_everything_whole() -> None:
    wide = plan(release("app", values={"a": "v " * 150}))
    lines = tell(
        {"plan": plan_wire(wide), "rollout": None}, compare(plan(release("app", values={"a": 1})), wide), None
    )
    assert "…" not in "".join(lines)
    assert f'  values: a: 1 -> "{"v " * 150}"' in lines
    assert wide.desired_state.releases[0].chart.manifest_digest in "".join(lines)


def test_nothing_moves_the_cursor() -> None:
    hostile = "a\x1b[2Jb\x9bc\u202ed\n"
    for text in (plain(hostile), shown(hostile), *table(["h"], [[hostile]], None)):
        assert text.isprintable()
    assert cut("abcdef", 4) == "abc…"
