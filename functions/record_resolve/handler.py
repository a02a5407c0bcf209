"""State "Record resolve"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.record_resolve import record_resolve
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Say how the resolve ended."""
    return record_resolve(step, wiring.inbox(), wiring.ledger(), wiring.bus(), wiring.notifier())
