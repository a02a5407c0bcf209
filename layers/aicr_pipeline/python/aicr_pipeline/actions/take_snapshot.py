"""State "Take snapshot": AICR looks at the cluster before anything is decided."""

from dataclasses import dataclass
from typing import Any

from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.ledger import Inbox
from aicr_pipeline.adapters.runtimes import pinned, read_runtime
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock, after
from aicr_pipeline.decide.aicr_job import SYSTEM_NAMESPACE, snapshot_job
from aicr_pipeline.decide.names import job_name
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import ClusterRuntime, Criteria, NodeGroup
from aicr_pipeline.model.step import StepEvent

#: A little more than the Job's own deadline, which ends it with a clearer message.
WAIT_SECONDS = 2100


def take_snapshot(
    step: StepEvent, config: ClusterConfig, inbox: Inbox, cluster: Cluster, waits: Waits, clock: Clock
) -> dict[str, Any]:
    """Start the snapshot Job and wait for it; the sweeper keeps and judges what it wrote.

    Raises
    ------
    PipelineError
        ``NodeGroupEmpty`` when a placement selects no node.
    """
    run = str(step.input["run"])
    runtime = read_runtime(inbox, str(step.input["runtimeVersion"]))
    _require_nodes(cluster, runtime)
    aicr = pinned(runtime, config.aicr)
    wanted = Wanted(
        run=run,
        purpose="snapshot",
        keep=f"resolves/{run}/snapshot.yaml",
        image=aicr.image,
        aicr_version=aicr.version,
        nodes=runtime.spec.placement.accelerated,
        criteria=runtime.spec.criteria,
    )
    return start_snapshot(step, wanted, cluster, waits, clock)


@dataclass(frozen=True)
class Wanted:
    """A snapshot of a run.

    ``purpose`` (``snapshot`` before, ``confirm`` after the install) says how the sweeper judges it;
    ``keep`` is the ledger key under which it is kept.
    """

    run: str
    purpose: str
    keep: str
    image: str
    aicr_version: str
    nodes: NodeGroup
    criteria: Criteria


def start_snapshot(
    step: StepEvent, wanted: Wanted, cluster: Cluster, waits: Waits, clock: Clock
) -> dict[str, Any]:
    """Start the snapshot Job, or find it started, and register the wait for it."""

    def build(attempt: int) -> dict[str, Any]:
        name = job_name(wanted.run, wanted.purpose, attempt)
        return snapshot_job(name, wanted.run, wanted.image, wanted.nodes)

    name = jobs.start(cluster, build).job["metadata"]["name"]
    waiting = {
        "namespace": SYSTEM_NAMESPACE,
        "job": name,
        "purpose": wanted.purpose,
        "configMap": name,
        "keep": wanted.keep,
        "aicrVersion": wanted.aicr_version,
        "criteria": wanted.criteria.wire(),
    }
    return waits.register(step, "job", waiting, after(clock(), WAIT_SECONDS))


def _require_nodes(cluster: Cluster, runtime: ClusterRuntime) -> None:
    placement = runtime.spec.placement
    for group, nodes in (("system", placement.system), ("accelerated", placement.accelerated)):
        selector = ",".join(f"{key}={value}" for key, value in sorted(nodes.node_selector.items()))
        if next(iter(cluster.list("/api/v1/nodes", labelSelector=selector)), None) is None:
            raise PipelineError(
                Reason.NodeGroupEmpty,
                f"spec.placement.{group}.nodeSelector ({selector}) matches no node. Check "
                "the labels, or scale up.",
            )
