"""Ends that are recorded: of a rollout, of a run, and of what only stalled."""

from typing import Any

from aicr_pipeline.actions.record_outcome import record_outcome
from aicr_pipeline.actions.record_resolve import record_resolve
from aicr_pipeline.actions.record_stall import record_stall
from aicr_pipeline.model.rollout import rollout_key

from tests.functional.actions.support import PLAN, ROLLOUT, Place, step
from tests.unit.samples import sha

SUCCEEDED = {"assessment": {"validation": "Required"}, "steps": [], "evidence": {"key": "evidence/demo/x"}}
TO = {"toPlan": PLAN.desired_state_digest}


def record(place: Place, state: dict[str, Any]) -> dict[str, Any]:
    made = step("Record outcome", input={**TO, **state}, token=None)
    return record_outcome(
        made, place.config, place.ledger, place.coordination, place.bus, place.notifier, place.clock
    )


def written(place: Place) -> dict[str, Any]:
    return dict(place.ledger.get_json(rollout_key(ROLLOUT, "outcome")))


def stalled(machine: str = "rollout", status: str = "FAILED", **detail: Any) -> dict[str, Any]:
    cluster = detail.pop("cluster", "demo")
    arn = f"arn:aws:states:us-west-2:111122223333:stateMachine:aicr-pipeline-{cluster}-{machine}"
    return {
        "time": "2026-01-01T12:00:00Z",
        "detail": {
            "executionArn": f"{arn.replace(':stateMachine:', ':execution:')}:{ROLLOUT}",
            "stateMachineArn": arn,
            "name": ROLLOUT,
            "status": status,
            **detail,
        },
    }


def stall(place: Place, event: dict[str, Any]) -> bool:
    found = record_stall(event, place.config, place.ledger, place.bus, place.notifier)
    return bool(found["stalled"])


def resolve(place: Place, state: dict[str, Any], **changes: Any) -> dict[str, Any]:
    made = step("Record resolve", input=state, token=None, **changes)
    return record_resolve(made, place.inbox, place.ledger, place.bus, place.notifier)


def stalled_run(place: Place, run: str = "run-1", **more: Any) -> dict[str, Any]:
    """The state of a run that ended badly, for the runtime that is current."""
    version = place.inbox.current_version("runtimes/cluster.yaml") or place.submit()
    outcome = {"reason": "BundleInvalid", "message": "a file is missing"}
    return {"run": run, "runtimeVersion": version, "bundle": {"outcome": outcome}, **more}


def planned_run(place: Place, event: str, **more: Any) -> dict[str, Any]:
    """The state of a run that made a plan."""
    plan_ = {"digest": sha("plan"), "releases": 17, "isNew": more.pop("is_new", True)}
    state = stalled_run(place, **more) | {"plan": plan_, "announcement": {"event": event}}
    return state | {"bundle": {}}
