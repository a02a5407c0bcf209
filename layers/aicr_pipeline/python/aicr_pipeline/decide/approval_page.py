"""What an approval page shows: the state a rollout is in, and the view of its records.

The page never says more than the ledger does. The record of the outcome outranks the revocation, that
the decision, and that the clock: what was decided stays decided.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.approval import was_asked
from aicr_pipeline.decide.changed_steps import StepView, step_views
from aicr_pipeline.decide.held_step import HeldStep, held_step
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.rollout import (
    Acknowledgement,
    Action,
    ApprovalRequest,
    Decision,
    Outcome,
    PlanWaits,
    Report,
    Revocation,
    Rollout,
    RolloutOutcome,
    StepHeld,
    StepStarted,
)


class PageState(StrEnum):
    """What the same link shows over a rollout's life."""

    Open = "open"
    AwaitingOthers = "awaiting-others"
    Preparing = "preparing"
    NotNeeded = "not-needed"
    Approved = "approved"
    Stalled = "stalled"
    ApprovalExpired = "approval-expired"
    Rejected = "rejected"
    Expired = "expired"
    Revoked = "revoked"
    Superseded = "superseded"
    Failed = "failed"
    Succeeded = "succeeded"


_OUTCOMES: Mapping[Outcome, PageState] = {
    Outcome.Succeeded: PageState.Succeeded,
    Outcome.Failed: PageState.Failed,
    Outcome.Expired: PageState.Expired,
    Outcome.Revoked: PageState.Revoked,
    Outcome.Rejected: PageState.Rejected,
    Outcome.Superseded: PageState.Superseded,
}

#: Where a revocation still means something. What was rejected or overdue ends by itself.
STOPPABLE = frozenset(
    {
        PageState.Open,
        PageState.AwaitingOthers,
        PageState.NotNeeded,
        PageState.Approved,
        PageState.Stalled,
        PageState.ApprovalExpired,
    }
)

#: Why people are asked, where the report names a setting.
_BECAUSE: Mapping[str, str] = {"approvals.always": "the configuration always asks"}


@dataclass(frozen=True)
class Stall:
    """An execution that stopped without an end; ``words`` say how."""

    at: str
    words: str


@dataclass(frozen=True)
class Records:
    """What the ledger holds about one rollout. ``approvals`` are those of single people, of whom ``needed``
    make a quorum."""

    rollout: Rollout
    report: Report | None
    request: ApprovalRequest | None
    decision: Decision | None
    outcome: RolloutOutcome | None
    #: Who stopped it, and the last step that the gate let through.
    revocation: Revocation | None = None
    step: StepStarted | None = None
    #: Why the next step waits for a person, and who said of which manual step that its record was followed.
    hold: StepHeld | None = None
    acknowledged: tuple[Acknowledgement, ...] = ()
    needed: int = 1
    approvals: tuple[Decision, ...] = ()
    from_plan: Plan | None = None
    to_plan: Plan | None = None
    #: Why a plan is not here, when it cannot be read.
    damage: str = ""
    #: When the execution stopped, and how, unless something happened since.
    stall: Stall | None = None
    #: The newest plan that waits for this rollout's end.
    newer: PlanWaits | None = None


@dataclass(frozen=True)
class Moment:
    """A line of the history."""

    at: str
    text: str


@dataclass(frozen=True)
class Progress:
    """How far a rollout is: the last step that was let through, and how many there are."""

    index: int
    of: int
    release: str
    at: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class PageView:
    """Everything the template prints about a rollout."""

    state: PageState
    approver: str
    cluster: str
    rollout: Rollout
    request: ApprovalRequest | None
    report: Report | None
    decision: Decision | None
    outcome: RolloutOutcome | None
    revocation: Revocation | None
    progress: Progress | None
    stall: Stall | None
    held: HeldStep | None
    short_name: str
    remaining: str
    steps: tuple[StepView, ...]
    unchanged: tuple[StepView, ...]
    summary: str
    because: tuple[str, ...]
    warnings: tuple[str, ...]
    history: tuple[Moment, ...]
    needed: int
    approved_by: tuple[str, ...]
    #: Whether the question was put to this person at all.
    was_asked: bool

    @property
    def is_open(self) -> bool:
        """Whether this person can still decide here."""
        return self.state is PageState.Open and self.was_asked

    @property
    def is_stoppable(self) -> bool:
        """Whether the rollout can still be revoked: until its outcome, unless it ends for another reason."""
        return self.state in STOPPABLE


