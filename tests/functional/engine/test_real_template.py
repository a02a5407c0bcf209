"""The pipeline's own template in the engine: everything is known, services may call what they call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.functions import FUNCTIONS
from local.aws import LocalAws

STACK = "aicr-pipeline-demo"


@pytest.fixture(scope="module")
def pipeline(demo_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    work: Path = tmp_path_factory.mktemp("work")
    # At scale zero no schedule fires: this module looks at the stack, it does not run the pipeline.
    with LocalAws(demo_template, STACK, workdir=work, preload=(), schedule_scale=0) as engine:
        yield engine


def test_everything_is_known(pipeline: LocalAws) -> None:
    assert not pipeline.report.unknown
    assert not pipeline.problems
    names = {name.removeprefix(f"{STACK}-") for name in pipeline.functions}
    assert names == {f.name for f in FUNCTIONS}
    groups = {g for found in pipeline.access_entries.values() for g in found}
    assert groups == {f"aicr-pipeline:{f.name}" for f in FUNCTIONS if f.faces_kubernetes}
    roles = {f.role for f in pipeline.functions.values()}
    assert set(pipeline.access_entries) <= roles


def test_every_function_finds_program_and_configuration(pipeline: LocalAws) -> None:
    for function in pipeline.functions.values():
        assert any((p / "aicr_pipeline").is_dir() for p in function.python_path), function.name
        config = json.loads(Path(function.environment["CLUSTER_CONFIG"]).read_text())
        assert config["cluster"]["name"] == "demo"


def test_services_may_call_the_functions(pipeline: LocalAws) -> None:
    """A forgotten AWS::Lambda::Permission is silent on AWS."""
    events = pipeline.client("events")
    seen = 0
    for rule in events.list_rules()["Rules"]:
        for target in events.list_targets_by_rule(Rule=rule["Name"])["Targets"]:
            if ":lambda:" in target["Arn"]:
                name = target["Arn"].split(":")[6]
                assert pipeline._targets.allowed(name, "events.amazonaws.com", rule["Arn"]), rule["Name"]
                seen += 1
    assert seen >= 5


def test_addresses_are_local(pipeline: LocalAws) -> None:
    pages = pipeline.functions[f"{STACK}-serve_approvals"]
    assert pages.environment["APPROVAL_URL"].rstrip("/") == pipeline.api_url
    assert pipeline.outputs["ApprovalUrl"].rstrip("/") == pipeline.api_url


def test_both_machines_start_by_their_alias_and_stop(pipeline: LocalAws) -> None:
    states = pipeline.client("stepfunctions")
    for output in ("ResolveMachine", "RolloutMachine"):
        alias = pipeline.outputs[output]
        arn = states.start_execution(stateMachineArn=alias, name="t", input="{}")["executionArn"]
        states.stop_execution(executionArn=arn)
        ended = pipeline.wait_execution(arn, timeout=30)
        assert ended.status in ("ABORTED", "FAILED")
        described = states.describe_execution(executionArn=arn)
        assert described["stateMachineAliasArn"] == alias
        kinds = [e["detail"]["status"] for e in pipeline.events if e["resources"] == [arn]]
        assert kinds == ["RUNNING", ended.status]


def test_resources_are_found_by_construct_path(pipeline: LocalAws) -> None:
    some = next(r for r in pipeline.resources.values() if r.type == "AWS::DynamoDB::Table")
    assert some.path.startswith(f"{STACK}/")
    assert pipeline.physical(some.path) == pipeline.outputs["CoordinationTable"]
