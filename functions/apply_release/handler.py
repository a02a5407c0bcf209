"""State "Apply release"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.apply_release import apply_release
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Write one Application and ask for its sync."""
    return apply_release(step, wiring.config(), wiring.ledger(), wiring.argocd(), now)
