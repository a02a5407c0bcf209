"""State "Render bundle"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.render_bundle import render_bundle
from aicr_pipeline.actions.run_job import JobPlace
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import resolve_handler


@resolve_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Start AICR's render Job and register the wait."""
    return render_bundle(
        step,
        wiring.config(),
        wiring.inbox(),
        wiring.registry(),
        wiring.registry_credentials(),
        JobPlace(wiring.cluster(), wiring.waits(), now),
    )
