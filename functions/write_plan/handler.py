"""State "Write plan"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.write_plan import write_plan
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import resolve_handler


@resolve_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Write the plan, once."""
    return write_plan(step, wiring.config(), wiring.inbox(), wiring.ledger(), now)
