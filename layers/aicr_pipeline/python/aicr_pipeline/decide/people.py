"""Who a person is in AWS, and whether two names are one person.

A caller chooses the name of a role's session, so it says nothing: people with one role are one person here.
Only IAM Identity Center's roles are entered under the person's own user name.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from aicr_pipeline.model.approvers import Approvals, Approver

#: Of a runtime that nobody submitted through the API: an S3 event names an account, not a person.
UNKNOWN = "unknown"

_NAME = r"[A-Za-z0-9_+=,.@-]{1,64}"
_USER = re.compile(rf"arn:aws[a-z-]*:iam::\d{{12}}:user(/[\x21-\x7e]{{1,510}})?/{_NAME}")
_SESSION = re.compile(rf"arn:(aws[a-z-]*):sts::(\d{{12}}):assumed-role/({_NAME})/({_NAME})")
_SSO = re.compile(r"AWSReservedSSO_[A-Za-z0-9_+=,.@-]+_[0-9a-f]{16}")


def principal(user_arn: str) -> str | None:
    """The person behind ``requestContext.authorizer.iam.userArn``.

    Returns
    -------
    str | None
        The user's ARN; the role's, without path and session; for a role of IAM Identity Center the ARN with
        the session, which is the user's name there. None for who is no person: root, federated sessions.
    """
    if _USER.fullmatch(user_arn):
        return user_arn
    session = _SESSION.fullmatch(user_arn)
    if session is None:
        return None
    partition, account, role, _ = session.groups()
    return user_arn if _SSO.fullmatch(role) else f"arn:{partition}:iam::{account}:role/{role}"


def approver_of(approvers: Iterable[Approver], who: str) -> Approver | None:
    """The approver whose ``iam`` names the principal."""
    return next((one for one in approvers if one.iam is not None and _names(one.iam, who)), None)


def is_submitter(approver: Approver, submitter: str) -> bool:
    """Whether the approver is known to be who submitted the runtime.

    By ``iam``, or by the e-mail address when it is the user name in IAM Identity Center.
    """
    if submitter == UNKNOWN:
        return False
    # AWS has no two names that differ in case alone, and a configuration may be written in another one.
    if approver.iam is not None and _names(approver.iam.lower(), submitter.lower()):
        return True
    return approver.email is not None and approver.email.casefold() == _mailbox(submitter).casefold()


def may_approve(approver: Approver, approvals: Approvals, submitter: str) -> bool:
    """Four eyes: whoever submitted a runtime does not approve it, unless the configuration lets them."""
    return not (approvals.exclude_submitter and is_submitter(approver, submitter))


def submitter_among(approvals: Approvals, submitter: str, by: Iterable[str]) -> bool:
    """Whether one of those named is the submitter, who may not approve; a group's members have addresses."""
    return approvals.exclude_submitter and any(_is(approvals, name, submitter) for name in by)


def four_eyes_missing(approvals: Approvals, submitter: str, by: Iterable[str]) -> str:
    """Why it is not known that somebody other than the submitter approved; ``""`` when it is."""
    if submitter == UNKNOWN:
        return "the submitter is unknown"
    if not approvals.exclude_submitter:
        return "approvals.excludeSubmitter is false"
    known = {approver.name: approver for approver in approvals.approvers}
    for name in by:
        if _is(approvals, name, submitter):
            return f"{name} submitted the runtime"
        approver = known.get(name)
        told = approver is not None and (approver.iam is not None or (approver.email and _mailbox(submitter)))
        if not told and not ("@" in name and _mailbox(submitter)):
            return f"who {name} is in AWS is not configured"
    return ""


def _is(approvals: Approvals, name: str, submitter: str) -> bool:
    found = next((approver for approver in approvals.approvers if approver.name == name), None)
    if found is not None:
        return is_submitter(found, submitter)
    return bool(_mailbox(submitter)) and name.casefold() == _mailbox(submitter).casefold()


def _names(iam: str, who: str) -> bool:
    account, role, path = iam.partition(":role/")
    # The ARN of a session lacks the role's path; names are unique in an account without it.
    return f"{account}:role/{path.rpartition('/')[2]}" == who if role else fnmatchcase(who, iam)


def _mailbox(submitter: str) -> str:
    session = _SESSION.fullmatch(submitter)
    return session[4] if session is not None and "@" in session[4] else ""
