"""The schedule: reminds approvers, and looks whether messages can reach them at all."""

from typing import Any

from aicr_pipeline import env, wiring
from aicr_pipeline.actions.remind_approvers import Reachability, remind_approvers
from aicr_pipeline.actions.tell_approvers import Ways
from aicr_pipeline.clock import now
from aicr_pipeline.event_source import event_handler, logger, metrics
from aicr_pipeline.outgoing import failure
from aws_lambda_powertools.metrics import MetricUnit, single_metric


def _report(found: Reachability) -> None:
    """One metric an approver, so that the alarm names who it is."""
    with single_metric(
        name="ApproverUnreachable", unit=MetricUnit.Count, value=int(not found.reachable)
    ) as metric:
        metric.add_dimension("service", "remind_approvers")
        metric.add_dimension("approver", found.approver)
    if not found.reachable:
        logger.warning("approver cannot be reached: %s", found.why, extra={"approver": found.approver})


@event_handler
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Remind at half of the deadline; report who has no confirmed subscription."""
    return remind_approvers(
        wiring.config(),
        wiring.ledger(),
        wiring.coordination(),
        Ways(wiring.notifier(), wiring.slack(), wiring.bus(), failure(metrics, logger)),
        wiring.approval_key(),
        env.text("APPROVAL_URL"),
        now,
        _report,
    )
