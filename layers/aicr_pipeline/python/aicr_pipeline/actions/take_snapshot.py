"""State "Take snapshot": AICR looks at the cluster before anything is decided."""

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
from aicr_pipeline.model.runtime import ClusterRuntime
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
    return start_snapshot(
        step,
        config,
        cluster,
        waits,
        clock,
        runtime,
        run=run,
        purpose="snapshot",
        keep=f"resolves/{run}/snapshot.yaml",
    )


def start_snapshot(
    step: StepEvent,
    config: ClusterConfig,
    cluster: Cluster,
    waits: Waits,
    clock: Clock,
    runtime: ClusterRuntime,
    *,
    run: str,
    purpose: str,
    keep: str,
) -> dict[str, Any]:
    """Start a snapshot Job of a run and register the wait for it.

    ``purpose`` (``snapshot`` or ``confirm``) says how the sweeper judges it; ``keep`` is the ledger
    key under which the snapshot is kept.
    """
    aicr = pinned(runtime, config.aicr)
    nodes = runtime.spec.placement.accelerated
    started = jobs.start(
        cluster, lambda attempt: snapshot_job(job_name(run, purpose, attempt), run, aicr.image, nodes)
    )
    name = started.job["metadata"]["name"]
    wanted = {
        "namespace": SYSTEM_NAMESPACE,
        "job": name,
        "purpose": purpose,
        "configMap": name,
        "keep": keep,
        "aicrVersion": aicr.version,
        "criteria": runtime.spec.criteria.wire(),
    }
    return waits.register(step, "job", wanted, after(clock(), WAIT_SECONDS))


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
