"""State "Request approval"."""

from typing import Any

from aicr_pipeline import env, wiring
from aicr_pipeline.actions.request_approval import request_approval
from aicr_pipeline.actions.tell_approvers import Ways
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.outgoing import failure
from aicr_pipeline.step import logger, metrics, step_handler


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Ask the approvers and register the wait."""
    return request_approval(
        step,
        wiring.config(),
        wiring.ledger(),
        Ways(wiring.notifier(), wiring.slack(), wiring.bus(), failure(metrics, logger)),
        wiring.waits(),
        wiring.approval_key(),
        env.text("APPROVAL_URL"),
        now,
    )
