"""State "Bind evidence"."""

from typing import Any

from aicr_pipeline import env, wiring
from aicr_pipeline.actions.bind_evidence import bind_evidence
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Sign and store the binding statement."""
    return bind_evidence(
        step,
        wiring.config(),
        wiring.ledger(),
        wiring.registry(),
        wiring.signer(),
        now,
        env.is_local_engine(),
    )
