"""Announcing a plan: one target and one event, and no rollout of what nobody wants."""

import pytest
from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from tests.functional.actions.starting import NEWER, announce, end, start
from tests.functional.actions.support import INBOX, PLAN, Place
from tests.unit.samples import refused

pytestmark = pytest.mark.usefixtures("submitted")

READY = {"announced": True, "event": "Plan Ready"}


def test_announced_twice_is_one_target(place: Place) -> None:
    version = place.submit()
    assert announce(place, version) == announce(place, version) == READY
    fact = {"plan": PLAN.desired_state_digest, "runtimeVersion": version, "run": "run-1"}
    assert place.coordination.fact(TARGET) == fact
    assert (
        place.events.details("Plan Ready")
        == [{"cluster": "demo", "releases": 2, "trigger": "submission", **fact}] * 2
    )


@pytest.mark.parametrize("trigger", ["submission", "schedule", "hand"])
def test_an_event_that_was_not_taken_is_sent_by_the_retry(place: Place, trigger: str) -> None:
    version = place.submit()
    place.events.failing = 1
    with pytest.raises(PipelineError) as caught:
        announce(place, version, trigger=trigger)
    assert caught.value.retry
    announce(place, version, trigger=trigger)
    assert place.events.types == ["Plan Ready"]


def test_a_newer_runtime_replaces_the_plan(place: Place) -> None:
    version = place.submit()
    newer = place.submit(paused=False)
    with refused(Reason.ResolveSuperseded, newer):
        announce(place, version)
    assert place.coordination.fact(TARGET) is None
    assert place.events.entries == []


def test_a_paused_or_deleted_runtime_is_not_rolled_out(place: Place) -> None:
    version = place.submit(paused=True)
    paused = {"announced": False, "event": "Plan Paused", "because": "spec.paused is true"}
    assert announce(place, version) == paused
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    with refused(Reason.ResolveSuperseded, "deleted"):
        announce(place, version)
    assert place.coordination.fact(TARGET) is None


def test_the_active_plan_is_nothing_new(place: Place) -> None:
    version = place.submit()
    start(place, place.want(PLAN))
    end(place, PLAN, "Succeeded")
    for trigger in ("submission", "schedule", "hand"):
        found = announce(place, version, run=f"by-{trigger}", trigger=trigger)
        assert (found["announced"], found["event"]) == (False, "Plan Unchanged")
    assert place.coordination.fact(TARGET)["run"] == "demo-run00000-1"  # type: ignore[index]
    # While another plan is wanted, the active one is news: it takes the other's question away.
    place.want(NEWER, run="run-2")
    assert announce(place, version, run="run-3") == READY


def test_only_a_person_asks_again_for_a_plan_that_failed(place: Place) -> None:
    version = place.submit()
    start(place, place.want(PLAN))
    end(place, PLAN, "Rejected")
    found = announce(place, version, run="run-2", trigger="schedule")
    assert found["because"] == "the plan had its rollout already"
    assert announce(place, version, run="run-3", trigger="hand") == READY
    assert announce(place, version, run="run-4") == READY


def test_a_scheduled_plan_that_was_never_rolled_out_is_announced_again(place: Place) -> None:
    """Its run put the target and died before the event."""
    version = place.submit()
    place.want(PLAN)
    assert announce(place, version, run="run-2", trigger="schedule") == READY
