"""A schedule wants a fresh registry token for Argo CD, or a look at the one it has; so does a rollout."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS_WANTED, Keeper
from aicr_pipeline.clock import now
from aicr_pipeline.decide.credentials import SECONDS_LEFT, probe_of
from aicr_pipeline.event_source import event_handler, metrics
from aws_lambda_powertools.metrics import MetricUnit

_LOOKS = (CREDENTIALS_WANTED, "look")


def _measure(name: str, value: float) -> None:
    metrics.add_metric(
        name=name, unit=MetricUnit.Seconds if name == SECONDS_LEFT else MetricUnit.Count, value=value
    )


@event_handler
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Look first where that is all that is asked for; else mint, write, try."""
    keeper = Keeper(
        wiring.config(),
        wiring.ecr(),
        wiring.argocd(),
        wiring.coordination(),
        wiring.registry().transport,
        now,
        _measure,
    )
    if event.get("detail-type", event.get("source")) in _LOOKS:
        return keeper.check(probe_of(event))
    return keeper.refresh()
