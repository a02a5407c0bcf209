"""State "Record outcome"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.record_outcome import record_outcome
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Write how the rollout ended, free the lock, tell people."""
    return record_outcome(
        step,
        wiring.config(),
        wiring.ledger(),
        wiring.coordination(),
        wiring.bus(),
        wiring.notifier(),
        now,
    )
