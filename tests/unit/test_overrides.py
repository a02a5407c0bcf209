"""Overrides: what AICR's flags can say, and that a bundle which holds something else is refused."""

import json
from itertools import pairwise
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.aicr_command import bundle_arguments, wish_of
from aicr_pipeline.decide.bundle import Bundle
from aicr_pipeline.decide.job_state import JobState, blame_overrides
from aicr_pipeline.decide.overrides import check_rendered, check_sayable, named
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from hypothesis import given, settings
from hypothesis import strategies as st

from local.aicr.__main__ import parser
from local.aicr.errors import AicrError
from local.aicr.overrides import apply, read
from tests.unit.samples import refused, runtime
from tests.unit.test_bundle import RECIPE, WRAPPER
from tests.unit.test_bundle import read as read_files

VALUES: dict[str, Any] = {
    "replicas": 1,
    "driver": {"enabled": True, "version": "580", "env": [{"name": "A", "value": "b"}]},
    "note": "text",
    "gone": None,
}


def bundle(values: Any, **files: bytes) -> Bundle:
    return read_files(**{
        "001-app/values.yaml": json.dumps(values).encode(), "001-app/cluster-values.yaml": b"", **files,
    })  # fmt: skip


# What can be said


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"deployer": {"namePrefix": "x"}}, "spec.overrides.deployer"),
        ({"app": {"enabled": "false"}}, 'spec.overrides.app.enabled is "false"'),
        ({"app": {"enabled": 0}}, "spec.overrides.app.enabled is 0"),
        ({"app": {"enabled": None}}, "spec.overrides.app.enabled is null"),
        (
            {"app": {"enabled": False, "b": 1, "a": 2}},
            "spec.overrides.app takes the component out and sets a, b",
        ),
    ],
)
def test_what_aicr_has_no_flag_for(overrides: Any, said: str) -> None:
    with refused(Reason.InvalidOverride, said):
        check_sayable(overrides)
    with refused(Reason.InvalidOverride, said):
        bundle_arguments(wish_of(runtime(overrides=overrides)), "recipe.yaml", "out")


def test_the_toggle_is_a_scalar_and_all_else_is_typed() -> None:
    wish = wish_of(runtime(overrides={"b": {"enabled": False}, "a": {"x.enabled": True, "n": [1, "1"]}}))
    arguments = bundle_arguments(wish, "recipe.yaml", "out")
    flags = [f"{flag} {value}" for flag, value in pairwise(arguments) if "--set" in flag]
    assert flags == ['--set-json a:n=[1,"1"]', "--set-json a:x.enabled=true", "--set b:enabled=false"]


def test_names_for_a_message() -> None:
    assert named({}) == ""
    assert named({"b": {"x.y": 1}, "a": {"z": 2}}) == "spec.overrides.a.z, spec.overrides.b.x.y"
    assert named({"a": {f"p{number:02}": 1 for number in range(12)}}).endswith(
        "spec.overrides.a.p09, and 2 more"
    )


# What was rendered


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"app": {"replicas": 1}},
        {"app": {"replicas": 1.0}},
        {"app": {"driver.enabled": True, "note": "text"}},
        {"app": {"driver": {"version": "580"}}},
        {"app": {"driver": {}}},
        {"app": {"driver": {"absent": None}}},
        {"app": {"driver.env": [{"value": "b", "name": "A"}]}},
        {"app": {"gone": None}},
        # The deeper path has the last word, whatever the order they are written in.
        {"app": {"driver.enabled": True, "driver": {"enabled": False}}},
        {"app": {"driver": {"enabled": None}, "driver.enabled": True}},
        {"app": {"enabled": True}},
        {"base": {"enabled": True}},
        {"ba-se": {"enabled": True}},
        {"other": {"enabled": False}},
    ],
)
def test_what_was_asked_for(overrides: Any) -> None:
    check_rendered(bundle(VALUES), overrides)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"app": {"replicas": 2}}, ("spec.overrides.app.replicas", "asked for 2", "have 1")),
        ({"app": {"replicas": True}}, ("asked for true", "have 1")),
        ({"app": {"replicas": "1"}}, ('asked for "1"', "have 1")),
        ({"app": {"driver.enabled": 1}}, ("spec.overrides.app.driver.enabled", "asked for 1", "have true")),
        ({"app": {"driver": {"enabled": False}}}, ("spec.overrides.app.driver.enabled", "have true")),
        ({"app": {"driver": {"enabled": None}}}, ("spec.overrides.app.driver.enabled", "asked for nothing")),
        ({"app": {"driver.new": "x"}}, ("spec.overrides.app.driver.new", 'asked for "x"', "have nothing")),
        ({"app": {"note.inner": 1}}, ("spec.overrides.app.note", 'asked for {"inner": 1}', 'have "text"')),
        ({"app": {"driver.env": []}}, ("spec.overrides.app.driver.env", "asked for []")),
        ({"app": {"driver.env": [{"name": "A"}]}}, ("spec.overrides.app.driver.env",)),
        ({"app": {"gone": False}}, ("asked for false", "have null")),
        ({"app": {"replicas": 2**53 + 1}}, ("asked for 9007199254740993",)),
        ({"app": {"enabled": False}}, ("spec.overrides.app.enabled is false", "still has component app")),
        ({"app": {"note": "x" * 500}}, ("x" * 119 + "…",)),
    ],
)
def test_what_is_another_value(overrides: Any, said: tuple[str, ...]) -> None:
    with refused(Reason.InvalidOverride, *said):
        check_rendered(bundle(VALUES), overrides)


