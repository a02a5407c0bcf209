"""State "Hold step"."""

from typing import Any

from aicr_pipeline import env, wiring
from aicr_pipeline.actions.hold_step import hold_step
from aicr_pipeline.actions.tell_approvers import Delivery, Ways
from aicr_pipeline.clock import now
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import logger, metrics, step_handler
from aws_lambda_powertools.metrics import MetricUnit


def _failed(delivery: Delivery) -> None:
    metrics.add_metric(name="MessagesFailed", unit=MetricUnit.Count, value=1)
    logger.warning("message failed: %s", delivery.error, extra={"to": delivery.to, "way": delivery.way})


@step_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Tell the approvers and register the wait."""
    return hold_step(
        step,
        wiring.config(),
        wiring.ledger(),
        Ways(wiring.notifier(), wiring.slack(), wiring.bus(), _failed),
        wiring.waits(),
        wiring.approval_key(),
        env.text("APPROVAL_URL"),
        now,
    )
