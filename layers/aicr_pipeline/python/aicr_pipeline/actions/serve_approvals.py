"""The approval pages: what a link shows, and what its form may record.

Reading changes nothing, however often and by whomever. A decision is an object in the ledger that is
written once; nothing here holds or answers a task token, so the sweeper and the gate read that object.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Literal

from aicr_pipeline.actions.approval_site import (
    CROSS_SITE,
    FAILED,
    NOT_FOUND,
    Answer,
    FormView,
    Post,
    Principal,
    RefusedError,
    Site,
    Visit,
)
from aicr_pipeline.adapters.approvals import (
    load_records,
    write_acknowledgement,
    write_approval,
    write_decision,
    write_revocation,
)
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.approval import form_nonce, is_form_nonce, was_asked
from aicr_pipeline.decide.approval_form import (
    ACKNOWLEDGE_REASONS,
    REVOKE_REASONS,
    Checked,
    Form,
    FormError,
    FormWord,
    check_fields,
    decision_word,
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
    waiting_step,
)
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.names import short_name
from aicr_pipeline.decide.people import submitter_among
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Acknowledgement, Decision, Revocation, rollout_key

#: Stands in the nonce of a form that revokes where the digest stands in one that decides.
_REVOKE = "revoke"


def show(visit: Visit, site: Site) -> Answer:
    """The page of a link. Changes nothing.

    Returns
    -------
    Answer
        404 for whatever is no link of ours, 403 once the approver left the configuration, 410 when time ran
        out, else 200 with the true state.
    """
    try:
        who, records = _open(visit, site)
    except RefusedError as refused:
        return refused.answer
    return _page(visit, who, records, site, site.clock())


def submit(visit: Visit, post: Post, site: Site) -> Answer:
    """Check a sent form in order, and record what it decides.

    Returns
    -------
    Answer
        303 to the link once the decision stands (also when the same was recorded before), else the page
        that says what is wrong, with everything that was typed.
    """
    try:
        if not is_same_origin(post.headers, site.base_url):
            raise RefusedError(CROSS_SITE)
        who, records = _open(visit, site)
        form = read_post(post)
        now = site.clock()
        return _decide(visit, who, records, form, site, now)
    except RefusedError as refused:
        return refused.answer


def _open(visit: Visit, site: Site) -> tuple[Principal, Records]:
    visit.prove(site)
    if site.ledger.get(rollout_key(visit.rollout, "rollout")) is None:
        raise RefusedError(NOT_FOUND)
    return visit.principal(site), _records(visit.rollout, site)


def _records(rollout: str, site: Site) -> Records:
    return load_records(site.ledger, rollout, site.config.approvals)


def _page(visit: Visit, who: Principal, records: Records, site: Site, now: datetime) -> Answer:
    view = _view(visit, who, records, site, now)
    form, acknowledge = _form_of(view, visit, records, site, now), _acknowledge_form(view, visit, site, now)
    return Answer(page_status(view.state), str(view.state), view=view, form=form, acknowledge=acknowledge)


def _view(visit: Visit, who: Principal, records: Records, site: Site, now: datetime) -> PageView:
    config = site.config
    short = short_name(visit.rollout)
    return page_view(records, who.name, config.cluster.name, short, config.development, now)


def _form_of(view: PageView, visit: Visit, records: Records, site: Site, now: datetime) -> FormView | None:
    """The one form of a page: to decide while that is asked, to revoke until the outcome."""
    if view.is_open:
        return _fresh_form(visit, records, site, now)
    if not view.is_stoppable:
        return None
    # It binds no digest: whatever it is that runs, stopping it is what is meant.
    nonce = form_nonce(site.key(), visit.rollout, visit.binding, _REVOKE, now)
    return FormView(nonce, "", common_reasons=REVOKE_REASONS, asks_short_name=visit.asks_short_name)


def _acknowledge_form(view: PageView, visit: Visit, site: Site, now: datetime) -> FormView | None:
    """Of the one step that waits for it; it binds release and request."""
    held = view.held
    if held is None or held.digest is None:
        return None
    bound = _acknowledged(held.release, held.digest)
    nonce = form_nonce(site.key(), visit.rollout, visit.binding, bound, now)
    return FormView(
        nonce, held.digest, common_reasons=ACKNOWLEDGE_REASONS, asks_short_name=visit.asks_short_name
    )


def _acknowledged(release: str, digest: str) -> str:
    return f"acknowledge {release} {digest}"


def _fresh_form(visit: Visit, records: Records, site: Site, now: datetime) -> FormView:
    digest = _question(records)
    nonce = form_nonce(site.key(), visit.rollout, visit.binding, digest, now)
    return FormView(nonce, digest, asks_short_name=visit.asks_short_name)


def _short_name(visit: Visit) -> str | None:
    """What must be typed: a link proves no person, so it takes a deliberate act besides."""
    return short_name(visit.rollout) if visit.asks_short_name else None


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


def read_post(post: Post) -> Form:
    """The form that was sent. Raises RefusedError for what is none, or says nothing that can be said."""
    try:
        form = read_form(post.body, post.is_base64, post.headers.get("content-type", ""))
    except FormError as error:
        answer = Answer(error.status, "form-unreadable", "Nothing was recorded", error.message)
        raise RefusedError(answer) from None
    if decision_word(form) is None:
        raise RefusedError(
            Answer(
                400,
                "decision-unknown",
                "Nothing was recorded",
                "A decision is Approve or Reject; this was neither. Open the link and use its buttons.",
            )
        )
    return form


def failed(post: Post) -> Answer:
    """What is left when recording failed on our side: whatever was typed, to be sent once more."""
    try:
        form = read_post(post)
    except RefusedError:
        return FAILED
    return replace(FAILED, form=replace(FormView("", form.digest), typed=form))


def _decide(visit: Visit, who: Principal, records: Records, form: Form, site: Site, now: datetime) -> Answer:
    word = decision_word(form)
    key, names = site.key(), (visit.rollout, visit.binding)
    bound = _REVOKE if word == "Revoked" else form.digest
    if word == "Acknowledged":
        bound = _acknowledged(form.release, form.digest)
    if not is_nonce_shaped(form.nonce) or not is_form_nonce(key, *names, bound, form.nonce, now):
        alert = "This form was open for more than an hour, or is not ours. Look again, and send it once more."
        return _again(visit, who, records, site, now, 403, "nonce", form, alert=alert)
    if word == "Revoked":
        return _revoke(visit, who, records, form, site, now)
    if word == "Acknowledged":
        return _acknowledge(visit, who, records, form, site, now)
    if records.request is not None and form.digest != records.request.digest:
        alert = "What is asked changed since this page was opened. Look again before you decide."
        return _again(visit, who, records, site, now, 409, "digest", form, alert=alert)
    if records.request is not None and not was_asked(records.request, who.name):
        alert = "You were not asked about this rollout, so your answer would not count. You can stop it."
        return _again(visit, who, records, site, now, 403, "not-asked", form, alert=alert)
    if word == "Approved" and submitter_among(site.config.approvals, records.rollout.submitter, (who.name,)):
        alert = "You submitted this runtime, so somebody else has to approve it. Nothing was recorded."
        return _again(visit, who, records, site, now, 403, "submitter", form, alert=alert)
    state = page_state(records, who.name, now)
    if state in (PageState.Open, PageState.AwaitingOthers):
        checked = check_fields(form, _short_name(visit), records.rollout.deadline, now)
        if checked.errors and state is PageState.Open:
            return _again(visit, who, records, site, now, 422, "fields", form, errors=checked.errors)
        if not checked.errors and word is not None:
            return _record(visit, who, records, word, checked, form, site, now)
    return _settled(visit, who, records, word, site, now)


def _again(
    visit: Visit,
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
    view = _view(visit, who, records, site, now)
    form, acknowledge = _form_of(view, visit, records, site, now), _acknowledge_form(view, visit, site, now)
    if acknowledge is not None and typed.decision == "Acknowledged":
        acknowledge = replace(acknowledge, typed=typed, errors=errors or {}, alert=alert)
    elif form is not None:
        form = replace(form, typed=typed, errors=errors or {}, alert=alert)
    return Answer(status, f"refused-{name}", view=view, form=form, acknowledge=acknowledge)


def _acknowledge(
    visit: Visit, who: Principal, records: Records, form: Form, site: Site, now: datetime
) -> Answer:
    """Record that the work of a manual step was done; the gate reads it. Repeating it changes nothing."""
    held = waiting_step(records, page_state(records, who.name, now))
    if held is None or held.digest is None or held.release != form.release:
        if any(
            (one.release, one.request_digest) == (form.release, form.digest) for one in records.acknowledged
        ):
            return _to_page(visit)
        alert = "No step of this rollout waits for that. Nothing was recorded."
        return _again(visit, who, records, site, now, 409, "not-waiting", form, alert=alert)
    if held.digest != form.digest:
        alert = "What is asked changed since this page was opened. Look again before you acknowledge."
        return _again(visit, who, records, site, now, 409, "digest", form, alert=alert)
    checked = check_fields(form, _short_name(visit), records.rollout.deadline, now)
    if checked.errors:
        return _again(visit, who, records, site, now, 422, "fields", form, errors=checked.errors)
    mine = Acknowledgement(
        rollout=visit.rollout, release=held.release, request_digest=held.digest, by=who.name,
        identity=who.identity, issuer=who.issuer, reason=checked.reason, at=rfc3339(now),
        principal=who.subject,
    )  # fmt: skip
    try:
        write_acknowledgement(site.ledger, mine)
    except TransientError:
        alert = "Somebody else is at it at this moment. Nothing of yours was recorded yet: send it again."
        return _again(visit, who, records, site, now, 503, "busy", form, alert=alert)
    return replace(_to_page(visit), name="recorded-acknowledged")


def _revoke(visit: Visit, who: Principal, records: Records, form: Form, site: Site, now: datetime) -> Answer:
    """Record that the rollout is to stop; the gate and the sweeper read it. Repeating it changes nothing."""
    if page_state(records, who.name, now) not in STOPPABLE:
        stands = records.revocation is not None and records.outcome is None
        return _to_page(visit) if stands else _settled(visit, who, records, None, site, now)
    checked = check_fields(form, _short_name(visit), records.rollout.deadline, now)
    if checked.errors:
        return _again(visit, who, records, site, now, 422, "fields", form, errors=checked.errors)
    mine = Revocation(
        rollout=visit.rollout, by=who.name, identity=who.identity, issuer=who.issuer, reason=checked.reason,
        at=rfc3339(now), principal=who.subject,
    )  # fmt: skip
    try:
        write_revocation(site.ledger, mine)
    except TransientError:
        alert = "Somebody else is deciding at this moment. Nothing of yours was recorded yet: send it again."
        return _again(visit, who, records, site, now, 503, "busy", form, alert=alert)
    return replace(_to_page(visit), name="recorded-revoked")


def _settled(
    visit: Visit, who: Principal, records: Records, word: FormWord | None, site: Site, now: datetime
) -> Answer:
    """Somebody, or time, decided first: the same decision goes to the page, another one is told who won."""
    decision = records.decision
    if decision is not None and records.outcome is None and decision.decision == word:
        return _to_page(visit)
    view = _view(visit, who, records, site, now)
    if view.state is PageState.AwaitingOthers and word == "Approved":
        return _to_page(visit)
    status = 410 if view.state is PageState.Expired else 409
    return Answer(status, f"refused-{view.state}", view=view)


def _to_page(visit: Visit) -> Answer:
    # Relative to the host: the page's policy lets a form go on only where it came from.
    return Answer(303, "redirect", location=visit.address)


def _record(
    visit: Visit,
    who: Principal,
    records: Records,
    word: Literal["Approved", "Rejected"],
    checked: Checked,
    typed: Form,
    site: Site,
    now: datetime,
) -> Answer:
    mine = Decision(
        rollout=visit.rollout,
        decision=word,
        request_digest=_question(records),
        by=(who.name,),
        identity=who.identity,
        issuer=who.issuer,
        reason=checked.reason,
        at=rfc3339(now),
        expires_at=checked.expires_at,
        principals=None if who.subject is None else (who.subject,),
    )
    try:
        if not _write(mine, records.needed, site, now):
            return _settled(visit, who, _records(visit.rollout, site), word, site, now)
    except TransientError:
        alert = "Somebody else is deciding at this moment. Nothing of yours was recorded yet: send it again."
        return _again(visit, who, records, site, now, 503, "busy", typed, alert=alert)
    answer = _to_page(visit)
    return Answer(answer.status, f"recorded-{word.lower()}", location=answer.location)


def _write(mine: Decision, needed: int, site: Site, now: datetime) -> bool:
    """Whether this person's decision is recorded. A rejection needs one person, whatever the quorum is."""
    if mine.decision == "Rejected" or needed == 1:
        return write_decision(site.ledger, mine)
    return write_approval(site.ledger, mine, needed, site.config.approvals, now)
