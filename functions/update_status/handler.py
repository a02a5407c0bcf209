"""The schedule, an end in the ledger, or somebody who asks: the runtime's status is looked at."""

from typing import Any

from aicr_pipeline import env, wiring
from aicr_pipeline.actions.update_status import Sources, update_status
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.executions import Executions
from aicr_pipeline.clock import now
from aicr_pipeline.event_source import event_handler, metrics
from aws_lambda_powertools.metrics import MetricUnit


def _measure(name: str, value: int) -> None:
    metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)


@event_handler
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Look at everything: a wake-up carries no truth."""
    stepfunctions = aws.client("stepfunctions")
    sources = Sources(
        wiring.config(),
        wiring.ledger(),
        wiring.inbox(),
        wiring.cluster(),
        wiring.argocd(),
        wiring.notifier(),
        Executions(stepfunctions, env.text("RESOLVE_MACHINE_ARN")).state,
        Executions(stepfunctions, env.text("ROLLOUT_MACHINE_ARN")).state,
    )
    return update_status(sources, wiring.coordination(), wiring.bus(), _measure, now)
