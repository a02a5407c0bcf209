"""What every handler does around its action: which errors are data, which fail the item, which are raised."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aicr_pipeline import wiring
from aicr_pipeline.adapters.cluster import ObjectConflictError
from aicr_pipeline.errors import MOST_CHARACTERS, PipelineError, TransientError
from aicr_pipeline.model.reasons import GENERATION, ROLLOUT_REASONS, Reason
from aicr_pipeline.step import metrics, step_handler

from tests.functional.actions.support import Place, item

CONTEXT = SimpleNamespace(
    function_name="f", memory_limit_in_mb=1, invoked_function_arn="arn:x", aws_request_id="r"
)
#: Any reason that the Map does not catch.
NOT_CAUGHT = next(reason for reason in Reason if reason not in ROLLOUT_REASONS)


@pytest.fixture(autouse=True)
def wired(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "waits", lambda: place.waits)
    monkeypatch.setattr(metrics, "namespace", "Test")
    monkeypatch.setattr(metrics, "service", "test")


def run(error: Exception, **fields: Any) -> dict[str, Any]:
    def action(_: Any) -> dict[str, Any]:
        raise error

    event = {
        "state": "Apply release", "execution": "demo-1", "enteredAt": "t", "input": {},
        "generation": GENERATION, **fields,
    }  # fmt: skip
    return step_handler(action)(event, CONTEXT)


def test_a_domain_end_is_data() -> None:
    found = run(PipelineError(Reason.BundleInvalid, "m"))
    assert found == {"outcome": {"reason": "BundleInvalid", "message": "m"}}


@pytest.mark.parametrize("reason", ROLLOUT_REASONS)
def test_in_a_step_the_domains_reasons_are_data_and_name_the_step(reason: Reason) -> None:
    found = run(PipelineError(reason, "m"), item=item())["outcome"]
    assert found["reason"] == str(reason)
    assert found["message"].startswith("step 1/2 gpu-operator (Install)")


@pytest.mark.parametrize("token", [None, "token"])
def test_in_a_step_a_reason_that_the_map_does_not_catch_is_raised(place: Place, token: str | None) -> None:
    with pytest.raises(PipelineError) as caught:
        run(PipelineError(NOT_CAUGHT, "m"), item=item(), token=token)
    assert caught.value.reason is NOT_CAUGHT
    assert place.coordination.waiters() == []


def test_outside_of_the_steps_every_reason_is_data() -> None:
    """A chart that is mirrored is an item too, but no step of a rollout."""
    assert run(PipelineError(NOT_CAUGHT, "m"), item={"release": "a"})["outcome"]["reason"] == str(NOT_CAUGHT)


def test_a_waiting_step_fails_its_item_by_the_reasons_name(place: Place) -> None:
    run(PipelineError(Reason.RolloutFailed, "m"), item=item(), token="token")
    (waiter,) = place.coordination.waiters()
    assert waiter.kind == "ended"
    assert waiter.answer == {
        "error": "RolloutFailed",
        "cause": "step 1/2 gpu-operator (Install): m",
    }


def test_a_waiting_state_outside_of_the_map_answers_with_data(place: Place) -> None:
    run(PipelineError(NOT_CAUGHT, "m"), token="token")
    (waiter,) = place.coordination.waiters()
    assert waiter.answer == {"output": {"outcome": {"reason": str(NOT_CAUGHT), "message": "m"}}}


@pytest.mark.parametrize("fields", [{}, {"item": item()}, {"token": "t"}, {"item": item(), "token": "t"}])
def test_messages_are_cut(place: Place, fields: dict[str, Any]) -> None:
    found = run(PipelineError(Reason.RolloutFailed, "m" * 20_000), **fields)
    if "token" in fields:
        found = dict(place.coordination.waiters()[0].answer or {})
    if "item" in fields and "token" in fields:
        assert len(found["cause"]) == MOST_CHARACTERS
    else:
        outcome = found.get("output", found)["outcome"]
        assert len(outcome["message"]) == MOST_CHARACTERS


@pytest.mark.parametrize(
    "error",
    [TransientError(Reason.RolloutFailed, "m"), ObjectConflictError("x"), RuntimeError("m")],
)
def test_transient_and_unexpected_errors_are_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        run(error, item=item())


def test_an_event_that_is_not_understood_does_not_show_its_token() -> None:
    with pytest.raises(Exception, match="retries") as caught:
        run(RuntimeError(), retries="many", token="very secret")
    assert "very secret" not in repr(caught.value) + str(caught.value)
    assert "very secret" not in repr(caught.value.__cause__) + str(caught.value.__context__)
