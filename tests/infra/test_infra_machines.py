"""Both state machines, as the template holds them."""

import importlib
import json
import pkgutil
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aicr_pipeline
import pytest
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.config import load_cluster_config
from aicr_pipeline.model.reasons import ROLLOUT_REASONS

from infra.asl import RETRY, function_of
from infra.functions import RESOLVE_FUNCTIONS, ROLLOUT_FUNCTIONS
from infra.node import ensure_node
from infra.sources import Sources, tree_hash
from tests.infra.conftest import DEMO, PRIVATE
from tests.infra.templates import Stack
from tests.npm import installed

RESOLVE_STATES = {
    "Check prerequisites",
    "Prerequisites met?",
    "Take snapshot",
    "Snapshot taken?",
    "Render bundle",
    "Bundle rendered?",
    "Read bundle",
    "Bundle read?",
    "Mirror charts",
    "Mirror chart",
    "Write plan",
    "Plan written?",
    "Stabilize",
    "Announce plan",
    "Record resolve",
    "Resolve stalled?",
    "Resolve stalled",
    "Resolve complete",
}
ROLLOUT_STATES = {
    "Assess transition",
    "Transition assessed?",
    "Approval needed?",
    "Request approval",
    "Approved?",
    "Roll out releases",
    "Check gate",
    "Gate open?",
    "Gate closed",
    "Hold step",
    "Apply release",
    "Release applied?",
    "Release refused",
    "Wait until ready",
    "Validation required?",
    "Validate deployment",
    "Validation passed?",
    "Confirm criteria",
    "Criteria confirmed?",
    "Bind evidence",
    "Evidence bound?",
    "Record outcome",
    "Rollout succeeded?",
    "Rollout complete",
    "Rollout ended",
}
TOKEN_STATES = {
    "Take snapshot",
    "Render bundle",
    "Request approval",
    "Hold step",
    "Wait until ready",
    "Validate deployment",
    "Confirm criteria",
}


def definition(stack: Stack, machine: str) -> dict[str, Any]:
    """The machine's definition, each function's ARN replaced by one that names the function."""
    (found,) = [
        resource["Properties"]
        for resource in stack.of_type("AWS::StepFunctions::StateMachine").values()
        if resource["Properties"]["StateMachineName"].endswith(f"-{machine}")
    ]
    _, parts = found["DefinitionString"]["Fn::Join"]
    text = "".join(
        part if isinstance(part, str) else _arn(stack.function_of(part["Fn::GetAtt"][0])) for part in parts
    )
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def _arn(function: str) -> str:
    return f"arn:aws:lambda:us-west-2:111122223333:function:{function}"


