"""State "Validate deployment": AICR's deployment validation, once per rollout."""

import base64
from collections.abc import Callable
from typing import Any

from aicr_pipeline.actions.run_job import AicrJob, JobPlace, Login, in_ledger, run_pushing_job
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.registry_auth import Credentials
from aicr_pipeline.adapters.rollouts import load_plan, refuse_over, refuse_revoked
from aicr_pipeline.adapters.signer import region_of
from aicr_pipeline.decide.aicr_job import PushTarget, Signing, validate_job
from aicr_pipeline.decide.validation_access import check_configured
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.aicr_generation import Generation, generation
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
    credentials: Credentials,
    place: JobPlace,
    public_key_of: Callable[[str], bytes],
) -> dict[str, Any]:
    """Start the validation Job with the plan's own recipe and snapshot, and wait for its report.

    ``public_key_of`` gives the public key (DER) of the key that AICR signs with, by its URI: the evidence is
    judged by it, whatever is configured by then.

    Raises
    ------
    PipelineError
        ``ValidationUnavailable`` when it is not enabled, or when the plan's AICR cannot sign with the key
        that is configured; ``PlanUnreadable`` when the plan's recipe or snapshot is gone from the ledger.
    """
    rollout = str(step.input["rollout"])
    refuse_over(ledger, rollout)
    refuse_revoked(ledger, rollout)
    plan = load_plan(ledger, str(step.input["toPlan"]))
    state = plan.desired_state
    check_configured("Required", config, state.aicr.version)
    registry = config.registry
    # The image that rendered the plan, wherever the configuration points by now.
    image = config.aicr.image_of(plan.desired_state.aicr.image_digest)

    keep = f"rollouts/{rollout}/validation.json"
    key = config.validation.signing_key
    signing = (
        {} if key is None else {"signingKey": key, "publicKey": base64.b64encode(public_key_of(key)).decode()}
    )

    def build(name: str, attempt: int) -> dict[str, Any]:
        repository = f"{registry.host}/{registry.prefix}/evidence/{evidence_repository(rollout, attempt)}"
        system, push = plan.desired_state.placement.system, PushTarget(repository, registry.plain_http)
        return validate_job(
            name, rollout, image, generation(state.aicr.version), system, push, _signing(config)
        )

    job = AicrJob(
        run=rollout,
        purpose="validate",
        wait_seconds=WAIT_SECONDS,
        build=build,
        wanted=lambda attempt: {
            "rollout": rollout,
            "repository": evidence_repository(rollout, attempt),
            **signing,
            # What the sweeper holds the validators' pods against, and whether they stay until it can.
            "validatorImages": list(state.validator_images),
            "validators": f"rollouts/{rollout}/validators",
            "podsStay": generation(state.aicr.version) is Generation.NAMED_ACCOUNT,
        },
        recorded=in_ledger(ledger, keep),
        logs=f"rollouts/{rollout}/jobs",
        inputs={suffix: _input(ledger, plan.recorded.run, suffix) for suffix in ("recipe", "snapshot")},
        keep=keep,
    )
    return run_pushing_job(step, job, place, Login(registry.host, credentials))


def _signing(config: ClusterConfig) -> Signing | None:
    key = config.validation.signing_key
    if key is None:
        return None
    return Signing(key, region_of(key) or config.cluster.region, config.validation.transparency_log)


def _input(ledger: Ledger, run: str, suffix: str) -> str:
    text = ledger.get(f"resolves/{run}/{suffix}.yaml")
    if text is None:
        raise PipelineError(Reason.PlanUnreadable, f"The {suffix} of run {run} is not in the ledger.")
    return text.decode()
