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
        self._may_invoke(sweep)
        self._schedule(
            "Sweep",
            sweep,
            description="Looks at what is waited for",
            expression="rate(1 minute)",
            # A late sweep is worth nothing: the next minute's sees the same world.
            retries=0,
            most_seconds=60,
        )

    def resolve(self, function: lambda_.Function, dead_letters: sqs.IQueue, expression: str) -> None:
        """Resolve the current runtime again. The slot names the run: delivered twice, it starts one."""
        self._may_invoke(function)
        dead_letters.grant_send_messages(self.role)
        self._schedule(
            "Resolve",
            function,
            name="resolve",
            description="Resolves the runtime again",
            expression=expression,
            input='{"source":"schedule","at":"<aws.scheduler.scheduled-time>"}',
            retries=10,
            most_seconds=3600,
            dead_letters=dead_letters,
        )

    def remind(self, function: lambda_.Function) -> None:
        """Remind approvers, and look whether messages reach them. By cron: a rate would begin at once."""
        self._may_invoke(function)
        self._schedule(
            "Remind",
            function,
            description="Reminds approvers",
            expression="cron(3/5 * * * ? *)",
            retries=0,
            most_seconds=300,
        )

    def status(self, function: lambda_.Function) -> None:
        """Look at the runtime's status. By cron, away from the reminder's minute."""
        self._may_invoke(function)
        self._schedule(
            "Status",
            function,
            description="Looks at the runtime's status",
            expression="cron(1/5 * * * ? *)",
            # The next one sees the same world.
            retries=0,
            most_seconds=300,
        )

    def refresh(self, function: lambda_.Function, dead_letters: sqs.IQueue, config: ClusterConfig) -> None:
        """Renew every six hours a token that lives twelve, and look at it every hour.

        Scheduler only hands an event over: a refresh that fails is tried again by Lambda after one and after
        two more minutes, and then by each look, since it renews what is half gone.
        """
        self._may_invoke(function)
        dead_letters.grant_send_messages(self.role)
        # A rate begins when its schedule is made. Another name makes another schedule, so each deployment
        # that changes the configuration writes what the Secrets are to hold now.
        settings = hashlib.sha256(config.model_dump_json(by_alias=True).encode()).hexdigest()[:12]
        for id, description, expression, source in (
            ("Refresh", "Renews Argo CD's registry token", "rate(6 hours)", "schedule"),
            ("Look", "Tries Argo CD's registry token", "cron(17 * * * ? *)", "look"),
        ):
            self._schedule(
                id,
                function,
                name=f"{id.lower()}-{settings}",
                description=description,
                expression=expression,
                input=f'{{"source":"{source}"}}',
                retries=10,
                most_seconds=3 * 3600,
                dead_letters=dead_letters,
            )

    def _may_invoke(self, function: lambda_.Function) -> None:
        give(self.role, (Right(("lambda:InvokeFunction",), (function.function_arn,)),))

    def _schedule(
        self,
        id: str,
        function: lambda_.Function,
        *,
        description: str,
        expression: str,
        retries: int,
        most_seconds: int,
        input: str = '{"source":"schedule"}',
        name: str | None = None,
        dead_letters: sqs.IQueue | None = None,
    ) -> None:
        """A schedule of the group. What is not handed over in time becomes a dead letter, or is dropped."""
        scheduler.CfnSchedule(
            self,
            id,
            name=name,
            description=description,
            group_name=self._group.ref,
            schedule_expression=expression,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=function.function_arn,
                role_arn=self.role.role_arn,
                input=input,
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=retries, maximum_event_age_in_seconds=most_seconds
                ),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(arn=dead_letters.queue_arn)
                if dead_letters
                else None,
            ),
        )
