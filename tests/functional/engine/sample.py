"""The template of the engine's own tests; its handlers and machines are in sample_parts.py."""

from __future__ import annotations

import json
from typing import Any

from tests.functional.engine.sample_parts import CATCH_MACHINE, HANDLERS, MAIN_MACHINE, TIMED_MACHINE

TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}

_OBJECTS = {"Fn::Join": ["", [{"Fn::GetAtt": ["Ledger", "Arn"]}, "/*"]]}
LEDGER_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "s3:*",
            "Resource": [{"Fn::GetAtt": ["Ledger", "Arn"]}, _OBJECTS],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
        {
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "s3:PutObject",
            "Resource": _OBJECTS,
            "Condition": {
                "Null": {"s3:if-none-match": "true"},
                "Bool": {"s3:ObjectCreationOperation": "true"},
            },
        },
        {
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": ["s3:DeleteObject", "s3:DeleteObjectVersion"],
            "Resource": _OBJECTS,
        },
    ],
}

_ALL = list(HANDLERS)


def _definition(machine: dict[str, Any]) -> dict[str, Any]:
    parts: list[Any] = []
    for index, piece in enumerate(json.dumps(machine).split("@")):
        parts.append({"Fn::GetAtt": [_id(piece), "Arn"]} if index % 2 else piece)
    return {"Fn::Join": ["", parts]}


def _id(name: str) -> str:
    return name.capitalize() + "Function"


def _function(name: str, **more: Any) -> dict[str, Any]:
    properties = {
        "Code": {"S3Bucket": "assets", "S3Key": f"{name}.zip"},
        "Handler": "handler.handler",
        "Runtime": "python3.13",
        "Role": {"Fn::GetAtt": [f"{_id(name)}Role", "Arn"]},
        "Timeout": 5,
        "Layers": [{"Ref": "PackagesLayer"}, {"Ref": "SharedLayer"}],
        "Environment": {
            "Variables": {
                "CLUSTER_CONFIG": "/opt/cluster/cluster.json",
                "BUCKET": {"Ref": "Inbox"},
                "TABLE": {"Ref": "Table"},
                "API": {"Fn::GetAtt": ["Api", "ApiEndpoint"]},
            }
        },
    }
    return {"Type": "AWS::Lambda::Function", "Properties": {**properties, **more}}


def _permission(name: str, principal: str, source: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": {"Fn::GetAtt": [_id(name), "Arn"]},
            "Principal": principal,
            "SourceArn": source,
        },
    }


def _machine(name: str, definition: dict[str, Any]) -> dict[str, Any]:
    return {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "StateMachineName": name,
            "DefinitionString": _definition(definition),
            "RoleArn": {"Fn::GetAtt": ["LookFunctionRole", "Arn"]},
        },
    }


