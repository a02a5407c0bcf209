"""Approval links and decisions: what they bind, and when they hold.

The secret of a link is an HMAC over rollout and approver, so that retries and reminders send the
same link and nothing secret is stored per link.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.sign_in import is_member_name
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import ApprovalRequest, Decision, Report, Revocation, Step

#: A form may be open this long before it is sent.
NONCE_SECONDS = 3600
#: In place of a person, where a development cluster's configuration bypasses approvals.
BYPASSED_BY = "nobody"
BYPASSED_REASON = "bypassed: approvals.bypass is set on a development cluster, and nobody was asked"
#: How people prove who they are, the weakest first; a signed-in one may be of a group, whom no list names.
_PROOFS = ("bypass", "link", "signed-in", "aws-iam")


def link_secret(key: bytes, rollout: str, approver: str) -> str:
    """The link's secret: 192 bits, base64url."""
    return _mac(key, "link", rollout, approver)[:32]


def is_link_secret(key: bytes, rollout: str, approver: str, secret: str) -> bool:
    """Constant-time comparison."""
    return hmac.compare_digest(link_secret(key, rollout, approver), secret)


def approval_url(base: str, rollout: str, approver: str, secret: str) -> str:
    """The link. The secret is in the query: access logs carry the route, never the query."""
    return f"{base.rstrip('/')}/approvals/{rollout}/{approver}?s={secret}"


def signed_in_url(base: str, rollout: str) -> str:
    """The link where people sign in: nothing in it is secret, and it is the same for everybody."""
    return f"{base.rstrip('/')}/approvals/{rollout}"


def form_nonce(key: bytes, rollout: str, approver: str, digest: str, now: datetime) -> str:
    """Ties a form to its page: rollout, approver, the digest it showed, and the hour."""
    issued = str(int(now.timestamp()))
    return f"{issued}.{_mac(key, 'form', rollout, approver, digest, issued)[:32]}"


def is_form_nonce(key: bytes, rollout: str, approver: str, digest: str, nonce: str, now: datetime) -> bool:
    """Whether the nonce is of this form and not older than an hour."""
    issued, _, _ = nonce.partition(".")
    if not issued.isascii() or not issued.isdigit() or len(issued) > 12:
        return False
    age = now.timestamp() - int(issued)
    expected = f"{issued}.{_mac(key, 'form', rollout, approver, digest, issued)[:32]}"
    return -60 <= age <= NONCE_SECONDS and hmac.compare_digest(expected, nonce)


def check_decision(
    decision: Decision | None, request: ApprovalRequest | None, request_digest: str, now: datetime
) -> None:
    """An approval holds when enough of those who were asked gave it for exactly this request, unexpired.

    Raises
    ------
    PipelineError
        ``RolloutRejected``, ``RolloutExpired``, or ``RolloutFailed`` when it is for something else.
    """
    if decision is None:
        raise PipelineError(
            Reason.RolloutFailed, "No approval is recorded for this rollout; start a fresh one."
        )
    if decision.decision == "Rejected":
        raise PipelineError(
            Reason.RolloutRejected, f"Rejected by {', '.join(decision.by)}: {decision.reason}"
        )
    if request is None or not request.digest == decision.request_digest == request_digest:
        raise PipelineError(
            Reason.RolloutFailed,
            "The recorded approval is for another request; it does not cover this rollout.",
        )
    people = set(decision.by)
    # The pages let nobody decide but approvers and members of the groups that were asked, whom no list names.
    members = {name for name in people if is_member_name(name)} if request.groups else set()
    outside = people - set(request.asked) - members
    distinct = set(decision.principals or decision.by)
    if outside or min(len(people), len(distinct)) < request.min_approvals:
        raise PipelineError(
            Reason.RolloutFailed,
            f"The recorded approval is by {', '.join(sorted(people))}; {request.min_approvals} of "
            f"{', '.join(request.asked)} were to give it. It does not count.",
        )
    if parse_time(decision.expires_at) <= now:
        raise PipelineError(
            Reason.RolloutExpired,
            f"The approval of {', '.join(decision.by)} expired at {decision.expires_at}; "
            "start a fresh rollout.",
        )


