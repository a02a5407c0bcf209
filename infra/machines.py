"""The two state machines, their published versions and the alias that starts go through."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aws_cdk import CfnDeletionPolicy, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.findings import Right, give
from infra.names import machine_name

ALIAS = "live"


class StateMachine(Construct):
    """One machine. An execution keeps the version it started with; versions outlive the stack's updates.

    ``define`` makes the definition from ARNs and a version; ``version_of`` names definition and code.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: str,
        name: str,
        functions: Mapping[str, lambda_.Function],
        callees: Sequence[str],
        define: Callable[[Mapping[str, str], str], dict[str, Any]],
        version_of: Callable[[str], str],
        log_retention: logs.RetentionDays,
    ) -> None:
        super().__init__(scope, id)
        stack = Stack.of(self)
        arns = {callee: functions[callee].function_arn for callee in callees}
        # The version stands in the definition, so that new code makes a new revision, and with it a version.
        # Hashed with plain names for ARNs: CDK's tokens are numbered anew in each synthesis.
        version = version_of(json.dumps(define({callee: callee for callee in callees}, "")))
        log_group = logs.LogGroup(
            self,
            "Logs",
            # This prefix keeps the log group out of the account's size-limited resource policy.
            log_group_name=f"/aws/vendedlogs/states/{machine_name(cluster, name)}",
            retention=log_retention,
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        give(role, _rights(tuple(arns.values())))
        machine = sfn.CfnStateMachine(
            self,
            "Machine",
            state_machine_name=machine_name(cluster, name),
            state_machine_type="STANDARD",
            role_arn=role.role_arn,
            definition_string=stack.to_json_string(define(arns, version)),
            logging_configuration=sfn.CfnStateMachine.LoggingConfigurationProperty(
                level="ALL",
                # Execution data holds task tokens.
                include_execution_data=False,
                destinations=[
                    sfn.CfnStateMachine.LogDestinationProperty(
                        cloud_watch_logs_log_group=sfn.CfnStateMachine.CloudWatchLogsLogGroupProperty(
                            log_group_arn=log_group.log_group_arn
                        )
                    )
                ],
            ),
            tracing_configuration=sfn.CfnStateMachine.TracingConfigurationProperty(enabled=True),
        )
        machine.node.add_dependency(role)
        published = sfn.CfnStateMachineVersion(
            self, f"Version{version}", state_machine_arn=machine.ref, description=f"Version {version}"
        )
        published.cfn_options.deletion_policy = CfnDeletionPolicy.RETAIN
        published.cfn_options.update_replace_policy = CfnDeletionPolicy.RETAIN
        self.alias = sfn.CfnStateMachineAlias(
            self,
            "Alias",
            name=ALIAS,
            description="What new executions start with",
            routing_configuration=[
                sfn.CfnStateMachineAlias.RoutingConfigurationVersionProperty(
                    state_machine_version_arn=published.attr_arn, weight=100
                )
            ],
        )
        self.version = version
        self.arn = machine.ref


def _rights(callees: tuple[str, ...]) -> tuple[Right, ...]:
    return (
        Right(("lambda:InvokeFunction",), callees),
        Right(
            (
                "logs:CreateLogDelivery",
                "logs:GetLogDelivery",
                "logs:UpdateLogDelivery",
                "logs:DeleteLogDelivery",
                "logs:ListLogDeliveries",
                "logs:PutResourcePolicy",
                "logs:DescribeResourcePolicies",
                "logs:DescribeLogGroups",
                "xray:PutTraceSegments",
                "xray:PutTelemetryRecords",
                "xray:GetSamplingRules",
                "xray:GetSamplingTargets",
            ),
            ("*",),
            "Log delivery and X-Ray actions have no resource; AWS documents them so for state machines.",
        ),
    )
