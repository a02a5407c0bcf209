"""State "Take snapshot"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.run_job import JobPlace
from aicr_pipeline.actions.take_snapshot import take_snapshot
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import resolve_handler


@resolve_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Start AICR's snapshot Job and register the wait."""
    return take_snapshot(
        step,
        wiring.config(),
        wiring.inbox(),
        wiring.ledger(),
        JobPlace(wiring.cluster(), wiring.waits(), now),
    )
