"""One principal a person, and who is known to be the submitter."""

import pytest
from aicr_pipeline.decide.people import (
    approver_of,
    four_eyes_missing,
    is_submitter,
    principal,
    submitter_among,
)
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.approvers import Approvals, Approver
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import config

ACCOUNT = "111122223333"
SSO = f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_Approve_0123456789abcdef"
USER = f"arn:aws:iam::{ACCOUNT}:user/people/kim"
APPROVERS = (
    Approver(name="alex", email="Alex@example.com"),
    Approver(name="kim", iam=USER),
    Approver(name="ops", iam=f"arn:aws:iam::{ACCOUNT}:role/teams/ops"),
    Approver(name="sam", iam=f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_Approve_*/sam@example.com"),
)
APPROVALS = Approvals(approvers=APPROVERS, identity="link")


@pytest.mark.parametrize(
    ("arn", "who"),
    [
        (USER, USER),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/ops/whatever", f"arn:aws:iam::{ACCOUNT}:role/ops"),
        (f"{SSO}/sam@example.com", f"{SSO}/sam@example.com"),
        # A role that only begins like one of Identity Center's is entered under any name.
        (
            f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_x/sam",
            f"arn:aws:iam::{ACCOUNT}:role/AWSReservedSSO_x",
        ),
        (f"arn:aws:iam::{ACCOUNT}:root", None),
        (f"arn:aws:sts::{ACCOUNT}:federated-user/kim", None),
        (f"{USER}\n", None),
        ("", None),
    ],
)
def test_sessions_of_one_role_are_one_person(arn: str, who: str | None) -> None:
    assert principal(arn) == who


@pytest.mark.parametrize(
    ("who", "name"),
    [
        (USER, "kim"),
        (f"arn:aws:iam::{ACCOUNT}:role/ops", "ops"),
        (f"{SSO}/sam@example.com", "sam"),
        (f"{SSO}/alex@example.com", None),
        (f"arn:aws:iam::{ACCOUNT}:user/kim", None),
        ("arn:aws:iam::999999999999:role/ops", None),
    ],
)
def test_an_approver_is_found_by_the_whole_principal(who: str, name: str | None) -> None:
    found = approver_of(APPROVERS, who)
    assert (found and found.name) == name


def test_the_submitter_is_known_by_principal_or_by_address() -> None:
    assert is_submitter(APPROVERS[0], f"{SSO}/alex@example.com")
    assert is_submitter(APPROVERS[1], USER)
    assert is_submitter(APPROVERS[1], USER.replace("kim", "Kim")), "AWS has no two names that differ in case"
    assert is_submitter(APPROVERS[3], f"{SSO}/Sam@example.com")
    assert not is_submitter(APPROVERS[0], USER)
    assert not is_submitter(APPROVERS[1], "unknown")
    # Somebody may call a session of an ordinary role anything; then it is the role that submitted.
    assert submitter_among(APPROVALS, f"{SSO}/robin@example.com", ("robin@example.com",)), "of a group"
    assert not submitter_among(APPROVALS, USER, ("alex", "ops"))
    lenient = APPROVALS.model_copy(update={"exclude_submitter": False})
    assert not submitter_among(lenient, USER, ("kim",))


@pytest.mark.parametrize(
    ("submitter", "by", "missing"),
    [
        ("unknown", ("kim",), "the submitter is unknown"),
        (USER, ("ops", "sam"), ""),
        (USER, ("kim",), "kim submitted the runtime"),
        (USER, ("alex",), "who alex is in AWS is not configured"),
        (f"{SSO}/robin@example.com", ("alex",), ""),
        (f"{SSO}/robin@example.com", ("pat@example.com",), ""),
        (USER, ("gone",), "who gone is in AWS is not configured"),
    ],
)
def test_four_eyes_is_said_only_where_it_is_known(submitter: str, by: tuple[str, ...], missing: str) -> None:
    assert four_eyes_missing(APPROVALS, submitter, by) == missing


@pytest.mark.parametrize(
    "iam",
    [
        "kim",
        "arn:aws:iam::111122223333:root",
        "arn:aws:iam::111122223333:user/*",
        "arn:aws:iam::111122223333:role/a*",
        "arn:aws:iam::1:user/kim",
        "arn:aws:sts::111122223333:assumed-role/ops/kim",
        "arn:aws:sts::111122223333:assumed-role/AWSReservedSSO_A_*/*",
        "arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_A_0123456789abcdef",
    ],
)
def test_what_names_no_one_person_is_refused(iam: str) -> None:
    with pytest.raises(PipelineError, match="iam") as refused:
        config(**{"approvals.approvers": [{"name": "kim", "iam": iam}]})
    assert refused.value.reason is Reason.InvalidConfiguration


def test_one_principal_is_one_approver() -> None:
    same = [f"arn:aws:iam::{ACCOUNT}:role/ops", f"arn:aws:iam::{ACCOUNT}:role/teams/OPS"]
    with pytest.raises(PipelineError, match="each iam may stand once"):
        config(**{"approvals.approvers": [{"name": f"n{i}", "iam": iam} for i, iam in enumerate(same)]})