def template() -> dict[str, Any]:
    """Everything at once; small pieces are tested on their own in test_template.py."""
    resources: dict[str, Any] = {
        "CDKMetadata": {"Type": "AWS::CDK::Metadata", "Properties": {}},
        "Inbox": {
            "Type": "AWS::S3::Bucket",
            "Properties": {
                "VersioningConfiguration": {"Status": "Enabled"},
                "NotificationConfiguration": {"EventBridgeConfiguration": {"EventBridgeEnabled": True}},
                "PublicAccessBlockConfiguration": {"BlockPublicAcls": True, "IgnorePublicAcls": True},
            },
        },
        "Ledger": {
            "Type": "AWS::S3::Bucket",
            "Properties": {
                "BucketName": {"Fn::Sub": "ledger-${AWS::AccountId}-${AWS::Region}"},
                "VersioningConfiguration": {"Status": "Enabled"},
                "ObjectLockEnabled": True,
                "ObjectLockConfiguration": {
                    "ObjectLockEnabled": "Enabled",
                    "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}},
                },
            },
        },
        "LedgerPolicy": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {"Bucket": {"Ref": "Ledger"}, "PolicyDocument": LEDGER_POLICY},
        },
        "Table": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "KeySchema": [
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                "AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"},
                    {"AttributeName": "sk", "AttributeType": "S"},
                ],
                "BillingMode": "PAY_PER_REQUEST",
                "TimeToLiveSpecification": {"AttributeName": "expiresAt", "Enabled": True},
            },
        },
        "SigningKey": {
            "Type": "AWS::KMS::Key",
            "Properties": {
                "KeySpec": "ECC_NIST_P256",
                "KeyUsage": "SIGN_VERIFY",
                "KeyPolicy": {"Statement": []},
            },
        },
        "Secret": {
            "Type": "AWS::SecretsManager::Secret",
            "Properties": {"GenerateSecretString": {"PasswordLength": 43, "ExcludePunctuation": True}},
        },
        "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "people"}},
        "TopicMail": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {"TopicArn": {"Ref": "Topic"}, "Protocol": "email", "Endpoint": "a@example.org"},
        },
        "TopicKeep": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {
                "TopicArn": {"Ref": "Topic"},
                "Protocol": "lambda",
                "Endpoint": {"Fn::GetAtt": ["KeepFunction", "Arn"]},
            },
        },
        "TopicMayKeep": _permission("keep", "sns.amazonaws.com", {"Ref": "Topic"}),
        "Dead": {"Type": "AWS::SQS::Queue", "Properties": {}},
        "Failed": {"Type": "AWS::SQS::Queue", "Properties": {}},
        "Heard": {"Type": "AWS::SQS::Queue", "Properties": {}},
        "SharedLayer": {
            "Type": "AWS::Lambda::LayerVersion",
            "Properties": {"Content": {"S3Bucket": "assets", "S3Key": "layer.zip"}},
        },
        "PackagesLayer": {
            "Type": "AWS::Lambda::LayerVersion",
            "Properties": {"Content": {"S3Bucket": "assets", "S3Key": "packages.zip"}},
        },
        "Main": _machine("main", MAIN_MACHINE),
        "MainVersion": {
            "Type": "AWS::StepFunctions::StateMachineVersion",
            "Properties": {"StateMachineArn": {"Ref": "Main"}, "StateMachineRevisionId": "1"},
        },
        "MainAlias": {
            "Type": "AWS::StepFunctions::StateMachineAlias",
            "Properties": {
                "Name": "live",
                "RoutingConfiguration": [{"StateMachineVersionArn": {"Ref": "MainVersion"}, "Weight": 100}],
            },
        },
        "Catching": _machine("catching", CATCH_MACHINE),
        "Timed": _machine("timed", TIMED_MACHINE),
        "KeepConfig": {
            "Type": "AWS::Lambda::EventInvokeConfig",
            "Properties": {
                "FunctionName": {"Ref": "KeepFunction"},
                "Qualifier": "$LATEST",
                "MaximumRetryAttempts": 2,
                "DestinationConfig": {"OnFailure": {"Destination": {"Fn::GetAtt": ["Failed", "Arn"]}}},
            },
        },
        "Submitted": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {
                    "source": ["aws.s3"],
                    "detail-type": ["Object Created"],
                    "detail": {
                        "bucket": {"name": [{"Ref": "Inbox"}]},
                        "object": {
                            "key": [{"wildcard": "rollouts/*/decision.json"}, "runtimes/cluster.yaml"]
                        },
                    },
                },
                "Targets": [
                    {"Id": "Keep", "Arn": {"Fn::GetAtt": ["KeepFunction", "Arn"]}},
                    {
                        "Id": "Heard",
                        "Arn": {"Fn::GetAtt": ["Heard", "Arn"]},
                        "InputTransformer": {
                            "InputPathsMap": {"key": "$.detail.object.key", "size": "$.detail.object.size"},
                            "InputTemplate": '{"text": "got <key>", "size": <size>}',
                        },
                    },
                ],
            },
        },
        "MayKeepSubmitted": _permission("keep", "events.amazonaws.com", {"Fn::GetAtt": ["Submitted", "Arn"]}),
        "Own": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": ["sample"], "detail-type": ["Start"]},
                "Targets": [
                    {
                        "Id": "Start",
                        "Arn": {"Ref": "CatchingOrAlias"},
                        "RoleArn": {"Fn::GetAtt": ["LookFunctionRole", "Arn"]},
                        "Input": '{"kind": "raise"}',
                    },
                    {"Id": "Tell", "Arn": {"Ref": "Topic"}},
                ],
            },
        },
        "Failing": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": ["sample"], "detail-type": ["Fail"]},
                "Targets": [{"Id": "Keep", "Arn": {"Fn::GetAtt": ["KeepFunction", "Arn"]}}],
            },
        },
        "MayKeepFailing": _permission("keep", "events.amazonaws.com", {"Fn::GetAtt": ["Failing", "Arn"]}),
        "Forbidden": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": ["sample"], "detail-type": ["Forbidden"]},
                "Targets": [
                    {
                        "Id": "Look",
                        "Arn": {"Fn::GetAtt": ["LookFunction", "Arn"]},
                        "DeadLetterConfig": {"Arn": {"Fn::GetAtt": ["Dead", "Arn"]}},
                    }
                ],
            },
        },
        "Nowhere": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": ["sample"], "detail-type": ["Nowhere"]},
                "Targets": [
                    {
                        "Id": "None",
                        "Arn": {"Fn::Sub": "${Main}-that-is-not-there"},
                        "RoleArn": {"Fn::GetAtt": ["LookFunctionRole", "Arn"]},
                        "DeadLetterConfig": {"Arn": {"Fn::GetAtt": ["Dead", "Arn"]}},
                    }
                ],
            },
        },
        "Ended": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {
                    "source": ["aws.states"],
                    "detail-type": ["Step Functions Execution Status Change"],
                    "detail": {
                        "status": ["FAILED", "TIMED_OUT", "ABORTED"],
                        "stateMachineArn": [{"Ref": "Main"}],
                    },
                },
                "Targets": [{"Id": "Keep", "Arn": {"Fn::GetAtt": ["KeepFunction", "Arn"]}}],
            },
        },
        "MayKeepEnded": _permission("keep", "events.amazonaws.com", {"Fn::GetAtt": ["Ended", "Arn"]}),
        "Group": {"Type": "AWS::Scheduler::ScheduleGroup", "Properties": {"Name": "sample"}},
        "Often": {
            "Type": "AWS::Scheduler::Schedule",
            "Properties": {
                "Name": "often",
                "GroupName": {"Ref": "Group"},
                "ScheduleExpression": "rate(6 hours)",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {
                    "Arn": {"Fn::GetAtt": ["KeepFunction", "Arn"]},
                    "RoleArn": {"Fn::GetAtt": ["LookFunctionRole", "Arn"]},
                    "Input": '{"from": "schedule", "at": "<aws.scheduler.scheduled-time>"}',
                    "RetryPolicy": {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60},
                },
            },
        },
        "Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "api", "ProtocolType": "HTTP"}},
        "ApiStage": {
            "Type": "AWS::ApiGatewayV2::Stage",
            "Properties": {"ApiId": {"Ref": "Api"}, "StageName": "$default", "AutoDeploy": True},
        },
        "ApiIntegration": {
            "Type": "AWS::ApiGatewayV2::Integration",
            "Properties": {
                "ApiId": {"Ref": "Api"},
                "IntegrationType": "AWS_PROXY",
                "IntegrationUri": {"Fn::GetAtt": ["PageFunction", "Arn"]},
                "PayloadFormatVersion": "2.0",
            },
        },
        "ApiPermission": _permission(
            "page",
            "apigateway.amazonaws.com",
            {"Fn::Sub": "arn:aws:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/*/*"},
        ),
        "Creation": {
            "Type": "AWS::ECR::RepositoryCreationTemplate",
            "Properties": {"Prefix": "aicr", "AppliedFor": ["CREATE_ON_PUSH"]},
        },
        "Entry": {
            "Type": "AWS::EKS::AccessEntry",
            "Properties": {
                "ClusterName": "demo",
                "PrincipalArn": {"Fn::GetAtt": ["LookFunctionRole", "Arn"]},
                "KubernetesGroups": ["aicr-pipeline:look"],
            },
        },
        "Logs": {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {"LogGroupName": "/sample", "RetentionInDays": 30},
        },
        "Alarm": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"MetricName": "m"}},
    }
    resources["Own"]["Properties"]["Targets"][0]["Arn"] = {"Ref": "Catching"}
    for key, method in {"Get": "GET", "Head": "HEAD", "Post": "POST"}.items():
        resources[f"Route{key}"] = _route(f"{method} /approvals/{{rollout}}/{{approver}}")
    resources["RouteRest"] = _route("ANY /files/{rest+}")
    resources["RouteSigned"] = _route("POST /signed", AuthorizationType="AWS_IAM")
    for name in _ALL:
        more = {"Timeout": 1} if name == "act" else {}
        resources[_id(name)] = _function(name, **more)
        resources[f"{_id(name)}Role"] = {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": TRUST, "RoleName": f"sample-{name}"},
        }
    return {
        "Resources": resources,
        "Outputs": {
            "ApiUrl": {"Value": {"Fn::GetAtt": ["Api", "ApiEndpoint"]}},
            "BuiltUrl": {
                "Value": {
                    "Fn::Join": [
                        "",
                        [
                            "https://",
                            {"Ref": "Api"},
                            ".execute-api.",
                            {"Ref": "AWS::Region"},
                            ".",
                            {"Ref": "AWS::URLSuffix"},
                            "/",
                        ],
                    ]
                }
            },
            "LedgerName": {"Value": {"Ref": "Ledger"}},
        },
    }


def _route(key: str, **more: Any) -> dict[str, Any]:
    properties = {
        "ApiId": {"Ref": "Api"},
        "RouteKey": key,
        "Target": {"Fn::Join": ["/", ["integrations", {"Ref": "ApiIntegration"}]]},
    }
    return {"Type": "AWS::ApiGatewayV2::Route", "Properties": {**properties, **more}}
