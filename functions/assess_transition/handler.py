"""State "Assess transition"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.assess_transition import assess_transition
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Write the report of what changes."""
    return assess_transition(
        step,
        wiring.config(),
        wiring.ledger(),
        wiring.inbox(),
        wiring.cluster(),
        wiring.argocd(),
        wiring.coordination(),
        wiring.bus(),
        now,
        wiring.deployed(),
    )
