"""HTTP API route for Argo CD's notifications. Event, headers and body are never logged."""

import json
from functools import cache
from typing import Any

from aicr_pipeline import env
from aicr_pipeline.actions.receive_notification import receive_notification
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.webhook_secret import WebhookSecret
from aicr_pipeline.clock import now
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

logger = Logger()
metrics = Metrics()


@cache
def _secret() -> WebhookSecret:
    return WebhookSecret(aws.client("secretsmanager"), env.text("WEBHOOK_SECRET_ARN"), now)


def _wake() -> None:
    aws.client("lambda").invoke(
        FunctionName=env.text("SWEEP_FUNCTION_ARN"),
        InvocationType="Event",
        Payload=json.dumps({"source": "notification"}).encode(),
    )


@logger.inject_lambda_context(log_event=False)
@metrics.log_metrics
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Payload 2.0 in, payload 2.0 out."""
    receipt = receive_notification(event, _secret, _wake)
    metrics.add_metric(name="Notifications", unit=MetricUnit.Count, value=1)
    metrics.add_metric(name="NotificationBytes", unit=MetricUnit.Bytes, value=receipt.size)
    if receipt.status != 202:
        metrics.add_metric(name="NotificationsRefused", unit=MetricUnit.Count, value=1)
    logger.info("answered", extra={"status": receipt.status, "bytes": receipt.size})
    return {"statusCode": receipt.status, "headers": {"Cache-Control": "no-store"}}
