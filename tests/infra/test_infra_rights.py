"""Who may do what in AWS."""

import re
from fnmatch import fnmatchcase

import pytest
from aicr_pipeline.actions.validate_deployment import evidence_repository
from aicr_pipeline.adapters.jobs import MOST_ATTEMPTS

from infra.functions import FUNCTIONS, PUBLISHERS
from infra.rights import _RIGHTS, Arns, Grants
from tests.infra.templates import Stack, as_list, granted, plain, resources
from tests.unit.samples import VALIDATOR_IMAGE, config

#: Every action that is granted on all resources, and why there is no other way.
ON_EVERYTHING = {
    "ecr:GetAuthorizationToken": "has no resource",
    "xray:PutTraceSegments": "has no resource",
    "xray:PutTelemetryRecords": "has no resource",
    "xray:GetSamplingRules": "has no resource",
    "xray:GetSamplingTargets": "has no resource",
    "logs:CreateLogDelivery": "has no resource; state machines",
    "logs:GetLogDelivery": "has no resource; state machines",
    "logs:UpdateLogDelivery": "has no resource; state machines",
    "logs:DeleteLogDelivery": "has no resource; state machines",
    "logs:ListLogDeliveries": "has no resource; state machines",
    "logs:PutResourcePolicy": "has no resource; state machines",
    "logs:DescribeResourcePolicies": "has no resource; state machines",
    "logs:DescribeLogGroups": "has no resource; state machines",
    "ec2:CreateNetworkInterface": "Lambda in a VPC; the interfaces are not known in advance",
    "ec2:DescribeNetworkInterfaces": "Lambda in a VPC",
    "ec2:DescribeSubnets": "Lambda in a VPC",
    "ec2:DeleteNetworkInterface": "Lambda in a VPC",
    "ec2:AssignPrivateIpAddresses": "Lambda in a VPC",
    "ec2:UnassignPrivateIpAddresses": "Lambda in a VPC",
}


def test_every_function_has_an_entry() -> None:
    assert set(_RIGHTS) == {function.name for function in FUNCTIONS}


def test_each_function_has_a_role_of_its_own(stack: Stack) -> None:
    roles = [properties["Role"]["Fn::GetAtt"][0] for properties in stack.functions().values()]
    assert len(set(roles)) == len(roles) == len(FUNCTIONS)


def test_no_managed_policies_and_no_wildcard_actions(stack: Stack) -> None:
    for role in stack.of_type("AWS::IAM::Role").values():
        assert "ManagedPolicyArns" not in role["Properties"]
        assert "Policies" not in role["Properties"]
    for who, statement in stack.statements():
        assert not [action for action in as_list(statement["Action"]) if "*" in action], who


def test_everything_that_is_granted_everywhere_is_listed_with_its_reason(stack: Stack) -> None:
    for who, statement in stack.statements():
        if "*" in [plain(resource) for resource in as_list(statement["Resource"])]:
            assert set(as_list(statement["Action"])) <= set(ON_EVERYTHING), who


def test_only_the_sweeper_answers_task_tokens(stack: Stack) -> None:
    for action in ("SendTaskSuccess", "SendTaskFailure"):
        assert granted(stack, f"states:{action}") == {"sweep_waiters"}
    assert granted(stack, "states:SendTaskHeartbeat") == set()
    for resource in resources(stack, "sweep_waiters", "states:SendTaskSuccess"):
        assert re.search(r":stateMachine:aicr-pipeline-[-a-z0-9]+-(resolve|rollout)(:\*)?$", resource)


def test_pages_have_no_states_rights(stack: Stack) -> None:
    for who, statement in stack.statements():
        if who in ("serve_approvals", "serve_operators"):
            assert not [action for action in as_list(statement["Action"]) if action.startswith("states:")]


def test_starts_go_through_the_alias_only(stack: Stack) -> None:
    assert granted(stack, "states:StartExecution") == {"start_resolve", "start_rollout"}
    for who in ("start_resolve", "start_rollout"):
        (resource,) = resources(stack, who, "states:StartExecution")
        assert resource.endswith(f"-{who.removeprefix('start_')}:live")