def page_state(records: Records, approver: str, now: datetime) -> PageState:
    """The state of the page for one approver at one moment."""
    if records.outcome is not None:
        return _OUTCOMES[records.outcome.outcome]
    if records.revocation is not None:
        return PageState.Revoked
    decision = records.decision
    if decision is not None:
        if decision.decision == "Rejected":
            return PageState.Rejected
        if parse_time(decision.expires_at) <= now:
            return PageState.ApprovalExpired
        return PageState.Approved if records.stall is None else PageState.Stalled
    if records.report is not None and not records.report.approval_needed:
        # No time to answer runs out; a validation goes on after the deadline, and can be stopped.
        return PageState.NotNeeded if records.stall is None else PageState.Stalled
    if parse_time(records.rollout.deadline) <= now:
        return PageState.Expired
    if records.request is None or records.report is None:
        return PageState.Preparing
    if any(approver in approval.by for approval in records.approvals) and not _are_enough(records, now):
        return PageState.AwaitingOthers
    return PageState.Open


def _are_enough(records: Records, now: datetime) -> bool:
    """Whether enough people approved although no decision is there: whoever was the last could not write it.

    Then each of them can send theirs again, which writes it; nothing else would before the deadline.
    """
    people = {
        (approval.principals or approval.by)[0]
        for approval in records.approvals
        if approval.decision == "Approved" and parse_time(approval.expires_at) > now
    }
    return len(people) >= records.needed


def waiting_step(records: Records, state: PageState) -> HeldStep | None:
    """The step that waits for a person, while the rollout may go on at all."""
    if state not in (PageState.Approved, PageState.NotNeeded):
        return None
    return held_step(records.rollout, records.report, records.hold, records.acknowledged)


def page_status(state: PageState) -> int:
    """The HTTP status of a read: 410 once nobody can answer any more because time ran out."""
    return 410 if state in (PageState.Expired, PageState.ApprovalExpired) else 200


def page_view(
    records: Records, approver: str, cluster: str, short: str, development: bool, now: datetime
) -> PageView:
    """The view of a rollout. Takes the rollout's short name and whether the cluster is a development one."""
    views = tuple(step_views(records.report, records.from_plan, records.to_plan))
    state = page_state(records, approver, now)
    return PageView(
        state=state,
        approver=approver,
        cluster=cluster,
        rollout=records.rollout,
        request=records.request,
        report=records.report,
        decision=records.decision,
        outcome=records.outcome,
        revocation=records.revocation,
        progress=_progress(records),
        stall=records.stall if records.outcome is None else None,
        held=waiting_step(records, state),
        short_name=short,
        remaining=duration_words((parse_time(records.rollout.deadline) - now).total_seconds()),
        steps=tuple(view for view in views if view.action != Action.Unchanged),
        unchanged=tuple(view for view in views if view.action == Action.Unchanged),
        summary=_summary(records.report),
        because=tuple(
            _BECAUSE.get(reason, reason)
            for reason in (records.report.approval_because if records.report else ())
        ),
        warnings=tuple(_warnings(records, development)),
        history=_history(records),
        needed=records.needed,
        approved_by=_approved_by(records, now),
        was_asked=records.request is None or was_asked(records.request, approver),
    )


def _approved_by(records: Records, now: datetime) -> tuple[str, ...]:
    """Who approved: all whose approvals made the decision, else those whose own still count."""
    decision = records.decision
    if decision is not None and decision.decision == "Approved":
        return decision.by
    return tuple(
        name
        for approval in records.approvals
        if parse_time(approval.expires_at) > now  # one that ran out does not count any more
        for name in approval.by
    )


