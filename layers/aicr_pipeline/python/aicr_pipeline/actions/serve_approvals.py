"""The approval pages: what a link shows, and what its form may record.

Reading changes nothing, however often and by whomever. A decision is an object in the ledger that is
written once; nothing here holds or answers a task token, so the sweeper and the gate read that object.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from aicr_pipeline.adapters.approvals import load_records, write_approval, write_decision, write_revocation
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.approval import approval_url, form_nonce, is_form_nonce, is_link_secret
from aicr_pipeline.decide.approval_form import (
    COMMON_REASONS,
    REVOKE_REASONS,
    Checked,
    Form,
    FormError,
    FormWord,
    check_fields,
    decision_word,
    is_locator,
    is_nonce_shaped,
    is_same_origin,
    read_form,
)
from aicr_pipeline.decide.approval_page import (
    STOPPABLE,
    PageState,
    PageView,
    Records,
    page_state,
    page_status,
    page_view,
)
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.names import short_name
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Decision, Revocation, rollout_key


@dataclass(frozen=True)
class Site:
    """What the pages are served from. ``key`` is asked for only once a link has the right form."""

    config: ClusterConfig
    ledger: Ledger
    key: Callable[[], bytes]
    base_url: str
    clock: Clock


@dataclass(frozen=True)
class Link:
    """What a request's address holds."""

    rollout: str
    approver: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Post:
    """What a sent form arrives with; header names are lower-case."""

    headers: Mapping[str, str]
    body: str | None
    is_base64: bool


@dataclass(frozen=True)
class Principal:
    """Who decides, and what proved it."""

    name: str
    identity: Literal["link", "signed-in"]
    issuer: str


@dataclass(frozen=True)
class FormView:
    """The form as the page prints it: fresh, or as it was typed with what is wrong."""

    nonce: str
    digest: str
    typed: Form = field(default_factory=Form)
    errors: Mapping[str, str] = field(default_factory=dict)
    alert: str = ""
    common_reasons: tuple[str, ...] = COMMON_REASONS


@dataclass(frozen=True)
class Answer:
    """A page, or a redirect when ``location`` is set. ``name`` says what happened, for logs and metrics."""

    status: int
    name: str
    title: str = ""
    message: str = ""
    view: PageView | None = None
    form: FormView | None = None
    location: str | None = None


class _RefusedError(Exception):
    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.name)
        self.answer = answer


#: Stands in the nonce of a form that revokes where the digest stands in one that decides.
_REVOKE = "revoke"
NOT_FOUND = Answer(
    404,
    "not-found",
    "There is nothing here",
    "The link is incomplete or is not one of ours. Copy the whole line from the message you received.",
)
FAILED = Answer(
    500,
    "failed",
    "The page could not be shown",
    "Something went wrong on our side. Open the link again: it shows what is recorded. "
    "If it stays so, tell the platform team.",
)
_CROSS_SITE = Answer(
    403,
    "cross-site",
    "Nothing was recorded",
    "The form was not sent from its own page. Open the link from your message and decide there.",
)
_NOT_AN_APPROVER = Answer(
    403,
    "not-an-approver",
    "You are not asked any more",
    "This link's approver is no longer in the cluster's configuration, so it cannot show or decide anything.",
)


def show(link: Link, site: Site) -> Answer:
    """The page of a link. Changes nothing.

    Returns
    -------
    Answer
        404 for whatever is no link of ours, 403 once the approver left the configuration, 410 when time ran
        out, else 200 with the true state.
    """
    try:
        who, records = _open(link, site)
    except _RefusedError as refused:
        return refused.answer
    return _page(link, who, records, site, site.clock())


def submit(link: Link, post: Post, site: Site) -> Answer:
    """Check a sent form in order, and record what it decides.

    Returns
    -------
    Answer
        303 to the link once the decision stands (also when the same was recorded before), else the page
        that says what is wrong, with everything that was typed.
    """
    try:
        if not is_same_origin(post.headers, site.base_url):
            raise _RefusedError(_CROSS_SITE)
        who, records = _open(link, site)
        form = _read(post)
        now = site.clock()
        return _decide(link, who, records, form, site, now)
    except _RefusedError as refused:
        return refused.answer


