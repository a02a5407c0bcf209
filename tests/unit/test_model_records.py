"""Records of a rollout and of a step: each reads back what it wrote, and refuses what it does not know."""

from typing import Any

import pytest
from aicr_pipeline.decide.assess import assess
from aicr_pipeline.model.base import Document, parse, path
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import (
    ApprovalRequest,
    Decision,
    Outcome,
    Report,
    Rollout,
    RolloutOutcome,
    rollout_key,
)
from aicr_pipeline.model.step import StepEvent
from pydantic import ValidationError

from tests.unit.samples import decision, plan, refused, sha

ROLLOUT = Rollout(
    name="demo-12345678-1", cluster="demo", to_plan=sha("p"), number=1, created_at="t", deadline="t",
    runtime_version="v",
)  # fmt: skip
RECORDS: list[Document] = [
    ROLLOUT,
    ROLLOUT.model_copy(update={"from_plan": sha("q"), "submitter": "alex"}),
    assess(None, plan(), always_ask=True, from_is_whole=True),
    assess(plan(), plan(**{"releases.0.namespace": "other"}), always_ask=False, from_is_whole=True),
    decision(),
    ApprovalRequest(
        rollout="r", short_name="s", digest=sha("d"), deadline="t", asked=("alex",), asked_at="t",
        min_approvals=1, identity="link",
    ),
    RolloutOutcome(
        rollout="r", outcome=Outcome.Failed, reason=Reason.RolloutFailed, message="m", finished_at="t",
        installed=("a",), not_installed=("b",),
    ),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_round_trip_and_strictness(record: Document) -> None:
    wire = record.wire()
    assert parse(type(record), wire, Reason.PlanUnreadable, "x") == record
    assert not any("_" in key for key in wire), "camelCase on the wire"
    with refused(Reason.PlanUnreadable, "more: unknown field"):
        parse(type(record), {**wire, "more": 1}, Reason.PlanUnreadable, "x")
    for name in wire:
        rest = {key: value for key, value in wire.items() if key != name}
        field = next(f for n, f in type(record).model_fields.items() if (f.alias or n) == name)
        if field.is_required():
            with refused(Reason.PlanUnreadable, f"{name}: required"):
                parse(type(record), rest, Reason.PlanUnreadable, "x")


@pytest.mark.parametrize(
    ("model", "record", "field", "value"),
    [
        (Decision, decision(), "decision", "Maybe"),
        (Decision, decision(), "decision", "approved"),
        (Decision, decision(), "by", []),
        (Decision, decision(), "reason", ""),
        (Decision, decision(), "reason", "x" * 1025),
        (Decision, decision(), "rollout", "../x"),
        (Decision, decision(), "requestDigest", "sha256:x"),
        (Rollout, ROLLOUT, "number", 0),
        (Rollout, ROLLOUT, "number", "1"),
        (Rollout, ROLLOUT, "name", "a/b"),
        (Rollout, ROLLOUT, "name", "a\n"),
        (Report, RECORDS[2], "validation", "Maybe"),
        (RolloutOutcome, RECORDS[-1], "outcome", "Won"),
        (RolloutOutcome, RECORDS[-1], "reason", "Because"),
    ],
)
def test_closed_sets(model: type[Any], record: Document, field: str, value: Any) -> None:
    with refused(Reason.PlanUnreadable, f"x: {field}"):
        parse(model, {**record.wire(), field: value}, Reason.PlanUnreadable, "x")


def test_keys() -> None:
    assert rollout_key("demo-1", "decision") == "rollouts/demo-1/decision.json"
    assert path(("a", 0, "b", 1)) == "a[0].b[1]"
    assert path(()) == "(document)"


EVENT = {
    "state": "Wait until ready",
    "execution": "demo-1",
    "enteredAt": "2026-01-01T00:00:00.000Z",
    "retries": 2,
    "input": {"a": 1},
    "token": "very secret",
    "item": {"release": "gpu-operator"},
    "startedAt": "ignored",
}


def test_a_step_hides_its_token_and_names_its_waiter() -> None:
    step = StepEvent.model_validate(EVENT)
    assert "secret" not in f"{step} {step!r}"
    assert step.waiter_id == "demo-1/wait_until_ready/gpu-operator"
    assert step.order == "0000#2026-01-01T00:00:00.000Z#0002"
    alone = StepEvent.model_validate({**EVENT, "item": None, "token": None})
    assert alone.waiter_id == "demo-1/wait_until_ready"


def test_newer_tokens_sort_after_older_ones() -> None:
    made = [
        StepEvent.model_validate({**EVENT, "enteredAt": at, "retries": retries, "redrives": redrives}).order
        for redrives, at, retries in (
            (0, "2026-01-01T00:00:00.000Z", 0),
            (0, "2026-01-01T00:00:00.000Z", 1),
            (0, "2026-01-01T00:00:00.000Z", 10),
            (0, "2026-01-01T00:00:00.001Z", 0),
            (0, "2026-01-02T00:00:00.000Z", 0),
            (1, "2026-01-01T00:00:00.000Z", 0),
            (2, "2026-01-01T00:00:00.000Z", 0),
            (10, "2026-01-01T00:00:00.000Z", 0),
        )
    ]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_an_event_that_is_not_understood_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        StepEvent.model_validate({**EVENT, "retries": "very secret", "input": "very secret"})
    assert "retries" in str(caught.value)
    assert "secret" not in str(caught.value)
