"""What somebody should look at. All go to one topic, which operators subscribe to."""

import math
from collections.abc import Mapping

from aicr_pipeline.decide.credentials import REFUSED, SECONDS_LEFT, TROUBLES
from aicr_pipeline.model.approvers import Approvals
from aicr_pipeline.model.fields import seconds
from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct


class Alarms(Construct):
    """Alarms on what AWS measures of itself, so that they work even when the program does not.

    What only the program can know (``own``, ``refresh``) is beside that; where silence is dangerous a missing
    measurement raises the alarm.
    """

    def __init__(self, scope: Construct, id: str, *, topic: sns.ITopic) -> None:
        super().__init__(scope, id)
        self._action = actions.SnsAction(topic)

    def queue(self, queue: sqs.Queue) -> None:
        """An event could not be handled, or a message to somebody was not taken."""
        self._alarm(
            "DeadLetters",
            "An event could not be handled, or a message not delivered; it waits in the dead-letter queue",
            queue.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(5), statistic="Maximum"
            ),
        )

    def functions(self, functions: Mapping[str, lambda_.Function]) -> None:
        """Any error of a function: the domain's ends are results, so an error is always the machinery's."""
        for name, function in functions.items():
            self._alarm(
                f"Errors-{name}", f"{name} failed", function.metric_errors(period=Duration.minutes(5))
            )

    def machine(self, name: str, arn: str) -> None:
        """An execution timed out or was stopped; failed ones include what the domain decided."""
        for metric, meaning in (
            ("ExecutionsFailed", "ended as Failed: read its reason, a decision of a person is one of them"),
            ("ExecutionsTimedOut", "ran into a backstop: a waiter was not answered"),
            ("ExecutionsAborted", "was stopped by hand"),
        ):
            self._alarm(
                f"{name}-{metric}",
                f"A {name} execution {meaning}",
                cloudwatch.Metric(
                    namespace="AWS/States",
                    metric_name=metric,
                    dimensions_map={"StateMachineArn": arn},
                    period=Duration.minutes(5),
                    statistic="Sum",
                ),
            )

    def mails(self, topics: Mapping[str, sns.Topic]) -> None:
        """A message to an approver was not delivered; SNS says so nowhere else."""
        for name, topic in topics.items():
            self._alarm(
                f"Undelivered-{name}",
                f"A message to {name} could not be delivered",
                topic.metric_number_of_notifications_failed(period=Duration.minutes(5)),
            )

    def sweep(self, function: lambda_.Function) -> None:
        """Nothing that waits moves on while the sweep does not run."""
        self._stopped("SweepStopped", "The sweep has not run for 15 minutes", function, Duration.minutes(15))

    def refresh(self, function: lambda_.Function, namespace: str) -> None:
        """Argo CD's token lives 12 hours, is renewed every 6 and looked at every hour."""
        name = "refresh_credentials"
        self._stopped(
            "CredentialsUnwatched",
            "Argo CD's registry token was neither renewed nor looked at for 3 hours",
            function,
            Duration.hours(3),
        )
        # Half of the life is left at least as long as renewing works: less than 5 hours is a renewal that
        # failed, twice at that. Nothing measured for three hours is as bad.
        left = _own(namespace, name, SECONDS_LEFT, statistic="Minimum", period=Duration.hours(3))
        self._low(
            "CredentialsOld",
            "Argo CD's registry token has less than 5 hours left, or nobody knows",
            left,
            5 * 3600,
        )
        self._alarm(
            "CredentialsTroubles",
            "Argo CD's registry token could not be minted, written or tried",
            _own(namespace, name, TROUBLES),
        )
        self._alarm(
            "CredentialsRefused",
            "The registry refused what Argo CD's Secret held: another's token, or rights that were lost",
            _own(namespace, name, REFUSED),
        )

    def status(self, namespace: str, function: lambda_.Function) -> None:
        """The runtime is not ready for a reason that somebody has to look at, or nobody looks."""
        self._alarm(
            "NotReady",
            "The runtime was not ready at two looks; python -m aicr_pipeline.status says why",
            _own(
                namespace, "update_status", "RuntimeUnwell", statistic="Minimum", period=Duration.minutes(10)
            ),
        )
        self._stopped(
            "StatusUnwatched", "The status was not looked at for 30 minutes", function, Duration.minutes(30)
        )

    def own(self, namespace: str) -> None:
        """What the program itself counts, and no error of a function shows."""
        self._alarm(
            "WaitersNotSettled",
            "Something that is waited for could not be looked at, again and again",
            _own(namespace, "sweep_waiters", "WaiterNotSettled"),
            threshold=10,
        )
        self._alarm(
            "ApprovalPagesFailed",
            "An approval page could not be shown",
            _own(namespace, "serve_approvals", "ApprovalPagesFailed"),
        )

    def approvals(self, namespace: str, approvals: Approvals) -> None:
        """Nobody answers, or nobody can: who is asked must hear of it."""
        deadline = seconds(approvals.deadline)
        self._alarm(
            "ApprovalUnanswered",
            "A rollout has waited for people for three quarters of its time",
            _own(namespace, "sweep_waiters", "OldestApprovalSeconds", statistic="Maximum"),
            threshold=math.ceil(deadline * 3 / 4),
        )
        # Each wait ends at its deadline; a Job's has one of its own, of two hours and five minutes at most.
        self._alarm(
            "WaiterTooOld",
            "Something has been waited for longer than any wait may last",
            _own(namespace, "sweep_waiters", "OldestWaiterSeconds", statistic="Maximum"),
            threshold=math.ceil(max(deadline, 7800)) + 900,
        )
        for function in ("request_approval", "hold_step", "remind_approvers"):
            self._alarm(
                f"MessagesFailed-{function}",
                "A message to an approver or a channel was not taken; the rollout's messages/ say which",
                _own(namespace, function, "MessagesFailed"),
            )
        for approver in approvals.approvers:
            self._alarm(
                f"Unreachable-{approver.name}",
                f"{approver.name} has no confirmed subscription, so no message arrives",
                _own(
                    namespace,
                    "remind_approvers",
                    "ApproverUnreachable",
                    statistic="Maximum",
                    period=Duration.minutes(15),
                    approver=approver.name,
                ),
            )

    def _stopped(self, id: str, description: str, function: lambda_.Function, period: Duration) -> None:
        runs = cloudwatch.MathExpression(
            expression="FILL(invocations, 0) - FILL(errors, 0)",
            using_metrics={
                "invocations": function.metric_invocations(period=period),
                "errors": function.metric_errors(period=period),
            },
            label="successful runs",
            period=period,
        )
        self._low(id, description, runs, 1)

    def _low(self, id: str, description: str, metric: cloudwatch.IMetric, threshold: int) -> None:
        """Below the threshold, or nothing measured at all."""
        alarm = cloudwatch.Alarm(
            self,
            id,
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        )
        alarm.add_alarm_action(self._action)

    def _alarm(self, id: str, description: str, metric: cloudwatch.IMetric, threshold: int = 1) -> None:
        alarm = cloudwatch.Alarm(
            self,
            id,
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(self._action)


def _own(
    namespace: str,
    function: str,
    name: str,
    statistic: str = "Sum",
    period: Duration = Duration.minutes(5),  # noqa: B008 - immutable
    **dimensions: str,
) -> cloudwatch.Metric:
    """A metric as Powertools writes it: the function is the dimension ``service``."""
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map={"service": function, **dimensions},
        period=period,
        statistic=statistic,
    )
