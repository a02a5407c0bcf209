"""State "Confirm criteria": a second snapshot, after the install, must show what was asked for."""

from typing import Any

from aicr_pipeline.actions.run_job import JobPlace
from aicr_pipeline.actions.take_snapshot import Wanted, start_snapshot
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import load_plan, refuse_over, refuse_revoked
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.runtime import Criteria
from aicr_pipeline.model.step import StepEvent


def confirm_criteria(
    step: StepEvent, config: ClusterConfig, ledger: Ledger, place: JobPlace
) -> dict[str, Any]:
    """Start the post-install snapshot; the sweeper compares it with the plan's criteria.

    With the AICR of the plan: a new pin in the configuration is for the next plan.
    """
    rollout = str(step.input["rollout"])
    refuse_over(ledger, rollout)
    refuse_revoked(ledger, rollout)
    state = load_plan(ledger, str(step.input["toPlan"])).desired_state
    criteria = state.criteria
    wanted = Wanted(
        run=rollout,
        purpose="confirm",
        folder=f"rollouts/{rollout}",
        image=config.aicr.image_of(state.aicr.image_digest),
        aicr_version=state.aicr.version,
        nodes=state.placement.accelerated,
        criteria=Criteria(service=criteria.service, accelerator=criteria.accelerator, os=criteria.os),
    )
    return start_snapshot(step, wanted, ledger, place)
