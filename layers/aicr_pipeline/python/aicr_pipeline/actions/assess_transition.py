"""State "Assess transition": what changes between the two plans, and who has to say yes."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from aicr_pipeline.actions.check_validation import check_validation
from aicr_pipeline.actions.want_credentials import want_credentials
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.cluster import Cluster, Json
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import (
    load_plan,
    load_report,
    load_rollout,
    refuse_over,
    refuse_revoked,
)
from aicr_pipeline.adapters.runtimes import standing_wish
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.application import is_ours, plan_of
from aicr_pipeline.decide.approval import check_deadline
from aicr_pipeline.decide.assess import assess, check_blocked
from aicr_pipeline.decide.gate import check_wish
from aicr_pipeline.decide.inventory import is_synced
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.plan import Plan, PlannedRelease
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Deployed, rollout_key
from aicr_pipeline.model.step import StepEvent


def assess_transition(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    inbox: Inbox,
    cluster: Cluster,
    argocd: ArgoCd,
    coordination: Coordination,
    bus: Bus,
    clock: Clock,
    deployed: str,
) -> dict[str, Any]:
    """Write the report and say what the rest of the rollout needs.

    ``deployed`` is the digest of what is deployed: the rollout's evidence has to be of the same.

    Returns
    -------
    dict
        ``approvalNeeded``, ``validation`` and ``steps``: ``[{"index", "of", "release", "action"}]``.

    Raises
    ------
    PipelineError
        ``TransitionBlocked``, ``ForeignObject``, ``EngineMissing``, ``PlanUnreadable``,
        ``RegistryCredentialsUnavailable``, ``Deleting``, ``ValidationUnavailable``.
    """
    rollout, now = str(step.input["rollout"]), clock()
    refuse_over(ledger, rollout)
    refuse_revoked(ledger, rollout)
    check_deadline(str(step.input["deadline"]), now)
    # Before anybody is asked.
    check_wish(standing_wish(inbox))
    to_plan = load_plan(ledger, str(step.input["toPlan"]))
    from_digest = step.input.get("fromPlan")
    from_plan = load_plan(ledger, str(from_digest)) if from_digest else None
    state = to_plan.desired_state
    # First of what is written: whatever the rollout did, it did with this or after it.
    began = Deployed(rollout=rollout, pipeline=deployed, development=config.development, at=rfc3339(now))
    ledger.put_once(rollout_key(rollout, "deployed"), json.dumps(began.wire(), sort_keys=True).encode())
    # The configuration, or the cluster, may be another than when the plan was made.
    check_validation(state.validation, config, state.aicr.version, cluster)
    ours = _ours(config, argocd, to_plan)
    want_credentials(step, to_plan.desired_state.releases[0], config, coordination, bus, clock)
    whole = load_rollout(ledger, rollout).from_is_whole
    report = assess(
        from_plan,
        to_plan,
        always_ask=config.approvals.always,
        from_is_whole=whole,
        installed={} if whole else _installed(ours, [from_plan, to_plan], ledger),
    )
    body = json.dumps(report.wire(), sort_keys=True).encode()
    if not ledger.put_once(rollout_key(rollout, "report"), body):
        report = load_report(ledger, rollout) or report
    check_blocked(report)
    return {
        "approvalNeeded": report.approval_needed,
        "validation": report.validation,
        "steps": [
            {
                "index": found.index,
                "of": len(report.steps),
                "release": found.release,
                "action": str(found.action),
            }
            for found in report.steps
        ],
    }


def _ours(config: ClusterConfig, argocd: ArgoCd, plan: Plan) -> list[Json]:
    """The pipeline's Applications.

    Raises
    ------
    PipelineError
        ``EngineMissing``, ``ProjectMissing``; ``ForeignObject`` for others that have a name of the plan.
    """
    if not argocd.is_installed():
        raise PipelineError(
            Reason.EngineMissing, "Argo CD is gone: the Application CRD is missing. Install it again."
        )
    if argocd.project() is None:
        raise PipelineError(
            Reason.ProjectMissing,
            f"AppProject {config.engine.project} is gone. Apply the cluster manifests again.",
        )
    names = {release.name for release in plan.desired_state.releases}
    ours: list[Json] = []
    foreign: list[str] = []
    for item in argocd.applications():
        if is_ours(item):
            ours.append(item)
        elif item["metadata"]["name"] in names:
            foreign.append(item["metadata"]["name"])
    if foreign:
        raise PipelineError(
            Reason.ForeignObject,
            f"Applications {', '.join(sorted(foreign))} exist and are not the pipeline's; it never adopts. "
            "Remove or rename them.",
        )
    return ours


def _installed(
    ours: Iterable[Json], compared: Sequence[Plan | None], ledger: Ledger
) -> dict[str, PlannedRelease]:
    """Releases that a rollout which ended half-way left as its own plan has them, by what Argo CD compared.

    One that is as either of the ``compared`` plans has it tells nothing new.
    """
    found = {}
    for application in ours:
        name = str(application["metadata"]["name"])
        release = _release_of(application, name, ledger)
        if release is None or not is_synced(application, release):
            continue
        if all(plan is None or plan.release(name) != release for plan in compared):
            found[name] = release
    return found


def _release_of(application: Json, name: str, ledger: Ledger) -> PlannedRelease | None:
    """The release as the plan has it that the Application was written for; None where that cannot be read."""
    written_for = plan_of(application)
    if written_for is None:
        return None
    try:
        return load_plan(ledger, written_for).release(name)
    except PipelineError:
        return None
