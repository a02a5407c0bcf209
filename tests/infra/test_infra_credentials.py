"""Argo CD's registry token in the template: when it is renewed and looked at, and which alarms watch it."""

from typing import Any

from aicr_pipeline.actions.want_credentials import PATIENCE
from aicr_pipeline.decide.credentials import REFUSED, SECONDS_LEFT, TROUBLES
from aicr_pipeline.model.config import ClusterConfig

from infra.asl import RETRY
from tests.infra.templates import Stack
from tests.unit.samples import config


def alarms(stack: Stack) -> dict[str, dict[str, Any]]:
    """Alarms by their logical id, without the hash at its end."""
    found = stack.of_type("AWS::CloudWatch::Alarm").items()
    return {name.removeprefix("Alarms")[:-8]: alarm["Properties"] for name, alarm in found}


def test_a_refresh_that_fails_is_tried_again(demo: Stack) -> None:
    """Scheduler invokes asynchronously: its own policy is for handing over, Lambda's for what fails."""
    schedules = {
        found["Properties"]["Name"].partition("-")[0]: found["Properties"]
        for found in demo.of_type("AWS::Scheduler::Schedule").values()
        if "Name" in found["Properties"]
    }
    assert {name: found["Target"]["Input"] for name, found in schedules.items()} == {
        "refresh": '{"source":"schedule"}',
        "look": '{"source":"look"}',
    }
    for found in schedules.values():
        target = found["Target"]
        assert demo.function_of(target["Arn"]["Fn::GetAtt"][0]) == "refresh_credentials"
        assert target["RetryPolicy"] == {"MaximumRetryAttempts": 10, "MaximumEventAgeInSeconds": 10800}
        assert target["DeadLetterConfig"]
        assert found["FlexibleTimeWindow"] == {"Mode": "OFF"}
    (asynchronous,) = [
        found["Properties"]
        for found in demo.of_type("AWS::Lambda::EventInvokeConfig").values()
        if demo.function_of(found["Properties"]["FunctionName"]["Ref"]) == "refresh_credentials"
    ]
    assert asynchronous["MaximumRetryAttempts"] == 2
    assert asynchronous["DestinationConfig"]["OnFailure"]


def test_each_configuration_has_a_refresh_of_its_own_that_starts_at_once() -> None:
    # Here: the CDK starts Node.js when it is imported, which no worker needs to collect tests.
    from aws_cdk import App, aws_lambda, aws_scheduler, aws_sqs
    from aws_cdk import Stack as CdkStack

    from infra.schedules import Schedules

    def name(config: ClusterConfig) -> str:
        stack = CdkStack(App(), "x")
        function = aws_lambda.Function(
            stack, "f", code=aws_lambda.Code.from_inline("x"), handler="x.y",
            runtime=aws_lambda.Runtime.PYTHON_3_13,
        )  # fmt: skip
        schedules = Schedules(stack, "Schedules", cluster="demo", sweep=function)
        schedules.refresh(function, aws_sqs.Queue(stack, "q"), config)
        found = schedules.node.find_child("Refresh")
        assert isinstance(found, aws_scheduler.CfnSchedule)
        return str(found.name)

    plain, helm = config(), config(**{"engine.helmRepoCreds": True})
    assert name(plain) == name(plain) != name(helm)


def test_alarms_come_hours_before_the_token_ends_and_when_nobody_looks(demo: Stack) -> None:
    found = {name: alarm for name, alarm in alarms(demo).items() if name.startswith("Credentials")}
    assert set(found) == {
        "CredentialsUnwatched",
        "CredentialsOld",
        "CredentialsTroubles",
        "CredentialsRefused",
    }
    old = found["CredentialsOld"]
    assert (old["MetricName"], old["Statistic"], old["Period"]) == (SECONDS_LEFT, "Minimum", 3 * 3600)
    assert (old["Threshold"], old["ComparisonOperator"]) == (5 * 3600, "LessThanThreshold")
    assert old["Namespace"] == "AicrPipeline/demo"
    assert old["Dimensions"] == [{"Name": "service", "Value": "refresh_credentials"}]
    unwatched = found["CredentialsUnwatched"]["Metrics"]
    assert {m["MetricStat"]["Metric"]["Namespace"] for m in unwatched if "MetricStat" in m} == {"AWS/Lambda"}
    for name in ("CredentialsOld", "CredentialsUnwatched"):
        assert found[name]["TreatMissingData"] == "breaching", "they work although the program does not run"
    for name, metric in (("CredentialsTroubles", TROUBLES), ("CredentialsRefused", REFUSED)):
        assert (found[name]["MetricName"], found[name]["Threshold"]) == (metric, 1)
    assert all(alarm["AlarmActions"] for alarm in found.values())


def test_where_credentials_are_not_ours_nothing_watches_them(private: Stack) -> None:
    assert not [name for name in alarms(private) if name.startswith("Credentials")]


def test_the_machine_comes_back_for_longer_than_the_action_waits() -> None:
    (retry,) = [found for found in RETRY if found["ErrorEquals"] == ["CredentialsComingError"]]
    waits = [
        min(retry["IntervalSeconds"] * retry["BackoffRate"] ** at, retry["MaxDelaySeconds"])
        for at in range(retry["MaxAttempts"])
    ]
    assert sum(waits) > PATIENCE.total_seconds()
    assert "JitterStrategy" not in retry, "with it the waits could add up to nothing"
    assert waits[0] == 1, "a look takes a second or two, and people have waited"
