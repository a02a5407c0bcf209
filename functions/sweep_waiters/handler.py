"""The schedule, a new wait or a decision wakes the sweeper."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.announce_decision import announce_decision
from aicr_pipeline.actions.look_at_waiters import World
from aicr_pipeline.actions.sweep_waiters import Sweep
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.coordination import Waiter
from aicr_pipeline.clock import now
from aicr_pipeline.decide.readiness import Graces
from aicr_pipeline.event_source import event_handler, logger, metrics
from aicr_pipeline.model.fields import seconds
from aws_lambda_powertools.metrics import MetricUnit

#: The next minute's run takes over while this one still loops; the function's own limit is above this by
#: more than one look.
BUDGET_SECONDS = 75.0


def _report(problem: str, waiter: Waiter) -> None:
    metrics.add_metric(name="WaiterNotSettled", unit=MetricUnit.Count, value=1)
    logger.warning("waiter not settled: %s", problem, extra={"waiter": waiter.id})


def _decided(came_to: str, waiter: Waiter) -> None:
    announce_decision(came_to, str(waiter.wanted["rollout"]), wiring.ledger(), wiring.bus())


@event_handler
def handler(_event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Look at what is waited for and answer the tokens of what is decided."""
    graces = Graces.of(wiring.config().engine)
    world = World(
        wiring.ledger(),
        wiring.coordination(),
        wiring.cluster,
        wiring.argocd,
        now,
        wiring.inbox,
        wiring.config,
        graces,
    )
    sweep = Sweep(
        world,
        aws.client("stepfunctions"),
        context.aws_request_id,
        seconds(wiring.config().sweep_interval),
        BUDGET_SECONDS,
        _report,
        decided=_decided,
    )
    done = sweep.run()
    oldest = sweep.oldest
    for name, age in (
        ("OldestWaiterSeconds", max(oldest.values(), default=0.0)),
        # A step that is held waits for a person as a question does.
        ("OldestApprovalSeconds", max(oldest.get("approval", 0.0), oldest.get("hold", 0.0))),
    ):
        metrics.add_metric(name=name, unit=MetricUnit.Seconds, value=age)
    return done
