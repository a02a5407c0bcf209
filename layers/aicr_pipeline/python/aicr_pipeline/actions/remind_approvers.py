"""By the clock: a reminder at half of the deadline, and whether messages can reach every approver."""

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
    load_report,
    load_request,
    load_revocation,
    load_rollout,
    standing_decision,
)
from aicr_pipeline.clock import Clock, parse_time
from aicr_pipeline.decide.approval_message import reminder, subject
from aicr_pipeline.decide.approval_page import duration_words
from aicr_pipeline.decide.subscriptions import Reachability, reachability
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.rollout import ApprovalRequest, Report

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
    return {
        "reminded": _remind(config, ledger, coordination, ways, key, base_url, clock),
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
