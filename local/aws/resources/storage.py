"""S3, DynamoDB, KMS, Secrets Manager, log groups."""

from __future__ import annotations

import json
from typing import Any

from local.aws import bucket_policies
from local.aws.loader import Created, Loading, creates

_AWS_OWNED = "us-east-1"


@creates("AWS::S3::Bucket")
def bucket(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("BucketName") or loading.name(logical_id, 63).lower()
    s3 = loading.client("s3")
    arguments: dict[str, Any] = {"Bucket": name}
    if loading.stack.region != _AWS_OWNED:
        arguments["CreateBucketConfiguration"] = {"LocationConstraint": loading.stack.region}
    if properties.get("ObjectLockEnabled"):
        arguments["ObjectLockEnabledForBucket"] = True
    s3.create_bucket(**arguments)
    if "VersioningConfiguration" in properties:
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=properties["VersioningConfiguration"])
    lock = properties.get("ObjectLockConfiguration")
    if lock:
        retention = lock.get("Rule", {}).get("DefaultRetention", {})
        numbers = {k: int(v) if k in ("Days", "Years") else v for k, v in retention.items()}
        configuration: dict[str, Any] = {"ObjectLockEnabled": "Enabled"}
        if numbers:
            configuration["Rule"] = {"DefaultRetention": numbers}
        s3.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=configuration)
    block = properties.get("PublicAccessBlockConfiguration")
    if block:
        s3.put_public_access_block(
            Bucket=name, PublicAccessBlockConfiguration={k: _bool(v) for k, v in block.items()}
        )
    notification = properties.get("NotificationConfiguration", {})
    bridge = notification.get("EventBridgeConfiguration")
    if bridge is not None and _bool(bridge.get("EventBridgeEnabled", True)):
        _to_event_bridge(loading, name)
    if "LifecycleConfiguration" in properties:
        loading.report.recorded[f"{logical_id}.LifecycleConfiguration"] = "AWS::S3::Bucket property"
    region = loading.stack.region
    return name, {
        "Arn": f"arn:aws:s3:::{name}",
        "DomainName": f"{name}.s3.amazonaws.com",
        "RegionalDomainName": f"{name}.s3.{region}.amazonaws.com",
        "WebsiteURL": f"http://{name}.s3-website.{region}.amazonaws.com",
    }


def _to_event_bridge(loading: Loading, name: str) -> None:
    loading.client("s3").put_bucket_notification_configuration(
        Bucket=name, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )


def _bool(value: Any) -> bool:
    return value in (True, "true", "True")


@creates("Custom::S3BucketNotifications")
def notifications(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    # CDK's own custom resource; all that this project may use of it is EventBridge.
    if "EventBridgeConfiguration" in properties.get("NotificationConfiguration", {}):
        _to_event_bridge(loading, properties["BucketName"])
    return loading.name(logical_id), {}


@creates("AWS::S3::BucketPolicy")
def bucket_policy(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties["Bucket"]
    bucket_policies.check(properties["PolicyDocument"])
    loading.client("s3").put_bucket_policy(Bucket=name, Policy=json.dumps(properties["PolicyDocument"]))
    return name, {}


@creates("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")
def table(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("TableName") or loading.name(logical_id, 255)
    dynamodb = loading.client("dynamodb")
    arguments: dict[str, Any] = {
        "TableName": name,
        "AttributeDefinitions": properties["AttributeDefinitions"],
        "KeySchema": properties["KeySchema"],
        "BillingMode": "PAY_PER_REQUEST",
    }
    for key in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        if properties.get(key):
            kept = ("IndexName", "KeySchema", "Projection")
            arguments[key] = [{k: v for k, v in i.items() if k in kept} for i in properties[key]]
    description = dynamodb.create_table(**arguments)["TableDescription"]
    ttl = properties.get("TimeToLiveSpecification")
    if ttl and _bool(ttl.get("Enabled", True)):
        dynamodb.update_time_to_live(
            TableName=name,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": ttl["AttributeName"]},
        )
    attributes = {
        "Arn": description["TableArn"],
        "TableId": description.get("TableId", name),
        "StreamArn": f"{description['TableArn']}/stream/local",
    }
    return name, attributes


@creates("AWS::KMS::Key")
def key(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    arguments: dict[str, Any] = {
        "KeySpec": properties.get("KeySpec", "SYMMETRIC_DEFAULT"),
        "KeyUsage": properties.get("KeyUsage", "ENCRYPT_DECRYPT"),
        "Description": properties.get("Description", ""),
        "MultiRegion": _bool(properties.get("MultiRegion", False)),
        "Tags": [{"TagKey": t["Key"], "TagValue": t["Value"]} for t in properties.get("Tags", [])],
    }
    if properties.get("KeyPolicy"):
        arguments["Policy"] = json.dumps(properties["KeyPolicy"])
    made = loading.client("kms").create_key(**arguments)["KeyMetadata"]
    return made["KeyId"], {"Arn": made["Arn"], "KeyId": made["KeyId"]}


@creates("AWS::KMS::Alias")
def key_alias(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    target = properties["TargetKeyId"].rpartition("/")[2]
    loading.client("kms").create_alias(AliasName=properties["AliasName"], TargetKeyId=target)
    return properties["AliasName"], {}


@creates("AWS::SecretsManager::Secret")
def secret(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    manager = loading.client("secretsmanager")
    name = properties.get("Name") or loading.name(logical_id, 200)
    value = properties.get("SecretString")
    generate = properties.get("GenerateSecretString")
    if generate is not None:
        numbers = {"PasswordLength"}
        options = {
            k: int(v) if k in numbers else _bool(v) if isinstance(v, bool) else v
            for k, v in generate.items()
            if k not in ("SecretStringTemplate", "GenerateStringKey")
        }
        value = manager.get_random_password(**options)["RandomPassword"]
        if "SecretStringTemplate" in generate:
            document = json.loads(generate["SecretStringTemplate"])
            value = json.dumps({**document, generate["GenerateStringKey"]: value})
    arguments: dict[str, Any] = {"Name": name, "Description": properties.get("Description", "")}
    if value is not None:
        arguments["SecretString"] = value
    arn = manager.create_secret(**arguments)["ARN"]
    return arn, {"Id": arn}


@creates("AWS::Logs::LogGroup")
def log_group(loading: Loading, logical_id: str, properties: dict[str, Any]) -> Created:
    name = properties.get("LogGroupName") or loading.name(logical_id, 512)
    logs = loading.client("logs")
    logs.create_log_group(logGroupName=name)
    if properties.get("RetentionInDays"):
        logs.put_retention_policy(logGroupName=name, retentionInDays=int(properties["RetentionInDays"]))
    return name, {"Arn": loading.arn("logs", f"log-group:{name}:*")}
