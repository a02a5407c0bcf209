"""State "Take snapshot": AICR looks at the cluster before anything is decided."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.actions.run_job import AicrJob, JobPlace, in_ledger, run_job
from aicr_pipeline.adapters.cluster import Cluster, Json
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.runtimes import pinned, read_runtime
from aicr_pipeline.decide.aicr_job import snapshot_job
from aicr_pipeline.decide.discovery import check_groups, may_overlap, selector_text, view_group
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.runtime import Criteria, NodeGroup, Placement
from aicr_pipeline.model.step import StepEvent

#: A little more than the Job's own deadline, which ends it with a clearer message.
WAIT_SECONDS = 2100


def take_snapshot(
    step: StepEvent, config: ClusterConfig, inbox: Inbox, ledger: Ledger, place: JobPlace
) -> dict[str, Any]:
    """Start the snapshot Job and wait for it; the sweeper keeps and judges what it wrote.

    Raises
    ------
    PipelineError
        ``NodeGroupEmpty``, ``PlacementOverlap``, ``InvalidPlacement`` or ``AcceleratedGroupHeterogeneous``
        when the cluster's nodes are not what the placement needs.
    """
    run = str(step.input["run"])
    runtime = read_runtime(inbox, str(step.input["runtimeVersion"]))
    kept_out = _check_nodes(place.cluster, runtime.spec.placement)
    aicr = pinned(runtime, config.aicr)
    wanted = Wanted(
        run=run,
        purpose="snapshot",
        folder=f"resolves/{run}",
        image=aicr.image,
        aicr_version=aicr.version,
        nodes=runtime.spec.placement.accelerated,
        criteria=runtime.spec.criteria,
        kept_out=kept_out,
    )
    return start_snapshot(step, wanted, ledger, place)


@dataclass(frozen=True)
class Wanted:
    """A snapshot of a run.

    ``purpose`` (``snapshot`` before, ``confirm`` after the install) says how the sweeper judges it;
    ``folder`` is where the ledger keeps it.
    """

    run: str
    purpose: str
    folder: str
    image: str
    aicr_version: str
    nodes: NodeGroup
    criteria: Criteria
    #: Accelerated nodes with a taint that the placement does not tolerate; shown, not refused.
    kept_out: int = 0


def start_snapshot(step: StepEvent, wanted: Wanted, ledger: Ledger, place: JobPlace) -> dict[str, Any]:
    """Start the snapshot Job, or find it started, and register the wait for it."""
    told = {
        "aicrVersion": wanted.aicr_version,
        "criteria": wanted.criteria.wire(),
        "keptOut": wanted.kept_out,
    }
    keep = f"{wanted.folder}/snapshot.yaml"
    job = AicrJob(
        run=wanted.run,
        purpose=wanted.purpose,
        wait_seconds=WAIT_SECONDS,
        build=lambda name, _attempt: snapshot_job(name, wanted.run, wanted.image, wanted.nodes),
        wanted=lambda _attempt: told,
        recorded=in_ledger(ledger, keep),
        logs=f"{wanted.folder}/jobs",
        keep=keep,
    )
    return run_job(step, job, place)


def _check_nodes(cluster: Cluster, placement: Placement) -> int:
    """Check both groups and return how many accelerated nodes keep our pods out by a taint."""
    system = view_group(_nodes(cluster, placement.system), placement.system)
    accelerated = view_group(_nodes(cluster, placement.accelerated), placement.accelerated)
    shared = None
    if may_overlap(placement):
        shared = next(_nodes(cluster, placement.system, placement.accelerated), None)
    check_groups(placement, system, accelerated, str(shared["metadata"]["name"]) if shared else None)
    return accelerated.count - accelerated.usable


def _nodes(cluster: Cluster, *groups: NodeGroup) -> Iterator[Json]:
    return cluster.list("/api/v1/nodes", labelSelector=selector_text(*groups))
