"""Signed-in people: to the issuer, back from it, and to the page that the link names.

What is kept of somebody is a row that ends after 15 minutes; whether that person is an approver is asked of
the configuration at every request.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from aicr_pipeline.actions.approval_site import (
    CROSS_SITE,
    NOT_FOUND,
    Answer,
    CookieSet,
    FormView,
    Post,
    Principal,
    RefusedError,
    Site,
)
from aicr_pipeline.actions.serve_approvals import read_post, show, submit
from aicr_pipeline.adapters.oidc import Issuer, SignInError
from aicr_pipeline.adapters.rollouts import load_request
from aicr_pipeline.adapters.sessions import Sessions
from aicr_pipeline.decide.approval import signed_in_url
from aicr_pipeline.decide.approval_form import is_rollout_name, is_same_origin
from aicr_pipeline.decide.sign_in import (
    LOGIN_COOKIE,
    LOGIN_SECONDS,
    SESSION_COOKIE,
    SESSION_SECONDS,
    Identity,
    approver_name,
    begin,
    is_id,
    resume,
    resumed,
    session_name,
)
from aicr_pipeline.model.rollout import rollout_key

#: Longest code that is passed on to the issuer.
_MOST_CODE = 4096


@dataclass(frozen=True)
class Desk:
    """The pages, and what signing in takes besides. Both are made only when asked for."""

    site: Site
    issuer: Callable[[], Issuer]
    sessions: Callable[[], Sessions]

    @property
    def is_open(self) -> bool:
        """Whether this cluster's people sign in."""
        return self.site.config.approvals.identity == "signed-in"


@dataclass(frozen=True)
class SignedIn:
    """The visit of somebody whose session holds."""

    rollout: str
    session: str = field(repr=False)
    identity: Identity

    asks_short_name: ClassVar[bool] = False

    @property
    def binding(self) -> str:
        """The session, without what would let somebody in."""
        return f"session:{session_name(self.session)}"

    @property
    def address(self) -> str:
        """The locator: the same for everybody."""
        return signed_in_url("", self.rollout)

    def prove(self, site: Site) -> None:
        """The session proved it before."""

    def principal(self, site: Site) -> Principal:
        """The approver that the person is by the configuration as it is now."""
        name = approver_name(site.config.approvals, self.identity)
        if name is None:
            raise RefusedError(_no_approver(self))
        return Principal(name, "signed-in", self.identity.issuer, self.identity.subject)


def show_signed_in(rollout: str, cookies: Mapping[str, str], desk: Desk) -> Answer:
    """The page of a rollout, or the way to the issuer for somebody without a session. Changes nothing."""
    try:
        visit = _visit(rollout, cookies, desk)
        if visit is None:
            return _to_issuer(rollout, cookies, desk)
        return replace(show(visit, desk.site), signed_in_as=visit.identity.shown)
    except RefusedError as refused:
        return refused.answer


def submit_signed_in(rollout: str, cookies: Mapping[str, str], post: Post, desk: Desk) -> Answer:
    """A sent form. Without a session nothing is recorded, and the answer holds what was typed and a link.

    Never a redirect to the issuer: the page's own policy would stop a form from going there.
    """
    try:
        if not is_same_origin(post.headers, desk.site.base_url):
            raise RefusedError(CROSS_SITE)
        visit = _visit(rollout, cookies, desk)
        if visit is None:
            return _signed_out(rollout, post)
        return replace(submit(visit, post, desk.site), signed_in_as=visit.identity.shown)
    except RefusedError as refused:
        return refused.answer


def login(rollout: str, cookies: Mapping[str, str], desk: Desk) -> Answer:
    """To the issuer, which is to ask who it is even where it knows somebody."""
    try:
        _check(rollout, desk)
        return _to_issuer(rollout, cookies, desk, prompt="login")
    except RefusedError as refused:
        return refused.answer


def sign_out(cookies: Mapping[str, str], post: Post, desk: Desk) -> Answer:
    """End this browser's session, at once and for whoever else has its id. Twice is the same.

    The issuer's own session is not ours to end: a redirect there is what the page's policy would stop.
    """
    if not desk.is_open:
        return NOT_FOUND
    if not is_same_origin(post.headers, desk.site.base_url):
        return CROSS_SITE
    desk.sessions().end(cookies.get(SESSION_COOKIE, ""))
    return _SIGNED_OFF


