"""The signed routes: what operators read, decide and submit from a terminal, for the day mail is down.

API Gateway checked the signature and says whose it is; nothing that the caller sends names a person. The
records, rules and races are those of the pages.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from aicr_pipeline.adapters.approvals import (
    load_records,
    load_stall,
    write_acknowledgement,
    write_approval,
    write_decision,
    write_revocation,
)
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import (
    load_outcome,
    load_report,
    load_request,
    load_revocation,
    load_rollout,
    standing_decision,
)
from aicr_pipeline.adapters.runtimes import MOST_BYTES
from aicr_pipeline.adapters.submissions import submit
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.approval import was_asked
from aicr_pipeline.decide.approval_form import MOST_BODY_BYTES, Checked, Form, check_fields
from aicr_pipeline.decide.approval_page import (
    STOPPABLE,
    PageState,
    Records,
    page_state,
    page_view,
    waiting_step,
)
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.names import execution_name, short_name
from aicr_pipeline.decide.people import UNKNOWN, approver_of, four_eyes_missing, may_approve, principal
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.approvers import Approver
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.operators import DecisionRequest
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Acknowledgement, Decision, Revocation, rollout_key
from aicr_pipeline.model.runtime import parse_runtime

#: Of a list; the newest come first, and what waits is new.
MOST_LISTED = 20
IDENTITY: Literal["aws-iam"] = "aws-iam"
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


class _RefusedError(Exception):
    def __init__(self, status: int, reason: Reason, message: str) -> None:
        super().__init__(message)
        body = {"status": "refused", "reason": str(reason), "message": message}
        self.reply = Reply(status, body, f"refused-{status}")


def list_rollouts(caller: Caller, desk: Desk) -> Reply:
    """The newest rollouts with their true state."""
    try:
        approver = approver_of(desk.config.approvals.approvers, _principal(caller))
    except _RefusedError as refused:
        return refused.reply
    found = [
        (modified, key.split("/")[1])
        for key, modified in desk.ledger.keys("rollouts/")
        if key.endswith("/rollout.json")
    ]
    newest = [name for _, name in sorted(found, key=lambda item: datetime.fromisoformat(item[0]))]
    now = desk.clock()
    listed = [_listed(name, approver, desk, now) for name in reversed(newest[-MOST_LISTED:])]
    return Reply(200, {"rollouts": listed, "more": max(0, len(found) - MOST_LISTED)}, "listed")


def describe(caller: Caller, rollout: str, desk: Desk) -> Reply:
    """One rollout: what the page shows, and the digest that an answer has to bring back."""
    try:
        who = _principal(caller)
        records = _records(rollout, desk)
    except _RefusedError as refused:
        return refused.reply
    approver = approver_of(desk.config.approvals.approvers, who)
    return Reply(200, _description(records, who, approver, desk), "described")


def decide(caller: Caller, rollout: str, body: bytes, desk: Desk) -> Reply:
    """Record an answer or a revocation.

    Returns
    -------
    Reply
        200 once it stands, also when the same person's same answer stood before. 403 for who may not, 409
        when another question is asked by now or somebody decided otherwise, 410 when time ran out, 422 for
        fields.
    """
    try:
        who = _principal(caller)
        wish = _wish(body)
        records = _records(rollout, desk)
        approver = _approver(who, desk)
        if wish.decision == "Revoked":
            return _revoke(wish, approver, who, records, desk)
        if wish.decision == "Acknowledged":
            return _acknowledge(wish, approver, who, records, desk)
        _check_asked(approver, records)
        return _answer(wish, approver, who, records, desk)
    except _RefusedError as refused:
        return refused.reply
    except TransientError as error:
        body_ = {"status": "transient", "reason": str(error.reason), "message": error.message}
        return Reply(503, body_, "busy")


def submit_runtime(caller: Caller, body: bytes, desk: Desk) -> Reply:
    """Check a runtime, put it into the inbox and record who did. A bad one changes nothing.

    Returns
    -------
    Reply
        202 with the version and the name of its run; 400 with the path of each bad field; 413.
    """
    try:
        who = _principal(caller)
        if len(body) > MOST_BYTES:
            message = f"The runtime has {len(body)} bytes; it may have {MOST_BYTES}."
            raise _RefusedError(413, Reason.ContentTooLarge, message)
        try:
            parse_runtime(body)
        except PipelineError as error:
            raise _RefusedError(400, error.reason, error.message) from None
    except _RefusedError as refused:
        return refused.reply
    made = submit(desk.inbox, desk.ledger, body, who, caller.id, desk.clock())
    run = execution_name(desk.config.cluster.name, made.runtime_version, 1)
    return Reply(202, {"status": "submitted", "run": run, **made.wire()}, "submitted")


def _principal(caller: Caller) -> str:
    who = principal(caller.arn)
    if who is None:
        raise _RefusedError(
            403, Reason.Unauthorized, "Only users and roles are people here; use one of those."
        )
    return who


def _issuer(who: str) -> str:
    """The account whose IAM says who somebody is."""
    return f"aws:{who.split(':')[4]}"


def _records(rollout: str, desk: Desk) -> Records:
    if desk.ledger.get(rollout_key(rollout, "rollout")) is None:
        raise _RefusedError(
            404, Reason.PlanUnreadable, f"There is no rollout {rollout}; list tells the newest."
        )
    return load_records(desk.ledger, rollout, desk.config.approvals)


def _approver(who: str, desk: Desk) -> Approver:
    """The approver that the principal is in today's configuration."""
    approver = approver_of(desk.config.approvals.approvers, who)
    if approver is None:
        message = (
            f"{who} is no approver: no entry of approvals.approvers has it as iam. Nothing was recorded."
        )
        raise _RefusedError(403, Reason.Unauthorized, message)
    return approver


