"""Corrections of moto that have no module of their own; see test_moto_plain.py for the defects."""

from __future__ import annotations

import hashlib

import pytest
from botocore.exceptions import ClientError

from local.aws import EngineError, LocalAws, bucket_policies, shims
from local.aws.patches import Patches
from tests.functional.engine.signing import DIGEST, signed, verify


def test_kms_signs_the_digest(engine: LocalAws) -> None:
    kms, key = engine.client("kms"), engine.physical("SigningKey")
    signature = signed(kms, key, DIGEST)
    verify(kms, key, DIGEST, signature)
    arguments = {"KeyId": key, "MessageType": "DIGEST", "SigningAlgorithm": "ECDSA_SHA_256"}
    assert kms.verify(Message=DIGEST, Signature=signature, **arguments)["SignatureValid"]
    with pytest.raises(kms.exceptions.KMSInvalidSignatureException):
        kms.verify(Message=hashlib.sha256(b"other").digest(), Signature=signature, **arguments)
    with pytest.raises(ClientError, match="invalid length"):
        signed(kms, key, b"not 32 bytes")
    with pytest.raises(ClientError, match="4096"):
        kms.sign(KeyId=key, Message=b"x" * 4097, MessageType="RAW", SigningAlgorithm="ECDSA_SHA_256")
    description = kms.describe_key(KeyId=key)["KeyMetadata"]
    assert (description["KeySpec"], description["KeyUsage"]) == ("ECC_NIST_P256", "SIGN_VERIFY")


def test_ecr_tokens_follow_the_role(engine: LocalAws) -> None:
    """The value is tested with the handler in test_lambdas; here sessions of AssumeRole."""
    sts = engine.client("sts")
    role = "arn:aws:iam::111122223333:role/sample-page"
    keys = sts.assume_role(RoleArn=role, RoleSessionName="narrow", Policy="{}")["Credentials"]
    assert engine.identity_of(keys["AccessKeyId"]) == role
    assert engine.identity_of("AKIAUNKNOWN000000000") is None
    with pytest.raises(ClientError, match="No role of this stack"):
        engine.client("ecr").get_authorization_token()


def test_bucket_policy_makes_the_ledger_write_once(engine: LocalAws) -> None:
    s3, ledger = engine.client("s3"), engine.physical("Ledger")
    with pytest.raises(ClientError, match="AccessDenied") as refused:
        s3.put_object(Bucket=ledger, Key="plans/a.json", Body=b"1")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    s3.put_object(Bucket=ledger, Key="plans/a.json", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=ledger, Key="plans/a.json", Body=b"2", IfNoneMatch="*")
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.delete_object(Bucket=ledger, Key="plans/a.json")
    listed = s3.delete_objects(Bucket=ledger, Delete={"Objects": [{"Key": "plans/a.json"}]})
    assert [e["Code"] for e in listed["Errors"]] == ["AccessDenied"]
    assert s3.get_object(Bucket=ledger, Key="plans/a.json")["Body"].read() == b"1"
    unknown = {"Effect": "Deny", "Condition": {"StringEquals": {"aws:PrincipalArn": "x"}}}
    with pytest.raises(EngineError, match="aws:PrincipalArn"):
        bucket_policies.check({"Statement": [unknown]})


def test_patches_are_undone() -> None:
    from moto.awslambda.models import LambdaFunction
    from moto.core.responses import BaseResponse

    before = (BaseResponse.get_current_account, LambdaFunction.invoke)
    patches = Patches()
    shims.install_account(patches, "111122223333")
    assert BaseResponse.get_current_account is not before[0]
    patches.undo()
    assert (BaseResponse.get_current_account, LambdaFunction.invoke) == before
    with pytest.raises(AttributeError, match="moto changed"):
        patches.replace(BaseResponse, "no_such_method", None)
