"""The list of functions against their handlers: each gets the settings that it reads, and no other."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.functions import FUNCTIONS, FunctionSpec
from infra.names import function_name, machine_name
from infra.sources import FUNCTIONS_FOLDER, PROGRAM
from tests.infra.templates import Stack

WIRING = PROGRAM / "python" / "aicr_pipeline" / "wiring.py"
OUTGOING = WIRING.with_name("outgoing.py")
#: Given to every function, and read by what they share.
COMMON = {"CLUSTER_CONFIG", "POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_NAMESPACE"}


def settings_read(tree: ast.AST) -> set[str]:
    """Names in ``env.text("…")`` and ``env.mapping("…")``."""
    return {
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
        and node.func.attr in ("text", "mapping")
        and isinstance(node.args[0], ast.Constant)
    }


def called(tree: ast.AST) -> Iterator[str]:
    """Names of plain calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def wired() -> dict[str, set[str]]:
    """For each function of the wiring module, the settings that it comes to read."""
    bodies = {
        node.name: node for node in ast.parse(WIRING.read_text()).body if isinstance(node, ast.FunctionDef)
    }

    def settings(name: str) -> set[str]:
        inner = {other for other in called(bodies[name]) if other in bodies and other != name}
        return settings_read(bodies[name]).union(*(settings(other) for other in inner))

    return {name: settings(name) for name in bodies}


def read_by(handler: Path) -> set[str]:
    """The settings that a handler comes to read."""
    tree = ast.parse(handler.read_text())
    adapters = wired()
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "wiring"
        and node.attr in adapters
    }
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    # It wires for several functions, so what it comes to read is theirs.
    others = [OUTGOING] if f"aicr_pipeline.{OUTGOING.stem}" in imported else []
    return settings_read(tree).union(*(adapters[name] for name in used), *map(read_by, others))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_settings_are_what_the_handler_reads(function: FunctionSpec) -> None:
    assert set(function.environment) == read_by(FUNCTIONS_FOLDER / function.name / "handler.py") - COMMON


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_only_functions_that_use_the_cluster_face_it(function: FunctionSpec) -> None:
    text = (FUNCTIONS_FOLDER / function.name / "handler.py").read_text()
    assert function.faces_kubernetes == ("wiring.cluster" in text or "wiring.argocd" in text)


def test_long_cluster_names_stay_apart_and_within_the_limits() -> None:
    first, second = "a" * 39 + "b", "a" * 39 + "c"
    for function in FUNCTIONS:
        one, two = function_name(first, function.name), function_name(second, function.name)
        assert one != two
        assert len(one) <= 64
        assert one.endswith(f"-{function.name}")
    assert function_name("demo", "check_gate") == "aicr-pipeline-demo-check_gate"
    assert len(machine_name(first, "resolve")) <= 80


@pytest.mark.parametrize(
    ("which", "cluster"), [("demo", "demo"), ("private", "a-private-cluster-with-a-name-of-40-char")]
)
def test_metrics_of_each_cluster_are_apart_and_watched_where_they_are(
    request: pytest.FixtureRequest, which: str, cluster: str
) -> None:
    stack: Stack = request.getfixturevalue(which)
    for name, properties in stack.functions().items():
        found = properties["Environment"]["Variables"]["POWERTOOLS_METRICS_NAMESPACE"]
        assert found == f"AicrPipeline/{cluster}", name
    alarms = json.dumps(stack.of_type("AWS::CloudWatch::Alarm"))
    assert set(re.findall(r'"Namespace": "(AicrPipeline[^"]*)"', alarms)) == {f"AicrPipeline/{cluster}"}
