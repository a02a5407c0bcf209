"""What runs by the clock (EventBridge Scheduler)."""

import hashlib

from aicr_pipeline.model.config import ClusterConfig
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.findings import Right, give


class Schedules(Construct):
    """The sweep, a resolve where one is wanted, the refresh of Argo CD's token. A rate starts at once."""

    def __init__(self, scope: Construct, id: str, *, cluster: str, sweep: lambda_.Function) -> None:
        super().__init__(scope, id)
        self._group = scheduler.CfnScheduleGroup(self, "Group", name=f"aicr-pipeline-{cluster}")
        self.role = iam.Role(
            self,
            "Role",
            # Only schedules of this group, of this account: otherwise anybody's schedule could use the role.
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={
                    "StringEquals": {
                        "aws:SourceAccount": Stack.of(self).account,
                        "aws:SourceArn": self._group.attr_arn,
                    }
                },
            ),
        )
        give(self.role, (Right(("lambda:InvokeFunction",), (sweep.function_arn,)),))
        scheduler.CfnSchedule(
            self,
            "Sweep",
            description="Looks at what is waited for",
            group_name=self._group.ref,
            schedule_expression="rate(1 minute)",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=sweep.function_arn,
                role_arn=self.role.role_arn,
                input='{"source":"schedule"}',
                # A late sweep is worth nothing: the next minute's sees the same world.
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=0, maximum_event_age_in_seconds=60
                ),
            ),
        )

    def resolve(self, function: lambda_.Function, dead_letters: sqs.IQueue, expression: str) -> None:
        """Resolve the current runtime again. The slot names the run: delivered twice, it starts one."""
        give(self.role, (Right(("lambda:InvokeFunction",), (function.function_arn,)),))
        dead_letters.grant_send_messages(self.role)
        scheduler.CfnSchedule(
            self,
            "Resolve",
            name="resolve",
            description="Resolves the runtime again",
            group_name=self._group.ref,
            schedule_expression=expression,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=function.function_arn,
                role_arn=self.role.role_arn,
                input='{"source":"schedule","at":"<aws.scheduler.scheduled-time>"}',
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=10, maximum_event_age_in_seconds=3600
                ),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(arn=dead_letters.queue_arn),
            ),
        )

    def remind(self, function: lambda_.Function) -> None:
        """Remind approvers, and look whether messages reach them. By cron: a rate would begin at once."""
        give(self.role, (Right(("lambda:InvokeFunction",), (function.function_arn,)),))
        scheduler.CfnSchedule(
            self,
            "Remind",
            description="Reminds approvers",
            group_name=self._group.ref,
            schedule_expression="cron(3/5 * * * ? *)",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=function.function_arn,
                role_arn=self.role.role_arn,
                input='{"source":"schedule"}',
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=0, maximum_event_age_in_seconds=300
                ),
            ),
        )

    def refresh(self, function: lambda_.Function, dead_letters: sqs.IQueue, config: ClusterConfig) -> None:
        """Renew every six hours a token that lives twelve, and look at it every hour.

        Scheduler only hands an event over: a refresh that fails is tried again by Lambda after one and after
        two more minutes, and then by each look, since it renews what is half gone.
        """
        give(self.role, (Right(("lambda:InvokeFunction",), (function.function_arn,)),))
        dead_letters.grant_send_messages(self.role)
        # A rate begins when its schedule is made. Another name makes another schedule, so each deployment
        # that changes the configuration writes what the Secrets are to hold now.
        settings = hashlib.sha256(config.model_dump_json(by_alias=True).encode()).hexdigest()[:12]
        for id, description, expression, source in (
            ("Refresh", "Renews Argo CD's registry token", "rate(6 hours)", "schedule"),
            ("Look", "Tries Argo CD's registry token", "cron(17 * * * ? *)", "look"),
        ):
            scheduler.CfnSchedule(
                self,
                id,
                name=f"{id.lower()}-{settings}",
                description=description,
                group_name=self._group.ref,
                schedule_expression=expression,
                flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
                target=scheduler.CfnSchedule.TargetProperty(
                    arn=function.function_arn,
                    role_arn=self.role.role_arn,
                    input=f'{{"source":"{source}"}}',
                    retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                        maximum_retry_attempts=10, maximum_event_age_in_seconds=3 * 3600
                    ),
                    dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                        arn=dead_letters.queue_arn
                    ),
                ),
            )
