"""The ways to people, with what every function does about a message that was not taken."""

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from aicr_pipeline import wiring
from aicr_pipeline.actions.tell_approvers import Delivery, Ways


def ways(metrics: Metrics, logger: Logger) -> Ways:
    """Topics, Slack and bus; a message that failed is counted and logged, without its text."""

    def failed(delivery: Delivery) -> None:
        metrics.add_metric(name="MessagesFailed", unit=MetricUnit.Count, value=1)
        logger.warning("message failed: %s", delivery.error, extra={"to": delivery.to, "way": delivery.way})

    return Ways(wiring.notifier(), wiring.slack(), wiring.bus(), failed)
