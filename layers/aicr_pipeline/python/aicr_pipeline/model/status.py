"""The status of a cluster's runtime: four conditions, and what they were seen from.

An observation, never a decision: it is a fact of the coordination table, made anew from ledger, inbox and
cluster at any time.
"""

from enum import StrEnum
from typing import Literal

from aicr_pipeline.model.base import Document
from aicr_pipeline.model.plan import Digest
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Outcome, RolloutName


class ConditionType(StrEnum):
    """The operator's own four."""

    Resolved = "Resolved"
    EngineAvailable = "EngineAvailable"
    Ready = "Ready"
    Stalled = "Stalled"


class Condition(Document):
    """As Kubernetes has it; ``reason`` is absent where a plain True or False has nothing to explain."""

    type: ConditionType
    status: Literal["True", "False", "Unknown"]
    reason: Reason | None = None
    message: str = ""
    last_transition_time: str = ""


class ReleaseStatus(Document):
    """One release of the active plan, as Argo CD shows it."""

    name: str
    state: Literal["Ready", "NotReady", "Drifted", "Healing"]
    message: str = ""


class RolloutStatus(Document):
    """The rollout that is on, or the newest that ended."""

    name: RolloutName
    to_plan: Digest
    outcome: Outcome | None = None
    #: The last step that the gate let through, of how many.
    step: int | None = None
    of: int | None = None
    #: What the runtime resolved to since, and what waits for this rollout's end.
    newer_plan: Digest | None = None


class UnreachableApprover(Document):
    """An approver whom no message reaches, and why."""

    name: str
    why: str


class Status(Document):
    """One per cluster."""

    api_version: Literal["status.aicr-pipeline.dev/v1"] = "status.aicr-pipeline.dev/v1"
    kind: Literal["RuntimeStatus"] = "RuntimeStatus"
    cluster: str
    observed_at: str
    runtime_version: str | None = None
    #: What the current runtime resolved to, and what the newest rollout that succeeded left.
    resolved_plan: Digest | None = None
    active_plan: Digest | None = None
    rollout: RolloutStatus | None = None
    conditions: tuple[Condition, ...]
    releases: tuple[ReleaseStatus, ...] = ()
    unreachable: tuple[UnreachableApprover, ...] = ()

    def condition(self, which: ConditionType) -> Condition:
        """The condition of that type."""
        return next(found for found in self.conditions if found.type is which)
