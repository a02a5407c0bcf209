"""State "Confirm criteria"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.confirm_criteria import confirm_criteria
from aicr_pipeline.actions.run_job import JobPlace
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Start the post-install snapshot and register the wait."""
    return confirm_criteria(
        step, wiring.config(), wiring.ledger(), JobPlace(wiring.cluster(), wiring.waits(), now)
    )
