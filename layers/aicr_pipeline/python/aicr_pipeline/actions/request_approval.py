"""State "Request approval": ask people, once, and wait for what the ledger then says."""

import json
from typing import Any

from aicr_pipeline.adapters.bus import Notifier
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import load_report, load_request
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.approval import approval_url, link_secret, summary
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.names import short_name
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import ApprovalRequest, Report, rollout_key
from aicr_pipeline.model.step import StepEvent


def request_approval(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    notifier: Notifier,
    waits: Waits,
    key: bytes,
    base_url: str,
    clock: Clock,
) -> dict[str, Any]:
    """Write what is asked, register the wait, and send each approver a message with their link.

    A retry finds the request written, gives the wait its newer token, and sends the same links again.
    """
    rollout, deadline = str(step.input["rollout"]), str(step.input["deadline"])
    report = load_report(ledger, rollout)
    if report is None:
        raise PipelineError(Reason.PlanUnreadable, f"Rollout {rollout} has no report to approve.")
    approvals = config.approvals
    request = ApprovalRequest(
        rollout=rollout,
        short_name=short_name(rollout),
        digest=request_digest(report, deadline),
        deadline=deadline,
        asked=tuple(approver.name for approver in approvals.approvers),
        asked_at=rfc3339(clock()),
        min_approvals=approvals.min_approvals,
        identity=approvals.identity,
        identity_reason=approvals.identity_reason,
    )
    if not ledger.put_once(
        rollout_key(rollout, "request"), json.dumps(request.wire(), sort_keys=True).encode()
    ):
        request = load_request(ledger, rollout) or request
    wanted = {"rollout": rollout, "digest": request.digest, "toPlan": step.input["toPlan"]}
    waiting = waits.register(step, "approval", wanted, deadline)
    reachable = [approver for approver in request.asked if approver in notifier.topics]
    if not reachable:
        raise PipelineError(
            Reason.InvalidConfiguration,
            f"Nobody of {', '.join(request.asked)} is an approver any more; start a fresh rollout.",
        )
    for approver in reachable:
        link = approval_url(base_url, rollout, approver, link_secret(key, rollout, approver))
        notifier.send(
            approver,
            f"[aicr {config.cluster.name}] approve rollout {request.short_name}?",
            message(config, request, report, link),
        )
        groups=approvals.groups or None,
    return waiting


def message(config: ClusterConfig, request: ApprovalRequest, report: Report, link: str) -> str:
    """Plain text: what changes, until when, and the link on a line of its own."""
    lines = [
        f"Rollout {request.rollout} of cluster {config.cluster.name} waits for approval.",
        "",
        *(f"  {line}" for line in summary(report)),
        "",
        f"Answer until: {request.deadline}",
        f"Short name, typed to confirm: {request.short_name}",
        "",
        "Look and decide here (opening the page changes nothing):",
        "",
        link,
        "",
    ]
    if config.development:
        lines += ["This cluster is marked development: true; its evidence never qualifies a profile.", ""]
    return "\n".join(lines)
