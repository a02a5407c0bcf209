"""What every handler behind an event source does around its action: log what it did, raise the rest."""

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

logger = Logger()
metrics = Metrics()

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


def event_handler(action: Callable[[dict[str, Any], Any], dict[str, Any]]) -> Handler:
    """Make a Lambda handler of an action that takes the event and the context.

    Errors are raised: the invocation is tried again, then goes to the dead-letter queue.
    """

    @logger.inject_lambda_context
    @metrics.log_metrics
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        result = action(event, context)
        metrics.add_metric(name="EventHandled", unit=MetricUnit.Count, value=1)
        logger.info("done", extra={"result": result})
        return result

    return handler
