"""The transition between two plans, as tables."""

from typing import Any

import pytest
from aicr_pipeline.decide.assess import assess, changed_values, request_digest
from aicr_pipeline.model.plan import Plan, PlannedRelease
from aicr_pipeline.model.rollout import Action, Report, Verdict

from tests.unit.samples import chart, plan, release, sha

BASE = release("app", "1.2.3")


def report(before: PlannedRelease, after: PlannedRelease) -> Report:
    return assess(plan(before), plan(after), always_ask=False, from_is_whole=True)


@pytest.mark.parametrize(
    ("after", "action", "verdict", "why"),
    [
        pytest.param(BASE, "Unchanged", None, None, id="the same"),
        pytest.param(release("app", "1.2.4"), "Upgrade", "unknown", "no-record", id="a patch is not safe"),
        pytest.param(release("app", "2.0.0"), "Upgrade", "unknown", "no-record", id="a major"),
        pytest.param(release("app", "1.2.2"), "Upgrade", "unknown", "downgrade", id="a downgrade"),
        pytest.param(release("app", "0.9.0"), "Upgrade", "unknown", "downgrade", id="a far downgrade"),
        pytest.param(release("app", "latest"), "Upgrade", "unversioned", "not-comparable", id="no version"),
        pytest.param(
            release("app", "v1.2.3"),
            "Reconfigure",
            "unknown",
            "no-record",
            id="a v makes no upgrade, but a chart",
        ),
        pytest.param(
            release("app", "1.2.3", values={"replicas": True}),
            "Reconfigure",
            "unknown",
            "no-record",
            id="true is not 1",
        ),
        pytest.param(
            release("app", "1.2.3", values={"replicas": 2}),
            "Reconfigure",
            "unknown",
            "no-record",
            id="values",
        ),
        pytest.param(
            release("app", chart=chart("app", "1.2.3", "rebuilt")),
            "Reconfigure",
            "unknown",
            "no-record",
            id="the same version with other content",
        ),
        pytest.param(
            release("app", "1.2.3", namespace="other"), "Move", "unknown", "identity-changed", id="namespace"
        ),
        pytest.param(
            release("app", chart=chart("app2", "1.2.3")),
            "Move",
            "unknown",
            "identity-changed",
            id="another chart",
        ),
        pytest.param(
            release("app", "1.2.4", namespace="other"),
            "Move",
            "unknown",
            "identity-changed",
            id="a move wins over an upgrade",
        ),
        pytest.param(
            release("app", "1.2.3", kind="wrapper"),
            "Move",
            "unknown",
            "identity-changed",
            id="chart to wrapper",
        ),
        pytest.param(
            release("app", "1.2.3", component="other"),
            "Unchanged",
            None,
            None,
            id="only the component's name",
        ),
    ],
)
def test_one_release(after: PlannedRelease, action: str, verdict: str | None, why: str | None) -> None:
    step = report(BASE, after).steps[0]
    assert (step.action, step.verdict, step.verdict_reason) == (action, verdict, why)
    assert (step.from_version, step.to_version) == ("1.2.3", after.chart.version)
    asked = report(BASE, after)
    assert asked.approval_needed == (verdict is not None), "unknown is never treated as safe"


def test_first_install() -> None:
    found = assess(None, plan(release("a"), release("b")), always_ask=False, from_is_whole=True)
    assert [(s.index, s.release, s.action, s.verdict, s.from_version) for s in found.steps] == [
        (1, "a", Action.Install, None, None),
        (2, "b", Action.Install, None, None),
    ]
    assert found.from_plan is None
    assert found.approval_because == ("first install",)


def test_added_and_removed_releases_make_no_transition() -> None:
    found = assess(
        plan(release("a"), release("gone")),
        plan(release("a"), release("new")),
        always_ask=False,
        from_is_whole=True,
    )
    assert [(s.release, s.action, s.verdict) for s in found.steps] == [
        ("a", Action.Unchanged, None),
        ("new", Action.Install, None),
    ]
    assert found.removed == ("gone",)
    assert not found.approval_needed


@pytest.mark.parametrize(
    ("after", "gate"),
    [
        ((release("app"), release("app-readiness", kind="wrapper")), "Unchanged"),
        ((release("app", "2.0.0"), release("app-readiness", kind="wrapper")), "Reconfigure"),
        ((release("app", values={"replicas": 9}), release("app-readiness", kind="wrapper")), "Reconfigure"),
        ((release("other", "2.0.0"), release("app"), release("app-readiness", kind="wrapper")), "Unchanged"),
    ],
    ids=["unchanged", "upgraded", "reconfigured", "another component changed"],
)
def test_the_gate_of_a_changed_component_runs_again(after: tuple[PlannedRelease, ...], gate: str) -> None:
    before = plan(release("app"), release("app-readiness", kind="wrapper"), release("other"))
    assert assess(before, plan(*after), always_ask=False, from_is_whole=True).steps[-1].action == gate


