"""What a rollout that is on, or ended, says in the status; the message forms are those that people know."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.acknowledgement import acknowledgement_missing
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.ending import step_words
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import (
    Acknowledgement,
    Decision,
    Outcome,
    Report,
    Rollout,
    RolloutOutcome,
    Step,
)
from aicr_pipeline.model.runtime import Wish

#: In place of a status: nothing ever ran.
NEVER_STARTED = "NEVER STARTED"


@dataclass(frozen=True)
class RolloutSeen:
    """A rollout by its records, and the validation Job that the cluster has for it.

    ``started`` and ``ready`` are the highest steps that began, and that were seen ready. ``stall`` is the
    newest record of an execution that stopped, when it does not run again.
    """

    rollout: Rollout
    report: Report | None = None
    asked: bool = False
    decision: Decision | None = None
    outcome: RolloutOutcome | None = None
    started: int = 0
    ready: int = 0
    stall: dict[str, str] | None = None
    acknowledgement: Acknowledgement | None = None
    validation_run: str | None = None
    validated: bool = False

    @property
    def name(self) -> str:
        """The rollout's name."""
        return self.rollout.name

    @property
    def next_step(self) -> Step | None:
        """The step after the last that began."""
        steps = self.report.steps if self.report else ()
        return next((step for step in steps if step.index == self.started + 1), None)


def rollout_ready(seen: RolloutSeen, wish: Wish) -> tuple[Reason, str]:
    """Why the runtime is not ready while this rollout is on."""
    name = seen.name
    stalled = rollout_stalled(seen)
    if stalled is not None:
        return Reason.RollingOut, stalled[1]
    report = seen.report
    if report is None:
        return Reason.RollingOut, f"rollout {name}: the transition is assessed"
    # One that ran out since begins no further step; what is in flight, and a validation, go on.
    if report.approval_needed and (seen.decision is None or seen.decision.decision != "Approved"):
        return Reason.AwaitingApproval, f"rollout {name} awaiting approval"
    begun, following = seen.started, seen.next_step
    # Whatever begins next meets the gate; what is in flight goes on until it is ready.
    if begun == seen.ready and following is not None:
        if wish.paused:
            return Reason.Paused, f"rollout {name} is paused before {_words(following, report)}"
        digest = request_digest(report, seen.rollout.deadline)
        missing = acknowledgement_missing(following, seen.acknowledgement, digest)
        if missing is not None:
            message = f"rollout {name}: {_words(following, report)} awaiting acknowledgement. {missing}"
            return Reason.AwaitingAcknowledgement, message
        return Reason.RollingOut, f"rollout {name}: {_words(following, report)}"
    if following is not None or begun > seen.ready:
        return Reason.RollingOut, f"rollout {name}: {_words(report.steps[begun - 1], report)}"
    if report.validation == "Required" and not seen.validated:
        run = seen.validation_run or "about to start"
        return Reason.RollingOut, f"rollout {name}: deployment validation run {run}"
    return Reason.RollingOut, f"rollout {name}: criteria are confirmed and evidence is bound"


def rollout_stalled(seen: RolloutSeen) -> tuple[Reason, str] | None:
    """Reason and message when the rollout ended badly or its execution stopped. A superseded one did not
    stall: what took its place speaks."""
    outcome = seen.outcome
    if outcome is not None:
        if outcome.outcome in (Outcome.Succeeded, Outcome.Superseded):
            return None
        # What a person ended did not stall.
        what = "ended" if outcome.outcome in (Outcome.Rejected, Outcome.Revoked) else "stalled"
        return outcome.reason, f"rollout {seen.name} {what}: {outcome.message}"
    if seen.stall is None:
        return None
    if seen.stall.get("status") == NEVER_STARTED:
        return Reason.RolloutFailed, (
            f"rollout {seen.name} stalled: its execution was never started. Look into the dead-letter queue "
            "for the function start_rollout, or submit the runtime again"
        )
    message = (
        f"rollout {seen.name} stalled: its execution is {stall_words(seen.stall)}. Redrive it in the Step "
        "Functions console, or submit the runtime again"
    )
    error = seen.stall.get("reason") or seen.stall.get("error")
    return next((one for one in Reason if one == error), Reason.RolloutFailed), message


def stall_words(stall: Mapping[str, Any]) -> str:
    """``FAILED (UnreachableError: what was being done)``, of a record of an execution that stopped."""
    error, said = stall.get("error") or "no error name", stall.get("message")
    return f"{stall.get('status')} ({error}{f': {said}' if said else ''})"


def _words(step: Step, report: Report) -> str:
    item = {
        "index": step.index,
        "of": len(report.steps),
        "release": step.release,
        "action": str(step.action),
    }
    return step_words(item)
