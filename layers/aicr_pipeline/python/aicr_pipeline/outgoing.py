"""What every function does about a message that was not taken."""

from collections.abc import Callable

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from aicr_pipeline.actions.tell_approvers import Delivery


def failure(metrics: Metrics, logger: Logger) -> Callable[[Delivery], None]:
    """Counts and logs a message that failed, without its text."""

    def failed(delivery: Delivery) -> None:
        metrics.add_metric(name="MessagesFailed", unit=MetricUnit.Count, value=1)
        logger.warning("message failed: %s", delivery.error, extra={"to": delivery.to, "way": delivery.way})

    return failed
