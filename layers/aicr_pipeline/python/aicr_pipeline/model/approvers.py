"""``approvals`` of a configuration: who is asked, how they prove who they are, how they are written to."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import permutations
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from aicr_pipeline.model.addresses import is_plain_elsewhere
from aicr_pipeline.model.base import Document, parse
from aicr_pipeline.model.fields import Duration, SecretArn, Text, seconds
from aicr_pipeline.model.reasons import Reason

#: A role of IAM Identity Center may leave the end of its name open: AWS puts 16 hexes there.
_IAM = re.compile(
    r"arn:aws[a-z-]*:(iam::\d{12}:(user|role)(/[A-Za-z0-9_+=,.@-]{1,128}){1,8}"
    r"|sts::\d{12}:assumed-role/AWSReservedSSO_[A-Za-z0-9_+=,.@-]{1,48}\*?/[A-Za-z0-9_+=,.@-]{2,64})"
)


def _iam(value: str) -> str:
    if not _IAM.fullmatch(value):
        raise ValueError(
            "expected the ARN of a user or role, or arn:…:assumed-role/AWSReservedSSO_…/<user name>"
        )
    if ":role/" in value and "/AWSReservedSSO_" in value:
        raise ValueError("many people have a role of IAM Identity Center: name the person, as /<user name>")
    return value


IamPrincipal = Annotated[str, StringConstraints(max_length=1200), AfterValidator(_iam)]


class Approver(Document):
    """A person who is asked. Each has an SNS topic of their own."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")]
    email: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=254)] | None = (
        None
    )
    subject: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=255)] | None = None
    slack: Annotated[str, StringConstraints(pattern=r"^[UW][A-Z0-9]{2,30}$")] | None = None
    iam: IamPrincipal | None = None


_Claim = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:/._-]{1,128}$")]


class Oidc(Document):
    """Who signs people in: any OpenID Connect issuer. Absent, the stack has a user pool of its own."""

    issuer: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/?#@]+(/[^\s?#@]*)?$", max_length=512)]
    client_id: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]+$", max_length=255)]
    client_secret_arn: SecretArn | None = None
    email_claim: _Claim = "email"
    groups_claim: _Claim = "groups"

    @model_validator(mode="after")
    def _tls(self) -> Self:
        if is_plain_elsewhere(self.issuer):
            raise ValueError("issuer: plain http is for loopback only")
        return self


class SlackSettings(Document):
    """Slack beside e-mail. Secrets hold nothing but the bot's token, or the webhook's address."""

    bot_token_secret_arn: SecretArn | None = None
    webhook_secret_arn: SecretArn | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.bot_token_secret_arn is None and self.webhook_secret_arn is None:
            raise ValueError("botTokenSecretArn or webhookSecretArn: one of them is needed")
        return self


class Approvals(Document):
    """Who is asked, how they prove who they are, and how long they have."""

    approvers: tuple[Approver, ...] = Field(min_length=1, max_length=20)
    always: bool = True
    identity: Literal["signed-in", "link"] = "signed-in"
    identity_reason: Text | None = None
    oidc: Oidc | None = None
    groups: tuple[Annotated[str, StringConstraints(min_length=1, max_length=255)], ...] = Field(
        default=(), max_length=20, description="with identity signed-in, members may decide too"
    )
    min_approvals: Annotated[int, Field(ge=1, le=20)] = 1
    deadline: Duration = "24h"
    slack: SlackSettings | None = None
    bypass: bool = False
    exclude_submitter: bool = True

    @model_validator(mode="after")
    def _signing_in(self) -> Self:
        if self.identity == "link":
            if self.oidc is not None or self.groups or any(a.subject for a in self.approvers):
                raise ValueError("oidc, groups, subject: only with identity 'signed-in'")
            # Each name has a link of its own, and whoever reads the mailbox has both.
            for told in (
                [a.email.lower() for a in self.approvers if a.email],
                [a.slack for a in self.approvers if a.slack],
            ):
                if len(set(told)) != len(told):
                    raise ValueError(
                        "approvers: each email and slack may stand once; two names would count twice"
                    )
            return self
        nobody = [a.name for a in self.approvers if a.email is None and a.subject is None]
        if nobody:
            raise ValueError(
                f"approvers: {', '.join(nobody)} cannot be told from others: with identity 'signed-in' an "
                "approver needs an email or a subject"
            )
        for known in (
            [a.email.lower() for a in self.approvers if a.email is not None and a.subject is None],
            [a.subject for a in self.approvers if a.subject is not None],
        ):
            if len(set(known)) != len(known):
                raise ValueError("approvers: each person may stand once; two names would count twice")
        return self

    @model_validator(mode="after")
    def _messages(self) -> Self:
        slack = self.slack
        for index, approver in enumerate(self.approvers):
            if approver.slack is not None and (slack is None or slack.bot_token_secret_arn is None):
                raise ValueError(f"approvers[{index}].slack: needs slack.botTokenSecretArn, the bot's token")
        if self.identity == "link" and slack is not None and slack.webhook_secret_arn is not None:
            raise ValueError(
                "slack.webhookSecretArn: with identity 'link' whoever reads the channel could decide; use "
                "identity 'signed-in', or the bot's direct messages (approvers[].slack)"
            )
        return self

    @model_validator(mode="after")
    def _people(self) -> Self:
        names = [approver.name for approver in self.approvers]
        if len(set(names)) != len(names):
            raise ValueError("approvers: each name may stand once")
        # The names of roles are unique in an account, whatever path they have.
        arns = [
            re.sub(r":role/.*/", ":role/", approver.iam).lower()
            for approver in self.approvers
            if approver.iam is not None
        ]
        if any(fnmatchcase(one, other) for one, other in permutations(arns, 2)):
            raise ValueError("approvers: each iam may stand once; two names for one person would count twice")
        for index, approver in enumerate(self.approvers):
            # A member of a group is known by the issuer's subject alone where the address is not verified.
            if self.groups and self.min_approvals > 1 and approver.iam and approver.subject is None:
                raise ValueError(
                    f"approvers[{index}].subject: with groups, minApprovals above 1 and iam it is needed, or "
                    "one person could count twice: signed in as a member, and at a terminal by name"
                )
        if self.min_approvals > len(names) and not self.groups:
            raise ValueError("minApprovals: more than there are approvers")
        if not 10 <= seconds(self.deadline) <= 30 * 86400:
            raise ValueError("deadline: between 10s and 30d")
        return self


def stack_issuer(found: Mapping[str, str]) -> Oidc:
    """The stack's user pool as the functions are told of it: issuer, client and the claim with groups.

    Raises PipelineError ``InvalidConfiguration`` when it says nothing of the kind.
    """
    return parse(Oidc, dict(found), Reason.InvalidConfiguration, "environment variable OIDC")
