"""Every captured profile becomes a plan, the same each time, and another one when a value changes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from aicr_pipeline.decide.bundle import Bundle
from aicr_pipeline.decide.plan import make_plan, read_plan
from aicr_pipeline.model.plan import Plan, PlannedChart, Recorded

from tests.unit.samples import config, runtime, sha
from tests.unit.test_bundle_captured import PROFILES, bundle


def planned(found: Bundle, run: str) -> Plan:
    """The plan of a bundle whose charts were all mirrored, by a run of that name."""
    charts = {
        release.name: PlannedChart(
            name=release.name,
            version=release.source.version if release.source else "0.1.0",
            content_digest=sha(f"content {release.name}"),
            manifest_digest=sha(f"manifest {release.name}"),
        )
        for release in found.releases
    }
    recorded = Recorded(
        run=run,
        runtime_version="v",
        created_at="2026-01-01T00:00:00.000Z",
        snapshot_digest=sha(f"snapshot of {run}"),
        recipe_digest=found.recipe_digest,
        bundle_digest=sha(f"artifact of {run}"),
    )
    return make_plan(found, runtime(), config().aicr, charts, recorded)


@pytest.mark.parametrize("profile", PROFILES)
def test_each_captured_bundle_becomes_a_plan(captured: Path, profile: str) -> None:
    found = bundle(captured / profile / "bundle-helm")
    plan = planned(found, "one")
    names = [
        item["release"] for item in json.loads((captured / profile / "releases.derived.json").read_text())
    ]
    assert [release.name for release in plan.desired_state.releases] == names
    assert plan.desired_state.recipe == profile
    assert read_plan(json.dumps(plan.wire()).encode(), plan.desired_state_digest) == plan
    assert planned(found, "two").desired_state_digest == plan.desired_state_digest


def test_one_value_makes_another_plan(captured: Path) -> None:
    found = bundle(captured / PROFILES[0] / "bundle-helm")
    at = next(number for number, release in enumerate(found.releases) if release.values)
    releases = list(found.releases)
    releases[at] = replace(releases[at], values={**(releases[at].values or {}), "surprise": True})
    other = planned(replace(found, releases=tuple(releases)), "one")
    assert other.desired_state_digest != planned(found, "one").desired_state_digest
