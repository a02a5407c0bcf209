"""State "Wait until ready"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.wait_until_ready import wait_until_ready
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Register the wait for one release."""
    return wait_until_ready(step, wiring.waits())