def test_only_who_loads_a_plan_may_read_plans(stack: Stack) -> None:
    readers = {
        who
        for who in granted(stack, "s3:GetObject")
        if any("/plans/" in found for found in resources(stack, who, "s3:GetObject"))
    }
    assert readers == {
        "write_plan", "assess_transition", "check_gate", "apply_release", "validate_deployment",
        "confirm_criteria", "bind_evidence", "update_status", "serve_approvals", "serve_operators",
        "sweep_waiters",  # where a step that a sync window holds would go
    }  # fmt: skip


def test_only_bind_evidence_signs_and_only_digests(stack: Stack) -> None:
    assert granted(stack, "kms:Sign") == {"bind_evidence"}
    (statement,) = [found for _, found in stack.statements() if "kms:Sign" in as_list(found["Action"])]
    # Of whichever key carries the alias; which one that is, another test looks at.
    assert set(statement["Condition"]) == {"StringEquals", "ForAnyValue:StringEquals"}
    assert statement["Condition"]["StringEquals"] == {"kms:MessageType": "DIGEST"}


_KEY_ARN = "arn:aws:kms:eu-west-1:111122223333:key/11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    ("key", "resource", "conditions"),
    [
        (
            "awskms:///alias/aicr-evidence",
            "arn:aws:kms:us-west-2:111122223333:key/*",
            {"StringEquals": {"kms:RequestAlias": "alias/aicr-evidence"}},
        ),
        (f"awskms:///{_KEY_ARN}", _KEY_ARN, {}),
    ],
    ids=["alias", "ARN"],
)
def test_only_who_starts_and_who_binds_read_the_key_that_aicr_signs_with(
    key: str, resource: str, conditions: dict[str, dict[str, str]]
) -> None:
    """That key and no other, and nobody of the pipeline may sign with it."""
    names = dict.fromkeys(Arns.__dataclass_fields__, "")
    arns = Arns(**{**names, "signing_keys": "OUR-KEY", "topics": ("t",)})  # type: ignore[arg-type]
    enabled = {"validation.enabled": True, "aicr.validatorImages": [VALIDATOR_IMAGE]}
    made = config(**enabled, **{"validation.signingKey": key})
    found = {
        (function.name, right.actions, right.resources)
        for function in FUNCTIONS
        for right in Grants(arns, made, None).of(function.name)
        if any(action.startswith("kms:") for action in right.actions)
        and not set(right.resources) & {"OUR-KEY", ""}
    }
    readers = ("validate_deployment", "bind_evidence")
    assert found == {(who, ("kms:GetPublicKey",), (resource,)) for who in readers}
    for who in readers:
        (right,) = [r for r in Grants(arns, made, None).of(who) if resource in r.resources]
        assert dict(right.conditions or {}) == conditions
        without = Grants(arns, config(**enabled), None).of(who)
        assert not [r for r in without if resource in r.resources]


def test_only_publishers_write_to_people(stack: Stack) -> None:
    assert granted(stack, "sns:Publish") == set(PUBLISHERS)


def test_reminder_and_status_list_subscriptions_of_approvers_topics_only(demo: Stack) -> None:
    assert granted(demo, "sns:ListSubscriptionsByTopic") == {"remind_approvers", "update_status"}
    for who in ("remind_approvers", "update_status"):
        listed = resources(demo, who, "sns:ListSubscriptionsByTopic")
        assert listed == resources(demo, who, "sns:Publish") and "*" not in listed


def test_the_status_only_looks(stack: Stack) -> None:
    """It keeps its facts, announces and tells people; ledger, inbox, registry and machines it only reads."""
    reads = re.compile(r"(s3:(Get|List)|states:Describe|dynamodb:GetItem|sns:List|eks:Describe|ec2:Describe)")
    others = {
        action
        for who, statement in stack.statements()
        if who == "update_status"
        for action in as_list(statement["Action"])
        if not reads.match(action) and not action.startswith(("logs:", "xray:", "ec2:", "sqs:"))
    }
    tells = {"events:PutEvents", "sns:Publish", "kms:GenerateDataKey", "kms:Decrypt"}
    assert others == {"dynamodb:PutItem"} | tells


