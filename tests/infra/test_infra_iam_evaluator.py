"""The evaluator itself, by what AWS documents: examples of the IAM and S3 user guides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.iam_evaluator import (
    Decision,
    Request,
    UnknownElementError,
    Value,
    contexts,
    decide,
    decide_key,
)

ALLOWED, IMPLICIT, EXPLICIT = Decision.Allowed, Decision.ImplicitlyDenied, Decision.ExplicitlyDenied
CARLOS = "arn:aws:iam::111122223333:user/carlossalazar"
ROLE = "arn:aws:iam::111122223333:role/a"


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(action: Any = "s3:*", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(action: Any = "s3:*", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Deny", "Action": action, "Resource": resource, **more}


def asked(action: str, resource: str, principal: str = ROLE, **context: Value) -> Request:
    return Request(
        principal, action, resource, {key.replace("__", ":"): value for key, value in context.items()}
    )


#: "Example identity-based and resource-based policy evaluation" of the IAM user guide.
BUCKET = "arn:aws:s3:::amzn-s3-demo-bucket-carlossalazar"
IDENTITY = policy(
    allow(["s3:GetBucketLocation", "s3:ListAllMyBuckets"], "arn:aws:s3:::*"),
    allow("s3:*", [BUCKET, f"{BUCKET}/*"]),
    deny("s3:*", "arn:aws:s3:::*log*"),
)


@pytest.mark.parametrize(
    ("action", "resource", "answer"),
    [
        ("s3:PutObject", f"{BUCKET}/file", ALLOWED),
        ("s3:ListAllMyBuckets", "arn:aws:s3:::anything", ALLOWED),
        # The bucket's name holds "log".
        ("s3:PutObject", f"{BUCKET}-logs/file", EXPLICIT),
        ("s3:PutObject", "arn:aws:s3:::another/file", IMPLICIT),
        ("s3:putobject", f"{BUCKET}/file", ALLOWED),  # names of actions have no case
        ("dynamodb:GetItem", BUCKET, IMPLICIT),
    ],
)
def test_the_guides_example(action: str, resource: str, answer: Decision) -> None:
    assert decide(asked(action, resource, CARLOS), [IDENTITY]) is answer


def test_an_allow_of_either_side_is_enough_and_a_deny_of_either_side_wins() -> None:
    named = policy(allow(Principal={"AWS": CARLOS}))
    request = asked("s3:GetObject", "arn:aws:s3:::b/k", CARLOS)
    assert decide(request, [], [named]) is ALLOWED
    assert decide(request, [policy(deny())], [named]) is EXPLICIT
    assert decide(request, [policy(allow())], [policy(deny(Principal="*"))]) is EXPLICIT
    assert decide(asked("s3:GetObject", "arn:aws:s3:::b/k"), [], [named]) is IMPLICIT


def test_a_bucket_that_names_the_account_leaves_it_to_identity_policies() -> None:
    account = policy(allow(Principal={"AWS": "arn:aws:iam::111122223333:root"}))
    request = asked("s3:GetObject", "arn:aws:s3:::b/k", CARLOS)
    assert decide(request, [], [account]) is IMPLICIT
    assert decide(request, [policy(allow())], [account]) is ALLOWED


def test_a_key_is_used_only_where_its_own_policy_allows() -> None:
    """ "IAM policies by themselves are not sufficient to allow access to a KMS key" (KMS developer guide)."""
    key = "arn:aws:kms:us-west-2:111122223333:key/k"
    mine = [policy(allow("kms:Sign", key))]
    request = asked("kms:Sign", key)
    delegating = policy(allow("kms:*", Principal={"AWS": "arn:aws:iam::111122223333:root"}))
    assert decide_key(request, mine, policy()) is IMPLICIT
    assert decide_key(request, [], delegating) is IMPLICIT
    assert decide_key(request, mine, delegating) is ALLOWED
    assert decide_key(request, [], policy(allow("kms:Sign", Principal={"AWS": ROLE}))) is ALLOWED
    other = policy(allow("kms:*", Principal={"AWS": "arn:aws:iam::999999999999:root"}))
    assert decide_key(request, mine, other) is IMPLICIT
    denying = policy(*delegating["Statement"], deny("kms:Sign", Principal={"AWS": "*"}))
    assert decide_key(request, mine, denying) is EXPLICIT


def test_not_action_and_not_resource() -> None:
    """The guide's region example: everything but global services is denied elsewhere."""
    elsewhere = {
        "Effect": "Deny",
        "NotAction": ["cloudfront:*", "iam:*"],
        "Resource": "*",
        "Condition": {"StringNotEquals": {"aws:RequestedRegion": ["eu-central-1", "eu-west-1"]}},
    }
    rules = [policy(allow("*"), elsewhere)]
    for action, region, answer in (
        ("iam:GetUser", "us-east-1", ALLOWED),
        ("ec2:RunInstances", "us-east-1", EXPLICIT),
        ("ec2:RunInstances", "eu-west-1", ALLOWED),
    ):
        found = decide(asked(action, "arn:aws:ec2:x:1:y", aws__RequestedRegion=region), rules)
        assert found is answer, (action, region)
    others = {"Effect": "Deny", "Action": "s3:*", "NotResource": ["arn:aws:s3:::b/a/*", "arn:aws:s3:::b/b/*"]}
    for key, answer in (("a/x", ALLOWED), ("b/x/y", ALLOWED), ("c", EXPLICIT)):
        assert decide(asked("s3:PutObject", f"arn:aws:s3:::b/{key}"), [policy(allow(), others)]) is answer


