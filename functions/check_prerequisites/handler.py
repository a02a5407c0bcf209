"""State "Check prerequisites"."""

from typing import Any

from aicr_pipeline import wiring
from aicr_pipeline.actions.check_prerequisites import check_prerequisites
from aicr_pipeline.model.step import StepEvent
from aicr_pipeline.step import resolve_handler


@resolve_handler
def handler(step: StepEvent) -> dict[str, Any]:
    """Check the wish, the pins, the cluster and the registry."""
    return check_prerequisites(
        step,
        wiring.config(),
        wiring.inbox(),
        wiring.cluster(),
        wiring.argocd(),
        wiring.registry_credentials(),
    )
