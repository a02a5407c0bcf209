"""What the approval pages are made of: where they are served, how somebody comes in, what is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.clock import Clock
from aicr_pipeline.decide.approval import approval_url, is_link_secret
from aicr_pipeline.decide.approval_form import COMMON_REASONS, Form, is_locator
from aicr_pipeline.decide.approval_page import PageView
from aicr_pipeline.model.config import ClusterConfig


@dataclass(frozen=True)
class Site:
    """What the pages are served from. ``key`` is asked for only once a link has the right form."""

    config: ClusterConfig
    ledger: Ledger
    key: Callable[[], bytes]
    base_url: str
    clock: Clock


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
    #: The issuer's own name for the person.
    subject: str | None = None


class Visit(Protocol):
    """How somebody came to a rollout's page, and what they showed for it."""

    @property
    def rollout(self) -> str:
        """The rollout's name."""
        ...

    @property
    def binding(self) -> str:
        """What a form is tied to beside rollout and question: an approver's link, or a session."""
        ...

    @property
    def address(self) -> str:
        """The page, relative to the host."""
        ...

    @property
    def asks_short_name(self) -> bool:
        """Whether the form asks for the rollout's short name."""
        ...

    def prove(self, site: Site) -> None:
        """Raises RefusedError for whatever is no way in; reads nothing of the rollout."""
        ...

    def principal(self, site: Site) -> Principal:
        """Who it is, as of now. Raises RefusedError for somebody who is no approver (any more)."""
        ...


@dataclass(frozen=True)
class FormView:
    """The form as the page prints it: fresh, or as it was typed with what is wrong."""

    nonce: str
    digest: str
    typed: Form = field(default_factory=Form)
    errors: Mapping[str, str] = field(default_factory=dict)
    alert: str = ""
    common_reasons: tuple[str, ...] = COMMON_REASONS
    asks_short_name: bool = True


@dataclass(frozen=True)
class CookieSet:
    """A cookie for the browser; every one is __Host-, Secure, HttpOnly and SameSite=Lax."""

    name: str
    value: str = field(repr=False)
    seconds: int


@dataclass(frozen=True)
class Answer:
    """A page, or a redirect when ``location`` is set. ``name`` says what happened, for logs and metrics.

    ``sign_in`` is a path of ours that leads to the issuer; ``form`` without ``view`` holds what somebody
    typed whose session is over, or whose answer could not be recorded; ``signed_in_as`` is whose session
    holds, who may end it on the page.
    """

    status: int
    name: str
    title: str = ""
    message: str = ""
    view: PageView | None = None
    form: FormView | None = None
    #: The form of the manual step that waits; it may stand beside the one that revokes.
    acknowledge: FormView | None = None
    location: str | None = field(default=None, repr=False)
    sign_in: str | None = None
    signed_in_as: str = ""
    cookies: tuple[CookieSet, ...] = ()


class RefusedError(Exception):
    """What was asked for ends here, with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.name)
        self.answer = answer


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
CROSS_SITE = Answer(
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


@dataclass(frozen=True)
class Link:
    """A link whose secret proves that it was sent to this approver."""

    rollout: str
    approver: str
    secret: str = field(repr=False)

    asks_short_name: ClassVar[bool] = True

    @property
    def binding(self) -> str:
        """The approver."""
        return self.approver

    @property
    def address(self) -> str:
        """The link itself."""
        return approval_url("", self.rollout, self.approver, self.secret)

    def prove(self, site: Site) -> None:
        """Its form first, then its secret."""
        right = is_locator(self.rollout, self.approver, self.secret) and is_link_secret(
            site.key(), self.rollout, self.approver, self.secret
        )
        if site.config.approvals.identity != "link" or not right:
            raise RefusedError(NOT_FOUND)

    def principal(self, site: Site) -> Principal:
        """The approver, while the configuration names them."""
        if self.approver not in approver_names(site):
            raise RefusedError(_NOT_AN_APPROVER)
        return Principal(self.approver, "link", "link")


def approver_names(site: Site) -> tuple[str, ...]:
    """Who is asked, by the configuration as it is now."""
    return tuple(approver.name for approver in site.config.approvals.approvers)
