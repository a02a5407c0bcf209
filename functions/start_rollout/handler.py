"""A plan is ready, or a rollout ended."""

from typing import Any

from aicr_pipeline import env, wiring
from aicr_pipeline.actions.start_rollout import start_rollout
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.executions import Executions
from aicr_pipeline.clock import now
from aicr_pipeline.event_source import event_handler


@event_handler
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Start the rollout that the target asks for, if any."""
    machine = Executions(aws.client("stepfunctions"), env.text("ROLLOUT_MACHINE_ARN"))
    return start_rollout(
        event,
        wiring.config(),
        wiring.ledger(),
        wiring.inbox(),
        wiring.coordination(),
        machine,
        now,
    )
