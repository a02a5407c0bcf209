"""Approvals as the ledger holds them: one record per person before a quorum, and the decision, each once."""

import hashlib
import json
import time
from collections.abc import Iterable
from datetime import datetime

from aicr_pipeline.adapters.ledger import Ledger, ListedLedger
from aicr_pipeline.adapters.rollouts import (
    last_step,
    load_acknowledgement,
    load_hold,
    load_outcome,
    load_plan,
    load_report,
    load_request,
    load_revocation,
    load_rollout,
    standing_decision,
)
from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.approval import whole_decision
from aicr_pipeline.decide.approval_page import Records, Stall
from aicr_pipeline.decide.sign_in import is_member_name
from aicr_pipeline.decide.status_rollout import stall_words
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.approvers import Approvals
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import (
    Acknowledgement,
    Decision,
    PlanWaits,
    Revocation,
    acknowledgement_key,
    rollout_key,
)

#: Between two tries when S3 refuses two writers that collide.
COLLISION_SECONDS = 0.2


def approval_record_key(rollout: str, principal: str) -> str:
    """``rollouts/<rollout>/decisions/<sha256 of the principal>.json``."""
    return f"rollouts/{rollout}/decisions/{hashlib.sha256(principal.encode()).hexdigest()}.json"


def load_approvals(ledger: Ledger, rollout: str, approvers: Iterable[str]) -> tuple[Decision, ...]:
    """What each of ``approvers`` recorded, oldest first. Nobody else counts, so nothing is listed."""
    found = []
    for approver in approvers:
        key = approval_record_key(rollout, approver)
        document = ledger.get_json(key)
        if document is not None:
            found.append(parse(Decision, document, Reason.PlanUnreadable, key))
    return tuple(sorted(found, key=lambda approval: (approval.at, approval.by)))


def _counted(ledger: Ledger, rollout: str, approvals: Approvals) -> tuple[Decision, ...]:
    """The approvals of whoever may give one now; those of members of groups, named nowhere, are listed."""
    names = [approver.name for approver in approvals.approvers]
    if not approvals.groups:
        return load_approvals(ledger, rollout, names)
    found = []
    for key, _ in ledger.keys(f"rollouts/{rollout}/decisions/"):
        approval = parse(Decision, ledger.get_json(key), Reason.PlanUnreadable, key)
        if approval.by[0] in names or is_member_name(approval.by[0]):
            found.append(approval)
    return tuple(sorted(found, key=lambda approval: (approval.at, approval.by)))


def load_records(ledger: Ledger, rollout: str, approvals: Approvals) -> Records:
    """Everything the ledger knows about a rollout that its page shows.

    Takes the configuration's approvals: the quorum is the stricter of what was asked and what holds now.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when a record is missing or changed; a plan only while people are asked about it:
        nobody answers what cannot be shown, but what was answered can be looked at, and stopped.
    """
    ledger = ListedLedger(ledger, f"rollouts/{rollout}/")
    report, request = load_report(ledger, rollout), load_request(ledger, rollout)
    needed = max(request.min_approvals if request else 1, approvals.min_approvals)
    found, step = load_rollout(ledger, rollout), last_step(ledger, rollout)
    manual = [one.release for one in report.steps if one.must_be_acknowledged] if report else []
    given = (load_acknowledgement(ledger, rollout, release) for release in manual)
    decision, outcome = standing_decision(ledger, found), load_outcome(ledger, rollout)
    from_plan, to_plan, damage = None, None, ""
    try:
        from_plan = load_plan(ledger, report.from_plan) if report and report.from_plan else None
        to_plan = load_plan(ledger, report.to_plan) if report else None
    except PipelineError as error:
        if decision is None and outcome is None:
            raise
        from_plan, damage = None, error.message
    return Records(
        rollout=found,
        report=report,
        request=request,
        decision=decision,
        revocation=load_revocation(ledger, rollout),
        outcome=outcome,
        step=step,
        hold=load_hold(ledger, rollout, step.index if step else 0),
        acknowledged=tuple(one for one in given if one is not None),
        needed=needed,
        approvals=_counted(ledger, rollout, approvals) if needed > 1 else (),
        from_plan=from_plan,
        to_plan=to_plan,
        damage=damage,
        stall=load_stall(ledger, rollout),
        newer=_newer(ledger, rollout),
    )


