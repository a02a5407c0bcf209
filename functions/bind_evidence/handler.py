"""State "Bind evidence"."""

from typing import Any

from aicr_pipeline import env, wiring
from aicr_pipeline.actions.bind_evidence import Binder, bind_evidence
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Sign and store the binding statement."""
    binder = Binder(
        config=wiring.config(),
        ledger=wiring.ledger(),
        registry=wiring.registry(),
        signer=wiring.signer(),
        pipeline=wiring.pipeline(),
        public_key_of=wiring.public_key_of,
        clock=now,
        local_engine=env.is_local_engine(),
    )
    return bind_evidence(step, binder)
