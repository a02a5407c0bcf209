"""Whether what runs is qualified: every row of the support policy, each by a change of just that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.qualification import (
    NOT_RECORDED,
    Left,
    Now,
    Qualification,
    Standing,
    identities,
    never_counts,
    qualify,
    stale,
)
from aicr_pipeline.decide.qualification_words import document, told
from aicr_pipeline.model.evidence import BoundTuple
from aicr_pipeline.model.qualification import BYPASS_NEVER_COUNTS, PROFILES, ROWS, TUPLE_PARTS, StaleRow

from tests.unit import qualified as sample
from tests.unit.qualified import NOW, PIPELINE, PLAN, RUNNING, TUPLE, binding, proven
from tests.unit.samples import plan, sha

PAGE = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text()


def look(now: Now = NOW, *more: Any, **changes: Any) -> Qualification:
    return qualify([proven(**changes), *more], [], now)


def deployed(**changes: Any) -> Now:
    """With something else deployed."""
    return replace(NOW, running=RUNNING.model_copy(update={"pipeline": PIPELINE.model_copy(update=changes)}))


def configured(**changes: Any) -> Now:
    """With another AICR configured."""
    return replace(NOW, running=RUNNING.model_copy(update={"aicr": RUNNING.aicr.model_copy(update=changes)}))


def seen(**changes: Any) -> Now:
    """With another tuple in the newest snapshot."""
    return replace(NOW, tuple_=TUPLE.model_copy(update=changes))


def planned(**changes: Any) -> Now:
    """With another AICR image in the active plan, and nothing else changed, its digest included."""
    state = PLAN.desired_state
    aicr = state.aicr.model_copy(update=changes)
    return replace(
        NOW, plan=PLAN.model_copy(update={"desired_state": state.model_copy(update={"aicr": aicr})})
    )


def recorded(**changes: Any) -> Now:
    """With the same plan of another run."""
    made = PLAN.model_copy(update={"recorded": PLAN.recorded.model_copy(update=changes)})
    return replace(NOW, plan=made)


OTHER_PLAN = plan(*PLAN.desired_state.releases, **{
    "aicr.imageDigest": PLAN.desired_state.aicr.image_digest,
    "validatorImages": list(PLAN.desired_state.validator_images),
    "bundleContentDigest": sha("another bundle"),
})  # fmt: skip
IMAGE = "ghcr.io/nvidia/aicr@" + sha("another")
VALIDATOR = "ghcr.io/nvidia/aicr-validators/deployment@" + sha("another validator")

#: What changes, the row that names it, and the part. Every row; of the second both parts, of the fourth all.
CHANGES: list[tuple[str, Callable[[], Now], StaleRow, str]] = [
    (
        "a function",
        lambda: deployed(functions=PIPELINE.functions | {"check_gate": sha("rebuilt")}),
        StaleRow.Rebuild,
        "function check_gate",
    ),
    (
        "a function that is new",
        lambda: deployed(functions=PIPELINE.functions | {"new_one": sha("new")}),
        StaleRow.Rebuild,
        "function new_one",
    ),
    (
        "a function that is gone",
        lambda: deployed(functions={"bind_evidence": sha("bind")}),
        StaleRow.Rebuild,
        "function check_gate",
    ),
    (
        "the program",
        lambda: deployed(layers=PIPELINE.layers | {"program": sha("x")}),
        StaleRow.Rebuild,
        "layer program",
    ),
    (
        "the dependencies",
        lambda: deployed(layers=PIPELINE.layers | {"dependencies": sha("x")}),
        StaleRow.Rebuild,
        "layer dependencies",
    ),
    ("a manifest", lambda: deployed(manifests=sha("changed")), StaleRow.Rebuild, "manifests"),
    ("no manifests", lambda: deployed(manifests=None), StaleRow.Rebuild, "manifests"),
    ("the AICR image that is configured", lambda: configured(image=IMAGE), StaleRow.Inputs, "AICR image"),
    (
        "the validator images that are configured",
        lambda: configured(validator_images=(VALIDATOR,)),
        StaleRow.Inputs,
        "validator images",
    ),
    ("the AICR image that runs", lambda: planned(image_digest=sha("v")), StaleRow.AicrImage, "AICR image"),
    ("the instance type", lambda: seen(instance_types=("p5e.48xlarge",)), StaleRow.Tuple, "instance type"),
    ("the node image", lambda: seen(node_images=("ami-2",)), StaleRow.Tuple, "node image"),
    ("the kernel", lambda: seen(kernels=("6.18",)), StaleRow.Tuple, "kernel"),
    ("the driver", lambda: seen(drivers=("590.1",)), StaleRow.Tuple, "driver"),
    ("the mode", lambda: seen(gpu_mode="dra"), StaleRow.Tuple, "GPU Operator or DRA mode"),
    ("the fabric", lambda: seen(fabrics=("efa (v2)",)), StaleRow.Tuple, "fabric"),
    ("the workload image", lambda: seen(workload_images=("x",)), StaleRow.Tuple, "workload image"),
    ("a second kernel", lambda: seen(kernels=(*TUPLE.kernels, "6.18")), StaleRow.Tuple, "kernel"),
    ("the plan", lambda: replace(NOW, plan=OTHER_PLAN), StaleRow.Plan, "plan"),
    ("the rollout", lambda: replace(NOW, rollout="demo-12345678-2"), StaleRow.Plan, "rollout"),
    ("the run", lambda: recorded(run="demo-99999999-1"), StaleRow.Plan, "run"),
    ("a later rollout", lambda: replace(NOW, whole=False), StaleRow.Plan, "plan"),
]


def test_unchanged_it_is_qualified() -> None:
    found = look()
    assert (found.standing, found.code, found.differences, found.unknown) == (Standing.Qualified, 0, (), ())
    assert found.profile is PROFILES[0]


@pytest.mark.parametrize(("change", "row", "part"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_each_change_is_named_by_its_row(change: Callable[[], Now], row: StaleRow, part: str) -> None:
    found = look(change())
    assert [(one.row, one.part) for one in found.differences] == [(row, part)]
    assert (found.standing, found.code) == (Standing.Stale, 1)
    lines = told(document(found, [], []))
    assert f"stale       {ROWS[row].change}" in lines
    assert f"            {ROWS[row].effect}" in lines


def test_every_row_and_every_part_has_its_change() -> None:
    assert {row for _, _, row, _ in CHANGES} == set(StaleRow)
    assert {part for _, _, row, part in CHANGES if row is StaleRow.Tuple} == set(TUPLE_PARTS.values())
    assert len(TUPLE_PARTS) == 7 and set(TUPLE_PARTS) == set(BoundTuple.model_fields)
    assert {part for _, _, row, part in CHANGES if row is StaleRow.Inputs} == {
        "AICR image",
        "validator images",
    }


def test_another_aicr_image_at_the_same_version_is_another() -> None:
    (difference,) = look(planned(image_digest=sha("rebuilt"))).differences
    assert "(v1.1.2)" in difference.qualified and "(v1.1.2)" in difference.now


def test_where_an_image_is_pulled_from_does_not_matter() -> None:
    mirrored = RUNNING.aicr.image.replace("ghcr.io", "mirror.example.com")
    assert look(configured(image=mirrored)).standing is Standing.Qualified


def test_a_validator_that_ran_with_another_image_is_an_input() -> None:
    ran = [{"check": "gpu", "image": "deployment:v1.1.2", "digest": sha("pulled again")}]
    (difference,) = look(validators=ran).differences
    assert (difference.row, difference.part) == (StaleRow.Inputs, "validator images")


def test_the_configuration_alone_makes_nothing_stale() -> None:
    """An approver more is no row of the policy; what follows from it for manifests would be one."""
    assert look(deployed(configuration=sha("another"))).standing is Standing.Qualified


@pytest.mark.parametrize(
    ("path", "value", "row", "part"),
    [
        ("pipeline.functions", {}, StaleRow.Rebuild, "functions"),
        ("pipeline.layers", {"dependencies": sha("dependencies")}, StaleRow.Rebuild, "layer program"),
        ("pipeline.layers", {"program": sha("program")}, StaleRow.Rebuild, "layer dependencies"),
        ("pipeline.manifests", None, StaleRow.Rebuild, "manifests"),
        ("validators", None, StaleRow.Inputs, "validator images"),
        *[
            (f"tuple.{field}", [], StaleRow.Tuple, part)
            for field, part in (
                ("instanceTypes", "instance type"),
                ("nodeImages", "node image"),
                ("kernels", "kernel"),
                ("drivers", "driver"),
                ("fabrics", "fabric"),
                ("workloadImages", "workload image"),
            )
        ],
    ],
)
def test_what_was_not_recorded_never_covers(path: str, value: Any, row: StaleRow, part: str) -> None:
    found = look(**{path: value})
    assert [(one.row, one.part, one.qualified) for one in found.differences] == [(row, part, NOT_RECORDED)]
    # Also where nobody can say what runs.
    blind = Now("demo", PLAN, sample.ROLLOUT, True, None, None)
    assert (row, part) in {(one.row, one.part) for one in stale(binding(**{path: value}), blind)}


def test_evidence_of_an_earlier_version_covers_nothing() -> None:
    found = look(**{"tuple": None, "validators": None, "pipeline": {"version": "0.0.9"}})
    assert {one.row for one in found.differences} == {StaleRow.Rebuild, StaleRow.Inputs, StaleRow.Tuple}
    assert len([one for one in found.differences if one.row is StaleRow.Tuple]) == 7


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"approval.identity": "bypass"}, BYPASS_NEVER_COUNTS),
        ({"qualifying": False, "notQualifyingBecause": ["it ran in the local engine"]}, "local engine"),
        ({"qualifying": False}, "it does not qualify"),
        ({"cluster": "other"}, "it is of cluster other"),
        ({"outcome": "Failed"}, "the rollout failed"),
        ({"validation.mode": "Disabled"}, "did not pass"),
        ({"validation.failed": 1}, "did not pass"),
        ({"validation.other": 1}, "did not pass"),
        ({"validation.passed": 0, "validation.skipped": 2}, "did not pass"),
        ({"documents": None}, "the records that it was made from are not named"),
        ({"documents": {}}, "what was deployed during the rollout is not recorded"),
        ({"boundAt": "yesterday"}, "its time is not one"),
        ({"boundAt": "2026-01-01T10:00:00"}, "its time is not one"),
    ],
)
def test_what_never_counts_whatever_it_says_of_itself(changes: dict[str, Any], why: str) -> None:
    found = look(**changes)
    assert (found.standing, found.code, found.evidence) == (Standing.NotQualified, 1, None)
    (left,) = found.ignored
    assert why in left.why
    assert why in " ".join(told(document(found, [], [])))


def test_a_bypassed_rollout_after_a_qualified_one_makes_that_stale() -> None:
    """Its own evidence never counts, and that of the earlier rollout does not satisfy it."""
    bypassed = proven(**{"approval.identity": "bypass", "rollout.name": "demo-12345678-2"})
    found = look(replace(NOW, rollout="demo-12345678-2"), bypassed)
    assert [left.why for left in found.ignored] == [BYPASS_NEVER_COUNTS]
    assert [(one.row, one.part) for one in found.differences] == [(StaleRow.Plan, "rollout")]


def test_the_newest_that_counts_is_taken() -> None:
    newer = proven(**{"boundAt": "2026-02-01T00:00:00+02:00", "rollout.name": "demo-12345678-2"})
    for now, standing in (
        (NOW, Standing.Stale),
        (replace(NOW, rollout="demo-12345678-2"), Standing.Qualified),
    ):
        found = look(now, newer)
        assert found.evidence is newer and found.standing is standing


def test_evidence_of_another_profile_is_not_taken() -> None:
    found = look(**{"plan.recipe": "h100-gke-cos-training-kubeflow"})
    assert (found.standing, found.evidence) == (Standing.NotQualified, None)


@pytest.mark.parametrize("recipe", ["gb200-eks-ubuntu-training-kubeflow", "h100-eks-ubuntu-inference-dynamo"])
def test_another_recipe_never_inherits(recipe: str) -> None:
    state = PLAN.desired_state.model_copy(update={"recipe": recipe})
    found = look(
        replace(NOW, plan=PLAN.model_copy(update={"desired_state": state})), **{"plan.recipe": recipe}
    )
    assert (found.standing, found.profile, found.code) == (Standing.NotQualified, None, 1)
    assert recipe in found.because


def test_without_a_rollout_nothing_is_qualified() -> None:
    found = qualify([], [], Now("demo", None, None, True, RUNNING, None))
    assert (found.standing, found.because) == (
        Standing.NotQualified, "no rollout has succeeded on this cluster",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (replace(NOW, running=None), "what of the pipeline is deployed"),
        (replace(NOW, tuple_=None), "of the newest snapshot: instance type, node image"),
        (replace(NOW, tuple_=TUPLE.model_copy(update={"kernels": ()})), "of the newest snapshot: kernel"),
        (replace(NOW, plan=None), f"the plan of rollout {sample.ROLLOUT} is not in what was read"),
    ],
)
def test_what_is_not_known_is_incomplete(now: Now, words: str) -> None:
    found = look(now)
    assert (found.standing, found.code) == (Standing.Incomplete, 3)
    assert words in found.because


def test_what_differs_outweighs_what_is_not_known() -> None:
    assert look(replace(deployed(manifests=sha("x")), tuple_=None)).standing is Standing.Stale


def test_the_same_plan_has_the_same_workload_images() -> None:
    unseen = replace(NOW, tuple_=TUPLE.model_copy(update={"workload_images": ()}))
    assert look(unseen).standing is Standing.Qualified
    assert look(replace(unseen, plan=OTHER_PLAN)).unknown == ("of the newest snapshot: workload image",)


def test_unverified_evidence_is_named_and_changes_nothing() -> None:
    left = Left("evidence/demo/x/y", "it does not verify: signature: no")
    found = qualify([proven()], [left], NOW)
    assert found.standing is Standing.Qualified and found.ignored == (left,)


def test_identities_are_all_that_can_make_it_stale() -> None:
    """Whatever is compared is among what the evidence is said to cover."""
    names = {part for part, _ in identities(binding())}
    parts = {part.replace("validator images", "validator image") for _, _, _, part in CHANGES}
    assert parts - {"function new_one"} <= names


def test_three_profiles_and_none_is_qualified_today() -> None:
    assert [one.recipe for one in PROFILES] == [
        "h100-eks-ubuntu-training-kubeflow", "h100-gke-cos-training-kubeflow", None,
    ]  # fmt: skip
    assert all(one.standing.startswith(("Not qualified", "Not claimed")) for one in PROFILES)


@pytest.mark.parametrize("row", StaleRow)
def test_the_page_has_each_row_in_the_same_words(row: StaleRow) -> None:
    found = ROWS[row]
    assert f"| {found.change} | {found.effect} | {found.here} |" in PAGE


def test_the_page_has_profiles_and_the_bypass_in_the_same_words() -> None:
    for profile in PROFILES:
        recipe = f"`{profile.recipe}`" if profile.recipe else "–"
        assert f"| {profile.name} | {recipe} | {profile.standing} |" in PAGE
    assert BYPASS_NEVER_COUNTS in PAGE


def test_nothing_speaks_against_the_sample() -> None:
    assert list(never_counts(binding(), "demo")) == []
    assert list(stale(binding(), NOW)) == []
