"""Step Functions says that an execution ended badly."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.record_stall import record_stall
from aicr_pipeline.event_source import event_handler


@event_handler
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Tell a stall from an end that the domain decided, and tell people."""
    return record_stall(event, wiring.config(), wiring.ledger(), wiring.bus(), wiring.notifier())
