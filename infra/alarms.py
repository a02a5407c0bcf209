"""What somebody should look at. All go to one topic, which operators subscribe to."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct


class Alarms(Construct):
    """Alarms on what AWS measures of itself, so that they work even when the program does not."""

    def __init__(self, scope: Construct, id: str, *, topic: sns.ITopic) -> None:
        super().__init__(scope, id)
        self._action = actions.SnsAction(topic)

    def queue(self, queue: sqs.Queue) -> None:
        """An event could not be handled."""
        self._alarm(
            "DeadLetters",
            "An event could not be handled; it waits in the dead-letter queue",
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

    def refresh(self, function: lambda_.Function) -> None:
        """A token lives 12 hours and is renewed every 6: none for 7 hours leaves less than 5."""
        self._stopped(
            "CredentialsOld",
            "Argo CD's registry token was not renewed for 7 hours",
            function,
            Duration.hours(7),
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
        alarm = cloudwatch.Alarm(
            self,
            id,
            alarm_description=description,
            metric=runs,
            threshold=1,
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


def _own(namespace: str, function: str, name: str) -> cloudwatch.Metric:
    """A metric as Powertools writes it: the function is the dimension ``service``."""
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map={"service": function},
        period=Duration.minutes(5),
        statistic="Sum",
    )
