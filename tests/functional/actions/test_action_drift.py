"""A cluster that drifted is mended by wanting the same again, and an end for drift is not met twice."""

from typing import Any

import pytest
from aicr_pipeline.adapters.rollouts import active_plan, load_rollout
from aicr_pipeline.clock import after
from aicr_pipeline.model.rollout import rollout_key

from tests.functional.actions.starting import NEWER, announce, end, name, start
from tests.functional.actions.support import PLAN, Place


def seen(place: Place, reason: str | None) -> None:
    """What the last look at the status found."""

    def condition(kind: str, status: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "status": status, "message": "m", "lastTransitionTime": "x", **more}

    ready = condition("Ready", "False", reason=reason) if reason else condition("Ready", "True")
    others = [condition(kind, "True") for kind in ("Resolved", "EngineAvailable", "Stalled")]
    document = {
        "apiVersion": "status.aicr-pipeline.dev/v1", "kind": "RuntimeStatus", "cluster": "demo",
        "observedAt": "x", "conditions": [*others, ready],
    }  # fmt: skip
    place.coordination.put_fact("status", document)


@pytest.fixture
def active(place: Place) -> Place:
    """PLAN is active, and all is well."""
    version = place.submit()
    announce(place, version)
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    seen(place, None)
    return place


def test_the_same_wish_mends_drift(active: Place) -> None:
    version = active.submit()
    run = {"run": "demo-run00000-2"}
    assert announce(active, version, **run)["event"] == "Plan Unchanged"
    seen(active, "NotReady")
    assert announce(active, version, **run)["event"] == "Plan Unchanged", "what fails is not mended by asking"
    seen(active, "InventoryDrift")
    assert announce(active, version, **run)["event"] == "Plan Ready"
    event = {"detail-type": "Plan Ready", "detail": {"plan": PLAN.desired_state_digest}}
    assert start(active, event) == {"started": True, "execution": name(PLAN, 2)}
    rollout = load_rollout(active.ledger, name(PLAN, 2))
    assert (rollout.from_plan, rollout.from_is_whole) == (rollout.to_plan, False), "everything is applied"
    assert start(active, event)["started"] is False, "once"


def test_a_schedule_mends_nothing_by_itself(active: Place) -> None:
    seen(active, "InventoryDrift")
    version = active.submit()
    made = announce(active, version, run="demo-run00000-2", trigger="schedule")
    assert (made["event"], made["because"]) == ("Plan Unchanged", "the plan had its rollout already")


def test_a_late_event_starts_nothing_although_it_drifted(active: Place) -> None:
    seen(active, "InventoryDrift")
    event = {"detail-type": "Plan Ready", "detail": {"plan": PLAN.desired_state_digest}}
    assert start(active, event) == {"started": False, "because": f"rollout {name(PLAN)} is over"}


@pytest.mark.parametrize(("reason", "whole"), [("InventoryDrift", False), ("EngineMissing", True)])
def test_an_end_for_drift_leaves_nothing_to_start_from(active: Place, reason: str, whole: bool) -> None:
    """Else the fresh rollout would go on with the approval, and end at the same gate."""
    assert start(active, active.want(NEWER, "demo-run00000-2"))["started"]
    over = {"rollout": name(NEWER), "outcome": "Failed", "reason": reason, "message": "m"}
    active.put_json(rollout_key(name(NEWER), "outcome"), {**over, "finishedAt": after(active.now, 0)})
    found = active_plan(active.ledger)
    assert (found.digest, found.is_whole) == (PLAN.desired_state_digest, whole)
