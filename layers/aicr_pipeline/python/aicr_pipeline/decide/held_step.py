"""The step that waits for a person, as pages, commands and status show it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.acknowledgement import acknowledgement_missing
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Acknowledgement, Report, Rollout, Step, StepHeld
from aicr_pipeline.model.upgrades import Guidance


@dataclass(frozen=True)
class HeldStep:
    """Why a step waits. ``digest`` is what an acknowledgement has to name, None when none is waited for."""

    index: int
    of: int
    release: str
    reason: Reason
    message: str
    since: str
    digest: str | None
    guidance: Guidance | None

    def wire(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "index": self.index,
            "of": self.of,
            "release": self.release,
            "reason": str(self.reason),
            "message": self.message,
            "since": self.since,
            "digest": self.digest,
            "guidance": self.guidance.wire() if self.guidance else None,
        }


def held_step(
    rollout: Rollout, report: Report | None, hold: StepHeld | None, given: Iterable[Acknowledgement]
) -> HeldStep | None:
    """The step that waits now; None when none does, or when a person said already what it waited for.

    Takes the hold that stands in the ledger and the acknowledgements that were given.
    """
    step = _step(report, hold)
    if report is None or hold is None or step is None:
        return None
    digest = None
    if hold.reason is Reason.AwaitingAcknowledgement:
        digest = request_digest(report, rollout.deadline)
        mine = next((one for one in given if one.release == step.release), None)
        if acknowledgement_missing(step, mine, digest) is None:
            return None
    return HeldStep(
        index=step.index,
        of=len(report.steps),
        release=step.release,
        reason=hold.reason,
        message=hold.message.partition(": ")[2] or hold.message,
        since=hold.at,
        digest=digest,
        guidance=step.guidance,
    )


def _step(report: Report | None, hold: StepHeld | None) -> Step | None:
    if report is None or hold is None:
        return None
    return next(
        (step for step in report.steps if (step.index, step.release) == (hold.index, hold.release)), None
    )
