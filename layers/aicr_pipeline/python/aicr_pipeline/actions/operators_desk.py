"""What operators ask at, and what they are told: who asks, a rollout as its page shows it, and the list."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from aicr_pipeline.adapters.approvals import load_records, load_stall
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import (
    load_outcome,
    load_report,
    load_request,
    load_revocation,
    load_rollout,
    standing_decision,
)
from aicr_pipeline.clock import Clock
from aicr_pipeline.decide.approval_page import PageState, Records, page_state, page_view
from aicr_pipeline.decide.names import short_name
from aicr_pipeline.decide.people import UNKNOWN, four_eyes_missing, may_approve, principal
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.approvers import Approver
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key

#: Of a list; the newest come first, and what waits is new.
MOST_LISTED = 20
#: In a list, in place of a state; describe says why.
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Desk:
    """What requests are answered from."""

    config: ClusterConfig
    ledger: Ledger
    inbox: Inbox
    clock: Clock


@dataclass(frozen=True)
class Caller:
    """Who signed, as API Gateway says: the ARN, and the stable id of user or role."""

    arn: str
    id: str


@dataclass(frozen=True)
class Reply:
    """Status and JSON body. ``name`` says what happened, for logs and metrics."""

    status: int
    body: dict[str, Any]
    name: str


class RefusedError(Exception):
    """Nothing was recorded; ``reply`` says why."""

    def __init__(self, status: int, reason: Reason, message: str) -> None:
        super().__init__(message)
        body = {"status": "refused", "reason": str(reason), "message": message}
        self.reply = Reply(status, body, f"refused-{status}")


def principal_of(caller: Caller) -> str:
    """The ARN of the user or role that asks. Raises RefusedError for what is no person."""
    who = principal(caller.arn)
    if who is None:
        raise RefusedError(
            403, Reason.Unauthorized, "Only users and roles are people here; use one of those."
        )
    return who


def records_of(rollout: str, desk: Desk) -> Records:
    """All records of a rollout. Raises RefusedError when there is none of that name."""
    if desk.ledger.get(rollout_key(rollout, "rollout")) is None:
        raise RefusedError(
            404, Reason.PlanUnreadable, f"There is no rollout {rollout}; list tells the newest."
        )
    return load_records(desk.ledger, rollout, desk.config.approvals)


def line_of(name: str, approver: Approver | None, desk: Desk, now: datetime) -> dict[str, Any]:
    """One line of the list. A rollout that cannot be read hides no other."""
    try:
        return _entry(name, approver, desk, now)
    except TransientError:
        raise
    except PipelineError:
        nothing = {"createdAt": "-", "deadline": "-", "submitter": UNKNOWN}
        return {"rollout": name, "state": UNREADABLE, **nothing}


def _entry(name: str, approver: Approver | None, desk: Desk, now: datetime) -> dict[str, Any]:
    rollout, ledger = load_rollout(desk.ledger, name), desk.ledger
    records = Records(
        rollout=rollout,
        report=load_report(ledger, name),
        request=load_request(ledger, name),
        decision=standing_decision(ledger, rollout),
        outcome=load_outcome(ledger, name),
        revocation=load_revocation(ledger, name),
    )
    who = approver.name if approver else ""
    state = page_state(records, who, now)
    if state in (PageState.Approved, PageState.NotNeeded):
        state = page_state(replace(records, stall=load_stall(ledger, name)), who, now)
    return {
        "rollout": name,
        "state": str(state),
        "createdAt": rollout.created_at,
        "deadline": rollout.deadline,
        "submitter": rollout.submitter,
    }


def description(records: Records, who: str, approver: Approver | None, desk: Desk) -> dict[str, Any]:
    """What the page shows, as data, and the digest that an answer has to bring back."""
    config, now, rollout = desk.config, desk.clock(), records.rollout
    name = approver.name if approver else ""
    short = short_name(rollout.name)
    view = page_view(records, name, config.cluster.name, short, config.development, now)
    missing = four_eyes_missing(
        config.approvals, rollout.submitter, records.decision.by if records.decision else ()
    )
    documents = {
        part: record.wire() if record else None
        for part, record in (
            ("report", records.report),
            ("request", records.request),
            ("decision", records.decision),
            ("revocation", records.revocation),
            ("outcome", records.outcome),
        )
    }
    return {
        "rollout": rollout.wire(),
        "state": str(view.state),
        "digest": records.request.digest if records.request else None,
        "summary": view.summary,
        "because": list(view.because),
        "warnings": list(view.warnings),
        "history": [{"at": moment.at, "text": moment.text} for moment in view.history],
        "remaining": view.remaining,
        "held": view.held.wire() if view.held else None,
        "needed": view.needed,
        "approvedBy": list(view.approved_by),
        "fourEyes": {"enforced": not missing, "because": missing or None},
        "you": {
            "principal": who,
            "approver": approver.name if approver else None,
            "mayApprove": approver is not None
            and view.was_asked
            and may_approve(approver, config.approvals, rollout.submitter),
        },
        **documents,
    }