@pytest.mark.parametrize(
    ("condition", "context", "holds"),
    [
        # "If the key … is not present in the request context, the values do not match and the condition is
        # false. If the policy condition requires that the key is not matched … the condition is true."
        ({"StringEquals": {"aws:username": "john"}}, {}, False),
        ({"StringNotEquals": {"aws:username": "john"}}, {}, True),
        ({"StringNotLike": {"aws:username": "j*"}}, {}, True),
        ({"ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::1:role/*"}}, {}, True),
        ({"ArnEquals": {"aws:PrincipalArn": "arn:aws:iam::1:role/*"}}, {}, False),
        ({"Bool": {"aws:SecureTransport": "true"}}, {}, False),
        ({"StringEqualsIfExists": {"aws:username": "john"}}, {}, True),
        # "users named John are denied access"
        ({"StringEquals": {"aws:username": "john"}}, {"aws:username": "John"}, False),
        ({"StringEquals": {"AWS:UserName": "john"}}, {"aws:username": "john"}, True),  # keys have no case
        ({"StringEquals": {"aws:username": ["jane", "john"]}}, {"aws:username": "john"}, True),
        ({"StringNotEquals": {"aws:username": ["jane", "john"]}}, {"aws:username": "john"}, False),
        ({"StringLike": {"s3:prefix": ["home/${x}"[:5] + "*"]}}, {"s3:prefix": "home/a/b"}, True),
        ({"StringLike": {"k": "a?c"}}, {"k": "abc"}, True),
        ({"StringLike": {"k": "a.c"}}, {"k": "abc"}, False),
        ({"Bool": {"aws:SecureTransport": False}}, {"aws:SecureTransport": "false"}, True),
        ({"Null": {"aws:TokenIssueTime": "true"}}, {}, True),
        ({"Null": {"aws:TokenIssueTime": "false"}}, {}, False),
        ({"Null": {"aws:TokenIssueTime": "false"}}, {"aws:TokenIssueTime": "1"}, True),
        # Arn operators compare each of the six parts.
        (
            {"ArnEquals": {"aws:PrincipalArn": "arn:aws:iam::*:role/a"}},
            {"aws:PrincipalArn": "arn:aws:iam::1:role/a"},
            True,
        ),
        (
            {"ArnLike": {"aws:PrincipalArn": "arn:*:role/a"}},
            {"aws:PrincipalArn": "arn:aws:iam::1:role/a"},
            None,
        ),
        # Several operators, and several keys, all have to hold.
        ({"StringEquals": {"a": "1", "b": "2"}}, {"a": "1"}, False),
        ({"StringEquals": {"a": "1"}, "Null": {"b": "true"}}, {"a": "1"}, True),
        # "ForAllValues also returns true if there are no context keys in the request"; ForAnyValue false.
        ({"ForAllValues:StringLike": {"aws:TagKeys": ["key1*", "key2*"]}}, {}, True),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": ["environment"]}}, {}, False),
        (
            {"ForAllValues:StringLike": {"aws:TagKeys": ["key1*"]}},
            {"aws:TagKeys": ("key1:a", "key1:b")},
            True,
        ),
        ({"ForAllValues:StringLike": {"aws:TagKeys": ["key1*"]}}, {"aws:TagKeys": ("key1:a", "x")}, False),
        ({"ForAllValues:StringNotLike": {"aws:TagKeys": "key1*"}}, {"aws:TagKeys": ("key1:a", "x")}, False),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": ["env"]}}, {"aws:TagKeys": ("env", "x")}, True),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": ["env"]}}, {"aws:TagKeys": ("x",)}, False),
    ],
)
def test_conditions(condition: dict[str, Any], context: dict[str, Value], holds: bool | None) -> None:
    request = Request(ROLE, "s3:GetObject", "arn:aws:s3:::b/k", context)
    rules = [policy(allow(Condition=condition))]
    if holds is None:
        with pytest.raises(UnknownElementError):
            decide(request, rules)
        return
    assert decide(request, rules) is (ALLOWED if holds else IMPLICIT)


