"""State "Validate deployment": AICR's deployment validation, once per rollout."""

from typing import Any

from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.registry_auth import Credentials
from aicr_pipeline.adapters.rollouts import load_plan, refuse_over
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock, after
from aicr_pipeline.decide.aicr_job import PushTarget, input_config_map, registry_secret, validate_job
from aicr_pipeline.decide.names import job_name
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.step import StepEvent

WAIT_SECONDS = 7500


def evidence_repository(rollout: str, attempt: int) -> str:
    """AICR's evidence has one repository per attempt, so its only tag is that attempt's."""
    return f"{rollout.lower()}-{attempt}"


def validate_deployment(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    cluster: Cluster,
    credentials: Credentials,
    waits: Waits,
    clock: Clock,
) -> dict[str, Any]:
    """Start the validation Job with the plan's own recipe and snapshot, and wait for its report.

    Raises
    ------
    PipelineError
        ``ValidationUnavailable`` when it is not enabled; ``PlanUnreadable`` when the plan's recipe or
        snapshot is gone from the ledger.
    """
    if not config.validation.enabled:
        raise PipelineError(
            Reason.ValidationUnavailable, "validation.enabled is false, but the plan requires it."
        )
    rollout = str(step.input["rollout"])
    refuse_over(ledger, rollout)
    plan = load_plan(ledger, str(step.input["toPlan"]))
    registry = config.registry
    # The image that rendered the plan, wherever the configuration points by now.
    image = config.aicr.image_of(plan.desired_state.aicr.image_digest)

    def build(attempt: int) -> dict[str, Any]:
        repository = f"{registry.host}/{registry.prefix}/evidence/{evidence_repository(rollout, attempt)}"
        target = PushTarget(repository, registry.plain_http)
        return validate_job(job_name(rollout, "validate", attempt), rollout, image, target)

    started = jobs.start(cluster, build)
    run = plan.recorded.run
    for suffix in ("recipe", "snapshot"):
        text = ledger.get(f"resolves/{run}/{suffix}.yaml")
        if text is None:
            raise PipelineError(Reason.PlanUnreadable, f"The {suffix} of run {run} is not in the ledger.")
        body = input_config_map(started.job, suffix, text.decode())
        jobs.put_owned(cluster, body, "configmaps")
    credentials.renew()  # a token near its end would not outlive the Job
    user, password = credentials.get()
    jobs.put_owned(cluster, registry_secret(started.job, registry.host, user, password), "secrets")
    metadata = started.job["metadata"]
    wanted = {
        "namespace": metadata["namespace"],
        "job": metadata["name"],
        "purpose": "validate",
        "configMap": metadata["name"],
        "keep": f"rollouts/{rollout}/validation.json",
        "repository": evidence_repository(rollout, started.attempt),
    }
    return waits.register(step, "job", wanted, after(clock(), WAIT_SECONDS))