def whole_decision(approvals: Sequence[Decision]) -> Decision:
    """The decision that several people's approvals come to, as long as every one of them holds.

    Its reason carries each one's with the name, cut to what a record may hold; their own records are whole.
    Where they proved who they are in several ways, the decision is no better than the weakest of them.
    """
    weakest = min(approvals, key=lambda approval: _PROOFS.index(approval.identity))
    last = max(approvals, key=lambda approval: parse_time(approval.at))
    reason = "; ".join(f"{', '.join(approval.by)}: {approval.reason}" for approval in approvals)
    return last.model_copy(
        update={
            "by": tuple(name for approval in approvals for name in approval.by),
            "identity": weakest.identity,
            "issuer": weakest.issuer,
            "principals": tuple(name for approval in approvals for name in approval.principals or approval.by)
            if any(approval.principals for approval in approvals)
            else None,
            "reason": reason if len(reason) <= 1024 else reason[:1023] + "…",
            "expires_at": min((approval.expires_at for approval in approvals), key=parse_time),
        }
    )


def check_bypass(decision: Decision | None, allowed: bool) -> None:
    """Raises PipelineError ``RolloutFailed`` for a bypass that the configuration does not allow any more."""
    if decision is not None and decision.identity == "bypass" and not allowed:
        raise PipelineError(
            Reason.RolloutFailed,
            "The approval was bypassed, and approvals.bypass is not set now; start a fresh rollout.",
        )


def is_covered(decision: Decision, request: ApprovalRequest) -> bool:
    """Whether an earlier decision was an approval of exactly this request, by enough of those who are asked
    now, who proved who they were no less than is asked for now. A bypass covers nothing."""
    if decision.identity == "bypass" or decision.identity not in (request.identity, "aws-iam"):
        return False
    try:
        check_decision(decision, request, request.digest, parse_time(decision.at))
    except PipelineError:
        return False
    return True


def check_revocation(revocation: Revocation | None) -> None:
    """Raises PipelineError ``RolloutRevoked``, with who, when and why, once somebody stopped the rollout."""
    if revocation is not None:
        raise PipelineError(
            Reason.RolloutRevoked,
            f"Revoked by {revocation.by} at {revocation.at}: {revocation.reason}. No further step starts; "
            "submit the runtime again for a fresh rollout.",
        )


def check_deadline(deadline: str, now: datetime) -> None:
    """Raises PipelineError ``RolloutExpired`` once the rollout's deadline has passed."""
    if parse_time(deadline) <= now:
        raise PipelineError(
            Reason.RolloutExpired,
            f"The rollout's deadline {deadline} has passed at {rfc3339(now)}; start a fresh one.",
        )


def summary(report: Report) -> list[str]:
    """What changes, in at most three lines."""
    counts: dict[str, int] = {}
    for step in report.steps:
        counts[step.action] = counts.get(step.action, 0) + 1
    lines = [f"{len(report.steps)} releases: " + ", ".join(f"{n} {action}" for action, n in counts.items())]
    changing = [_line(step) for step in report.steps if step.action != "Unchanged"]
    if changing:
        more = f" and {len(changing) - 4} more" if len(changing) > 4 else ""
        lines.append(", ".join(changing[:4]) + more)
    lines.append("asked because: " + ", ".join(report.approval_because[:4]))
    return lines


def _line(step: Step) -> str:
    came = f"{step.from_version} -> " if step.from_version else ""
    return f"{step.release} {came}{step.to_version}"


def _mac(key: bytes, *parts: str) -> str:
    message = "\0".join(parts).encode()
    return base64.urlsafe_b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode().rstrip("=")
