"""State "Check gate", before every step: may this step run now?"""

import json
from typing import Any

from aicr_pipeline.actions.want_credentials import want_credentials
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import (
    load_plan,
    load_report,
    load_request,
    load_rollout,
    refuse_over,
    refuse_revoked,
    standing_decision,
)
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.application import is_applied, is_ours
from aicr_pipeline.decide.approval import check_bypass, check_deadline, check_decision
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Action, Report, Rollout, Step, StepStarted, step_key
from aicr_pipeline.model.step import StepEvent


def check_gate(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    argocd: ArgoCd,
    coordination: Coordination,
    bus: Bus,
    clock: Clock,
) -> dict[str, Any]:
    """Read the records themselves: what a state said before is not trusted.

    Raises
    ------
    PipelineError
        With the reason of the first thing that forbids the step.
    """
    name, now = str(step.input["rollout"]), clock()
    refuse_over(ledger, name)
    refuse_revoked(ledger, name)
    holder = coordination.lock_holder()
    if holder not in (None, name):
        raise PipelineError(Reason.RolloutSuperseded, f"Rollout {holder} is the active one, not {name}.")
    rollout, report = load_rollout(ledger, name), load_report(ledger, name)
    if report is None:
        raise PipelineError(Reason.PlanUnreadable, f"Rollout {name} has lost its report.")
    found = _step_of(step, rollout, report)
    check_deadline(rollout.deadline, now)
    if report.approval_needed:
        digest, decision = request_digest(report, rollout.deadline), standing_decision(ledger, rollout)
        check_bypass(decision, config.approvals.bypass)
        check_decision(decision, load_request(ledger, name), digest, now)
    release = load_plan(ledger, rollout.to_plan).release(found.release)
    if release is None:
        raise PipelineError(
            Reason.StepUnknown,
            f"Plan {rollout.to_plan} has no release {found.release}; start a fresh rollout.",
        )
    if argocd.project() is None:
        raise PipelineError(
            Reason.ProjectMissing, f"AppProject {config.engine.project} is gone; apply the manifests."
        )
    application = argocd.application(found.release)
    if application is not None and not is_ours(application):
        raise PipelineError(
            Reason.ForeignObject, f"Application {found.release} is not the pipeline's; it never adopts."
        )
    if found.action is Action.Unchanged and not is_applied(application, release, config):
        raise PipelineError(
            Reason.InventoryDrift,
            f"Application {found.release} is not what the active plan installed: somebody changed or removed "
            "it. Submit the runtime again: the fresh rollout asks, and applies every release.",
        )
    want_credentials(step, release, config, coordination, bus, clock)
    started = StepStarted(rollout=name, index=found.index, release=found.release, at=rfc3339(now))
    # A retry finds it written; the first time is when the step began.
    ledger.put_once(step_key(name, found.index), json.dumps(started.wire(), sort_keys=True).encode())
    return {"open": True}


def _step_of(step: StepEvent, rollout: Rollout, report: Report) -> Step:
    """The step as the report has it. The state's input says which, and must say the same of everything."""
    item = dict(step.item or {})
    said = (step.input.get("fromPlan"), step.input["toPlan"], step.input["deadline"])
    if said != (rollout.from_plan, rollout.to_plan, rollout.deadline) or report.to_plan != rollout.to_plan:
        raise PipelineError(
            Reason.StepUnknown,
            f"The execution is not for what rollout {rollout.name} recorded; nothing is written.",
        )
    for found in report.steps:
        if (found.index, found.release, str(found.action)) == (
            item["index"],
            item["release"],
            item["action"],
        ):
            return found
    raise PipelineError(
        Reason.StepUnknown,
        f"The report of rollout {rollout.name} has no step {item['index']} {item['release']}.",
    )