#: What people write: that an execution stopped stays true whatever they say.
_SAID = ("decision.json", "decisions/", "revocation.json", "acknowledgements/", "waiting/", "stalls/")


def load_stall(ledger: Ledger, rollout: str) -> Stall | None:
    """The record of an execution that stopped, when none of the rollout's own records is newer.

    Whether it was redriven is Step Functions' to say; here it shows with the first thing that it does.
    """
    folder = f"rollouts/{rollout}/"
    written = [(parse_time(at), key) for key, at in ledger.keys(folder)]
    stalls = [found for found in written if found[1].startswith(f"{folder}stalls/")]
    if not stalls:
        return None
    at, key = max(stalls)
    if any(when > at for when, name in written if not name.removeprefix(folder).startswith(_SAID)):
        return None
    record = ledger.get_json(key)
    return Stall(str(record["at"]), stall_words(record))


def _newer(ledger: Ledger, rollout: str) -> PlanWaits | None:
    keys = [key for key, _ in ledger.keys(f"rollouts/{rollout}/waiting/")]
    found = [parse(PlanWaits, ledger.get_json(key), Reason.PlanUnreadable, key) for key in keys]
    return max(found, key=lambda one: parse_time(one.at), default=None)


def write_decision(ledger: Ledger, decision: Decision) -> bool:
    """Write the decision; False when one stands already, which is then the truth.

    Raises
    ------
    TransientError
        ``Conflict`` while other writers are still at it.
    """
    return _put(ledger, rollout_key(decision.rollout, "decision"), decision)


def write_revocation(ledger: Ledger, revocation: Revocation) -> bool:
    """Write the revocation; False when one stands already, which is then the truth.

    Raises
    ------
    TransientError
        ``Conflict`` while other writers are still at it.
    """
    return _put(ledger, rollout_key(revocation.rollout, "revocation"), revocation)


def write_acknowledgement(ledger: Ledger, mine: Acknowledgement) -> bool:
    """Write the acknowledgement; False when one stands already, which is then the truth.

    Raises
    ------
    TransientError
        ``Conflict`` while other writers are still at it.
    """
    return _put(ledger, acknowledgement_key(mine.rollout, mine.release), mine)


def write_approval(ledger: Ledger, mine: Decision, needed: int, approvals: Approvals, now: datetime) -> bool:
    """One person's approval; with it the decision, once ``needed`` distinct people approved the same.

    Each writer counts all records after writing its own: two who finish at once both count both (the ledger
    reads what was written), and the first to write the decision wins.

    Returns
    -------
    bool
        False when another decision stands already.

    Raises
    ------
    TransientError
        ``Conflict`` while other writers are still at it.
    """
    _put(ledger, approval_record_key(mine.rollout, mine.by[0]), mine)
    counted = [
        approval
        for approval in _counted(ledger, mine.rollout, approvals)
        if approval.decision == "Approved"
        and approval.request_digest == mine.request_digest
        and parse_time(approval.expires_at) > now
    ]
    if len(counted) < needed or len({(one.principals or one.by)[0] for one in counted}) < needed:
        return True
    return write_decision(ledger, whole_decision(counted))


def _put(ledger: Ledger, key: str, record: Decision | Revocation | Acknowledgement) -> bool:
    body = json.dumps(record.wire(), sort_keys=True).encode()
    try:
        return ledger.put_once(key, body)
    except TransientError:
        # S3 refuses one of two that collide without saying who won; a moment later it can.
        time.sleep(COLLISION_SECONDS)
        return ledger.put_once(key, body)