def _open(link: Link, site: Site) -> tuple[Principal, Records]:
    if not is_locator(link.rollout, link.approver, link.secret):
        raise _RefusedError(NOT_FOUND)
    if not is_link_secret(site.key(), link.rollout, link.approver, link.secret):
        raise _RefusedError(NOT_FOUND)
    if site.ledger.get(rollout_key(link.rollout, "rollout")) is None:
        raise _RefusedError(NOT_FOUND)
    if link.approver not in _approvers(site):
        raise _RefusedError(_NOT_AN_APPROVER)
    return Principal(link.approver, "link", "link"), _records(link.rollout, site)


def _approvers(site: Site) -> tuple[str, ...]:
    return tuple(approver.name for approver in site.config.approvals.approvers)


def _records(rollout: str, site: Site) -> Records:
    return load_records(site.ledger, rollout, site.config.approvals)


def _page(link: Link, who: Principal, records: Records, site: Site, now: datetime) -> Answer:
    view = _view(link, who, records, site, now)
    form = _form_of(view, link, records, site, now)
    return Answer(page_status(view.state), str(view.state), view=view, form=form)


def _view(link: Link, who: Principal, records: Records, site: Site, now: datetime) -> PageView:
    config = site.config
    short = short_name(link.rollout)
    return page_view(records, who.name, config.cluster.name, short, config.development, now)


def _form_of(view: PageView, link: Link, records: Records, site: Site, now: datetime) -> FormView | None:
    """The one form of a page: to decide while that is asked, to revoke until the outcome."""
    if view.is_open:
        return _fresh_form(link, records, site, now)
    if not view.is_stoppable:
        return None
    # It binds no digest: whatever it is that runs, stopping it is what is meant.
    nonce = form_nonce(site.key(), link.rollout, link.approver, _REVOKE, now)
    return FormView(nonce, "", common_reasons=REVOKE_REASONS)


def _fresh_form(link: Link, records: Records, site: Site, now: datetime) -> FormView:
    digest = _question(records)
    return FormView(form_nonce(site.key(), link.rollout, link.approver, digest, now), digest)


def _question(records: Records) -> str:
    """The digest of what is asked, which the report in the ledger must still come to.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when it does not: then nobody can say what would be approved.
    """
    request, report = records.request, records.report
    if request is None or report is None or request_digest(report, request.deadline) != request.digest:
        raise PipelineError(
            Reason.PlanUnreadable,
            f"The report of rollout {records.rollout.name} is not the one that people were asked about.",
        )
    return request.digest


def _read(post: Post) -> Form:
    try:
        form = read_form(post.body, post.is_base64, post.headers.get("content-type", ""))
    except FormError as error:
        answer = Answer(error.status, "form-unreadable", "Nothing was recorded", error.message)
        raise _RefusedError(answer) from None
    if decision_word(form) is None:
        raise _RefusedError(
            Answer(
                400,
                "decision-unknown",
                "Nothing was recorded",
                "A decision is Approve or Reject; this was neither. Open the link and use its buttons.",
            )
        )
    return form


def _decide(link: Link, who: Principal, records: Records, form: Form, site: Site, now: datetime) -> Answer:
    word = decision_word(form)
    key, names = site.key(), (link.rollout, link.approver)
    bound = _REVOKE if word == "Revoked" else form.digest
    if not is_nonce_shaped(form.nonce) or not is_form_nonce(key, *names, bound, form.nonce, now):
        alert = "This form was open for more than an hour, or is not ours. Look again, and send it once more."
        return _again(link, who, records, site, now, 403, "nonce", form, alert=alert)
    if word == "Revoked":
        return _revoke(link, who, records, form, site, now)
    if records.request is not None and form.digest != records.request.digest:
        alert = "What is asked changed since this page was opened. Look again before you decide."
        return _again(link, who, records, site, now, 409, "digest", form, alert=alert)
    state = page_state(records, who.name, now)
    if state in (PageState.Open, PageState.AwaitingOthers):
        checked = check_fields(form, short_name(link.rollout), records.rollout.deadline, now)
        if checked.errors and state is PageState.Open:
            return _again(link, who, records, site, now, 422, "fields", form, errors=checked.errors)
        if not checked.errors and word is not None:
            return _record(link, who, records, word, checked, form, site, now)
    return _settled(link, who, records, word, site, now)