@pytest.mark.parametrize(
    ("resource", "asks", "matches"),
    [
        ("arn:aws:s3:::b/*", "arn:aws:s3:::b/a/b:c", True),
        ("arn:aws:s3:::b", "arn:aws:s3:::b/k", False),
        ("arn:aws:s3:::b/?", "arn:aws:s3:::b/kk", False),
        ("arn:aws:states:*:1:stateMachine:x:*", "arn:aws:states:us-east-1:1:stateMachine:x:7", True),
        ("arn:aws:states:*:1:stateMachine:x", "arn:aws:states:us-east-1:1:stateMachine:x:7", False),
    ],
)
def test_resources(resource: str, asks: str, matches: bool) -> None:
    found = decide(asked("any:Thing", asks), [policy(allow("any:*", resource))])
    assert found is (ALLOWED if matches else IMPLICIT)


@pytest.mark.parametrize(
    "statement",
    [
        {"Effect": "Deny", "NotPrincipal": {"AWS": CARLOS}, "Action": "s3:*", "Resource": "*"},
        {"Effect": "Maybe", "Action": "s3:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:*"},
        {"Effect": "Allow", "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:*", "NotAction": "s3:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "NotResource": "*"},
        allow(Principal={"Federated": "x"}),
        allow(Principal={"AWS": "arn:aws:iam::111122223333:role/*"}),
        allow(resource="arn:aws:s3:::b/${aws:username}"),
        allow(resource="b/*"),
        allow(Condition={"NumericLessThan": {"s3:max-keys": "10"}}),
        allow(Condition={"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}),
        allow(Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}),
        allow(Condition={"ForMostValues:StringEquals": {"k": "v"}}),
        allow(Condition={"StringEquals": {"k": "${aws:username}"}}),
        allow(Condition={"StringEquals": {"many": "v"}}),
    ],
)
def test_what_is_not_known_raises(statement: dict[str, Any]) -> None:
    request = Request(ROLE, "s3:GetObject", "arn:aws:s3:::b/k", {"many": ("v", "w")})
    with pytest.raises(UnknownElementError):
        decide(request, [policy(statement)])
    with pytest.raises(UnknownElementError):
        decide(request, [policy(deny(), statement)])  # whatever the rest says
    with pytest.raises(UnknownElementError):
        decide(request, [{"Version": "2012-10-17", "Statement": [], "Extra": 1}])


def test_every_context_that_policies_tell_apart() -> None:
    rules = [policy(allow(Condition={"StringEquals": {"a": "1"}, "Null": {"b": "true"}}))]
    rules.append(policy(deny("s3:PutObject", Condition={"StringEquals": {"other": "x"}})))
    found = list(contexts(asked("s3:GetObject", "arn:aws:s3:::b/k"), rules, {"B": "set by AWS"}))
    assert found == [{"B": "set by AWS", "a": value} for value in (None, "something-else", "1")]
