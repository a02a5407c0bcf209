"""The status over the signed routes, and the command that asks them."""

import json
from typing import Any

import pytest
from aicr_pipeline import status as command
from aicr_pipeline.actions.operators_desk import Caller
from aicr_pipeline.actions.serve_status import renew_status, tell_running, tell_status
from aicr_pipeline.adapters.statuses import keep_status, read_status
from aicr_pipeline.clock import after, rfc3339
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.qualification import Running
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.status import (
    Condition,
    ConditionType,
    ReleaseStatus,
    RolloutStatus,
    Status,
    UnreachableApprover,
)

from tests.functional.actions.support import BEGAN, PLAN, TABLE, Place
from tests.unit.qualified import PIPELINE

SAM = Caller("arn:aws:sts::111122223333:assumed-role/operators/sam", "AROA")
NOBODY = Caller("", "")


def status(**changes: Any) -> Status:
    def condition(which: ConditionType, found: Any, reason: Any = None, message: str = "") -> Condition:
        return Condition(
            type=which, status=found, reason=reason, message=message, last_transition_time=rfc3339(BEGAN)
        )

    made: dict[str, Any] = {
        "cluster": "demo",
        "observed_at": rfc3339(BEGAN),
        "active_plan": PLAN.desired_state_digest,
        "rollout": RolloutStatus(name="demo-1-1", to_plan=PLAN.desired_state_digest, step=9, of=18),
        "conditions": (
            condition(ConditionType.Resolved, "True", None, "plan x with 18 releases"),
            condition(ConditionType.EngineAvailable, "True"),
            condition(
                ConditionType.Ready, "False", Reason.RollingOut, "rollout demo-1-1: step 9/18 a (Move)"
            ),
            condition(ConditionType.Stalled, "False"),
        ),
        "releases": (
            ReleaseStatus(name="a", state="Ready"),
            ReleaseStatus(name="b", state="NotReady", message="b: Degraded\x1b[2J"),
        ),
        "unreachable": (UnreachableApprover(name="kim", why="the e-mail subscription is not confirmed"),),
    }
    return Status(**(made | changes))


def test_what_is_kept_is_told(place: Place) -> None:
    assert tell_status(SAM, place.coordination).status == 404
    keep_status(place.coordination, status())
    told = tell_status(SAM, place.coordination)
    assert (told.status, told.body) == (200, json.loads(json.dumps(status().wire())))
    place.coordination.put_fact("status", {"apiVersion": "status.aicr-pipeline.dev/v9"})
    assert tell_status(SAM, place.coordination).status == 404, "another version's is none"


def test_one_that_was_written_in_another_way_is_replaced(place: Place) -> None:
    """Its text is not what its content would be written as, so it can be compared with nothing."""
    text = json.dumps(status().wire(), indent=2)
    key = {"pk": {"S": "FACT"}, "sk": {"S": "status"}}
    place.dynamodb.put_item(TableName=TABLE, Item=key | {"value": {"S": text}})
    later = status(observed_at=after(BEGAN, 60))
    assert keep_status(place.coordination, later) is later
    assert read_status(place.coordination) == later


def test_a_fresh_one_is_asked_for_by_an_event(place: Place) -> None:
    asked = renew_status(SAM, place.bus, place.clock)
    assert (asked.status, asked.body["at"]) == (202, rfc3339(BEGAN))
    assert place.events.details("Status Wanted") == [{"cluster": "demo", "at": rfc3339(BEGAN)}]
    place.events.failing = 1
    assert renew_status(SAM, place.bus, place.clock).status == 503


def test_what_is_deployed_is_told_as_it_is(place: Place) -> None:
    told = tell_running(SAM, place.config, PIPELINE)
    assert (told.status, told.body["pipeline"]) == (200, PIPELINE.wire())
    assert told.body["aicr"]["image"] == place.config.aicr.image
    assert parse(Running, told.body, Reason.InvalidConfiguration, "it").cluster == place.config.cluster.name


def test_nobody_is_told_nothing(place: Place) -> None:
    assert tell_running(NOBODY, place.config, PIPELINE).status == 403
    keep_status(place.coordination, status())
    assert tell_status(NOBODY, place.coordination).status == 403
    assert renew_status(NOBODY, place.bus, place.clock).status == 403
    assert place.events.entries == []


class Api:
    """The routes, without HTTP; ``looks`` are what each GET finds."""

    def __init__(self, *looks: Status | None) -> None:
        self.looks = list(looks)

    def ask(self, method: str, path: str) -> Any:
        assert path == "/operators/status"
        if method == "POST":
            return {"status": "asked", "at": rfc3339(BEGAN)}
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if found is None:
            raise PipelineError(Reason.NoActivePlan, "No status is kept.")
        return found.wire()


def run(monkeypatch: pytest.MonkeyPatch, api: Api, *arguments: str) -> int:
    monkeypatch.setattr(command, "open_api", lambda _: api)
    monkeypatch.setattr(command, "LOOK_SECONDS", 0.0)
    return command.main(["--api", "http://127.0.0.1:1", *arguments])


def test_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, Api(status())) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "cluster demo: Ready=False (RollingOut)\n  rollout demo-1-1: step 9/18 a (Move)\n\n"
        "condition        status  reason      since\n"
        "Resolved         True    -           2026-01-01T12:00:00.000Z\n"
    )
    for line in (
        f"active plan   {PLAN.desired_state_digest}",
        "resolved plan none",
        "rollout       demo-1-1: on, step 9/18",
        "releases      1 of 2 are ready",
        "no message reaches kim: the e-mail subscription is not confirmed",
        f"seen at {rfc3339(BEGAN)}",
    ):
        assert line in out.splitlines()
    assert "\x1b" not in out
    assert run(monkeypatch, Api(status()), "--json") == 0
    assert json.loads(capsys.readouterr().out) == status().wire()


def test_rebuild_waits_for_one_that_is_not_older(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, fresh = status(observed_at=after(BEGAN, -1)), status(observed_at=after(BEGAN, 1))
    assert run(monkeypatch, Api(None, old, old, fresh), "--rebuild") == 0
    assert f"seen at {fresh.observed_at}" in capsys.readouterr().out
    monkeypatch.setattr(command, "PATIENCE_SECONDS", 0.0)
    assert run(monkeypatch, Api(old), "--rebuild") == 3
    assert "look at the log of update_status" in capsys.readouterr().err


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, Api(None)) == 1
    assert "refused: NoActivePlan" in capsys.readouterr().err
    monkeypatch.delenv("AICR_PIPELINE_API", raising=False)
    with pytest.raises(SystemExit) as ended:
        command.main([])
    assert ended.value.code == 2
