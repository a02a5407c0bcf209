"""``upstream.env`` is data, never a script; values merge as Helm merges them."""

from typing import Any

import pytest
from aicr_pipeline.decide.bundle import merge, parse_upstream_env
from aicr_pipeline.model.reasons import Reason
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import refused
from tests.unit.test_bundle import read

# upstream.env


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("CHART='a'\nREPO='https://r'\nVERSION='1'\n", ("a", "https://r", "1")),
        ('CHART="ab"\nREPO=https://r\nVERSION=v1.0.0+x', ("ab", "https://r", "v1.0.0+x")),
        ("# note\n\nVERSION=1\nCHART=oci://h/p/c\nREPO=''\n", ("oci://h/p/c", "", "1")),
        ("CHART=oci://h/c\nVERSION=1", ("oci://h/c", "", "1")),
        ("CHART='it'\\''s'\nREPO=https://r\nVERSION=1", ("it's", "https://r", "1")),
        ("CHART='$(id)'\nREPO=https://r\nVERSION=`id`", ("$(id)", "https://r", "`id`")),
        ("CHART=a=b\nREPO=https://r?x=y\nVERSION=1", ("a=b", "https://r?x=y", "1")),
        ("CHART=a\r\nREPO=https://r\r\nVERSION=1\r\n", ("a", "https://r", "1")),
    ],
)
def test_upstream_env(text: str, found: tuple[str, str, str]) -> None:
    source = parse_upstream_env(text, "001-app")
    assert (source.chart, source.repo, source.version) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CHART=a\nREPO=https://r\nVERSION=1\nexport X=1", "line 4"),
        ("CHART=a\nREPO=https://r\nVERSION=1\nrm -rf /", "line 4"),
        ("CHART=a; id\nREPO=https://r\nVERSION=1", "line 1"),
        ("CHART=a #note\nREPO=https://r\nVERSION=1", "line 1"),
        ("CHART='a\nREPO=https://r\nVERSION=1", "line 1"),
        ("CHART = a\nREPO=https://r\nVERSION=1", "line 1"),
        ("chart=a\nREPO=https://r\nVERSION=1", "line 1"),
        ("CHART=a\nCHART=b\nREPO=https://r\nVERSION=1", "line 2"),
        ("CHART+=a\nREPO=https://r\nVERSION=1", "line 1"),
        ("CHART\nREPO=https://r\nVERSION=1", "line 1"),
        ("LD_PRELOAD=x\nCHART=a\nREPO=https://r\nVERSION=1", "line 1"),
        ("''\nCHART=a\nREPO=https://r\nVERSION=1", "line 1"),
        ("REPO=https://r\nVERSION=1", "has no CHART"),
        ("CHART=''\nREPO=https://r\nVERSION=1", "has no CHART"),
        ("CHART=a\nREPO=https://r", "has no VERSION"),
        ("", "has no CHART"),
    ],
)
def test_upstream_env_is_data_never_a_script(text: str, said: str) -> None:
    with refused(Reason.BundleInvalid, "001-app/upstream.env", said):
        parse_upstream_env(text, "001-app")


@pytest.mark.parametrize(
    ("chart", "repo"),
    [
        ("a", ""),
        ("a", "git://r"),
        ("a", "file:///etc"),
        ("a", "s3://b"),
        ("oci://h/c", "https://r"),
        ("a", "oci://h"),
        ("a", "HTTPS"),
    ],
)
def test_sources_that_nobody_can_mirror(chart: str, repo: str) -> None:
    with refused(Reason.ChartSourceUnsupported, "001-app", repr(repo)):
        parse_upstream_env(f"CHART={chart}\nREPO={repo}\nVERSION=1", "001-app")


# Values


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": "x"}, {"a": "x"}),
        ({"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 0}}}, {"a": {"b": {"c": 0, "d": 2}}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
    ],
)
def test_merging_as_helm_does(base: dict[str, Any], over: dict[str, Any], merged: dict[str, Any]) -> None:
    before = repr(base)
    assert merge(base, over) == merged
    assert repr(base) == before, "the base is not written to"


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
MAPS = st.dictionaries(st.sampled_from("abc"), TREES, max_size=3)


@given(MAPS, MAPS)
def test_merging_again_changes_nothing(base: dict[str, Any], over: dict[str, Any]) -> None:
    once = merge(base, over)
    assert merge(once, over) == once
    assert merge({}, over) == over
    assert merge(base, {}) == base
    assert set(once) == set(base) | set(over)


HEADER = b"{apiVersion: aicr.run/v1, kind: RecipeResult, componentRefs: "


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"001-app/upstream.env": b"CHART='a\xff'\n"}, "001-app/upstream.env is not UTF-8 text"),
        ({"001-app/upstream.env": b"CHART=app\nVERSION='1 2'\n"}, "line 2: VERSION holds a space"),
        ({"001-app/upstream.env": b"CHART='app\t'\n"}, "line 1: CHART holds a space"),
        ({"recipe.yaml": HEADER + b"true}"}, "componentRefs is not a list of components"),
        ({"recipe.yaml": HEADER + b"[{name: a}, {name: a}]}"}, "each with a name of its own"),
        ({"recipe.yaml": HEADER + b"[{name: app, namespace: 1}]}"}, "app: namespace is int, not text"),
    ],
)
def test_nothing_is_guessed(changes: dict[str, bytes | None], said: str) -> None:
    with refused(Reason.BundleInvalid, said):
        read(**changes)
