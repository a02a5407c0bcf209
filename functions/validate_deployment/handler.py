"""State "Validate deployment"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.run_job import JobPlace
from aicr_pipeline.actions.validate_deployment import validate_deployment
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Start AICR's validation Job and register the wait."""
    return validate_deployment(
        step,
        wiring.config(),
        wiring.ledger(),
        wiring.registry_credentials(),
        JobPlace(wiring.cluster(), wiring.waits(), now),
        wiring.public_key_of,
    )
