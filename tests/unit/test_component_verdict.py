"""What a component's record means for each of its releases."""

from __future__ import annotations

import json

import pytest
from aicr_pipeline.decide.acknowledgement import acknowledgement_missing
from aicr_pipeline.decide.assess import assess, check_blocked, request_digest
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import Plan, PlannedRelease
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Acknowledgement, Report, Step
from aicr_pipeline.model.upgrades import ComponentRecord

from tests.unit.samples import chart, plan, release, sha
from tests.unit.upgrades import boundary, record

MANUAL = record("app", boundary("<2.0.0", ">=2.0.0 <=2.1.0", "manual"))
SAFE = record("app", boundary("<2.0.0", ">=2.0.0 <=2.1.0"))
BLOCKED = record("app", boundary("<1.5.0", ">=2.0.0 <=2.1.0", "blocked"))
POST, PRE = ({"kind": "wrapper", "component": "app"} for _ in range(2))


def carried(*releases: PlannedRelease, records: tuple[ComponentRecord, ...]) -> Plan:
    return plan(*releases).model_copy(update={"upgrades": records})


def assessed(before: Plan, after: Plan, *, whole: bool = True) -> Report:
    return assess(before, after, always_ask=False, from_is_whole=whole)


def verdicts(report: Report) -> list[tuple[str, str | None, str | None, str | None]]:
    return [
        (step.release, step.verdict and str(step.verdict), step.verdict_reason, step.with_release)
        for step in report.steps
    ]


def test_safe_needs_nobody() -> None:
    found = assessed(plan(release("app")), carried(release("app", "2.0.0"), records=(SAFE,)))
    assert verdicts(found) == [("app", "safe", "recorded", None)]
    assert not found.approval_needed
    assert found.steps[0].guidance is not None


def test_the_components_other_releases_go_with_it() -> None:
    before = plan(release("app"), release("app-post", "1.0.0", **POST), release("other"))
    after = (release("app", "2.0.0"), release("app-post", "1.1.0", **POST), release("other", "2.0.0"))
    found = assessed(before, carried(*after, records=(SAFE,)))
    assert verdicts(found) == [
        ("app", "safe", "recorded", None),
        ("app-post", "safe", "recorded", "app"),
        ("other", "unknown", "no-record", None),
    ]


def test_the_guidance_stands_before_the_first_release_that_changes() -> None:
    before = plan(release("app"), release("app-post", **POST))
    after = (release("app-pre", **PRE), release("app", "2.0.0"), release("app-post", "1.1.0", **POST))
    found = assessed(before, carried(*after, records=(MANUAL,)))
    assert verdicts(found) == [
        ("app-pre", "manual", "recorded", None),
        ("app", "manual", "recorded", "app-pre"),
        ("app-post", "manual", "recorded", "app-pre"),
    ]
    assert [step.release for step in found.steps if step.must_be_acknowledged] == ["app-pre"]
    assert [step.guidance is not None for step in found.steps] == [True, False, False]


def test_what_aicr_versions_itself_is_no_move_of_the_component() -> None:
    before = plan(release("app"), release("app-post", **POST))
    after = carried(release("app"), release("app-post", "2.0.0", **POST), records=(MANUAL,))
    assert verdicts(assessed(before, after)) == [
        ("app", None, None, None),
        ("app-post", "unknown", "no-boundary-crossed", None),
    ]


def test_a_chart_that_aicr_generates_has_no_version_that_a_record_knows() -> None:
    before, after = release("app", "1.0.0", kind="wrapper"), release("app", "2.0.0", kind="wrapper")
    found = assessed(plan(before), carried(after, records=(SAFE,)))
    assert verdicts(found) == [("app", "unversioned", "not-comparable", None)]
    assert found.approval_needed


