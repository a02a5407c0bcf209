"""The sweeper at the deadline: a look that keeps failing ends there too, and each kind in its own words."""

from typing import Any

import pytest
from aicr_pipeline.actions import sweep_waiters
from aicr_pipeline.actions.look_at_waiters import overdue
from aicr_pipeline.adapters.cluster import UnexpectedAnswerError
from aicr_pipeline.clock import parse_time
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.reasons import Reason

from tests.functional.actions.support import DEADLINE, Place

STEP = "step 1/2 gpu-operator (Install)"
WANTED: dict[str, dict[str, Any]] = {
    "application": {"release": "gpu-operator", "step": STEP},
    "job": {"namespace": "aicr-system", "job": "j", "purpose": "render"},
    "approval": {"rollout": "demo-1", "toPlan": "p", "digest": "d"},
}
UNREACHABLE = TransientError(Reason.ClusterUnreachable, "The cluster is gone.")
KINDS = ["application", "job", "approval"]


def expected(kind: str, words: str) -> dict[str, Any]:
    if kind == "application":
        return {"error": "RolloutExpired", "cause": f"{STEP}, at the deadline: {words}"}
    reason, message = {
        "job": ("AICRTimeout", f"Job j did not end until {DEADLINE}: {words}."),
        "approval": ("RolloutExpired", f"Nobody answered until {DEADLINE}; start a fresh rollout."),
    }[kind]
    return {"output": {"outcome": {"reason": reason, "message": message}}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UNREACHABLE, "The cluster is gone."),
        (
            UnexpectedAnswerError("The cluster answers 422: a policy says no."),
            "The cluster answers 422: a policy says no",
        ),
        (RuntimeError("a secret of ours"), "looking at it failed with RuntimeError"),
        (KeyError("a secret of ours"), "looking at it failed with KeyError"),
    ],
)
def test_a_look_that_keeps_failing_ends_at_the_deadline(
    place: Place, monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception, words: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(sweep_waiters, "look", fail)
    place.wait_for("w", kind, WANTED[kind])
    place.sweep(budget=-1)
    assert place.sfn.answered == {}, "before the deadline it is tried again"
    place.now = parse_time(DEADLINE)
    place.sweep(budget=-1)
    assert place.sfn.answered == {"token of w": expected(kind, words)}
    assert len(place.problems) == 2
    assert "a secret of ours" not in str(place.problems) + str(place.sfn.answered)
    assert place.coordination.waiters() == []


@pytest.mark.parametrize("kind", KINDS)
def test_overdue_from_the_deadline_on(place: Place, kind: str) -> None:
    waiter = place.wait_for("w", kind, WANTED[kind])
    at = parse_time(DEADLINE)
    assert overdue(waiter, place.now, "words") is None
    assert overdue(waiter, at, "words") == expected(kind, "words")


def test_one_that_fails_holds_up_no_other(place: Place) -> None:
    place.wait_for("a", "no such kind", {}, deadline=DEADLINE)
    place.wait_for("b", "ended", {}, answer={"output": 1})
    place.sweep(budget=-1)
    assert set(place.sfn.answered) == {"token of b"}
    place.now = parse_time(DEADLINE)
    place.sweep(budget=-1)
    assert place.sfn.answered["token of a"]["output"]["outcome"]["reason"] == "AICRTimeout"
