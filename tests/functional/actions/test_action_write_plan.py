"""Writing a plan: once for one wish, and none while a chart is held."""

from typing import Any

from aicr_pipeline.actions.write_plan import write_plan
from aicr_pipeline.adapters.resolves import Resolves
from aicr_pipeline.decide.bundle import Bundle, BundledRelease
from aicr_pipeline.model.plan import UpstreamSource
from aicr_pipeline.model.reasons import Reason

from tests.functional.actions.support import Place, step
from tests.unit.samples import chart, refused, sha

SNAPSHOT = b"""apiVersion: aicr.run/v1
kind: Snapshot
metadata: {version: v1.1.2}
fingerprint: {service: {value: eks}, k8sVersion: {value: 1.34.2}, nodeCount: {value: 4}}
"""
MIRRORED = [{"release": "app", "status": "mirrored"}, {"release": "app-post", "status": "unchanged"}]


def resolved(place: Place, run: str, content: str = "content") -> dict[str, Any]:
    """What the states before "Write plan" leave; returns its input."""
    source = UpstreamSource(chart="app", repo="https://charts.example", version="1.2.3")
    bundle = Bundle(
        recipe={}, recipe_digest=sha("recipe"), recipe_name="h100", aicr_version="v1.1.2",
        content_digest=sha(content), info=None,
        releases=(
            BundledRelease("app", "app", "apps", "001-app", source, {"a": 1}, {}),
            BundledRelease("app-post", "app", "apps", "002-app-post", None, None, {"Chart.yaml": b"\xff"}),
        ),
    )  # fmt: skip
    resolves = Resolves(place.ledger, run)
    resolves.put_bundle(bundle, sha("artifact"), b"kind: RecipeResult", b"")
    place.ledger.put_same(resolves.snapshot_key, SNAPSHOT)
    for release in bundle.releases:
        resolves.put_chart(release.name, chart(release.name, "1.2.3"))
    assert [(r.name, r.files) for r in resolves.bundle()[0].releases] == [
        (r.name, dict(r.files)) for r in bundle.releases
    ]
    return {"run": run, "runtimeVersion": place.submit(), "mirror": MIRRORED}


def plan_of(place: Place, state: dict[str, Any]) -> dict[str, Any]:
    made = step("Write plan", input=state, token=None)
    return write_plan(made, place.config, place.inbox, place.ledger, place.clock)


def test_a_plan_is_written_once_for_one_wish(place: Place) -> None:
    first = resolved(place, "run-1")
    found = plan_of(place, first)
    assert found["isNew"] is True
    assert found["releases"] == 2
    place.later(3600)
    assert plan_of(place, first) == {**found, "isNew": False}
    assert plan_of(place, resolved(place, "run-2")) == {**found, "isNew": False}, "another run, the same wish"
    assert len(place.ledger_keys("plans/")) == 1
    other = plan_of(place, resolved(place, "run-3", "other content"))
    assert other["digest"] != found["digest"]


def test_every_held_chart_is_named_and_no_plan_is_written(place: Place) -> None:
    state = resolved(place, "run-1")
    state["mirror"] = [
        MIRRORED[0],
        {"release": "b", "status": "held", "reason": "ChartInvalid", "message": "no Chart.yaml"},
        {"release": "c", "status": "held", "reason": "RegistryUnreachable", "message": "gone"},
    ]
    with refused(
        Reason.ChartInvalid,
        "2 of 3 charts are held",
        "b (ChartInvalid): no Chart.yaml | c (RegistryUnreachable): gone",
    ):
        plan_of(place, state)
    assert place.ledger_keys("plans/") == []


def test_something_else_under_the_plans_name_is_never_taken(place: Place) -> None:
    state = resolved(place, "run-1")
    digest = plan_of(place, state)["digest"]
    key = f"plans/{digest[7:]}.json"
    place.s3.put_object(Bucket="ledger", Key=key, Body=b"{}")
    with refused(Reason.PlanUnreadable):
        plan_of(place, state)
