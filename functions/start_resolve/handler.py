"""S3 says that a runtime was put into the inbox; or the schedule, or a person, asks for a resolve."""

from typing import Any

from aicr_pipeline import env, wiring
from aicr_pipeline.actions.start_resolve import start_resolve
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.executions import Executions
from aicr_pipeline.clock import now
from aicr_pipeline.event_source import event_handler


@event_handler
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Start the resolve, once."""
    machine = Executions(aws.client("stepfunctions"), env.text("RESOLVE_MACHINE_ARN"))
    return start_resolve(event, wiring.config(), wiring.inbox(), machine, now)
