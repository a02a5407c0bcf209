"""Development only: a rollout goes on although nobody was asked, and everything says so."""

import json
from typing import Any

from aicr_pipeline.actions.announce_decision import announce_bypass
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.approval import BYPASSED_BY, BYPASSED_REASON
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.names import short_name
from aicr_pipeline.model.rollout import ApprovalRequest, Decision, Report, rollout_key
from aicr_pipeline.model.step import StepEvent


def bypass_approval(
    step: StepEvent, report: Report, ledger: Ledger, waits: Waits, bus: Bus, clock: Clock
) -> dict[str, Any]:
    """Record that the approval was bypassed, and let the rollout go on. No message is sent.

    The record is not ``decision.json``, which only the pages write. The gate believes it only while the
    configuration still bypasses, which it does on a development cluster alone.
    """
    rollout, deadline = str(step.input["rollout"]), str(step.input["deadline"])
    at, digest = rfc3339(clock()), request_digest(report, deadline)
    request = ApprovalRequest(
        rollout=rollout,
        short_name=short_name(rollout),
        digest=digest,
        deadline=deadline,
        asked=(BYPASSED_BY,),
        asked_at=at,
        min_approvals=1,
        identity="bypass",
        identity_reason=BYPASSED_REASON,
    )
    decision = Decision(
        rollout=rollout,
        decision="Approved",
        request_digest=digest,
        by=(BYPASSED_BY,),
        identity="bypass",
        issuer="configuration",
        reason=BYPASSED_REASON,
        at=at,
        expires_at=deadline,
    )
    for name, document in (("request", request), ("bypass", decision)):
        body = json.dumps(document.wire(), sort_keys=True).encode()
        ledger.put_once(rollout_key(rollout, name), body)
    announce_bypass(rollout, bus)
    return waits.end(step, {"output": {"decision": "Bypassed", "by": []}}, deadline)
