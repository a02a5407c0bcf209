"""Intrinsic functions, order, and what the loader refuses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from local.aws import EngineError, LocalAws, Resource
from local.aws.template import Stack, Values, creation_order, read_stack
from tests.functional.engine.conftest import STACK, write_cdk_out


def values(template: dict[str, Any]) -> Values:
    made = Values(Stack("Some", template, "111122223333", "eu-west-1", {}))
    made.resources["A"] = Resource("A", "T", "Some/A", {}, "a-ref", {"Arn": "a-arn", "Deep.Er": 7})
    return made


CONDITIONED = {
    "Parameters": {"Stage": {"Type": "String", "Default": "prod"}},
    "Mappings": {"M": {"eu-west-1": {"x": "mapped"}}},
    "Conditions": {
        "IsProd": {"Fn::Equals": [{"Ref": "Stage"}, "prod"]},
        "NotProd": {"Fn::Not": [{"Condition": "IsProd"}]},
        "Both": {"Fn::And": [{"Condition": "IsProd"}, {"Fn::Or": [{"Condition": "NotProd"}, True]}]},
    },
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"Ref": "A"}, "a-ref"),
        ({"Ref": "Stage"}, "prod"),
        ({"Ref": "AWS::Region"}, "eu-west-1"),
        ({"Fn::GetAtt": ["A", "Arn"]}, "a-arn"),
        ({"Fn::GetAtt": "A.Deep.Er"}, 7),
        ({"Fn::Join": ["-", ["x", {"Ref": "A"}]]}, "x-a-ref"),
        ({"Fn::Sub": "${AWS::AccountId}/${A}/${A.Arn}/${!Kept}"}, "111122223333/a-ref/a-arn/${Kept}"),
        ({"Fn::Sub": ["${v}-${A}", {"v": {"Ref": "Stage"}}]}, "prod-a-ref"),
        ({"Fn::Select": ["1", {"Fn::Split": ["/", "a/b/c"]}]}, "b"),
        ({"Fn::If": ["IsProd", "yes", {"Ref": "Nowhere"}]}, "yes"),
        ({"Fn::If": ["Both", "yes", "no"]}, "yes"),
        ({"Fn::FindInMap": ["M", {"Ref": "AWS::Region"}, "x"]}, "mapped"),
        (
            {"a": {"Fn::If": ["NotProd", 1, {"Ref": "AWS::NoValue"}]}, "b": [{"Ref": "AWS::NoValue"}, 2]},
            {"b": [2]},
        ),
        ({"Fn::Base64": "x"}, "eA=="),
        ({"Ref": "x", "Other": 1}, {"Ref": "x", "Other": 1}),
    ],
)
def test_resolve(given: Any, expected: Any) -> None:
    assert values(CONDITIONED).resolve(given) == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"Ref": "Nowhere"}, "'Nowhere'"),
        ({"Fn::GetAtt": ["A", "Nothing"]}, "no attribute 'Nothing'"),
        ({"Fn::ImportValue": "x"}, "Fn::ImportValue is not supported"),
        ({"Fn::If": ["Unknown", 1, 2]}, "no condition 'Unknown'"),
    ],
)
def test_resolve_refuses(given: Any, says: str) -> None:
    with pytest.raises(EngineError, match=says):
        values(CONDITIONED).resolve(given)


def test_order_and_circles() -> None:
    resources: dict[str, Any] = {
        "C": {"Type": "T", "Properties": {"x": {"Fn::Sub": "${B.Arn}"}}},
        "B": {"Type": "T", "DependsOn": ["A"]},
        "A": {"Type": "T"},
        "D": {"Type": "T", "Properties": {"y": [{"Fn::GetAtt": ["C", "Arn"]}, {"Ref": "AWS::Region"}]}},
    }
    assert creation_order({"Resources": resources}) == ["A", "B", "C", "D"]
    resources["A"]["Properties"] = {"z": {"Ref": "D"}}
    with pytest.raises(EngineError, match="circle"):
        creation_order({"Resources": resources})


def test_unknown_stack_and_folder(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="synthesize"):
        read_stack(tmp_path, STACK)
    write_cdk_out(tmp_path / "out", {"Resources": {}}, {})
    with pytest.raises(EngineError, match="no stack 'Other'"):
        read_stack(tmp_path / "out", "Other")
    found = read_stack(tmp_path / "out", STACK)
    assert (found.account, found.region) == ("111122223333", "us-west-2")


def load(folder: Path, resources: dict[str, Any], **more: Any) -> LocalAws:
    cdk_out = write_cdk_out(folder / "out", {"Resources": resources}, {"f": "def handler(e, c): return 1\n"})
    return LocalAws(cdk_out, STACK, workdir=folder / "work", preload=(), **more)


def test_unknown_types_are_refused_or_reported(tmp_path: Path) -> None:
    resources = {"Odd": {"Type": "AWS::Odd::Thing"}, "Topic": {"Type": "AWS::SNS::Topic"}}
    with pytest.raises(EngineError, match=r"AWS::Odd::Thing \(Odd\)"):
        load(tmp_path / "a", resources).start()
    with load(tmp_path / "b", resources, allow_unknown=("AWS::Odd::Thing",)) as engine:
        assert engine.report.unknown == {"Odd": "AWS::Odd::Thing"}
        assert engine.report.loaded == {"Topic": "AWS::SNS::Topic"}


def test_a_failed_start_leaves_nothing_behind(tmp_path: Path) -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": []}}}
    function = {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"S3Bucket": "b", "S3Key": "f.zip"},
            "Handler": "handler.handler",
            "Runtime": "python3.13",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Environment": {"Variables": {"CLUSTER_CONFIG": "/opt/cluster/cluster.json"}},
        },
    }
    broken = load(tmp_path / "a", {"Role": role, "F": function})
    with pytest.raises(EngineError, match=r"CLUSTER_CONFIG of F is /opt/cluster/cluster.json"):
        broken.start()
    bad_policy = {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {"PolicyDocument": {}, "Queues": ["nowhere"]},
    }
    with pytest.raises(EngineError, match="QueuePolicy P could not be created"):
        load(tmp_path / "b", {"P": bad_policy}).start()
    with load(tmp_path / "c", {"Topic": {"Type": "AWS::SNS::Topic"}}) as engine:
        with pytest.raises(EngineError, match="Another local engine runs"):
            load(tmp_path / "d", {}).start()
        assert engine.physical("Topic").startswith("arn:aws:sns:")


def test_settings_of_this_machine_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with load(tmp_path, {"Topic": {"Type": "AWS::SNS::Topic"}}) as engine:
        assert engine.client("sns").list_topics()["Topics"]
    assert os.environ["AWS_PROFILE"] == "no-such-profile"
    assert "MOTO_PORT" not in os.environ


def test_report_outputs_and_settings(engine: LocalAws) -> None:
    report = engine.report
    assert report.ignored == {"CDKMetadata": "AWS::CDK::Metadata"}
    assert report.recorded["Alarm"] == "AWS::CloudWatch::Alarm"
    assert report.recorded["Creation"] == "AWS::ECR::RepositoryCreationTemplate"
    assert not report.unknown
    assert report.skipped_layers == ["PackagesLayer"]
    assert engine.outputs["LedgerName"] == "ledger-111122223333-us-west-2"
    role = "arn:aws:iam::111122223333:role/sample-look"
    assert engine.access_entries == {role: ["aicr-pipeline:look"]}
    s3 = engine.client("s3")
    ledger = engine.physical("Ledger")
    assert s3.get_bucket_versioning(Bucket=ledger)["Status"] == "Enabled"
    lock = s3.get_object_lock_configuration(Bucket=ledger)["ObjectLockConfiguration"]
    assert lock["Rule"]["DefaultRetention"].items() >= {"Mode": "GOVERNANCE", "Days": 1}.items()
    secret = engine.client("secretsmanager").get_secret_value(SecretId=engine.physical("Secret"))[
        "SecretString"
    ]
    assert len(secret) == 43
    assert secret.isalnum()
    ttl = engine.client("dynamodb").describe_time_to_live(TableName=engine.physical("Table"))
    assert ttl["TimeToLiveDescription"]["AttributeName"] == "expiresAt"
