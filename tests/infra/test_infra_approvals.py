"""What the template says about the messages to approvers, their pages, and who may see a token."""

import json

from tests.infra.templates import Stack, as_list


def test_each_approver_has_a_topic_and_no_subscription_a_filter(demo: Stack, private: Stack) -> None:
    for stack, approvers in ((demo, {"alex"}), (private, {"alex", "sam"})):
        topics = [name for name in stack.of_type("AWS::SNS::Topic") if "Approver" in name]
        assert len(topics) == len(approvers)
        subscriptions = stack.of_type("AWS::SNS::Subscription").values()
        assert not any("FilterPolicy" in found["Properties"] for found in subscriptions)


def test_a_message_that_fails_waits_in_the_dead_letter_queue_under_an_alarm(stack: Stack) -> None:
    rules = stack.of_type("AWS::Events::Rule")
    ((id, rule),) = [
        (id, found["Properties"])
        for id, found in rules.items()
        if found["Properties"]["EventPattern"].get("detail-type") == ["Message Failed"]
    ]
    assert rule["EventPattern"]["source"] == ["aicr.pipeline"] and rule["EventPattern"]["detail"]["cluster"]
    (queue,) = stack.of_type("AWS::SQS::Queue")
    assert [target["Arn"] for target in rule["Targets"]] == [{"Fn::GetAtt": [queue, "Arn"]}]
    policy = json.dumps(stack.one("AWS::SQS::QueuePolicy")["PolicyDocument"])
    assert f'["{id}", "Arn"]' in policy, "else EventBridge drops it without a word"
    alarms = json.dumps([a["Properties"] for a in stack.of_type("AWS::CloudWatch::Alarm").values()])
    assert "ApproximateNumberOfMessagesVisible" in alarms


def test_pages_and_signed_routes_are_reached_through_the_api_alone(stack: Stack) -> None:
    """Who invokes a function directly could say to be anybody."""
    found: dict[str, list[dict[str, object]]] = {}
    for permission in stack.of_type("AWS::Lambda::Permission").values():
        name = permission["Properties"]["FunctionName"]
        function = stack.function_of(name["Fn::GetAtt"][0] if "Fn::GetAtt" in name else name["Ref"])
        found.setdefault(function, []).append(permission["Properties"])
    for function in ("serve_approvals", "serve_operators"):
        assert found[function]
        for permission in found[function]:
            assert permission["Principal"] == "apigateway.amazonaws.com"
            assert "SourceAccount" in permission or "SourceArn" in permission
    logical = {stack.function_of(name): f'"{name}"' for name in stack.of_type("AWS::Lambda::Function")}
    invoked = json.dumps(
        [s["Resource"] for _, s in stack.statements() if "lambda:InvokeFunction" in as_list(s["Action"])]
    )
    assert logical["request_approval"] in invoked, "the machine invokes its own"
    assert logical["serve_approvals"] not in invoked and logical["serve_operators"] not in invoked
    assert not stack.of_type("AWS::Lambda::Url")


def test_nobody_of_ours_reads_histories(stack: Stack) -> None:
    """AWS keeps task tokens there."""
    granted = {action for _, statement in stack.statements() for action in as_list(statement["Action"])}
    assert "states:SendTaskSuccess" in granted
    assert "states:GetExecutionHistory" not in granted
