"""Rules, schedules, the API, functions and alarms, as the template holds them."""

import json
from typing import Any

from infra.functions import FUNCTIONS
from infra.routes import LINK_ROUTES, NOTIFICATIONS, SIGNED, SIGNED_IN_ROUTES
from infra.sources import FUNCTIONS_FOLDER
from tests.infra.templates import Stack, bucket, plain

# What wakes the pipeline


def rules(stack: Stack) -> dict[str, dict[str, Any]]:
    """Rules by their description."""
    return {
        found["Properties"]["Description"]: found["Properties"]
        for found in stack.of_type("AWS::Events::Rule").values()
    }


def test_rules_match_exact_keys_and_no_replays(demo: Stack) -> None:
    found = {name: rule["EventPattern"] for name, rule in rules(demo).items()}
    inbox, ledger = bucket(demo, "Inbox")[0], bucket(demo, "Ledger")[0]
    machine = ":states:us-west-2:111122223333:stateMachine:aicr-pipeline-demo-"

    def arn(name: str) -> dict[str, Any]:
        return {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, machine + name]]}

    replayed = {"replay-name": [{"exists": False}]}

    def own(*types: str) -> dict[str, Any]:
        detail = {"cluster": ["demo"]}
        return {"source": ["aicr.pipeline"], "detail-type": list(types), "detail": detail, **replayed}

    def created(name: str, *keys: Any) -> dict[str, Any]:
        detail = {"bucket": {"name": [{"Ref": name}]}, "object": {"key": list(keys)}}
        return {"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": detail, **replayed}

    assert found == {
        "A message to somebody was not taken": own("Message Failed"),
        "A runtime was put into the inbox": created(inbox, "runtimes/cluster.yaml"),
        "A plan is ready, or a rollout ended or stalled and another may start": own(
            "Plan Ready", "Rollout Ended", "Execution Stalled"
        ),
        "Something new is waited for": own("Waiter Registered", "Plan Ready"),
        "A decision, a revocation or an acknowledgement was written": created(
            ledger,
            {"wildcard": "rollouts/*/decision.json"},
            {"wildcard": "rollouts/*/revocation.json"},
            {"wildcard": "rollouts/*/acknowledgements/*.json"},
        ),
        "The runtime was put or deleted: a step that waits for the end of a pause may go on": {
            **created(inbox, "runtimes/cluster.yaml"),
            "detail-type": ["Object Created", "Object Deleted"],
        },
        "The runtime was deleted from the inbox": {
            **created(inbox, "runtimes/cluster.yaml"),
            "detail-type": ["Object Deleted"],
        },
        "A resolve or a rollout ended, asks, was decided, or is held": created(
            ledger,
            {"wildcard": "resolves/*/told.json"},
            *({"wildcard": f"rollouts/*/{name}.json"} for name in ("request", "decision", "outcome")),
            *({"wildcard": f"rollouts/*/{name}/*.json"} for name in ("holds", "acknowledgements")),
        ),
        "An execution stalled, or somebody asks": own("Execution Stalled", "Status Wanted"),
        "A rollout is about to start": own("Credentials Wanted"),
        "An execution failed, timed out or was stopped": {
            "source": ["aws.states"],
            "detail-type": ["Step Functions Execution Status Change"],
            "detail": {
                "status": ["FAILED", "TIMED_OUT", "ABORTED"],
                "stateMachineArn": [arn("resolve"), arn("rollout")],
            },
            **replayed,
        },
    }


def test_each_rule_may_invoke_its_function_and_keeps_what_fails(stack: Stack) -> None:
    permitted = {
        (plain(found["Properties"]["SourceArn"]), plain(found["Properties"]["FunctionName"]))
        for found in stack.of_type("AWS::Lambda::Permission").values()
    }
    for logical_id, rule in stack.of_type("AWS::Events::Rule").items():
        (target,) = rule["Properties"]["Targets"]
        if target["Id"] == "queue":
            continue  # what it is about waits there itself
        assert target["DeadLetterConfig"]
        assert (f"<{logical_id}.Arn>", plain(target["Arn"])) in permitted