def callback(query: Mapping[str, str], cookies: Mapping[str, str], desk: Desk) -> Answer:
    """The issuer's answer: check that this browser asked, exchange the code, start a session.

    Returns
    -------
    Answer
        303 to the rollout that the state names, with a session that is always a new one; else 403 or 502
        and a page with a link to try again.
    """
    if not desk.is_open:
        return NOT_FOUND
    site, state = desk.site, query.get("state", "")
    browser, now = cookies.get(LOGIN_COOKIE, ""), site.clock()
    rollout = resume(site.key(), browser, state, now)
    if rollout is None:
        return _STRANGE_STATE
    code, error = query.get("code", ""), query.get("error", "")
    if error or not 0 < len(code) <= _MOST_CODE:
        return _failed(rollout, "issuer-said-no" if error else "no-code")
    attempt = resumed(site.key(), browser, rollout, state, _digest(rollout, site))
    try:
        who = desk.issuer().identity(code, attempt, now)
    except SignInError as problem:
        return _failed(rollout, problem.why)
    sessions = desk.sessions()
    sessions.end(cookies.get(SESSION_COOKIE, ""))
    session = sessions.start(who, site.config.approvals.groups, now)
    return Answer(
        303,
        "signed-in",
        location=signed_in_url("", rollout),
        # The browser's id stays until it ends by itself: another tab may still be at the issuer with it.
        cookies=(CookieSet(SESSION_COOKIE, session, SESSION_SECONDS),),
    )


def _check(rollout: str, desk: Desk) -> None:
    if not desk.is_open or not is_rollout_name(rollout):
        raise RefusedError(NOT_FOUND)


def _visit(rollout: str, cookies: Mapping[str, str], desk: Desk) -> SignedIn | None:
    _check(rollout, desk)
    session = cookies.get(SESSION_COOKIE, "")
    who = desk.sessions().find(session, desk.site.clock()) if is_id(session) else None
    # A session of another issuer is of before the configuration changed.
    if who is None or who.issuer != desk.issuer().oidc.issuer:
        return None
    return SignedIn(rollout, session, who)


def _to_issuer(rollout: str, cookies: Mapping[str, str], desk: Desk, **more: str) -> Answer:
    site = desk.site
    if site.ledger.get(rollout_key(rollout, "rollout")) is None:
        return NOT_FOUND
    known = cookies.get(LOGIN_COOKIE, "")
    # Two tabs may sign in side by side: each has a state of its own, the browser one id.
    browser = known if is_id(known) else secrets.token_urlsafe(32)
    salt = secrets.token_urlsafe(16)
    attempt = begin(site.key(), browser, rollout, _digest(rollout, site), salt, site.clock())
    try:
        url = desk.issuer().sign_in_url(attempt, **more)
    except SignInError as problem:
        return _failed(rollout, problem.why)
    return Answer(302, "to-issuer", location=url, cookies=(CookieSet(LOGIN_COOKIE, browser, LOGIN_SECONDS),))


def _digest(rollout: str, site: Site) -> str:
    request = load_request(site.ledger, rollout)
    return "nothing-asked" if request is None else request.digest


_SIGNED_OFF = Answer(
    200,
    "signed-off",
    "You are signed out",
    "Nobody decides here in your name any more. The sign-in service may still know this browser: on a "
    "machine that others use, sign out there, too. Open the link from your message to come back.",
    cookies=(CookieSet(SESSION_COOKIE, "", 0), CookieSet(LOGIN_COOKIE, "", 0)),
)
_STRANGE_STATE = Answer(
    403,
    "sign-in-state",
    "You are not signed in",
    "This sign-in was not begun in this browser, or more than ten minutes ago. Open the link from your "
    "message again.",
)


def _failed(rollout: str, why: str) -> Answer:
    away = why.startswith("issuer-un") or why == "another-issuer"
    message = (
        "The sign-in service could not be asked. Try again; if it stays so, tell the platform team."
        if away
        else "The sign-in service did not confirm who you are. Nothing was recorded. Try again."
    )
    return Answer(
        502 if away else 403,
        f"sign-in-{why}",
        "You are not signed in",
        message,
        sign_in=f"/login/{rollout}",
    )


def _no_approver(visit: SignedIn) -> Answer:
    return Answer(
        403,
        "not-an-approver",
        "You are not an approver here",
        f"You are signed in as {visit.identity.shown}, who is not an approver of this cluster (any more). "
        "Sign in as somebody else, or ask the platform team to add you.",
        sign_in=f"/login/{visit.rollout}",
    )


def _signed_out(rollout: str, post: Post) -> Answer:
    """Shows nothing of the rollout, only what was typed; its form is sent again by whoever signed in."""
    form = read_post(post)
    return Answer(
        403,
        "signed-out",
        "You are not signed in any more",
        "Nothing was recorded yet, and what you typed is below. Sign in in a new tab, come back, and go on.",
        form=replace(FormView("", form.digest, asks_short_name=False), typed=form),
        sign_in=f"/login/{rollout}",
    )
