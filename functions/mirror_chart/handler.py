"""State "Mirror chart"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.mirror_chart import mirror_chart
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Copy one release's chart into the cluster's registry."""
    return mirror_chart(step, wiring.ledger(), wiring.registry())
