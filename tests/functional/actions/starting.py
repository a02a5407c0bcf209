"""Rollouts that start, end and stall, and plans that are announced, for the tests of starting."""

from typing import Any

from aicr_pipeline.actions.announce_plan import announce_plan
from aicr_pipeline.actions.start_rollout import start_rollout
from aicr_pipeline.clock import after
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.rollout import rollout_key, step_key

from tests.functional.actions.support import BEGAN, PLAN, TABLE, Place, step
from tests.unit.samples import plan

NEWER = plan(**{"recipe": "newer"})


def name(made: Plan, number: int = 1) -> str:
    return execution_name("demo", made.desired_state_digest, number)


def start(place: Place, event: dict[str, Any]) -> dict[str, Any]:
    return start_rollout(
        event, place.config, place.ledger, place.inbox, place.coordination, place.executions, place.clock
    )


def ended(made: Plan, number: int = 1) -> dict[str, Any]:
    detail = {"cluster": "demo", "rollout": name(made, number), "toPlan": made.desired_state_digest}
    return {"detail-type": "Rollout Ended", "detail": detail}


def ended_outcome(made: Plan, outcome: str = "Failed", number: int = 1) -> dict[str, Any]:
    reason = "RolledOut" if outcome == "Succeeded" else "RolloutFailed"
    body = {"rollout": name(made, number), "outcome": outcome, "reason": reason, "message": "m"}
    return {**body, "finishedAt": after(BEGAN, 0)}


def end(place: Place, made: Plan, outcome: str, number: int = 1, status: str = "FAILED") -> None:
    """A rollout records its outcome and frees the lock, as Record outcome does."""
    place.put_json(rollout_key(name(made, number), "outcome"), ended_outcome(made, outcome, number))
    place.coordination.drop_lock(name(made, number))
    place.sfn.executions[name(made, number)] = "SUCCEEDED" if outcome == "Succeeded" else status


def begin_step(place: Place, rollout: str, index: int = 1) -> None:
    """The gate let a step through."""
    started = {"rollout": rollout, "index": index, "release": "gpu-operator", "at": after(place.now, 0)}
    place.put_json(step_key(rollout, index), started)


def whole(place: Place, made: Plan, number: int = 1) -> bool:
    return bool(place.ledger.get_json(rollout_key(name(made, number), "rollout"))["fromIsWhole"])


def lose_the_table(place: Place) -> None:
    for found in place.dynamodb.scan(TableName=TABLE)["Items"]:
        place.dynamodb.delete_item(TableName=TABLE, Key={"pk": found["pk"], "sk": found["sk"]})


def stalled_event(made: Plan, number: int = 1, **detail: Any) -> dict[str, Any]:
    detail = {"cluster": "demo", "rollout": name(made, number), "status": "ABORTED", **detail}
    return {"detail-type": "Execution Stalled", "detail": detail}


def announce(place: Place, version: str, made: Plan = PLAN, **state: Any) -> dict[str, Any]:
    given = {
        "runtimeVersion": version,
        "run": "run-1",
        "plan": {"digest": made.desired_state_digest, "releases": 2},
        **state,
    }
    taken = step("Announce plan", input=given, token=None)
    return announce_plan(taken, place.inbox, place.ledger, place.coordination, place.bus)
