"""State "Read bundle"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.read_bundle import read_bundle
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import resolve_handler


@resolve_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Fetch, check and take apart the rendered bundle."""
    return read_bundle(step, wiring.config(), wiring.inbox(), wiring.ledger(), wiring.registry())
