"""The schedule of resolves, and what starts them, as the template holds it."""

import json

import pytest

from infra.resolve import main
from tests.infra.templates import Stack, as_list


def test_no_schedule_unless_one_is_wanted(demo: Stack) -> None:
    names = [found["Properties"].get("Name") for found in demo.of_type("AWS::Scheduler::Schedule").values()]
    assert "resolve" not in names
    invoked = [
        resource
        for who, statement in demo.statements()
        if who.startswith("Schedules")
        for resource in as_list(statement["Resource"])
        if "Fn::GetAtt" in resource and resource["Fn::GetAtt"][0] in demo.of_type("AWS::Lambda::Function")
    ]
    assert "start_resolve" not in {demo.function_of(found["Fn::GetAtt"][0]) for found in invoked}


def test_the_schedule_names_its_slot_and_leaves_a_letter(private: Stack) -> None:
    (found,) = [
        resource["Properties"]
        for resource in private.of_type("AWS::Scheduler::Schedule").values()
        if resource["Properties"].get("Name") == "resolve"
    ]
    target = found["Target"]
    assert found["ScheduleExpression"] == "cron(0 6 * * ? *)"
    assert found["GroupName"]
    assert private.function_of(target["Arn"]["Fn::GetAtt"][0]) == "start_resolve"
    # Two deliveries of one slot carry the same time, and so name the same run.
    assert json.loads(target["Input"]) == {"source": "schedule", "at": "<aws.scheduler.scheduled-time>"}
    assert target["RetryPolicy"] == {"MaximumRetryAttempts": 10, "MaximumEventAgeInSeconds": 3600}
    (queue,) = private.of_type("AWS::SQS::Queue")
    assert target["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": [queue, "Arn"]}}
    role = target["RoleArn"]["Fn::GetAtt"][0]
    granted = {
        (action, resource["Fn::GetAtt"][0])
        for who, statement in private.statements()
        if who == role
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    }
    assert ("lambda:InvokeFunction", target["Arn"]["Fn::GetAtt"][0]) in granted
    assert ("sqs:SendMessage", queue) in granted


def test_a_person_finds_the_function_in_the_outputs(stack: Stack) -> None:
    value = stack.template["Outputs"]["ResolveFunction"]["Value"]
    assert stack.function_of(value["Ref"]) == "start_resolve"


def test_asking_for_a_cluster_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("no-such-cluster") == 2
    assert "clusters/no-such-cluster.yaml" in capsys.readouterr().err