def duration_words(seconds: float) -> str:
    """``5 h 59 min``, rounded down, two units at most; ``""`` when nothing is left."""
    left = int(seconds)
    if left <= 0:
        return ""
    days, hours, minutes = left // 86400, left // 3600 % 24, left // 60 % 60
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min" if minutes else f"{left} s"


def _progress(records: Records) -> Progress | None:
    started, report = records.step, records.report
    if started is None or report is None:
        return None
    releases = tuple(step.release for step in report.steps)
    before, after = releases[: started.index - 1], releases[started.index :]
    return Progress(started.index, len(releases), started.release, started.at, before, after)


def _summary(report: Report | None) -> str:
    if report is None:
        return "The transition is being assessed."
    counts: dict[str, int] = {}
    for step in report.steps:
        counts[step.action] = counts.get(step.action, 0) + 1
    count = "1 release" if len(report.steps) == 1 else f"{len(report.steps)} releases"
    ordered = sorted(counts.items(), key=lambda item: item[0] == Action.Unchanged)
    return f"{count}: " + ", ".join(f"{n} {action}" for action, n in ordered)


def _warnings(records: Records, development: bool) -> Iterator[str]:
    request = records.request
    if records.damage:
        yield f"Versions and values are not shown: {records.damage}"
    newer = records.newer
    if newer is not None and records.outcome is None and newer.plan != records.rollout.to_plan:
        yield f"A newer plan, {newer.plan}, was wanted on {newer.at}: it waits for the end of this rollout."
    if development:
        yield "Development cluster: evidence from here never qualifies a profile."
    if request is not None and request.identity == "bypass":
        yield "Approval was bypassed: nobody was asked, and the evidence never qualifies."
    if request is not None and request.identity == "link":
        why = request.identity_reason or ("this is a development cluster" if development else "none is given")
        yield f"Identity is the link alone: whoever holds it can decide. Reason: {why}"
    if records.rollout.submitter == "unknown":
        yield "Submitter unknown: four eyes is not enforced for this rollout."
    if records.report is not None and records.report.removed:
        names = ", ".join(records.report.removed)
        yield f"No longer in the plan, and left installed as they are: {names}."
    if records.report is not None and records.report.validation == "Disabled":
        yield "Validation after the rollout is disabled in the runtime."


def _history(records: Records) -> tuple[Moment, ...]:
    rollout, request, outcome = records.rollout, records.request, records.outcome
    moments = [Moment(rollout.created_at, "Rollout started")]
    if request is not None:
        moments.append(Moment(request.asked_at, f"Asked {', '.join(request.asked)}"))
    moments += [
        Moment(approval.at, f"One approval, by {', '.join(approval.by)}: {approval.reason}")
        for approval in records.approvals
    ]
    if records.decision is not None:
        decision = records.decision
        words = f"{decision.decision} by {', '.join(decision.by)}: {decision.reason}"
        if decision.rollout != rollout.name:
            words = f"{words} (for rollout {decision.rollout}, which asked exactly the same)"
        moments.append(Moment(decision.at, words))
    moments += [
        Moment(one.at, f"Step of {one.release} acknowledged by {one.by}: {one.reason}")
        for one in records.acknowledged
    ]
    if records.hold is not None:
        moments.append(Moment(records.hold.at, f"Held: {records.hold.message}"))
    if records.step is not None:
        started = records.step
        moments.append(Moment(started.at, f"Step {started.index}, {started.release}, started"))
    if records.stall is not None:
        moments.append(Moment(records.stall.at, f"Stopped: {records.stall.words}"))
    if records.revocation is not None:
        revoked = records.revocation
        moments.append(Moment(revoked.at, f"Revoked by {revoked.by}: {revoked.reason}"))
    if outcome is not None:
        moments.append(Moment(outcome.finished_at, f"{outcome.outcome} ({outcome.reason})"))
    return tuple(sorted(moments, key=lambda moment: parse_time(moment.at)))
