"""By the clock: reminders of questions and held steps, and whether messages can reach every approver."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aicr_pipeline.actions.tell_approvers import Ways, letters, messages_key, record, tell
from aicr_pipeline.adapters.approvals import load_approvals
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import (
    is_over,
    last_step,
    load_acknowledgement,
    load_hold,
    load_report,
    load_request,
    load_revocation,
    load_rollout,
    standing_decision,
)
from aicr_pipeline.clock import Clock, parse_time
from aicr_pipeline.decide.approval_message import held, held_subject, reminder, subject
from aicr_pipeline.decide.approval_page import duration_words
from aicr_pipeline.decide.subscriptions import Reachability, reachability
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import ApprovalRequest, Report, StepHeld, rollout_key

__all__ = ["APPROVERS_UNREACHABLE", "Reachability", "remind_approvers"]

APPROVERS_UNREACHABLE = "Approvers Unreachable"
#: The fact that says who cannot be reached, as it was found last.
UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class _Asked:
    request: ApprovalRequest
    report: Report
    left: float


def remind_approvers(
    config: ClusterConfig,
    ledger: Ledger,
    coordination: Coordination,
    ways: Ways,
    key: bytes,
    base_url: str,
    clock: Clock,
    report: Callable[[Reachability], None],
) -> dict[str, Any]:
    """Send the reminder that is due, once; say of each approver whether a message can arrive.

    Returns
    -------
    dict
        ``reminded``: the rollout, or None; ``unreachable``: names.
    """
    given = (config, ledger, coordination, ways, key, base_url, clock)
    return {
        "reminded": _remind(*given) or _remind_of_hold(*given),
        "unreachable": _look(config, coordination, ways, report),
    }


def _remind(
    config: ClusterConfig,
    ledger: Ledger,
    coordination: Coordination,
    ways: Ways,
    key: bytes,
    base_url: str,
    clock: Clock,
) -> str | None:
    rollout = coordination.lock_holder()
    asked = _due(ledger, rollout, clock()) if rollout is not None else None
    if rollout is None or asked is None:
        return None
    known = {approver.name for approver in config.approvals.approvers}
    given = load_approvals(ledger, rollout, asked.request.asked)
    done = {name for approval in given for name in approval.by}
    approvers = [name for name in asked.request.asked if name in known - done]
    cluster, submitter = config.cluster.name, load_rollout(ledger, rollout).submitter

    def text(link: str) -> str:
        left = duration_words(asked.left)
        return reminder(cluster, asked.request, asked.report, link, config.development, left, submitter)

    heading = subject(cluster, f"reminder: approve rollout {asked.request.short_name}?")
    letter = letters(config, key, base_url, rollout, text)
    deliveries = tell(ways, config, approvers, heading, letter)
    # Last: a run that dies before this reminds again, rather than nobody.
    record(ways, ledger, rollout, "reminder", "reminder", deliveries, clock)
    return rollout


def _remind_of_hold(
    config: ClusterConfig,
    ledger: Ledger,
    coordination: Coordination,
    ways: Ways,
    key: bytes,
    base_url: str,
    clock: Clock,
) -> str | None:
    """A step that waits for a person is told once more, when half of the time that it had is over."""
    name = coordination.lock_holder()
    hold = _held(ledger, name, clock()) if name is not None else None
    if name is None or hold is None:
        return None
    rollout, report = load_rollout(ledger, name), load_report(ledger, name)
    step = next((one for one in report.steps if one.index == hold.index), None) if report else None
    guidance = step.guidance if step is not None else None
    words = hold.message.partition(": ")[0]

    def text(link: str) -> str:
        identity, development = config.approvals.identity, config.development
        return held(config.cluster.name, hold, words, guidance, rollout.deadline, link, identity, development)

    people = [one.name for one in config.approvals.approvers]
    heading = held_subject(config.cluster.name, hold, again=True)
    deliveries = tell(ways, config, people, heading, letters(config, key, base_url, name, text))
    record(ways, ledger, name, "reminder", _hold_reminder(hold), deliveries, clock)
    return name


def _hold_reminder(hold: StepHeld) -> str:
    return f"hold-reminder-{hold.index:04}-{hold.reason}"


def _held(ledger: Ledger, name: str, now: datetime) -> StepHeld | None:
    """The hold that a person can lift, once half of its time is over and nobody was reminded of it."""
    if is_over(ledger, name) or ledger.get(rollout_key(name, "rollout")) is None:
        return None
    started = last_step(ledger, name)
    hold = load_hold(ledger, name, started.index if started else 0)
    if hold is None or hold.reason is Reason.EngineSuspended:  # a window ends by itself
        return None
    since, deadline = parse_time(hold.at), parse_time(load_rollout(ledger, name).deadline)
    if not since + (deadline - since) / 2 <= now < deadline:
        return None
    if ledger.get(messages_key(name, _hold_reminder(hold))) is not None or load_revocation(ledger, name):
        return None
    said = load_acknowledgement(ledger, name, hold.release)
    return None if hold.reason is Reason.AwaitingAcknowledgement and said is not None else hold


def _due(ledger: Ledger, rollout: str, now: datetime) -> _Asked | None:
    """What is still asked, once half of its time is over and nobody was reminded."""
    request = load_request(ledger, rollout)
    if request is None or request.identity == "bypass":
        return None
    asked_at, deadline = parse_time(request.asked_at), parse_time(request.deadline)
    if not asked_at + (deadline - asked_at) / 2 <= now < deadline:
        return None
    if ledger.get(messages_key(rollout, "reminder")) is not None or is_over(ledger, rollout):
        return None
    if standing_decision(ledger, load_rollout(ledger, rollout)) or load_revocation(ledger, rollout):
        return None
    report = load_report(ledger, rollout)
    return _Asked(request, report, (deadline - now).total_seconds()) if report is not None else None


def _look(
    config: ClusterConfig,
    coordination: Coordination,
    ways: Ways,
    report: Callable[[Reachability], None],
) -> list[str]:
    """A subscription that nobody confirmed, that expired, or that a scanner ended shows nowhere else."""
    found = []
    for approver in config.approvals.approvers:
        listed = ways.notifier.subscriptions(approver.name)
        found.append(reachability(approver, listed))
        report(found[-1])
    unreachable = {one.approver: one.why for one in found if not one.reachable}
    if (coordination.fact(UNREACHABLE) or {}) != unreachable:
        # Put first: an event that is lost is made up for by the alarm, one an hour would be noise.
        coordination.put_fact(UNREACHABLE, unreachable)
        ways.bus.announce(
            APPROVERS_UNREACHABLE,
            {"approvers": [{"name": name, "why": why} for name, why in unreachable.items()]},
        )
    return list(unreachable)
