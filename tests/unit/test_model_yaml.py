"""YAML as Kubernetes' reader gives it, without what a stranger could make of it."""

import time
from typing import Any

import pytest
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import refused


def load(text: str | bytes, **more: Any) -> Any:
    return yaml.load(text, Reason.InvalidRuntime, "the file", **more)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: 2026-01-01T10:00:00Z", {"a": "2026-01-01T10:00:00Z"}),
        ("a: 22:22", {"a": "22:22"}),
        ("a: 1:30:00.5", {"a": "1:30:00.5"}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: 1.5E-3", {"a": 0.0015}),
        ("a: .5", {"a": 0.5}),
        ("a: 010", {"a": 8}),
        ("a: 0x1F", {"a": 31}),
        ("a: -7", {"a": -7}),
        ("a: 1_000", {"a": 1000}),
        ("a: 1.2.3", {"a": "1.2.3"}),
        ("a: v1", {"a": "v1"}),
        ("a: '1'", {"a": "1"}),
        ("a: -", None),
        ("a: yes", {"a": True}),
        ("a: off", {"a": False}),
        ("a: ~", {"a": None}),
        ("a: null", {"a": None}),
        ("'1': a", {"1": "a"}),
        ("a: 5 * 3 & 2", {"a": "5 * 3 & 2"}),
        ("a: '*'", {"a": "*"}),
        ("a: &anchor 1", {"a": 1}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ('a: "\\u00e9"', {"a": "é"}),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    if value is None and text:
        with refused(Reason.InvalidRuntime):
            load(text)
        return
    found = load(text)
    assert found == value
    assert repr(found) == repr(value), "the same type too"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x [1]\nb: *x", "aliases are not allowed"),
        ("a: &x\n  b: *x", "aliases are not allowed"),
        ("base: &b {x: 1}\nover: {<<: *b}", "aliases are not allowed"),
        ("<<: {a: 1}", "merge"),
        ("a: 1\na: 2", "line 2: the key 'a' stands twice"),
        ("x:\n  a: 1\n  b: 1\n  a: 1", "line 4: the key 'a' stands twice"),
        ("{a: 1, 'a': 2}", "stands twice"),
        ("1: a", "line 1: the key 1 is not text"),
        ("true: a", "the key True is not text"),
        ("on: a", "the key True is not text"),
        ("~: a", "the key None is not text"),
        ("? [a, b]\n: c", "is not text"),
        ("--- a\n--- b", "single document"),
        ("a: [1", "not valid YAML"),
        ("a: !!python/object/apply:os.system [id]", "constructor"),
        ("a: !custom x", "constructor"),
        ("a: !!timestamp 2026-01-01", "constructor"),
        ("a: !!binary aGk=", "constructor"),
        ("a: !!set {b: null}", "constructor"),
        ("a: !!omap [b: 1]", "constructor"),
        ("a: !!int x", "not valid YAML"),
        ("a: \x00", "not valid YAML"),
        ('a: "\\ud800"', "not valid YAML"),
        (b"a: '\xff'", "not valid YAML"),
        (b"\x00\xd8\x00", "not valid YAML"),
        ("\t- x", "not valid YAML"),
    ],
)
def test_refused(text: str | bytes, said: str) -> None:
    with refused(Reason.InvalidRuntime, "the file", said):
        load(text)


def test_a_billion_laughs_is_refused_at_once() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    began = time.thread_time()
    with refused(Reason.InvalidRuntime, "aliases"):
        load(bomb)
    assert time.thread_time() - began < 1


@pytest.mark.parametrize("opened", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused_and_does_not_crash(opened: str) -> None:
    with refused(Reason.InvalidRuntime):
        load(opened * 100_000)


def test_size_counts_bytes_and_the_limit_is_allowed() -> None:
    assert load("a: é", most_bytes=5) == {"a": "é"}
    with refused(Reason.ContentTooLarge, "5 bytes; the limit is 4"):
        load("a: é", most_bytes=4)
    with refused(Reason.ContentTooLarge):
        load(b"#" * ((1 << 20) + 1))


def test_the_reason_is_the_callers() -> None:
    with pytest.raises(PipelineError) as caught:
        yaml.load("a: [", Reason.BundleInvalid, "values.yaml")
    assert caught.value.reason is Reason.BundleInvalid