def test_a_component_that_is_not_there() -> None:
    with refused(Reason.OverridePathUnknown, "spec.overrides.typo", "It has app, base."):
        check_rendered(bundle(VALUES), {"typo": {"a": 1}})
    with refused(Reason.OverridePathUnknown, "spec.overrides.typo"):
        check_rendered(bundle(VALUES), {"typo": {"enabled": True}})


def test_values_of_a_component_that_is_a_wrapper_and_of_releases_around_one() -> None:
    files = {"003-own/Chart.yaml": WRAPPER, "003-own/values.yaml": b"a: {b: 1}"}
    around = {"004-app-post/Chart.yaml": WRAPPER, "004-app-post/values.yaml": b"replicas: 7"}
    refs = [*RECIPE["componentRefs"], {"name": "own", "namespace": "apps"}]
    recipe = yaml.safe_dump({**RECIPE, "componentRefs": refs}).encode()
    found = bundle(VALUES, **{"recipe.yaml": recipe}, **files, **around)
    check_rendered(found, {"own": {"a.b": 1}, "app": {"replicas": 1}})
    with refused(Reason.InvalidOverride, "spec.overrides.own.a.b"):
        check_rendered(found, {"own": {"a.b": 2}})


def test_the_cause_of_exit_code_2() -> None:
    failed = JobState("failed", Reason.AICRInvalidRequest, "Job x: ended", "pod", "bundle", 2)
    blamed = blame_overrides(failed, "spec.overrides.a.b")
    assert (blamed.reason, blamed.exit_code) == (Reason.InvalidOverride, 2)
    assert blamed.message.startswith("Job x: ended: AICR refuses one of spec.overrides.a.b.")
    assert blame_overrides(failed, "") == failed
    for other in (
        JobState("failed", None, "", "pod", "recipe", 2),
        JobState("failed", None, "", "p", "bundle", 8),
    ):
        assert blame_overrides(other, "spec.overrides.a.b") == other


# What the runtime says is what the values hold, or it is refused

KEYS = st.sampled_from(["replicas", "driver", "env", "note", "enabled2", "a", "é"])
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text("ab'\"\n: é", max_size=6)
JSON = st.recursive(
    SCALARS | st.floats(-1e6, 1e6, allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(".".join)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(PATHS, JSON, max_size=4), st.data())
def test_through_the_stand_in(paths: dict[str, Any], data: st.DataObject) -> None:
    """The flags as the Job has them, read and applied as AICR does; then one leaf is changed."""
    wish = wish_of(runtime(overrides={"app": paths}))
    arguments = parser().parse_args(bundle_arguments(wish, "recipe.yaml", "out"))
    values: dict[str, Any] = json.loads(json.dumps(VALUES))
    read_back = read(arguments.set, arguments.set_json, ["app", "base"])
    try:
        apply(values, read_back.values.get("app", {}))
    except AicrError as error:
        assert error.code.value == 2
        return
    exact = json.dumps(wish.overrides["app"]) == json.dumps(read_back.values.get("app", {}), sort_keys=False)
    try:
        rendered = bundle(values)
        check_rendered(rendered, wish.overrides)
    except PipelineError as error:
        # Numbers that a double cannot hold, and nothing else.
        assert error.reason in (Reason.InvalidOverride, Reason.BundleInvalid) and not exact, error.message
        return
    leaves = [path for path, value in paths.items() if not isinstance(value, dict)]
    shadowed = [path for path in leaves if any(other.startswith(f"{path}.") for other in paths)]
    if leaves and not shadowed:
        path = data.draw(st.sampled_from(leaves))
        *before, last = path.split(".")
        inner = values
        for part in before:
            inner = inner[part]
        inner[last] = {"another": True}
        with refused(Reason.InvalidOverride, f"spec.overrides.app.{path}"):
            check_rendered(bundle(values), {"app": {path: paths[path]}})
