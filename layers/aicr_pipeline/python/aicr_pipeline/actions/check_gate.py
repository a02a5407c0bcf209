"""State "Check gate", before every step: may this step run now?"""

from typing import Any

from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import load_decision, load_outcome, load_plan, load_report
from aicr_pipeline.clock import Clock
from aicr_pipeline.decide.application import is_ours
from aicr_pipeline.decide.approval import check_deadline, check_decision
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.credentials import is_fresh
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.step import StepEvent


def check_gate(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    argocd: ArgoCd,
    coordination: Coordination,
    clock: Clock,
) -> dict[str, Any]:
    """Read the records themselves: what a state said before is not trusted.

    Raises
    ------
    PipelineError
        With the reason of the first thing that forbids the step.
    """
    rollout, item, now = str(step.input["rollout"]), dict(step.item or {}), clock()
    deadline = str(step.input["deadline"])
    check_deadline(deadline, now)
    outcome = load_outcome(ledger, rollout)
    if outcome is not None:
        raise PipelineError(Reason.RolloutSuperseded, f"Rollout {rollout} is over: {outcome.message}")
    report = load_report(ledger, rollout)
    if report is None:
        raise PipelineError(Reason.PlanUnreadable, f"Rollout {rollout} has lost its report.")
    if report.approval_needed:
        check_decision(load_decision(ledger, rollout), request_digest(report, deadline), now)
    plan = load_plan(ledger, report.to_plan)
    if plan.release(str(item["release"])) is None:
        raise PipelineError(
            Reason.StepUnknown,
            f"Plan {report.to_plan} has no release {item['release']}; start a fresh rollout.",
        )
    if argocd.project() is None:
        raise PipelineError(
            Reason.ProjectMissing, f"AppProject {config.engine.project} is gone; apply the manifests."
        )
    application = argocd.application(str(item["release"]))
    if application is not None and not is_ours(application):
        raise PipelineError(
            Reason.ForeignObject, f"Application {item['release']} is not the pipeline's; it never adopts."
        )
    minted = config.registry.auth.provider == "aws" and config.engine.kind == "self-managed"
    if minted and not is_fresh(coordination.fact(CREDENTIALS), now):
        raise PipelineError(
            Reason.RegistryCredentialsStale,
            "Argo CD's registry token is about to expire and was not renewed. See refresh_credentials.",
        )
    return {"open": True}
