"""Reading a bundle's upgrade records: AICR's documents in our file, and its guide."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from aicr_pipeline.decide.upgrade_guide import read_guide
from aicr_pipeline.decide.upgrade_records import MOST_BYTES, read_records
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.upgrades import GUIDE, document, text, transition

BUNDLE = {"gamma-operator", "delta-operator"}


def read(values: Any) -> Any:
    return read_records({"upgrades.yaml": text(values)}, BUNDLE)


def test_records_are_taken_for_the_bundles_own_components() -> None:
    found = read(
        document(
            gamma_operator=[
                transition(precondition="Quiet.", reversible=False, references=["https://x.test"])
            ],
            elsewhere=[transition()],
            delta_operator=[transition(verdict="safe")],
        )
    )
    assert [(one.component, one.source) for one in found] == [
        ("delta-operator", "upgrades.yaml"),
        ("gamma-operator", "upgrades.yaml"),
    ]
    safe, manual = found[0].boundaries[0], found[1].boundaries[0]
    assert (safe.verdict, safe.guidance.verified_by, safe.guidance.steps) == ("safe", "a lane of tests", ())
    assert (manual.verdict, manual.guidance.applies_from, manual.guidance.applies_to) == (
        "manual",
        "<2.0.0",
        ">=2.0.0 <=2.1.0",
    )
    assert (manual.guidance.deployer, [step.id for step in manual.guidance.steps]) == ("argocd", ["drain"])
    assert (manual.guidance.precondition, manual.guidance.reversible) == ("Quiet.", False)


def test_a_bundle_without_records_has_none() -> None:
    assert read_records({"recipe.yaml": b""}, BUNDLE) == ()


def test_the_steps_that_name_argo_cd_come_first() -> None:
    groups = [
        {"steps": [{"id": "rest", "description": "x"}]},
        {"deployers": ["argocd"], "steps": [{"id": "ours", "description": "x"}]},
    ]
    found = read(document(gamma_operator=[transition(stepsByDeployer=groups)]))
    assert [step.id for step in found[0].boundaries[0].guidance.steps] == ["ours"]


def test_all_that_aicr_may_write_is_read() -> None:
    values = document(
        gamma_operator=[
            transition(
                reversible=True,
                reversibleNotes="Downgrade the chart.",
                verifiedBy="a run",
                hooks=[{"file": "manifests/migrations/a.yaml", "phase": "pre"}],
                affectedResources=[{"group": "example.io", "kinds": ["Widget"]}],
            )
        ]
    )
    values["records"][0]["replaces"] = {"component": "old", "verdict": "manual", "summary": "It is another."}
    values["records"][0]["apiVersion"] = "aicr.run/v1alpha2"
    assert read(values)[0].boundaries[0].guidance.reversible_notes == "Downgrade the chart."


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"records.0.transitions.0.note": "x"}, "unknown field"),
    "an unknown verdict": ({"records.0.transitions.0.verdict": "fine"}, "verdict"),
    "an authored unknown": ({"records.0.transitions.0.verdict": "unknown"}, "verdict"),
    "no summary": ({"records.0.transitions.0.summary": ""}, "summary"),
    "a summary that never ends": ({"records.0.transitions.0.summary": "x" * 5000}, "summary"),
    "manual without steps": ({"records.0.transitions.0.stepsByDeployer": []}, "has no steps for argocd"),
    "steps for others only": (
        {
            "records.0.transitions.0.stepsByDeployer": [
                {"deployers": ["helm"], "steps": [{"id": "a", "description": "x"}]}
            ]
        },
        "has no steps for argocd",
    ),
    "two rests": (
        {"records.0.transitions.0.stepsByDeployer": [{"steps": [{"id": "a", "description": "x"}]}] * 2},
        "two groups",
    ),
    "a deployer that is none": (
        {
            "records.0.transitions.0.stepsByDeployer": [
                {"deployers": ["kustomize"], "steps": [{"id": "a", "description": "x"}]}
            ]
        },
        "deployers",
    ),
    "safe without proof": (
        {"records.0.transitions.0.verdict": "safe", "records.0.transitions.0.stepsByDeployer": []},
        "verifiedBy",
    ),
    "safe with steps": (
        {"records.0.transitions.0.verdict": "safe", "records.0.transitions.0.verifiedBy": "x"},
        "has steps",
    ),
    "reversible without how": ({"records.0.transitions.0.reversible": True}, "reversibleNotes"),
    "no range": ({"records.0.transitions.0.from": "soon"}, "full version"),
    "an open from": ({"records.0.transitions.0.from": ">=1.0.0"}, "from reaches into to"),
    "a from that overlaps": ({"records.0.transitions.0.from": "<=2.0.0"}, "from reaches into to"),
    "a to without floor": ({"records.0.transitions.0.to": "<2.0.0"}, "no lower end"),
    "a to without ceiling": ({"records.0.transitions.0.to": ">=2.0.0"}, "no upper end"),
    "a control character": ({"records.0.transitions.0.summary": "a\x1b[31mred"}, "cannot be printed"),
    "a bidi override in a step": (
        {
            "records.0.transitions.0.stepsByDeployer": [
                {"steps": [{"id": "a", "description": "delete \u202e everything"}]}
            ]
        },
        "cannot be printed",
    ),
    "another kind of ours": ({"kind": "Records"}, "kind"),
    "another version of ours": ({"apiVersion": "upgrades.aicr-pipeline.dev/v2"}, "apiVersion"),
    "a record that is text": ({"records.0": "x"}, "records[0]"),
    "too many steps": (
        {
            "records.0.transitions.0.stepsByDeployer": [
                {"steps": [{"id": str(n), "description": "x"} for n in range(51)]}
            ]
        },
        "steps",
    ),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_a_record_that_cannot_be_read_is_refused(changes: dict[str, Any], words: str) -> None:
    values = document(gamma_operator=[transition()])
    for path, value in changes.items():
        *before, last = path.split(".")
        inner: Any = values
        for part in before:
            inner = inner[int(part)] if isinstance(inner, list) else inner[part]
        inner[int(last) if isinstance(inner, list) else last] = copy.deepcopy(value)
    with pytest.raises(PipelineError, match=r"upgrades\.yaml") as caught:
        read(values)
    assert caught.value.reason is Reason.BundleInvalid
    assert words in caught.value.message


def test_other_refusals() -> None:
    twice = document(gamma_operator=[transition()])
    twice["records"] *= 2
    with pytest.raises(PipelineError, match="stands twice"):
        read(twice)
    newer = document(gamma_operator=[transition()])
    newer["records"][0]["apiVersion"] = "aicr.run/v9"
    with pytest.raises(PipelineError) as caught:
        read(newer)
    assert caught.value.reason is Reason.AICRArtifactUnsupported
    for name in ("upgrades.yaml", "UPGRADING.md"):
        with pytest.raises(PipelineError) as caught:
            read_records({name: b"#" * (MOST_BYTES + 1)}, BUNDLE)
        assert caught.value.reason is Reason.ContentTooLarge
    with pytest.raises(PipelineError, match=r"UPGRADING\.md"):
        read_records({"UPGRADING.md": b"\xff"}, BUNDLE)
    bomb = b"a: &a [x]\nb: [*a, *a]\n"
    with pytest.raises(PipelineError, match="alias"):
        read_records({"upgrades.yaml": bomb}, BUNDLE)


def test_the_guide() -> None:
    found = read_records({"UPGRADING.md": GUIDE.encode()}, BUNDLE)
    delta, gamma = (one.boundaries[0] for one in found)
    assert {one.source for one in found} == {"UPGRADING.md"}
    assert (gamma.verdict, gamma.guidance.applies_from, gamma.guidance.applies_to) == (
        "manual",
        "<2.0.0",
        ">=2.0.0 <=2.1.0",
    )
    words = gamma.guidance
    assert words.summary == "The API group has another name. A controller copies what there is."
    assert words.precondition == "Nothing is in the middle of a rollout."
    assert (words.reversible, words.reversible_notes) == (
        False,
        "The old controller does not read the new group.",
    )
    assert [(step.id, step.description, step.reason) for step in words.steps] == [
        ("upgrade-operator", "Upgrade the operator.", None),
        ("delete-legacy", "Delete the old objects.", "nothing prunes them."),
    ]
    assert words.deployer == "helm"
    assert words.references == ("https://example.com/gamma", "https://example.com/more")
    assert (delta.verdict, delta.guidance.applies_to, delta.guidance.steps) == ("blocked", ">=3.0.0", ())
    assert "exported first" in delta.guidance.summary
    assert "No steps are recorded" in delta.guidance.summary, "no word is lost"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# Before You Upgrade", "# Read me"),
        ("`helm` deployer", "helm deployer"),
        ("## gamma-operator: manual", "## gamma-operator: safe"),
        ("## gamma-operator: manual", "## gamma-operator"),
        ("## gamma-operator: manual", "## gamma operator: manual"),
        ("Applies when upgrading from `<2.0.0` into", "Applies when upgrading to"),
        ("`<2.0.0`", "`^2.0.0`"),
        ("2. `delete-legacy`: ", "2. "),
        (GUIDE[GUIDE.index("## gamma") :], ""),
        ("The API group", "The \x1b[31mAPI group"),
    ],
    ids=str,
)
def test_a_guide_that_is_not_understood_is_refused(old: str, new: str) -> None:
    assert old in GUIDE
    with pytest.raises(PipelineError, match=r"UPGRADING\.md") as caught:
        read_records({"UPGRADING.md": GUIDE.replace(old, new).encode()}, BUNDLE)
    assert caught.value.reason is Reason.BundleInvalid


def test_a_guide_must_agree_with_the_records_beside_it() -> None:
    agreed = text(document(gamma_operator=[transition()]))
    found = read_records({"upgrades.yaml": agreed, "UPGRADING.md": GUIDE.encode()}, BUNDLE)
    assert [(one.component, one.source) for one in found] == [
        ("delta-operator", "UPGRADING.md"),
        ("gamma-operator", "upgrades.yaml"),
    ]
    other = text(document(gamma_operator=[transition(verdict="safe")]))
    with pytest.raises(PipelineError, match=r"gamma-operator from <2.0.0 into >=2.0.0 <=2.1.0 is manual"):
        read_records({"upgrades.yaml": other, "UPGRADING.md": GUIDE.encode()}, BUNDLE)


@given(st.text(max_size=200))
def test_any_text_is_a_guide_or_refused(words: str) -> None:
    for candidate in (words, GUIDE + words):
        with contextlib.suppress(ValueError):
            read_guide(candidate)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["records", "kind", "apiVersion"]), inner)
        ),
        max_leaves=8,
    )
)
def test_any_document_is_read_or_refused(values: Any) -> None:
    try:
        read(values)
    except PipelineError as error:
        assert error.reason in (Reason.BundleInvalid, Reason.AICRArtifactUnsupported)
