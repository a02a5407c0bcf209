"""What each function may do in the registry and in the table."""

import pytest
from aicr_pipeline.decide.ecr_host import parse_ecr_host

from infra.functions import FUNCTIONS
from infra.rights import Arns, Grants
from tests.infra.templates import Stack, as_list, granted, plain, resources
from tests.unit.samples import config


def test_argocds_token_and_the_reader_cannot_push(demo: Stack) -> None:
    pushing = {"mirror_chart", "render_bundle", "validate_deployment", "bind_evidence"}
    for action in ("PutImage", "CreateRepository", "InitiateLayerUpload", "CompleteLayerUpload"):
        assert granted(demo, f"ecr:{action}") == pushing


PULL = {"BatchGetImage", "GetDownloadUrlForLayer", "BatchCheckLayerAvailability"}
PUSH = PULL | {
    "CreateRepository",
    "InitiateLayerUpload",
    "UploadLayerPart",
    "CompleteLayerUpload",
    "PutImage",
}
#: Function -> what it may do in ECR under its folders; a token carries exactly that.
IN_ECR = {
    "refresh_credentials": PULL,
    "read_bundle": PULL,
    "mirror_chart": PUSH,
    "render_bundle": PUSH,
    "validate_deployment": PUSH,
    "bind_evidence": PUSH | {"ListImages"},
}


@pytest.mark.parametrize("who", [function.name for function in FUNCTIONS])
def test_each_functions_rights_in_ecr_are_exactly_these(demo: Stack, who: str) -> None:
    found: dict[str, set[str]] = {}
    for function, statement in demo.statements():
        for action in as_list(statement["Action"]):
            if function == who and action.startswith("ecr:"):
                places = {plain(resource) for resource in as_list(statement["Resource"])}
                found.setdefault(action.removeprefix("ecr:"), set()).update(places)
    login = found.pop("GetAuthorizationToken", None)
    assert set(found) == IN_ECR.get(who, set())
    assert login == ({"*"} if who in IN_ECR or who == "check_prerequisites" else None)
    assert not [place for places in found.values() for place in places if "/aicr/demo/" not in place]


def test_where_credentials_are_not_ours_the_refresh_has_no_way_to_mint(private: Stack) -> None:
    assert "refresh_credentials" not in granted(private, "ecr:GetAuthorizationToken")


@pytest.mark.parametrize(
    ("host", "arn"),
    [
        ("111122223333.dkr.ecr.us-west-2.amazonaws.com", "arn:aws:ecr:us-west-2"),
        ("111122223333.dkr.ecr-fips.us-east-1.amazonaws.com", "arn:aws:ecr:us-east-1"),
        ("111122223333.dkr-ecr.eu-west-1.on.aws", "arn:aws:ecr:eu-west-1"),
        ("111122223333.dkr.ecr.us-gov-west-1.amazonaws.com", "arn:aws-us-gov:ecr:us-gov-west-1"),
        ("111122223333.dkr-ecr-fips.us-gov-east-1.on.aws", "arn:aws-us-gov:ecr:us-gov-east-1"),
        ("111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn", "arn:aws-cn:ecr:cn-north-1"),
        ("111122223333.dkr-ecr.cn-northwest-1.on.amazonwebservices.com.cn", "arn:aws-cn:ecr:cn-northwest-1"),
        ("111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu", "arn:aws-eusc:ecr:eusc-de-east-1"),
    ],
)
def test_rights_name_the_registry_in_its_partition(host: str, arn: str) -> None:
    made = config(**{"registry.repository": f"oci://{host}/aicr/demo"})
    arns = Arns("", "", "", "", "", "", "", "", "", "", (), "", "", "", "")
    rights = Grants(arns, made, parse_ecr_host(made.registry.host)).of("refresh_credentials")
    (pull,) = [right for right in rights if "ecr:BatchGetImage" in right.actions]
    assert pull.resources == tuple(
        f"{arn}:111122223333:repository/aicr/demo/{folder}/*" for folder in ("charts", "wrappers")
    )


def test_a_static_registry_needs_no_ecr_right_but_its_secret(private: Stack) -> None:
    assert not [
        action
        for _, statement in private.statements()
        for action in as_list(statement["Action"])
        if action.startswith("ecr:")
    ]
    assert not private.of_type("AWS::ECR::RepositoryCreationTemplate")
    secret = "arn:aws-us-gov:secretsmanager:us-gov-west-1:222233334444:secret:registry-AbCdEf"
    assert secret in resources(private, "mirror_chart", "secretsmanager:GetSecretValue")
    assert secret not in resources(private, "serve_approvals", "secretsmanager:GetSecretValue")


def test_items_are_bound_to_partitions_of_the_table(stack: Stack) -> None:
    for who, statement in stack.statements():
        if any(action.startswith("dynamodb:") for action in as_list(statement["Action"])):
            keys = statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
            sessions = {"SESSION"} if who == "serve_approvals" else set()
            assert set(as_list(keys)) <= {"WAITERS", "LEASE", "LOCK", "FACT"} | sessions, who
            # Without leading keys in the request the condition would hold: a scan must not be granted.
            assert not {"dynamodb:Scan", "dynamodb:BatchGetItem"} & set(as_list(statement["Action"]))


def table_actions(stack: Stack, who: str) -> dict[str, set[str]]:
    """Partition of the coordination table -> what the function may do there."""
    found: dict[str, set[str]] = {}
    for function, statement in stack.statements():
        actions = [action for action in as_list(statement["Action"]) if action.startswith("dynamodb:")]
        if function == who and actions:
            keys = statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
            for key in as_list(keys):
                found.setdefault(key, set()).update(action.removeprefix("dynamodb:") for action in actions)
    return found


PUT, GET = {"PutItem"}, {"GetItem"}
WAITING = ("take_snapshot", "render_bundle", "request_approval", "hold_step", "wait_until_ready",
           "confirm_criteria", "validate_deployment")  # fmt: skip
ITEMS = {
    **{function: {"WAITERS": PUT} for function in WAITING},
    "announce_plan": {"FACT": {"GetItem", "PutItem"}},
    "refresh_credentials": {"FACT": {"GetItem", "PutItem"}},
    "remind_approvers": {"FACT": {"GetItem", "PutItem"}, "LOCK": GET},
    "update_status": {"FACT": {"GetItem", "PutItem"}},
    "serve_operators": {"FACT": GET},
    "assess_transition": {"FACT": GET},
    "check_gate": {"FACT": GET, "LOCK": GET},
    "record_outcome": {"LOCK": {"DeleteItem"}},
    "start_rollout": {"FACT": GET, "LOCK": {"GetItem", "PutItem", "DeleteItem"}},
    "sweep_waiters": {
        "FACT": GET,
        "LOCK": GET,
        "WAITERS": {"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query"},
        "LEASE": {"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query"},
    },
}


@pytest.mark.parametrize("who", [function.name for function in FUNCTIONS])
def test_each_function_has_its_part_of_the_table(demo: Stack, who: str) -> None:
    assert table_actions(demo, who) == ITEMS.get(who, {})


def test_marks_that_people_were_told(stack: Stack) -> None:
    for who, key in (("record_outcome", "rollouts/*/told.json"), ("record_resolve", "resolves/*/told.json")):
        assert any(resource.endswith(f"/{key}") for resource in resources(stack, who, "s3:PutObject"))
    assert any(
        r.endswith("/resolves/*/told.json") for r in resources(stack, "record_resolve", "s3:GetObject")
    )