def _check_asked(approver: Approver, records: Records) -> None:
    """An answer counts only of who was asked; anybody who is an approver may acknowledge a step, or stop it
    all: whoever is one when a step is held is told, and a bypass asks nobody."""
    if records.request is not None and not was_asked(records.request, approver.name):
        message = f"{approver.name} was not asked about this rollout. Nothing was recorded."
        raise _RefusedError(403, Reason.Unauthorized, message)


def _wish(body: bytes) -> DecisionRequest:
    if len(body) > MOST_BODY_BYTES:
        raise _RefusedError(413, Reason.ContentTooLarge, "That is more than an answer can hold.")
    try:
        return parse(DecisionRequest, json.loads(body), Reason.InvalidConfiguration, "the request")
    except (ValueError, RecursionError):
        raise _RefusedError(400, Reason.InvalidConfiguration, "The request is not JSON.") from None
    except PipelineError as error:
        raise _RefusedError(400, error.reason, error.message) from None


def _checked(wish: DecisionRequest, records: Records, now: datetime) -> Checked:
    short = short_name(records.rollout.name)
    form = Form(wish.decision, "", "", short, "", wish.reason.replace("\r\n", "\n"), wish.expiry)
    checked = check_fields(form, short, records.rollout.deadline, now)
    if checked.errors:
        raise _RefusedError(422, Reason.InvalidConfiguration, " ".join(checked.errors.values()))
    return checked


def _answer(wish: DecisionRequest, approver: Approver, who: str, records: Records, desk: Desk) -> Reply:
    now, approvals = desk.clock(), desk.config.approvals
    request, report = records.request, records.report
    if request is None or report is None:
        message = "People were not asked yet, or nobody has to be. Nothing was recorded."
        raise _RefusedError(409, Reason.AwaitingApproval, message)
    if wish.digest != request.digest or request_digest(report, request.deadline) != request.digest:
        message = "What is asked is not what you looked at. Describe it again. Nothing was recorded."
        raise _RefusedError(409, Reason.Conflict, message)
    if wish.decision == "Approved" and not may_approve(approver, approvals, records.rollout.submitter):
        message = f"{approver.name} submitted this runtime, and somebody else has to approve it."
        raise _RefusedError(403, Reason.Unauthorized, message)
    state = page_state(records, approver.name, now)
    if state not in (PageState.Open, PageState.AwaitingOthers):
        return _settled(wish, approver, records, desk, state)
    checked = _checked(wish, records, now)
    mine = Decision(
        rollout=records.rollout.name,
        decision="Approved" if wish.decision == "Approved" else "Rejected",
        request_digest=request.digest,
        by=(approver.name,),
        identity=IDENTITY,
        issuer=_issuer(who),
        reason=checked.reason,
        at=rfc3339(now),
        expires_at=checked.expires_at,
        principals=(who,),
    )
    if mine.decision == "Rejected" or records.needed == 1:
        written = write_decision(desk.ledger, mine)
    else:
        written = write_approval(desk.ledger, mine, records.needed, approvals, now)
    records = _records(records.rollout.name, desk)
    if not written:
        return _settled(wish, approver, records, desk, page_state(records, approver.name, now))
    return _recorded(wish, approver, who, records, desk)


