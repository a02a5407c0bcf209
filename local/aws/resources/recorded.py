"""Types that are kept without effect, some of them readable by the engine afterwards.

IAM is not enforced locally (the template's tests cover it); alarms and dashboards have nothing to measure;
the network does not exist.
"""

from __future__ import annotations

import json
from typing import Any

from local.aws.loader import RECORDED, Created, Loading, record, records

RECORDED.update(
    dict.fromkeys(
        (
            "AWS::IAM::Policy",
            "AWS::IAM::ManagedPolicy",
            "AWS::IAM::RolePolicy",
            "AWS::CloudWatch::Alarm",
            "AWS::CloudWatch::CompositeAlarm",
            "AWS::CloudWatch::Dashboard",
            "AWS::Logs::QueryDefinition",
            "AWS::Logs::MetricFilter",
            "AWS::Logs::ResourcePolicy",
            "AWS::EC2::SecurityGroup",
            "AWS::EC2::SecurityGroupEgress",
            "AWS::EC2::SecurityGroupIngress",
            "AWS::EC2::VPCEndpoint",
            "AWS::ECR::RegistryPolicy",
            "AWS::ECR::RepositoryCreationTemplate",
            "Custom::S3AutoDeleteObjects",
            "Custom::LogRetention",
        ),
        record,
    )
)


@records("AWS::IAM::Role")
def role(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("RoleName") or loading.name(logical_id)
    # Moto's Lambda looks whether the role exists; nothing evaluates its policies.
    made = loading.client("iam").create_role(
        RoleName=name,
        Path=properties.get("Path", "/"),
        AssumeRolePolicyDocument=json.dumps(properties["AssumeRolePolicyDocument"]),
    )["Role"]
    return name, {"Arn": made["Arn"], "RoleId": made["RoleId"]}


@records("AWS::EKS::AccessEntry")
def access_entry(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    principal = properties["PrincipalArn"]
    loading.access_entries[principal] = list(properties.get("KubernetesGroups", []))
    cluster = properties["ClusterName"]
    return f"{principal}|{cluster}", {
        "AccessEntryArn": loading.arn("eks", f"access-entry/{cluster}/{logical_id}")
    }