@pytest.mark.parametrize(
    ("after", "records", "expected"),
    [
        pytest.param(release("app", "2.0.0", namespace="b"), SAFE, "unknown identity-changed", id="safe"),
        pytest.param(release("app", "2.0.0", namespace="b"), MANUAL, "manual recorded", id="manual"),
        pytest.param(release("app", "2.0.0", namespace="b"), BLOCKED, "blocked recorded", id="blocked"),
        pytest.param(
            release("app", chart=chart("new", "2.0.0")),
            BLOCKED,
            "unknown identity-changed",
            id="another chart",
        ),
    ],
)
def test_a_move_is_never_safer_than_its_versions(
    after: PlannedRelease, records: ComponentRecord, expected: str
) -> None:
    found = assessed(plan(release("app")), carried(after, records=(records,)))
    assert f"{found.steps[0].verdict} {found.steps[0].verdict_reason}" == expected
    assert found.approval_needed


def test_added_and_removed_components_make_no_transition() -> None:
    found = assessed(
        plan(release("gone"), release("x")), carried(release("x"), release("app"), records=(MANUAL,))
    )
    assert verdicts(found) == [("x", None, None, None), ("app", None, None, None)]
    assert found.removed == ("gone",)


def test_other_values_at_the_same_version_cross_nothing() -> None:
    after = release("app", "9.0.0", values={"replicas": 2})
    found = assessed(plan(release("app", "9.0.0")), carried(after, records=(MANUAL,)))
    assert verdicts(found) == [("app", "unknown", "no-boundary-crossed", None)]


def test_between_two_plans_nothing_is_safe_and_what_is_asked_for_stays() -> None:
    before, after = plan(release("app"), release("b")), (release("app", "2.0.0"), release("b"))
    assert verdicts(assessed(before, carried(*after, records=(SAFE,)), whole=False)) == [
        ("app", "unknown", "undefined-origin", None),
        ("b", "unknown", "undefined-origin", None),
    ]
    assert verdicts(assessed(before, carried(*after, records=(MANUAL,)), whole=False))[0][1] == "manual"


@pytest.mark.parametrize(
    ("planned", "seen", "after", "records", "expected"),
    [
        pytest.param("2.0.0", "1.0.0", "2.0.0", MANUAL, "manual recorded from 1.0.0", id="back up again"),
        pytest.param("1.0.0", "2.0.0", "1.0.0", MANUAL, "unknown downgrade from 2.0.0", id="back down again"),
        pytest.param(
            "2.0.0", "1.0.0", "2.0.0", BLOCKED, "blocked recorded from 1.0.0", id="blocked from there"
        ),
        pytest.param(
            "1.0.0", "2.0.0", "2.1.0", MANUAL, "manual recorded from 1.0.0", id="the plan's is stricter"
        ),
        pytest.param(
            "2.0.0", "1.9.0", "2.1.0", SAFE, "unknown undefined-origin from 1.9.0", id="safe is not"
        ),
    ],
)
def test_between_two_plans_what_is_installed_counts_too(
    planned: str, seen: str, after: str, records: ComponentRecord, expected: str
) -> None:
    """A rollout that ended half-way left the release at a version that neither plan has."""
    found = assess(
        plan(release("app", planned), release("b")),
        carried(release("app", after), release("b"), records=(records,)),
        always_ask=False,
        from_is_whole=False,
        installed={"app": release("app", seen)},
    )
    step = found.steps[0]
    assert f"{step.verdict} {step.verdict_reason} from {step.from_version}" == expected
    assert step.must_be_acknowledged is expected.startswith("manual")
    assert found.steps[1].verdict_reason == "undefined-origin"


def test_a_component_has_one_verdict_and_one_guidance_wherever_it_comes_from() -> None:
    before = plan(release("app", "2.0.0"), release("app-post", "2.0.0", **POST))
    after = carried(release("app", "2.0.0"), release("app-post", "2.0.0", **POST), records=(MANUAL,))
    found = assess(
        before, after, always_ask=False, from_is_whole=False, installed={"app": release("app", "1.0.0")}
    )
    assert verdicts(found) == [
        ("app", "manual", "recorded", None),
        ("app-post", "unknown", "undefined-origin", None),
    ]


def test_what_a_rollout_added_before_it_ended_half_way_is_reported_as_removed() -> None:
    old, new = release("gone"), release("added")
    found = assess(
        plan(release("app"), old), plan(release("app")), always_ask=False, from_is_whole=False,
        installed={"added": new},
    )  # fmt: skip
    assert found.removed == ("gone", "added")
    whole = assess(
        plan(release("app"), old), plan(release("app")), always_ask=False, from_is_whole=True,
        installed={"added": new},
    )  # fmt: skip
    assert whole.removed == ("gone",)


