"""The words of a question to approvers: bounded, plain, the link on a line of its own."""

from collections.abc import Iterable, Sequence

from aicr_pipeline.decide.approval import summary
from aicr_pipeline.decide.names import short_name
from aicr_pipeline.decide.people import UNKNOWN
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import ApprovalRequest, Report, StepHeld
from aicr_pipeline.model.upgrades import Guidance

#: SNS takes subjects of fewer than 100 characters.
MOST_SUBJECT = 99
#: Characters of a record in a message. SNS takes 256 KB, Slack shows 40,000, and the link comes after it.
MOST_GUIDANCE = 8000


def subject(cluster: str, what: str) -> str:
    """``[aicr <cluster>] <what>``: under 100 printable ASCII characters on one line, whatever is put in.

    A cluster's name that is too long is cut in the middle, since the ends of names are what tells them apart;
    then ``what`` is cut at its end.
    """
    cluster, what = _printable(cluster), _printable(what)
    room = max(16, MOST_SUBJECT - len("[aicr ] ") - len(what))
    if len(cluster) > room:
        tail = (room - 2) // 2
        cluster = f"{cluster[: room - 2 - tail]}..{cluster[-tail:]}"
    return f"[aicr {cluster}] {what}"[:MOST_SUBJECT]


def question(
    cluster: str,
    request: ApprovalRequest,
    report: Report,
    link: str,
    development: bool,
    submitter: str = UNKNOWN,
) -> str:
    """What changes, the verdicts that need a look, who wished it, until when, and the link."""
    opening = [f"Rollout {request.rollout} of cluster {cluster} waits for approval."]
    return _message(opening, request, report, link, development, submitter)


def reminder(
    cluster: str,
    request: ApprovalRequest,
    report: Report,
    link: str,
    development: bool,
    left: str,
    submitter: str = UNKNOWN,
) -> str:
    """The same question again, with the time that is left."""
    opening = [
        f"Rollout {request.rollout} of cluster {cluster} still waits for approval; {left} are left.",
        "If nobody answers it ends as Expired, and nothing is changed.",
    ]
    return _message(opening, request, report, link, development, submitter)


def held(
    cluster: str,
    hold: StepHeld,
    step: str,
    guidance: Guidance | None,
    deadline: str,
    link: str,
    identity: str,
    development: bool,
) -> str:
    """That a step waits for a person: why, what its record asks for, until when, and the link."""
    acknowledges = hold.reason is Reason.AwaitingAcknowledgement
    wanted = "Acknowledge the step, or stop the rollout, here" if acknowledges else "Look, or stop it, here"
    lines = [
        f"Rollout {hold.rollout} of cluster {cluster} waits: {step}.",
        "",
        f"  {hold.message.removeprefix(f'{step}: ')}",
        *(f"  {line}" for line in _bounded(guidance_lines(guidance)) if acknowledges),
        "",
        f"If nothing happens until {deadline} it ends as Expired. What is installed stays.",
        _short_name(short_name(hold.rollout), identity),
        "",
        f"{wanted} (opening the page changes nothing):",
        "",
        link,
        "",
        *_development(development),
    ]
    return "\n".join(lines)


def held_subject(cluster: str, hold: StepHeld, again: bool = False) -> str:
    """The subject of a message about a held step; ``again`` for the reminder."""
    what = "is paused" if hold.reason is Reason.Paused else f"waits at {hold.release}"
    return subject(cluster, f"{'reminder: ' if again else ''}rollout {short_name(hold.rollout)} {what}")


def guidance_lines(guidance: Guidance | None) -> Iterable[str]:
    """An upgrade record in its own words. What it has on several lines comes line by line: whoever sets them
    in sets in all of them, so that none can pass for a line of ours."""
    for said in _said(guidance):
        first, *rest = said.splitlines() or [""]
        yield first
        yield from (f"   {line}" for line in rest)


def _bounded(lines: Iterable[str]) -> Iterable[str]:
    """As many as a message may hold; the last one says that there are more."""
    left = MOST_GUIDANCE
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            yield "… The record says more: read all of it on the page before you do anything."
            return
        yield line


def _said(guidance: Guidance | None) -> Iterable[str]:
    """What a record says, one thing at a time."""
    if guidance is None:
        return
    yield guidance.summary
    if guidance.precondition:
        yield f"Before you start: {guidance.precondition}"
    for number, step in enumerate(guidance.steps, 1):
        yield f"{number}. {step.description}" + (f" ({step.reason})" if step.reason else "")
    if guidance.reversible is not None:
        notes = f". {guidance.reversible_notes}" if guidance.reversible_notes else ""
        yield f"Reversible: {'yes' if guidance.reversible else 'no'}{notes}"
    yield from (f"See {reference}" for reference in guidance.references)


def _message(
    opening: Iterable[str],
    request: ApprovalRequest,
    report: Report,
    link: str,
    development: bool,
    submitter: str,
) -> str:
    lines = [*opening, "", *_what(request, report, link, submitter), *_development(development)]
    return "\n".join(lines)


def _what(request: ApprovalRequest, report: Report, link: str, submitter: str) -> Iterable[str]:
    yield from (f"  {line}" for line in summary(report))
    verdicts = _verdicts(report)
    if verdicts:
        yield f"  verdicts: {verdicts}"
    manual = [step.release for step in report.steps if step.must_be_acknowledged]
    if manual:
        yield f"  each waits until its work is acknowledged: {_listed(manual)}"
    if report.removed:
        yield f"  no longer in the plan, left installed: {_listed(report.removed)}"
    yield from (
        "",
        "Submitted by: unknown, so four eyes is not enforced"
        if submitter == UNKNOWN
        else f"Submitted by: {submitter}",
        f"Answer until: {request.deadline}",
        _short_name(request.short_name, request.identity),
        "",
        "Look and decide here (opening the page changes nothing):",
        "",
        link,
        "",
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _short_name(short: str, identity: str) -> str:
    typed = ", typed to confirm" if identity == "link" else ""
    return f"Short name{typed}: {short}"


def _verdicts(report: Report) -> str:
    """How many changing releases have which verdict; ``""`` where no release has one."""
    counts: dict[str, int] = {}
    for step in report.steps:
        if step.verdict is not None:
            counts[str(step.verdict)] = counts.get(str(step.verdict), 0) + 1
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def _development(development: bool) -> Iterable[str]:
    if development:
        yield "This cluster is marked development: true; its evidence never qualifies a profile."
        yield ""


def _printable(text: str) -> str:
    return "".join(c if 32 <= ord(c) < 127 else " " for c in text)
