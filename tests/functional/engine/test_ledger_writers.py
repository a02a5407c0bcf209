"""Each record of the real ledger is put by the roles of its functions: no other function, and no person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from infra.ledger_writers import LEDGER_WRITERS
from local.aws import LocalAws
from local.aws.bucket_policies import S3Request, denies

STACK = "aicr-pipeline-demo"


@pytest.fixture(scope="module")
def pipeline(demo_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    work: Path = tmp_path_factory.mktemp("work")
    with LocalAws(demo_template, STACK, workdir=work, preload=(), schedule_scale=0) as engine:
        yield engine


def s3_of(engine: LocalAws, function: str) -> Any:
    """S3 with the credentials that the function's process has."""
    keys = engine._identities.credentials_of(engine.functions[f"{STACK}-{function}"].role)
    return boto3.client(
        "s3",
        region_name="us-west-2",
        endpoint_url=engine.client("s3").meta.endpoint_url,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        aws_session_token=keys.token,
    )


def put(engine: LocalAws, s3: Any, key: str) -> bool:
    """Whether a new object is taken."""
    try:
        s3.put_object(Bucket=engine.outputs["LedgerBucket"], Key=key, Body=b"{}", IfNoneMatch="*")
    except ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDenied"
        return False
    return True


def test_only_the_pages_decide(pipeline: LocalAws) -> None:
    key = "rollouts/demo-12345678-1/decision.json"
    assert not put(pipeline, pipeline.client("s3"), key), "a person, an administrator too"
    for name in pipeline.functions:
        function = name.removeprefix(f"{STACK}-")
        if function not in ("serve_approvals", "serve_operators"):
            assert not put(pipeline, s3_of(pipeline, function), key), function
    assert put(pipeline, s3_of(pipeline, "serve_approvals"), key)


@pytest.mark.parametrize(("name", "pattern", "functions"), LEDGER_WRITERS)
def test_every_record_is_put_by_its_functions(
    pipeline: LocalAws, name: str, pattern: str, functions: tuple[str, ...]
) -> None:
    assert not put(pipeline, pipeline.client("s3"), pattern.replace("*", "person")), name
    for function in functions:
        assert put(pipeline, s3_of(pipeline, function), pattern.replace("*", f"by-{function}")), function
    assert not put(pipeline, s3_of(pipeline, "apply_release"), pattern.replace("*", "release"))


@pytest.mark.parametrize("key", ["other", "plan/x.json", "rollouts/r/other.json"])
def test_no_other_keys_exist(pipeline: LocalAws, key: str) -> None:
    for function in ("serve_approvals", "write_plan", "sweep_waiters"):
        assert not put(pipeline, s3_of(pipeline, function), key)


DENY: dict[str, Any] = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject"}
ROLE = "arn:aws:iam::111122223333:role/a"


@pytest.mark.parametrize(
    ("wanted", "principal", "denied"),
    [
        (ROLE, ROLE, False),
        ([ROLE, ROLE + "b"], ROLE + "b", False),
        (ROLE, ROLE + "b", True),
        (ROLE, "person", True),
        ("arn:aws:iam::*:role/a", ROLE, False),
    ],
)
def test_a_statement_for_all_but_some_roles(wanted: Any, principal: str, denied: bool) -> None:
    condition = {"ArnNotEquals": {"aws:PrincipalArn": wanted}}
    policy = {"Statement": [{**DENY, "Resource": "arn:aws:s3:::l/k/*", "Condition": condition}]}
    request = S3Request({}, principal)
    assert denies(policy, "s3:PutObject", "arn:aws:s3:::l/k/x", request) is denied
    assert not denies(policy, "s3:PutObject", "arn:aws:s3:::l/other", request)
    assert not denies(policy, "s3:GetObject", "arn:aws:s3:::l/k/x", request)


def test_a_statement_for_all_but_some_keys() -> None:
    policy = {"Statement": [{**DENY, "NotResource": ["arn:aws:s3:::l/a/*", "arn:aws:s3:::l/b/*"]}]}
    for key, denied in (("a/x", False), ("b/x/y", False), ("c/x", True), ("a", True)):
        assert denies(policy, "s3:PutObject", f"arn:aws:s3:::l/{key}", S3Request({}, ROLE)) is denied


def answer(call: Any, **arguments: Any) -> str:
    """The error code of an S3 call; empty when it was taken."""
    try:
        call(**arguments)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def test_locked_versions_cannot_be_deleted(pipeline: LocalAws) -> None:
    """On the bucket itself: with its policy, then as somebody who took that away, held and with compliance.

    This S3 lets anybody shorten a lock; that no role may, the synthesized policies say.
    """
    s3, bucket = pipeline.client("s3"), pipeline.outputs["LedgerBucket"]
    key = "evidence/demo/locked-12345678-1/x.intoto.json"
    assert put(pipeline, s3_of(pipeline, "bind_evidence"), key)
    locked = s3.head_object(Bucket=bucket, Key=key)
    version, until = locked["VersionId"], locked["ObjectLockRetainUntilDate"]
    assert locked["ObjectLockMode"] == "GOVERNANCE"
    assert 364 < (until - locked["LastModified"]).days + 1 <= 366
    one = {"Bucket": bucket, "Key": key}
    for caller in (s3, s3_of(pipeline, "bind_evidence"), s3_of(pipeline, "sweep_waiters")):
        assert answer(caller.delete_object, **one) == "AccessDenied", "a delete marker"
        assert answer(caller.delete_object, **one, VersionId=version) == "AccessDenied"
        bypassing = answer(caller.delete_object, **one, VersionId=version, BypassGovernanceRetention=True)
        assert bypassing == "AccessDenied", "the policy denies the bypass to everybody"
        assert answer(caller.put_object, **one, Body=b"other") == "AccessDenied", "an overwrite"
    policy = s3.get_bucket_policy(Bucket=bucket)["Policy"]
    s3.delete_bucket_policy(Bucket=bucket)
    try:
        # What is left is the lock itself.
        assert answer(s3.delete_object, **one, VersionId=version) == "AccessDenied"
        hold = "evidence/demo/locked-12345678-1/held.intoto.json"
        held = s3.put_object(Bucket=bucket, Key=hold, Body=b"{}", ObjectLockLegalHoldStatus="ON")["VersionId"]
        gone = answer(
            s3.delete_object, Bucket=bucket, Key=hold, VersionId=held, BypassGovernanceRetention=True
        )
        assert gone == "AccessDenied", "a legal hold has no bypass"
        strict = "evidence/demo/locked-12345678-1/strict.intoto.json"
        kept = s3.put_object(
            Bucket=bucket,
            Key=strict,
            Body=b"{}",
            ObjectLockMode="COMPLIANCE",
            ObjectLockRetainUntilDate=until,
        )["VersionId"]
        gone = answer(
            s3.delete_object, Bucket=bucket, Key=strict, VersionId=kept, BypassGovernanceRetention=True
        )
        assert gone == "AccessDenied", "compliance has no bypass"
        assert s3.get_object(**one, VersionId=version)["Body"].read() == b"{}"
        # The lock is what held it: governance gives way to who bypasses it, once the policy is gone.
        assert answer(s3.delete_object, **one, VersionId=version, BypassGovernanceRetention=True) == ""
    finally:
        s3.put_bucket_policy(Bucket=bucket, Policy=policy)