def _again(
    link: Link,
    who: Principal,
    records: Records,
    site: Site,
    now: datetime,
    status: int,
    name: str,
    typed: Form,
    *,
    alert: str = "",
    errors: Mapping[str, str] | None = None,
) -> Answer:
    """The page with the form as it was typed; without it when nothing can be decided any more."""
    view = _view(link, who, records, site, now)
    form = _form_of(view, link, records, site, now)
    if form is not None:
        form = replace(form, typed=typed, errors=errors or {}, alert=alert)
    return Answer(status, f"refused-{name}", view=view, form=form)


def _revoke(link: Link, who: Principal, records: Records, form: Form, site: Site, now: datetime) -> Answer:
    """Record that the rollout is to stop; the gate and the sweeper read it. Repeating it changes nothing."""
    if page_state(records, who.name, now) not in STOPPABLE:
        stands = records.revocation is not None and records.outcome is None
        return _to_page(link) if stands else _settled(link, who, records, None, site, now)
    checked = check_fields(form, short_name(link.rollout), records.rollout.deadline, now)
    if checked.errors:
        return _again(link, who, records, site, now, 422, "fields", form, errors=checked.errors)
    mine = Revocation(
        rollout=link.rollout, by=who.name, identity=who.identity, issuer=who.issuer, reason=checked.reason,
        at=rfc3339(now),
    )  # fmt: skip
    try:
        write_revocation(site.ledger, mine)
    except TransientError:
        alert = "Somebody else is deciding at this moment. Nothing of yours was recorded yet: send it again."
        return _again(link, who, records, site, now, 503, "busy", form, alert=alert)
    return replace(_to_page(link), name="recorded-revoked")


def _settled(
    link: Link, who: Principal, records: Records, word: FormWord | None, site: Site, now: datetime
) -> Answer:
    """Somebody, or time, decided first: the same decision goes to the page, another one is told who won."""
    decision = records.decision
    if decision is not None and records.outcome is None and decision.decision == word:
        return _to_page(link)
    view = _view(link, who, records, site, now)
    if view.state is PageState.AwaitingOthers and word == "Approved":
        return _to_page(link)
    status = 410 if view.state is PageState.Expired else 409
    return Answer(status, f"refused-{view.state}", view=view)


def _to_page(link: Link) -> Answer:
    # Relative to the host: the page's policy lets a form go on only where it came from.
    return Answer(303, "redirect", location=approval_url("", link.rollout, link.approver, link.secret))


def _record(
    link: Link,
    who: Principal,
    records: Records,
    word: Literal["Approved", "Rejected"],
    checked: Checked,
    typed: Form,
    site: Site,
    now: datetime,
) -> Answer:
    mine = Decision(
        rollout=link.rollout,
        decision=word,
        request_digest=_question(records),
        by=(who.name,),
        identity=who.identity,
        issuer=who.issuer,
        reason=checked.reason,
        at=rfc3339(now),
        expires_at=checked.expires_at,
    )
    try:
        if not _write(mine, records.needed, site, now):
            return _settled(link, who, _records(link.rollout, site), word, site, now)
    except TransientError:
        alert = "Somebody else is deciding at this moment. Nothing of yours was recorded yet: send it again."
        return _again(link, who, records, site, now, 503, "busy", typed, alert=alert)
    answer = _to_page(link)
    return Answer(answer.status, f"recorded-{word.lower()}", location=answer.location)


def _write(mine: Decision, needed: int, site: Site, now: datetime) -> bool:
    """Whether this person's decision is recorded. A rejection needs one person, whatever the quorum is."""
    if mine.decision == "Rejected" or needed == 1:
        return write_decision(site.ledger, mine)
    return write_approval(site.ledger, mine, needed, _approvers(site), now)