def test_only_who_writes_to_approvers_reads_slacks_secrets() -> None:
    token, hook = (f"arn:aws:secretsmanager:us-west-2:111122223333:secret:{name}" for name in "ab")
    approvers = [{"name": "alex", "slack": "U012ABC"}]
    made = config(**{"approvals.slack": {"botTokenSecretArn": token}, "approvals.approvers": approvers})
    arns = Arns("", "", "", "", "", "", "", "", "", "", ("t",), "", "", "", "")
    readers = {
        function.name
        for function in FUNCTIONS
        for right in Grants(arns, made, None).of(function.name)
        if token in right.resources or hook in right.resources
    }
    assert readers == {"request_approval", "hold_step", "remind_approvers"}


def test_nobody_deletes_from_buckets_or_the_registry(stack: Stack) -> None:
    for who, statement in stack.statements():
        for action in as_list(statement["Action"]):
            service, name = action.split(":")
            if service in ("s3", "ecr"):
                assert not re.match(r"(Batch)?Delete|PutLifecycle|PutBucket|Bypass", name), who


def test_only_pages_decide(stack: Stack) -> None:
    writers = {
        who
        for who, statement in stack.statements()
        if "s3:PutObject" in as_list(statement["Action"])
        and any("decision" in plain(resource) for resource in as_list(statement["Resource"]))
    }
    assert writers == {"serve_approvals", "serve_operators"}
    for key in ("rollouts/a/decision.json", "rollouts/a/revocation.json"):
        everywhere = {
            who
            for who, statement in stack.statements()
            if "s3:PutObject" in as_list(statement["Action"])
            and any(
                fnmatchcase(key, plain(resource).partition("/")[2])
                for resource in as_list(statement["Resource"])
            )
        }
        assert everywhere == {"serve_approvals", "serve_operators"}


def test_the_signed_routes_decide_submit_and_tell_and_nothing_else(stack: Stack) -> None:
    rights = {
        (action, plain(resource).partition("/")[2])
        for who, statement in stack.statements()
        if who == "serve_operators"
        for action in as_list(statement["Action"])
        if not action.startswith(("logs:", "xray:"))
        for resource in as_list(statement["Resource"])
    }
    decides = {"rollouts/*/decision.json", "rollouts/*/decisions/*", "rollouts/*/revocation.json"}
    decides |= {"rollouts/*/acknowledgements/*"}
    submits = {"runtimes/cluster.yaml", "runtimes/*"}
    reads = {
        (f"s3:{get}", f"{key}/*")
        for get in ("GetObject", "GetObjectVersion")
        for key in ("order", "rollouts", "plans")
    }
    # The status stands in the table; a fresh one is asked for by an event.
    tells = {("dynamodb:GetItem", ""), ("events:PutEvents", "default")}
    writes = {("s3:PutObject", key) for key in decides | submits}
    assert rights == writes | reads | tells | {("s3:ListBucket", "")}


def test_only_the_signed_routes_write_the_inbox_and_say_who_submitted(stack: Stack) -> None:
    for key in ("runtimes/cluster.yaml", "runtimes/some-version.json"):
        writers = {
            who
            for who, statement in stack.statements()
            if statement["Effect"] == "Allow"
            and "s3:PutObject" in as_list(statement["Action"])
            and any(fnmatchcase(key, plain(one).partition("/")[2]) for one in as_list(statement["Resource"]))
        }
        assert writers == {"serve_operators"}


def test_the_pages_write_what_people_say_and_nothing_else(stack: Stack, demo: Stack) -> None:
    writing = re.compile("Put|Update|Delete|Send|Start|Publish|Create|Write|Batch|Tag")
    mine = [statement for who, statement in stack.statements() if who == "serve_approvals"]
    writes = {
        (action, plain(resource).partition("/")[2])
        for statement in mine
        for action in as_list(statement["Action"])
        if writing.match(action.partition(":")[2]) and not action.startswith(("logs:", "xray:"))
        for resource in as_list(statement["Resource"])
    }
    # Rows of sessions, where people sign in: the partition is in another test.
    sessions = set() if stack is demo else {("dynamodb:PutItem", ""), ("dynamodb:DeleteItem", "")}
    assert writes == sessions | {
        ("s3:PutObject", f"rollouts/*/{key}")
        for key in ("decision.json", "decisions/*", "revocation.json", "acknowledgements/*")
    }