def test_blocked_says_why_and_where_to_stop() -> None:
    two = record("app", boundary("<2.0.0", ">=2.0.0 <2.5.0"), boundary("<3.0.0", ">=3.0.0 <3.5.0", "manual"))
    before = plan(release("app"), release("app-post", **POST), release("b"))
    after = (release("app", "3.0.0"), release("app-post", "2.0.0", **POST), release("b", "2.0.0"))
    high = record("b", boundary("<1.5.0", ">=1.5.0 <1.9.0"))
    report = assessed(before, carried(*after, records=(two, high)))
    with pytest.raises(PipelineError) as caught:
        check_blocked(report)
    assert caught.value.reason is Reason.TransitionBlocked
    assert caught.value.message == (
        "app must not go from 1.0.0 to 3.0.0 in one step: it crosses several recorded boundaries at once, "
        "and no record describes that. Go to 2.0.0 first; b must not go from 1.0.0 to 2.0.0 in one step: "
        "the upgrade records do not reach as far. Go to the last version below 1.9.0 first. An approval does "
        "not change that."
    )


def test_a_record_that_blocks_says_what_to_do_instead() -> None:
    report = assessed(plan(release("app")), carried(release("app", "2.0.0"), records=(BLOCKED,)))
    with pytest.raises(PipelineError, match=r"Its record says what to do instead: 1\. Drain the queue"):
        check_blocked(report)
    check_blocked(assessed(plan(release("app")), plan(release("app", "2.0.0"))))


def test_what_a_record_has_on_several_lines_stands_in_one_sentence() -> None:
    wire = BLOCKED.wire()
    for step in wire["boundaries"][0]["guidance"]["steps"]:
        step["description"] = "Drain\n\nthe\u2028queue.\n"
    lines = ComponentRecord.model_validate_json(json.dumps(wire))
    report = assessed(plan(release("app")), carried(release("app", "2.0.0"), records=(lines,)))
    with pytest.raises(PipelineError, match=r"instead: 1\. Drain the queue\. An approval does not") as caught:
        check_blocked(report)
    assert len(caught.value.message.splitlines()) == 1


def test_reports_of_before_records_are_read_and_mean_the_same() -> None:
    report = assessed(plan(release("app")), plan(release("app", "2.0.0")))
    wire = report.wire()
    assert not {"stopAt", "guidance", "withRelease"} & set(wire["steps"][0]), "its digest is what it was"
    assert request_digest(Report.model_validate_json(report.model_dump_json(by_alias=True)), "t") == (
        request_digest(report, "t")
    )


STEP = Step.model_validate(
    {"index": 1, "release": "app", "component": "app", "namespace": "x", "action": "Upgrade",
     "verdict": "manual", "verdict_reason": "recorded", "from_version": "1.0.0", "to_version": "2.0.0"},
    strict=False,
)  # fmt: skip
GIVEN = Acknowledgement(
    rollout="r", release="app", request_digest=sha("asked"), by="alex", identity="link", issuer="link",
    reason="done", at="2026-01-01T00:00:00Z",
)  # fmt: skip


@pytest.mark.parametrize(
    ("step", "given", "digest", "words"),
    [
        pytest.param(STEP, GIVEN, "asked", None, id="given"),
        pytest.param(STEP, None, "asked", "app from 1.0.0 to 2.0.0 is manual", id="not given"),
        pytest.param(STEP, GIVEN, "changed", "alex is for another request", id="for another request"),
        pytest.param(
            STEP,
            GIVEN.model_copy(update={"release": "b"}),
            "asked",
            "for another request",
            id="for another step",
        ),
        pytest.param(STEP.model_copy(update={"verdict": None}), None, "asked", None, id="nothing to do"),
        pytest.param(STEP.model_copy(update={"with_release": "a"}), None, "asked", None, id="said elsewhere"),
    ],
)
def test_when_an_acknowledgement_counts(
    step: Step, given: Acknowledgement | None, digest: str, words: str | None
) -> None:
    found = acknowledgement_missing(step, given, sha(digest))
    assert (found is None) == (words is None)
    assert words is None or words in (found or "")
