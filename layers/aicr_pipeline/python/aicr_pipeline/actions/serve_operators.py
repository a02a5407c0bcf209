"""The signed routes: what operators read, decide and submit from a terminal, for the day mail is down.

API Gateway checked the signature and says whose it is; nothing that the caller sends names a person. The
records, rules and races are those of the pages.
"""

import json
from datetime import datetime
from itertools import islice
from typing import Literal

from aicr_pipeline.actions.operators_desk import (
    MOST_LISTED,
    Caller,
    Desk,
    RefusedError,
    Reply,
    description,
    line_of,
    principal_of,
    records_of,
)
from aicr_pipeline.adapters.approvals import (
    write_acknowledgement,
    write_approval,
    write_decision,
    write_revocation,
)
from aicr_pipeline.adapters.order import newest_first, newest_place
from aicr_pipeline.adapters.runtimes import MOST_BYTES
from aicr_pipeline.adapters.submissions import submit
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.approval import was_asked
from aicr_pipeline.decide.approval_form import MOST_BODY_BYTES, Checked, Form, check_fields
from aicr_pipeline.decide.approval_page import (
    STOPPABLE,
    PageState,
    Records,
    page_state,
    waiting_step,
)
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.names import execution_name, short_name
from aicr_pipeline.decide.people import approver_of, may_approve
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.approvers import Approver
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.operators import DecisionRequest
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Acknowledgement, Decision, Revocation, rollout_key
from aicr_pipeline.model.runtime import parse_runtime

IDENTITY: Literal["aws-iam"] = "aws-iam"


def list_rollouts(caller: Caller, desk: Desk) -> Reply:
    """The newest rollouts with their true state."""
    try:
        approver = approver_of(desk.config.approvals.approvers, principal_of(caller))
    except RefusedError as refused:
        return refused.reply
    ledger, newest, now = desk.ledger, newest_place(desk.ledger), desk.clock()
    began = [
        name
        for name in islice(newest_first(ledger), MOST_LISTED)
        # The newest may have its place and nothing else yet.
        if ledger.get(rollout_key(name, "rollout")) is not None
    ]
    listed = [line_of(name, approver, desk, now) for name in began]
    older = max(0, newest.number - MOST_LISTED) if newest else 0
    return Reply(200, {"rollouts": listed, "more": older}, "listed")


def describe(caller: Caller, rollout: str, desk: Desk) -> Reply:
    """One rollout: what the page shows, and the digest that an answer has to bring back."""
    try:
        who = principal_of(caller)
        records = records_of(rollout, desk)
    except RefusedError as refused:
        return refused.reply
    approver = approver_of(desk.config.approvals.approvers, who)
    return Reply(200, description(records, who, approver, desk), "described")


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
        who = principal_of(caller)
        wish = _wish(body)
        records = records_of(rollout, desk)
        approver = _approver(who, desk)
        if wish.decision == "Revoked":
            return _revoke(wish, approver, who, records, desk)
        if wish.decision == "Acknowledged":
            return _acknowledge(wish, approver, who, records, desk)
        _check_asked(approver, records)
        return _answer(wish, approver, who, records, desk)
    except RefusedError as refused:
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
        who = principal_of(caller)
        if len(body) > MOST_BYTES:
            message = f"The runtime has {len(body)} bytes; it may have {MOST_BYTES}."
            raise RefusedError(413, Reason.ContentTooLarge, message)
        try:
            parse_runtime(body)
        except PipelineError as error:
            raise RefusedError(400, error.reason, error.message) from None
    except RefusedError as refused:
        return refused.reply
    made = submit(desk.inbox, desk.ledger, body, who, caller.id, desk.clock())
    run = execution_name(desk.config.cluster.name, made.runtime_version, 1)
    return Reply(202, {"status": "submitted", "run": run, **made.wire()}, "submitted")


def _issuer(who: str) -> str:
    """The account whose IAM says who somebody is."""
    return f"aws:{who.split(':')[4]}"


def _approver(who: str, desk: Desk) -> Approver:
    """The approver that the principal is in today's configuration."""
    approver = approver_of(desk.config.approvals.approvers, who)
    if approver is None:
        message = (
            f"{who} is no approver: no entry of approvals.approvers has it as iam. Nothing was recorded."
        )
        raise RefusedError(403, Reason.Unauthorized, message)
    return approver


def _check_asked(approver: Approver, records: Records) -> None:
    """An answer counts only of who was asked; anybody who is an approver may acknowledge a step, or stop it
    all: whoever is one when a step is held is told, and a bypass asks nobody."""
    if records.request is not None and not was_asked(records.request, approver.name):
        message = f"{approver.name} was not asked about this rollout. Nothing was recorded."
        raise RefusedError(403, Reason.Unauthorized, message)


def _wish(body: bytes) -> DecisionRequest:
    if len(body) > MOST_BODY_BYTES:
        raise RefusedError(413, Reason.ContentTooLarge, "That is more than an answer can hold.")
    try:
        return parse(DecisionRequest, json.loads(body), Reason.InvalidConfiguration, "the request")
    except (ValueError, RecursionError):
        raise RefusedError(400, Reason.InvalidConfiguration, "The request is not JSON.") from None
    except PipelineError as error:
        raise RefusedError(400, error.reason, error.message) from None


def _checked(wish: DecisionRequest, records: Records, now: datetime) -> Checked:
    short = short_name(records.rollout.name)
    form = Form(wish.decision, "", "", short, "", wish.reason.replace("\r\n", "\n"), wish.expiry)
    checked = check_fields(form, short, records.rollout.deadline, now)
    if checked.errors:
        raise RefusedError(422, Reason.InvalidConfiguration, " ".join(checked.errors.values()))
    return checked


def _answer(wish: DecisionRequest, approver: Approver, who: str, records: Records, desk: Desk) -> Reply:
    now, approvals = desk.clock(), desk.config.approvals
    request, report = records.request, records.report
    if request is None or report is None:
        message = "People were not asked yet, or nobody has to be. Nothing was recorded."
        raise RefusedError(409, Reason.AwaitingApproval, message)
    if wish.digest != request.digest or request_digest(report, request.deadline) != request.digest:
        message = "What is asked is not what you looked at. Describe it again. Nothing was recorded."
        raise RefusedError(409, Reason.Conflict, message)
    if wish.decision == "Approved" and not may_approve(approver, approvals, records.rollout.submitter):
        message = f"{approver.name} submitted this runtime, and somebody else has to approve it."
        raise RefusedError(403, Reason.Unauthorized, message)
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
    records = records_of(records.rollout.name, desk)
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
    records = records_of(records.rollout.name, desk)
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
        raise RefusedError(409, Reason.Conflict, message)
    if wish.digest != held.digest:
        message = "What is asked is not what you looked at. Describe it again. Nothing was recorded."
        raise RefusedError(409, Reason.Conflict, message)
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
    return _recorded(wish, approver, who, records_of(name, desk), desk)


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
        raise RefusedError(410, Reason.RolloutExpired, message)
    raise RefusedError(409, Reason.Conflict, f"The rollout is {state} already. Nothing was recorded.")


def _recorded(wish: DecisionRequest, approver: Approver, who: str, records: Records, desk: Desk) -> Reply:
    described = description(records, who, approver, desk)
    return Reply(200, {**described, "status": "recorded"}, f"recorded-{wish.decision.lower()}")
