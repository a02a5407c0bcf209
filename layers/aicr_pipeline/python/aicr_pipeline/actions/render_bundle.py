"""State "Render bundle": AICR resolves the recipe and renders the bundle; we render nothing ourselves."""

from typing import Any

from aicr_pipeline.actions.run_job import AicrJob, JobPlace, Login, run_pushing_job
from aicr_pipeline.adapters.http import Counters
from aicr_pipeline.adapters.ledger import Inbox
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.registry_auth import Credentials
from aicr_pipeline.adapters.runtimes import pinned, read_runtime
from aicr_pipeline.decide.aicr_job import PushTarget, render_job
from aicr_pipeline.decide.overrides import named
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
    registry: Destination,
    credentials: Credentials,
    place: JobPlace,
) -> dict[str, Any]:
    """Start the render Job with a registry Secret of its own and wait for it.

    The Secret's token carries this function's rights: pushing ``bundles/*`` and nothing else. The tag is
    the last thing AICR pushes, so a tag that is there is a bundle that is whole, and none is pushed twice.
    """
    run = str(step.input["run"])
    runtime = read_runtime(inbox, str(step.input["runtimeVersion"]))
    aicr = pinned(runtime, config.aicr)
    repository = f"{config.registry.host}/{config.registry.prefix}/bundles/{config.cluster.name}"
    bundles = registry.repository("bundles", config.cluster.name, Counters())

    def build(name: str, attempt: int) -> dict[str, Any]:
        target = PushTarget(f"{repository}:{bundle_tag(run, attempt)}", config.registry.plain_http)
        return render_job(name, run, aicr.image, runtime, target)

    job = AicrJob(
        run=run,
        purpose="render",
        wait_seconds=WAIT_SECONDS,
        build=build,
        wanted=lambda attempt: {"tag": bundle_tag(run, attempt), "overrides": named(runtime.spec.overrides)},
        recorded=lambda attempt: bundles.head_manifest(bundle_tag(run, attempt)) is not None,
        logs=f"resolves/{run}/jobs",
    )
    return run_pushing_job(step, job, place, Login(config.registry.host, credentials))