def test_the_sweep_is_never_late_and_never_repeated(stack: Stack) -> None:
    (sweep,) = [
        found["Properties"]
        for found in stack.of_type("AWS::Scheduler::Schedule").values()
        if found["Properties"]["ScheduleExpression"] == "rate(1 minute)"
    ]
    assert stack.function_of(sweep["Target"]["Arn"]["Fn::GetAtt"][0]) == "sweep_waiters"
    assert sweep["Target"]["RetryPolicy"] == {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
    (asynchronous,) = [
        found["Properties"]
        for found in stack.of_type("AWS::Lambda::EventInvokeConfig").values()
        if stack.function_of(found["Properties"]["FunctionName"]["Ref"]) == "sweep_waiters"
    ]
    assert asynchronous["MaximumRetryAttempts"] == 0
    assert asynchronous["MaximumEventAgeInSeconds"] == 60


def test_credentials_are_refreshed_only_where_they_are_ours(demo: Stack, private: Stack) -> None:
    def rates(stack: Stack) -> set[str]:
        found = stack.of_type("AWS::Scheduler::Schedule").values()
        return {schedule["Properties"]["ScheduleExpression"] for schedule in found}

    assert rates(demo) == {
        "rate(1 minute)",
        "rate(6 hours)",
        "cron(17 * * * ? *)",
        "cron(3/5 * * * ? *)",
        "cron(1/5 * * * ? *)",
    }
    assert rates(private) == {
        "rate(1 minute)", "cron(0 6 * * ? *)", "cron(3/5 * * * ? *)", "cron(1/5 * * * ? *)",
    }  # fmt: skip
    assert "A rollout is about to start" not in rules(private)


def test_functions_called_by_events_leave_a_letter(stack: Stack) -> None:
    found = {
        stack.function_of(config["Properties"]["FunctionName"]["Ref"]): config["Properties"]
        for config in stack.of_type("AWS::Lambda::EventInvokeConfig").values()
    }
    assert set(found) == {
        "start_resolve",
        "start_rollout",
        "sweep_waiters",
        "remind_approvers",
        "refresh_credentials",
        "record_stall",
        "update_status",
    }
    for name, config in found.items():
        assert ("DestinationConfig" in config) == (name != "sweep_waiters")


# The public front


def routes_of(stack: Stack, function: str) -> dict[str, str]:
    """Route keys that lead to a function, with their authorization."""
    integrations = {
        name: stack.function_of(found["Properties"]["IntegrationUri"]["Fn::GetAtt"][0])
        for name, found in stack.of_type("AWS::ApiGatewayV2::Integration").items()
        if found["Properties"]["PayloadFormatVersion"] == "2.0"
    }
    return {
        found["Properties"]["RouteKey"]: found["Properties"]["AuthorizationType"]
        for found in stack.of_type("AWS::ApiGatewayV2::Route").values()
        if integrations[found["Properties"]["Target"]["Fn::Join"][1][1]["Ref"]] == function
    }


def test_the_api_has_pages_signed_routes_and_notifications_only(stack: Stack, demo: Stack) -> None:
    pages = LINK_ROUTES if stack is demo else SIGNED_IN_ROUTES
    assert routes_of(stack, "serve_approvals") == dict.fromkeys(pages.values(), "NONE")
    assert routes_of(stack, "serve_operators") == dict.fromkeys(SIGNED.values(), "AWS_IAM")
    assert routes_of(stack, "receive_notification") == dict.fromkeys(NOTIFICATIONS.values(), "NONE")
    known = len(pages) + len(SIGNED) + len(NOTIFICATIONS)
    assert len(stack.of_type("AWS::ApiGatewayV2::Route")) == known


def test_signed_routes_and_notifications_have_a_throttle_of_their_own(stack: Stack) -> None:
    (stage,) = stack.of_type("AWS::ApiGatewayV2::Stage").values()
    settings = stage["Properties"]["RouteSettings"]
    assert settings == {
        key: {"ThrottlingRateLimit": 5, "ThrottlingBurstLimit": 10}
        for key in (*SIGNED.values(), *NOTIFICATIONS.values())
    }
    routes = stack.of_type("AWS::ApiGatewayV2::Route")
    named = {routes[name]["Properties"]["RouteKey"] for name in stage["DependsOn"] if name in routes}
    assert named >= set(settings), "a stage takes settings of routes that exist"


def test_the_front_is_throttled_and_logs_no_path(stack: Stack) -> None:
    stage = stack.one("AWS::ApiGatewayV2::Stage")
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": 10, "ThrottlingBurstLimit": 20}
    logged = json.loads(stage["AccessLogSettings"]["Format"])
    assert set(logged.values()) == {"$context.requestId", "$context.routeKey", "$context.status"}


# Functions


def test_functions_are_the_listed_ones(stack: Stack) -> None:
    assert set(stack.functions()) == {function.name for function in FUNCTIONS}


def test_every_function_has_its_folder_and_every_folder_its_function() -> None:
    folders = {
        path.name for path in FUNCTIONS_FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert folders == {function.name for function in FUNCTIONS}


def test_functions_run_alike(stack: Stack) -> None:
    for name, properties in stack.functions().items():
        assert properties["Runtime"] == "python3.13", name
        assert properties["Architectures"] == ["x86_64"]
        assert properties["Handler"] == "handler.handler"
        assert properties["TracingConfig"] == {"Mode": "Active"}
        assert len(properties["Layers"]) == 3
        assert properties["FunctionName"].endswith(f"-{name}")
        assert len(properties["FunctionName"]) <= 64
        group = stack.resources[properties["LoggingConfig"]["LogGroup"]["Ref"]]["Properties"]
        assert group["RetentionInDays"] in (90, 365)


def test_only_functions_that_face_the_cluster_enter_its_vpc(demo: Stack, private: Stack) -> None:
    facing = {function.name for function in FUNCTIONS if function.faces_kubernetes}
    assert not [name for name, properties in demo.functions().items() if "VpcConfig" in properties]
    inside = {name: found["VpcConfig"] for name, found in private.functions().items() if "VpcConfig" in found}
    assert set(inside) == facing
    assert all(
        config == {"SubnetIds": ["subnet-0a1b2c3d", "subnet-1a2b3c4d"], "SecurityGroupIds": ["sg-0a1b2c3d"]}
        for config in inside.values()
    )


def test_each_function_that_faces_the_cluster_is_one_group_there(stack: Stack) -> None:
    functions = stack.functions()
    groups = {}
    for entry in stack.of_type("AWS::EKS::AccessEntry").values():
        properties = entry["Properties"]
        assert properties["Type"] == "STANDARD"
        assert "AccessPolicies" not in properties
        (group,) = properties["KubernetesGroups"]
        groups[group] = properties["PrincipalArn"]
    assert groups == {
        f"aicr-pipeline:{function.name}": functions[function.name]["Role"]
        for function in FUNCTIONS
        if function.faces_kubernetes
    }


# The whole


def test_alarms_reach_somebody(stack: Stack) -> None:
    alarms = stack.of_type("AWS::CloudWatch::Alarm")
    for alarm in alarms.values():
        assert alarm["Properties"]["AlarmActions"]
        assert alarm["Properties"]["AlarmDescription"]
    text = json.dumps(alarms)
    for metric in (
        "ApproximateNumberOfMessagesVisible",
        "ExecutionsFailed",
        "ExecutionsTimedOut",
        "NumberOfNotificationsFailed",
        "OldestWaiterSeconds",
        "OldestApprovalSeconds",
        "MessagesFailed",
        "Errors",
    ):
        assert metric in text


def test_each_approver_who_cannot_be_reached_has_an_alarm_by_name(demo: Stack) -> None:
    (found,) = [
        alarm["Properties"]
        for alarm in demo.of_type("AWS::CloudWatch::Alarm").values()
        if alarm["Properties"].get("MetricName") == "ApproverUnreachable"
    ]
    assert {one["Name"]: one["Value"] for one in found["Dimensions"]} == {
        "service": "remind_approvers",
        "approver": "alex",
    }
    assert found["AlarmDescription"].startswith("alex has no confirmed subscription")


def test_no_custom_resources(stack: Stack) -> None:
    types = {found["Type"] for found in stack.resources.values()}
    assert not {type_ for type_ in types if type_.startswith(("Custom::", "AWS::CloudFormation::Custom"))}
    assert len(stack.of_type("AWS::Lambda::Function")) == len(FUNCTIONS)


def test_the_template_is_within_cloudformations_limits(stack: Stack) -> None:
    assert len(stack.file.read_bytes()) < 1_000_000
    assert len(stack.resources) <= 500
    assert len(stack.template["Outputs"]) <= 200


def test_the_configuration_layer_holds_the_validated_configuration(stack: Stack) -> None:
    (file,) = stack.assembly.glob("asset.*/cluster/cluster.json")
    written = json.loads(file.read_text())
    assert f"aicr-pipeline-{written['cluster']['name']}" in stack.file.name
    assert written["approvals"]["deadline"] in ("6h", "12h")


def test_no_asset_holds_leftovers(stack: Stack) -> None:
    assert not list(stack.assembly.glob("asset.*/**/__pycache__"))


# Taking it down


def test_the_stack_holds_nothing_of_the_cluster_that_would_go_with_it(stack: Stack) -> None:
    """No custom resource, and nothing that reaches into a cluster but the access entries of our own roles."""
    types = {found["Type"] for found in stack.resources.values()}
    assert not [one for one in types if one.startswith(("Custom::", "AWS::CloudFormation::CustomResource"))]
    assert {one for one in types if one.startswith("AWS::EKS::")} <= {"AWS::EKS::AccessEntry"}
    assert not [one for one in types if "Kubernetes" in one or "Helm" in one]
