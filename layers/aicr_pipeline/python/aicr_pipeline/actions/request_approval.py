"""State "Request approval": ask people, once, and wait for what the ledger then says."""

import hashlib
import json
from typing import Any

from aicr_pipeline.actions.bypass_approval import bypass_approval
from aicr_pipeline.actions.tell_approvers import Message, Ways, letters, tell_or_try_again
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import (
    load_report,
    load_request,
    load_rollout,
    standing_decision,
)
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.approval_message import question, subject
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.names import short_name
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import ApprovalRequest, rollout_key
from aicr_pipeline.model.step import StepEvent


def request_approval(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    ways: Ways,
    waits: Waits,
    key: bytes,
    base_url: str,
    clock: Clock,
) -> dict[str, Any]:
    """Write what is asked, register the wait, and send each approver a message with their link.

    A retry finds the request written, gives the wait its newer token, and sends the same links again. A
    message that fails is recorded, announced and counted; it stops neither the others nor the wait.

    Raises
    ------
    TransientError
        When not one message was taken, so that the state is tried again; a few times, then it waits.
    PipelineError
        ``PlanUnreadable`` without a report; ``InvalidConfiguration`` when none of the asked is an approver.
    """
    rollout, deadline = str(step.input["rollout"]), str(step.input["deadline"])
    report = load_report(ledger, rollout)
    if report is None:
        raise PipelineError(Reason.PlanUnreadable, f"Rollout {rollout} has no report to approve.")
    if config.approvals.bypass:
        return bypass_approval(step, report, ledger, waits, ways.bus, clock)
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
        groups=approvals.groups or None,
    )
    if not ledger.put_once(
        rollout_key(rollout, "request"), json.dumps(request.wire(), sort_keys=True).encode()
    ):
        request = load_request(ledger, rollout) or request
    wanted = {"rollout": rollout, "digest": request.digest, "toPlan": step.input["toPlan"]}
    waiting = waits.register(step, "approval", wanted, deadline)
    asked_for = load_rollout(ledger, rollout)
    if standing_decision(ledger, asked_for) is not None:
        return waiting  # decided already, or approved for an earlier rollout that asked exactly this
    reachable = tuple(approver for approver in request.asked if approver in ways.notifier.topics)
    if not reachable:
        raise PipelineError(
            Reason.InvalidConfiguration,
            f"Nobody of {', '.join(request.asked)} is an approver any more; start a fresh rollout.",
        )
    cluster = config.cluster.name

    def text(link: str) -> str:
        return question(cluster, request, report, link, config.development, asked_for.submitter)

    message = Message(
        rollout=rollout,
        kind="request",
        name=f"request-{hashlib.sha256(step.order.encode()).hexdigest()[:12]}",
        about=Reason.AwaitingApproval,
        people=reachable,
        subject=subject(cluster, f"approve rollout {request.short_name}?"),
        letter=letters(config, key, base_url, rollout, text),
    )
    tell_or_try_again(message, ways, config, ledger, step.retries, clock)
    return waiting
