"""State "Announce plan"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.announce_plan import announce_plan
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Make the plan the target, if it still is what is wanted."""
    return announce_plan(step, wiring.inbox(), wiring.ledger(), wiring.coordination(), wiring.bus())
