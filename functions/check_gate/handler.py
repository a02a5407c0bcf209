"""State "Check gate"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.check_gate import check_gate
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Whether this step may run now."""
    return check_gate(
        step,
        wiring.config(),
        wiring.ledger(),
        wiring.inbox(),
        wiring.argocd(),
        wiring.coordination(),
        wiring.bus(),
        now,
        wiring.deployed(),
    )
