"""State "Confirm criteria": a second snapshot, after the install, must show what was asked for."""

from typing import Any

from aicr_pipeline.actions.take_snapshot import start_snapshot
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import load_rollout
from aicr_pipeline.adapters.runtimes import read_runtime
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.step import StepEvent


def confirm_criteria(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    inbox: Inbox,
    cluster: Cluster,
    waits: Waits,
    clock: Clock,
) -> dict[str, Any]:
    """Start the post-install snapshot; the sweeper compares it with ``spec.criteria``."""
    rollout = load_rollout(ledger, str(step.input["rollout"]))
    runtime = read_runtime(inbox, rollout.runtime_version)
    return start_snapshot(
        step,
        config,
        cluster,
        waits,
        clock,
        runtime,
        run=rollout.name,
        purpose="confirm",
        keep=f"rollouts/{rollout.name}/snapshot.yaml",
    )