def _revoke(wish: DecisionRequest, approver: Approver, who: str, records: Records, desk: Desk) -> Reply:
    now = desk.clock()
    state = page_state(records, approver.name, now)
    if state not in STOPPABLE:
        return _settled(wish, approver, records, desk, state)
    made = Revocation(
        rollout=records.rollout.name,
        by=approver.name,
        identity=IDENTITY,
        issuer=_issuer(who),
        reason=_checked(wish, records, now).reason,
        at=rfc3339(now),
        principal=who,
    )
    written = write_revocation(desk.ledger, made)
    records = _records(records.rollout.name, desk)
    if not written:
        return _settled(wish, approver, records, desk, page_state(records, approver.name, now))
    return _recorded(wish, approver, who, records, desk)


def _acknowledge(wish: DecisionRequest, approver: Approver, who: str, records: Records, desk: Desk) -> Reply:
    """That the work of a manual step was done. Who says it again is told that it stands."""
    now, name = desk.clock(), records.rollout.name
    held = waiting_step(records, page_state(records, approver.name, now))
    if held is None or held.digest is None or held.release != wish.release:
        if any(
            (one.release, one.request_digest) == (wish.release, wish.digest) for one in records.acknowledged
        ):
            state = str(page_state(records, approver.name, now))
            return Reply(200, {"status": "recorded", "state": state}, "recorded-again")
        message = f"No step of rollout {name} waits for that of {wish.release}. Nothing was recorded."
        raise _RefusedError(409, Reason.Conflict, message)
    if wish.digest != held.digest:
        message = "What is asked is not what you looked at. Describe it again. Nothing was recorded."
        raise _RefusedError(409, Reason.Conflict, message)
    made = Acknowledgement(
        rollout=name,
        release=held.release,
        request_digest=held.digest,
        by=approver.name,
        identity=IDENTITY,
        issuer=_issuer(who),
        reason=_checked(wish, records, now).reason,
        at=rfc3339(now),
        principal=who,
    )
    write_acknowledgement(desk.ledger, made)
    return _recorded(wish, approver, who, _records(name, desk), desk)


def _settled(
    wish: DecisionRequest, approver: Approver, records: Records, desk: Desk, state: PageState
) -> Reply:
    """Somebody, or time, was first. What this person recorded before is answered as it was then."""
    mine = records.revocation.by if records.revocation else ""
    if wish.decision == "Revoked" and mine == approver.name and records.outcome is None:
        return Reply(200, {"status": "recorded", "state": str(state)}, "recorded-again")
    decision = records.decision
    if (
        decision is not None
        and records.outcome is None
        and records.revocation is None
        and state is not PageState.ApprovalExpired
        and (decision.decision, approver.name in decision.by) == (wish.decision, True)
    ):
        return Reply(200, {"status": "recorded", "state": str(state)}, "recorded-again")
    if state in (PageState.Expired, PageState.ApprovalExpired):
        message = f"Too late: the rollout is {state}. Nothing was recorded."
        raise _RefusedError(410, Reason.RolloutExpired, message)
    raise _RefusedError(409, Reason.Conflict, f"The rollout is {state} already. Nothing was recorded.")


def _recorded(wish: DecisionRequest, approver: Approver, who: str, records: Records, desk: Desk) -> Reply:
    described = _description(records, who, approver, desk)
    return Reply(200, {**described, "status": "recorded"}, f"recorded-{wish.decision.lower()}")


def _listed(name: str, approver: Approver | None, desk: Desk, now: datetime) -> dict[str, Any]:
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


def _description(records: Records, who: str, approver: Approver | None, desk: Desk) -> dict[str, Any]:
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