def levels(machine: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The machine, and the inner one of each Map."""
    yield machine
    for state in machine["States"].values():
        if state["Type"] == "Map":
            yield from levels(state["ItemProcessor"])


def states(machine: dict[str, Any]) -> dict[str, Any]:
    """All states by name, those of Maps too."""
    return {name: state for level in levels(machine) for name, state in level["States"].items()}


def targets(state: dict[str, Any]) -> set[str]:
    """Where a state may go on to."""
    found = {state[key] for key in ("Next", "Default") if key in state}
    found |= {choice["Next"] for choice in state.get("Choices", [])}
    return found | {catch["Next"] for catch in state.get("Catch", [])}


@pytest.fixture(params=["resolve", "rollout"])
def machine(request: pytest.FixtureRequest, demo: Stack) -> dict[str, Any]:
    return definition(demo, request.param)


def test_states_are_the_agreed_ones(demo: Stack) -> None:
    assert set(states(definition(demo, "resolve"))) == RESOLVE_STATES
    assert set(states(definition(demo, "rollout"))) == ROLLOUT_STATES


def test_every_state_leads_to_states_that_exist_and_is_reached(machine: dict[str, Any]) -> None:
    for level in levels(machine):
        reached, todo = set(), [level["StartAt"]]
        while todo:
            name = todo.pop()
            assert name in level["States"], f"{name} does not exist"
            if name not in reached:
                reached.add(name)
                todo += targets(level["States"][name])
        assert reached == set(level["States"])


def test_a_state_and_its_function_are_the_same_words(demo: Stack) -> None:
    for machine, functions in (("resolve", RESOLVE_FUNCTIONS), ("rollout", ROLLOUT_FUNCTIONS)):
        called = set()
        for name, state in states(definition(demo, machine)).items():
            if state["Type"] != "Task":
                continue
            parameters = state["Parameters"]
            arn = parameters["FunctionName"] if name in TOKEN_STATES else state["Resource"]
            payload = parameters["Payload"] if name in TOKEN_STATES else parameters
            assert arn == _arn(function_of(name))
            assert payload["state"] == name
            called.add(function_of(name))
        assert called == set(functions)


def test_only_waiting_states_get_a_token(machine: dict[str, Any]) -> None:
    for name, state in states(machine).items():
        if state["Type"] == "Task":
            waits = state["Resource"].endswith(".waitForTaskToken")
            assert waits == (name in TOKEN_STATES)
            assert waits == ("token.$" in state["Parameters"].get("Payload", {}))


def test_every_task_retries_transient_errors_only_and_is_bounded(machine: dict[str, Any]) -> None:
    for name, state in states(machine).items():
        if state["Type"] == "Task":
            assert state["Retry"] == RETRY, name
            assert state["TimeoutSeconds"] > 0, name
    assert RETRY[0]["BackoffRate"] == 2
    assert RETRY[0]["JitterStrategy"] == "FULL"
    assert RETRY[0]["MaxAttempts"] == 5
    assert not any(error.startswith("States.") for error in RETRY[0]["ErrorEquals"])


def test_somebody_elses_operation_is_waited_for_half_an_hour() -> None:
    (found,) = [retry for retry in RETRY if "OperationInFlightError" in retry["ErrorEquals"]]
    assert (found["IntervalSeconds"], found["BackoffRate"], found["MaxAttempts"]) == (20, 1, 90)
    assert found["ErrorEquals"] == ["OperationInFlightError"]


def test_every_transient_error_is_retried_by_its_name() -> None:
    """A subclass has a name of its own: one that no Retry has would stop the execution at once."""
    for module in pkgutil.walk_packages(aicr_pipeline.__path__, "aicr_pipeline."):
        if module.name.split(".")[1] in ("actions", "adapters", "decide", "errors"):
            importlib.import_module(module.name)
    known, todo = set(), [TransientError]
    while todo:
        error = todo.pop()
        known.add(error.__name__)
        todo += error.__subclasses__()
    assert {"TransientError", "ObjectConflictError", "OperationInFlightError"} <= known
    retried = [name for retry in RETRY for name in retry["ErrorEquals"]]
    # A key that nobody may use stays so until somebody acts: the execution stops there, and is redriven then.
    assert known - set(retried) == {"SigningKeyError"}
    assert len(retried) == len(set(retried)), "the first that matches counts"


def test_every_task_is_told_of_redrives(machine: dict[str, Any]) -> None:
    for name, state in states(machine).items():
        if state["Type"] == "Task":
            payload = state["Parameters"].get("Payload", state["Parameters"])
            assert payload["redrives.$"] == "$$.Execution.RedriveCount", name


def test_service_integrations_are_of_the_clusters_partition(demo: Stack, private: Stack) -> None:
    for stack, partition in ((demo, "aws"), (private, "aws-us-gov")):
        found = {
            state["Resource"]
            for name in ("resolve", "rollout")
            for state in states(definition(stack, name)).values()
            if state["Type"] == "Task" and ":states:::" in state["Resource"]
        }
        assert found == {f"arn:{partition}:states:::lambda:invoke.waitForTaskToken"}


def test_only_the_map_catches_and_only_the_domains_reasons(demo: Stack) -> None:
    caught = {
        name: state["Catch"]
        for machine in ("resolve", "rollout")
        for name, state in states(definition(demo, machine)).items()
        if "Catch" in state
    }
    assert list(caught) == ["Roll out releases"]
    (catch,) = caught["Roll out releases"]
    assert catch["ErrorEquals"] == [reason.value for reason in ROLLOUT_REASONS]
    assert catch["ResultPath"] == "$.ended"


def test_items_know_the_executions_input_and_themselves(demo: Stack) -> None:
    rolling = states(definition(demo, "rollout"))["Roll out releases"]
    assert rolling["MaxConcurrency"] == 1
    assert rolling["ItemSelector"]["item.$"] == "$$.Map.Item.Value"
    assert {"rollout.$", "cluster.$", "fromPlan.$", "toPlan.$", "deadline.$"} < set(rolling["ItemSelector"])
    for name, state in rolling["ItemProcessor"]["States"].items():
        if state["Type"] == "Task":
            payload = state["Parameters"].get("Payload", state["Parameters"])
            assert payload["item.$"] == "$.item", name
    assert states(definition(demo, "resolve"))["Mirror charts"]["MaxConcurrency"] == 8


def test_validation_that_is_neither_required_nor_disabled_goes_nowhere(demo: Stack) -> None:
    choice = states(definition(demo, "rollout"))["Validation required?"]
    assert "Default" not in choice
    assert {test["StringEquals"] for test in choice["Choices"]} == {"Required", "Disabled"}


def test_only_a_plain_no_skips_the_approval(demo: Stack) -> None:
    choice = states(definition(demo, "rollout"))["Approval needed?"]
    assert choice["Default"] == "Request approval"
    (only,) = choice["Choices"]
    assert only["BooleanEquals"] is False


def test_waits_outlive_the_configured_deadline(demo: Stack, private: Stack) -> None:
    for stack, seconds in ((demo, 6 * 3600), (private, 12 * 3600)):
        assert states(definition(stack, "rollout"))["Request approval"]["TimeoutSeconds"] == seconds + 300


def test_asl_validator_finds_nothing(machine: dict[str, Any], tmp_path: Path) -> None:
    ensure_node()
    script = installed("asl-validator", "4.0.0") / "dist" / "bin" / "asl-validator.js"
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(machine))
    node = shutil.which("node")
    assert node is not None
    assert _validate(node, script, file).returncode == 0, _validate(node, script, file).stderr
    # It must also be able to find something.
    first = machine["States"][machine["StartAt"]]
    first["Next"] = "Nowhere"
    file.write_text(json.dumps(machine))
    assert _validate(node, script, file).returncode != 0


def _validate(node: str, script: Path, file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node, str(script), "--json-path", str(file)], capture_output=True, text=True, timeout=60
    )


def test_versions_are_kept_and_follow_definition_and_code(stack: Stack) -> None:
    versions = stack.of_type("AWS::StepFunctions::StateMachineVersion")
    assert len(versions) == 2
    for logical_id, version in versions.items():
        assert version["DeletionPolicy"] == version["UpdateReplacePolicy"] == "Retain"
        marked = re.search(r"Version ([0-9a-f]{12})$", version["Properties"]["Description"])
        assert marked is not None
        assert marked[1] in logical_id
        # The definition holds it too: without a new revision AWS would publish no new version.
        machine = stack.resources[version["Properties"]["StateMachineArn"]["Ref"]]
        text = json.dumps(machine["Properties"]["DefinitionString"])
        assert f"Version {marked[1]}" in text
        assert f'machineVersion\\":\\"{marked[1]}' in text


def test_starts_go_through_an_alias_on_the_published_version(stack: Stack) -> None:
    aliases = stack.of_type("AWS::StepFunctions::StateMachineAlias")
    assert len(aliases) == 2
    for alias in aliases.values():
        assert alias["Properties"]["Name"] == "live"
        (route,) = alias["Properties"]["RoutingConfiguration"]
        assert route["Weight"] == 100
        version = stack.resources[route["StateMachineVersionArn"]["Fn::GetAtt"][0]]
        assert version["Type"] == "AWS::StepFunctions::StateMachineVersion"


def test_logging_is_on_without_execution_data(stack: Stack) -> None:
    for machine in stack.of_type("AWS::StepFunctions::StateMachine").values():
        properties = machine["Properties"]
        assert properties["StateMachineType"] == "STANDARD"
        assert properties["LoggingConfiguration"]["Level"] == "ALL"
        assert properties["LoggingConfiguration"]["IncludeExecutionData"] is False
        assert properties["TracingConfiguration"] == {"Enabled": True}


def test_the_version_changes_with_definition_code_and_settings(tmp_path: Path) -> None:
    sources = Sources.found(tmp_path)
    demo_config, other = load_cluster_config(DEMO), load_cluster_config(PRIVATE)
    first = sources.version("definition", demo_config)
    assert re.fullmatch(r"[0-9a-f]{12}", first)
    assert first == sources.version("definition", demo_config)
    assert first != sources.version("another definition", demo_config)
    assert first != sources.version("definition", other)


def test_the_code_hash_follows_content_and_names_not_leftovers(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text("1")
    first = tree_hash(tmp_path)
    (tmp_path / "a" / "__pycache__").mkdir()
    (tmp_path / "a" / "__pycache__" / "b.pyc").write_text("2")
    assert tree_hash(tmp_path) == first
    (tmp_path / "a" / "b.py").write_text("2")
    second = tree_hash(tmp_path)
    (tmp_path / "a" / "b.py").rename(tmp_path / "a" / "c.py")
    assert len({first, second, tree_hash(tmp_path)}) == 3
