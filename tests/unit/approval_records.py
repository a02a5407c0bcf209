"""A rollout's records at one moment, for the tests of the approval page and its form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.approval_page import Records, Stall
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import (
    Action,
    ApprovalRequest,
    Decision,
    Outcome,
    Report,
    Revocation,
    Rollout,
    RolloutOutcome,
    Step,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
DEADLINE = rfc3339(NOW + timedelta(hours=6))
DIGEST = "sha256:" + "0" * 64
SECRET = "A" * 32


def at(**delta: float) -> str:
    return rfc3339(NOW + timedelta(**delta))


def decision(word: Any = "Approved", by: str = "kim", **changes: Any) -> Decision:
    document: dict[str, Any] = {
        "rollout": "demo-1", "decision": word, "request_digest": DIGEST, "by": (by,), "identity": "link",
        "issuer": "link", "reason": "because", "at": at(hours=-1), "expires_at": DEADLINE, **changes,
    }  # fmt: skip
    return Decision(**document)


def records(**changes: Any) -> Records:
    rollout = Rollout(
        name="demo-1", cluster="demo", to_plan=DIGEST, number=1, created_at=at(hours=-2), deadline=DEADLINE,
        runtime_version="v1",
    )  # fmt: skip
    step = Step(index=1, release="a", component="a", namespace="a", action=Action.Install, to_version="1.0.0")
    report = Report(to_plan=DIGEST, validation="Required", steps=(step,), approval_needed=True)
    request = ApprovalRequest(
        rollout="demo-1", short_name="demo-1", digest=DIGEST, deadline=DEADLINE, asked=("alex", "kim"),
        asked_at=at(hours=-1.5), min_approvals=1, identity="link",
    )  # fmt: skip
    late = changes.pop("deadline", None)
    found = {"rollout": rollout, "report": report, "request": request, "decision": None, "outcome": None}
    if late:
        found["rollout"] = rollout.model_copy(update={"deadline": late})
    return Records(**{**found, **changes})


def outcome(word: Outcome) -> RolloutOutcome:
    return RolloutOutcome(
        rollout="demo-1", outcome=word, reason=Reason.RolloutFailed, message="m", finished_at=at(hours=-0.5)
    )


QUIET = Report(to_plan=DIGEST, validation="Required", steps=(), approval_needed=False)
REVOKED = Revocation(
    rollout="demo-1", by="alex", identity="link", issuer="link", reason="r", at=at(hours=-0.2)
)
STALL = Stall(at=at(hours=-0.5), words="ABORTED (Stopped)")