@pytest.mark.parametrize(
    ("changes", "always", "because"),
    [
        ({}, False, ()),
        ({}, True, ("approvals.always",)),
        ({"aicr.imageDigest": sha("new")}, False, ("the AICR image changes",)),
        ({"aicr.imageDigest": sha("new")}, True, ("the AICR image changes", "approvals.always")),
        ({"releases.0.namespace": "other"}, False, ("gpu-operator moves",)),
        ({"releases.1.chart.version": "2.0.0"}, False, ("kai-scheduler: unknown (no-record)",)),
        ({"validation": "Disabled"}, False, ()),
    ],
)
def test_who_is_asked_and_why(changes: dict[str, Any], always: bool, because: tuple[str, ...]) -> None:
    found = assess(plan(), plan(**changes), always_ask=always, from_is_whole=True)
    assert found.approval_because == because
    assert found.approval_needed == bool(because)


def test_after_a_rollout_that_ended_half_way_nothing_is_known_to_be_unchanged() -> None:
    before, after = plan(release("a"), release("b")), plan(release("a"), release("b", "2.0.0"), release("c"))
    known = assess(before, after, always_ask=False, from_is_whole=True)
    assert [step.action for step in known.steps] == ["Unchanged", "Upgrade", "Install"]
    found = assess(before, after, always_ask=False, from_is_whole=False)
    assert [(step.action, step.verdict, step.verdict_reason) for step in found.steps] == [
        ("Reconfigure", "unknown", "undefined-origin"),
        *((step.action, step.verdict, step.verdict_reason) for step in known.steps[1:]),
    ]
    assert found.approval_needed
    assert found.approval_because[0] == (
        "an earlier rollout ended half-way, or somebody changed the cluster: it may not be as planned"
    )
    assert request_digest(found, "t") != request_digest(known, "t")


@pytest.mark.parametrize("before", [None, plan()], ids=["first install", "the same plan"])
def test_half_way_is_always_asked(before: Plan | None) -> None:
    found = assess(before, plan(), always_ask=False, from_is_whole=False)
    assert found.approval_needed
    assert found.approval_because[0].startswith("an earlier rollout ended half-way")
    assert {step.action for step in found.steps} == {"Install" if before is None else "Reconfigure"}
    assert assess(before, plan(), always_ask=False, from_is_whole=True).approval_needed is (before is None)


def test_order_is_the_plans_and_the_report_comparable() -> None:
    one, two = plan(release("b"), release("a")), plan(release("b", "2.0.0"), release("a"))
    found = assess(one, two, always_ask=True, from_is_whole=True)
    assert [step.release for step in found.steps] == ["b", "a"]
    assert assess(one, two, always_ask=True, from_is_whole=True) == found
    assert Report.model_validate_json(found.model_dump_json(by_alias=True)) == found
    assert found.validation == "Required"


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({}, {}, []),
        (None, None, []),
        (None, {"a": 1}, ["(all)"]),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 1}, {}, ["a"]),
        ({}, {"a": {"b": 1}}, ["a"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ["a.c"]),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2, "d": 1}}}, ["a.b.c", "a.b.d"]),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a"]),
        ({"a": {"b": 1}}, {"a": 1}, ["a"]),
        ({"z": 1, "b": 1}, {"z": 2, "b": 2}, ["b", "z"]),
    ],
)
def test_changed_values(before: Any, after: Any, paths: list[str]) -> None:
    assert changed_values(before, after) == paths


def test_the_report_names_at_most_fifty_values() -> None:
    before = release("app", values={f"k{n:03}": 1 for n in range(80)})
    after = release("app", values={f"k{n:03}": 2 for n in range(80)})
    assert len(report(before, after).steps[0].changed_values) == 50


def test_an_approval_binds_plans_report_and_deadline() -> None:
    first = assess(plan(), plan(**{"recipe": "b"}), always_ask=True, from_is_whole=True)
    digests = {
        request_digest(first, "2026-01-01T00:00:00.000Z"),
        request_digest(first, "2026-01-01T00:00:00.001Z"),
        request_digest(first.model_copy(update={"from_plan": sha("x")}), "2026-01-01T00:00:00.000Z"),
        request_digest(first.model_copy(update={"to_plan": sha("x")}), "2026-01-01T00:00:00.000Z"),
        request_digest(first.model_copy(update={"removed": ("x",)}), "2026-01-01T00:00:00.000Z"),
        request_digest(first.model_copy(update={"steps": first.steps[:1]}), "2026-01-01T00:00:00.000Z"),
        request_digest(first.model_copy(update={"validation": "Disabled"}), "2026-01-01T00:00:00.000Z"),
    }
    assert len(digests) == 7
    assert request_digest(first, "2026-01-01T00:00:00.000Z") in digests
    step = first.steps[0].model_copy(update={"verdict": Verdict.safe})
    assert request_digest(first.model_copy(update={"steps": (step, *first.steps[1:])}), "x") != (
        request_digest(first, "x")
    )
