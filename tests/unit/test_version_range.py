"""Versions in order, and the ranges of upgrade records."""

import contextlib

import pytest
from aicr_pipeline.decide.version_range import parse_range, version_key
from hypothesis import given
from hypothesis import strategies as st

# SemVer 2.0.0, section 11.
ORDER = (
    "0.9.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.10.0",
    "v2.0.0",
)

NUMBERS = st.tuples(*[st.integers(0, 5)] * 3)


def key(text: str) -> object:
    found = version_key(text)
    assert found is not None
    return found


def test_versions_sort_as_semver_says() -> None:
    assert sorted(ORDER, key=lambda text: key(text)) == list(ORDER)  # type: ignore[arg-type,return-value]
    assert len({key(text) for text in ORDER}) == len(ORDER)


@pytest.mark.parametrize(
    ("one", "other"), [("v1.2.3", "1.2.3"), ("1.2", "1.2.0"), ("1.2.3+a", "1.2.3+b"), ("1.2.3+a", "1.2.3")]
)
def test_what_counts_as_the_same_version(one: str, other: str) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    "text", ["", "latest", "1", "1.2.3.4", "release-1.4", "1.2.x", "01.2.3", "٣.1.0", "1.2.3-", "1.2.3-a..b"]
)
def test_what_is_no_version(text: str) -> None:
    assert version_key(text) is None


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("<0.18.0", ["0.17.9", "0.0.1", "0.18.0-rc.1"], ["0.18.0", "1.0.0"]),
        (">=0.18.0 <=0.19.0", ["0.18.0", "v0.19.0"], ["0.17.9", "0.18.0-rc.1", "0.19.1"]),
        (">=0.18.0, <0.20.0", ["0.18.0", "0.19.9"], ["0.20.0"]),
        (">1.0.0", ["1.0.1", "9.0.0"], ["1.0.0"]),
        ("=2.1.0", ["2.1.0"], ["2.1.1"]),
        ("0.1.0-alpha.12", ["0.1.0-alpha.12"], ["0.1.0-alpha.8", "0.1.0"]),
        ("<=v1.2.3", ["1.2.3"], ["1.2.4"]),
    ],
)
def test_ranges(text: str, inside: list[str], outside: list[str]) -> None:
    found = parse_range(text)
    assert [version for version in inside if not found.holds(key(version))] == []  # type: ignore[arg-type]
    assert [version for version in outside if found.holds(key(version))] == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "1.2",
        "<1.2",
        "^1.2.3",
        "~1.2.3",
        "!=1.2.3",
        "1.x.0",
        "*",
        ">=1.0.0 || <0.5.0",
        "1.0.0 - 2.0.0",
        ">= 1.0.0",
        "=1.0.0 <2.0.0",
        "<2.0.0 1.0.0",
        "<1.0.0 <2.0.0",
        ">1.0.0 >=2.0.0",
        ">=2.0.0 <1.0.0",
        ">1.0.0 <1.0.0",
        ">1.0.0 <=1.0.0",
        "<1.2.3+build",
        "<" + "9" * 300 + ".0.0",
    ],
)
def test_what_is_ambiguous_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_range(text)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_range_holds_what_lies_between(
    low: tuple[int, ...], high: tuple[int, ...], at: tuple[int, ...]
) -> None:
    text = ">={}.{}.{} <{}.{}.{}".format(*low, *high)
    version = version_key("{}.{}.{}".format(*at))
    assert version is not None
    if low >= high:
        with pytest.raises(ValueError, match="holds no version"):
            parse_range(text)
    else:
        assert parse_range(text).holds(version) == (low <= at < high)


@given(st.text(max_size=30))
def test_any_text_is_a_range_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_range(text)
