"""The schedule, or a rollout that is about to start, wants a fresh registry token for Argo CD."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.refresh_credentials import refresh_credentials
from aicr_pipeline.clock import now
from aicr_pipeline.event_source import event_handler


@event_handler
def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Mint, write, try."""
    return refresh_credentials(
        wiring.config(),
        wiring.ecr(),
        wiring.argocd(),
        wiring.coordination(),
        wiring.registry().transport,
        now,
    )