@pytest.mark.parametrize(
    ("who", "folders"),
    [
        ("refresh_credentials", {"charts", "wrappers"}),
        ("mirror_chart", {"charts", "wrappers"}),
        ("render_bundle", {"bundles"}),
        ("bind_evidence", {"evidence", "wrappers"}),
        ("read_bundle", {"bundles"}),
    ],
)
def test_tokens_reach_their_folders_only(demo: Stack, who: str, folders: set[str]) -> None:
    prefix = "arn:aws:ecr:us-west-2:111122223333:repository/aicr/demo/"
    assert resources(demo, who, "ecr:BatchGetImage") == {f"{prefix}{folder}/*" for folder in folders}


def test_a_validation_jobs_token_reaches_no_binding(demo: Stack) -> None:
    """It lies in the cluster: whoever has it may push what AICR could have, and nothing of ours."""
    prefix = "arn:aws:ecr:us-west-2:111122223333:repository/aicr/demo/"
    patterns = {
        pattern
        for action in ("BatchGetImage", "PutImage", "CreateRepository", "InitiateLayerUpload")
        for pattern in resources(demo, "validate_deployment", f"ecr:{action}")
    }
    attempts = range(1, MOST_ATTEMPTS + 1)
    assert patterns == {f"{prefix}evidence/*-{attempt}" for attempt in attempts}

    def reached(repository: str) -> bool:
        return any(fnmatchcase(f"{prefix}evidence/{repository}", pattern) for pattern in patterns)

    for rollout in ("demo-12345678-1", "demo-12345678-12", "a-1-binding-3"):
        assert all(reached(evidence_repository(rollout, attempt)) for attempt in attempts)
        assert not reached(f"{rollout}-binding")


def test_notifications_can_wake_the_sweeper_and_do_nothing_else(stack: Stack) -> None:
    own = {"logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTraceSegments", "xray:PutTelemetryRecords"}
    allowed = {
        action
        for who, statement in stack.statements()
        if who == "receive_notification"
        for action in as_list(statement["Action"])
    }
    assert allowed - own == {"secretsmanager:GetSecretValue", "lambda:InvokeFunction"}
    (sweep,) = resources(stack, "receive_notification", "lambda:InvokeFunction")
    assert str(sweep).count("sweep_waiters") == 1


def test_nobody_writes_a_secret(stack: Stack) -> None:
    """An administrator's registry credentials are read, never written back."""
    for who, statement in stack.statements():
        secrets = [a for a in as_list(statement["Action"]) if a.startswith("secretsmanager:")]
        assert set(secrets) <= {"secretsmanager:GetSecretValue"}, who


def test_a_function_in_a_vpc_may_look_at_its_subnets(private: Stack, demo: Stack) -> None:
    facing = {function.name for function in FUNCTIONS if function.faces_kubernetes}
    assert facing <= granted(private, "ec2:DescribeSubnets")
    assert granted(private, "ec2:DescribeSubnets") == granted(private, "ec2:CreateNetworkInterface")


def test_events_are_our_own(stack: Stack) -> None:
    for _, statement in stack.statements():
        if "events:PutEvents" in as_list(statement["Action"]):
            assert statement["Condition"] == {"StringEquals": {"events:source": "aicr.pipeline"}}


def test_only_functions_that_face_the_cluster_describe_it(stack: Stack) -> None:
    facing = {function.name for function in FUNCTIONS if function.faces_kubernetes}
    assert granted(stack, "eks:DescribeCluster") == facing
    for who in facing:
        (arn,) = resources(stack, who, "eks:DescribeCluster")
        assert arn.endswith(("cluster/demo", "cluster/Private_1"))
