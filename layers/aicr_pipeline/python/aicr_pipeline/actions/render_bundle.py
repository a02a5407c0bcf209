"""State "Render bundle": AICR resolves the recipe and renders the bundle; we render nothing ourselves."""

from typing import Any

from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.ledger import Inbox
from aicr_pipeline.adapters.registry_auth import Credentials
from aicr_pipeline.adapters.runtimes import pinned, read_runtime
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock, after
from aicr_pipeline.decide.aicr_job import PushTarget, registry_secret, render_job
from aicr_pipeline.decide.names import job_name
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.step import StepEvent

WAIT_SECONDS = 1500


def bundle_tag(run: str, attempt: int) -> str:
    """The tag under ``bundles/<cluster>`` that one attempt of a run pushes."""
    return f"{run}-{attempt}"


def render_bundle(
    step: StepEvent,
    config: ClusterConfig,
    inbox: Inbox,
    cluster: Cluster,
    credentials: Credentials,
    waits: Waits,
    clock: Clock,
) -> dict[str, Any]:
    """Start the render Job with a registry Secret of its own and wait for it.

    The Secret's token carries this function's rights: pushing ``bundles/*`` and nothing else.
    """
    run = str(step.input["run"])
    runtime = read_runtime(inbox, str(step.input["runtimeVersion"]))
    aicr = pinned(runtime, config.aicr)
    registry = config.registry
    repository = f"{registry.host}/{registry.prefix}/bundles/{config.cluster.name}"

    def build(attempt: int) -> dict[str, Any]:
        target = PushTarget(f"{repository}:{bundle_tag(run, attempt)}", registry.plain_http)
        return render_job(job_name(run, "render", attempt), run, aicr.image, runtime, target)

    started = jobs.start(cluster, build)
    credentials.renew()  # a token near its end would not outlive the Job
    user, password = credentials.get()
    jobs.put_owned(cluster, registry_secret(started.job, registry.host, user, password), "secrets")
    metadata = started.job["metadata"]
    wanted = {
        "namespace": metadata["namespace"],
        "job": metadata["name"],
        "purpose": "render",
        "tag": bundle_tag(run, started.attempt),
    }
    return waits.register(step, "job", wanted, after(clock(), WAIT_SECONDS))
