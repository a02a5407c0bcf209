"""The deployment phase's checks, on what the API shows. Pure: objects in, results out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from local.aicr.constraints import satisfied
from local.aicr.snapshot import accelerator


@dataclass(frozen=True)
class World:
    """What the checks look at: the recipe, Argo CD's Applications by name, and the nodes."""

    recipe: dict[str, Any]
    applications: dict[str, dict[str, Any]]
    nodes: list[dict[str, Any]]


@dataclass(frozen=True)
class Result:
    """One check's end, in CTRF's words; ``message`` says what is wrong."""

    name: str
    status: str
    stdout: list[str] = field(default_factory=list)
    message: str = ""
    milliseconds: int = 0


def unhealthy(world: World, component: str) -> str:
    """Why a component is not as it should be, or nothing."""
    application = world.applications.get(component)
    if application is None:
        return f"{component}: no Application of that name"
    status = application.get("status") or {}
    health = (status.get("health") or {}).get("status", "Unknown")
    sync = (status.get("sync") or {}).get("status", "Unknown")
    return "" if (health, sync) == ("Healthy", "Synced") else f"{component}: {health}, {sync}"


def operator_health(world: World) -> Result:
    """The GPU Operator is Healthy."""
    problem = unhealthy(world, "gpu-operator")
    if problem:
        return Result("operator-health", "failed", ["gpu-operator is not healthy"], problem)
    return Result("operator-health", "passed", ["gpu-operator is healthy"])


def expected_resources(world: World) -> Result:
    """Every component of the recipe is Healthy."""
    names = [item["name"] for item in world.recipe.get("componentRefs") or []]
    problems = [problem for name in names if (problem := unhealthy(world, name))]
    seen = f"checked {len(names)} components, {len(names) - len(problems)} healthy"
    if problems:
        return Result("expected-resources", "failed", [seen, *problems], "; ".join(problems))
    return Result("expected-resources", "passed", [seen])


def gpu_operator_version(world: World) -> Result:
    """The version the recipe pins meets the recipe's own constraint."""
    deployment = (world.recipe.get("validation") or {}).get("deployment") or {}
    wanted = next(
        (
            item["value"]
            for item in deployment.get("constraints") or []
            if item["name"] == "Deployment.gpu-operator.version"
        ),
        "",
    )
    version = next(
        (item.get("version", "") for item in world.recipe["componentRefs"] if item["name"] == "gpu-operator"),
        "",
    )
    if not wanted:
        return Result("gpu-operator-version", "skipped", ["the recipe names no constraint"])
    text = f"gpu-operator {version}, wanted {wanted}"
    if satisfied(version, wanted):
        return Result("gpu-operator-version", "passed", [text])
    return Result("gpu-operator-version", "failed", [text], text)


def check_nvidia_smi(world: World) -> Result:
    """There are GPU nodes, and every schedulable one is Ready."""
    gpu = [node for node in world.nodes if accelerator(node)[0]]
    schedulable = [node for node in gpu if not (node.get("spec") or {}).get("unschedulable")]
    ready = [node for node in schedulable if _ready(node)]
    text = f"{len(ready)} of {len(schedulable)} schedulable GPU nodes answer"
    if not schedulable or len(ready) < len(schedulable):
        return Result("check-nvidia-smi", "failed", [text], text)
    return Result("check-nvidia-smi", "passed", [text])


def _ready(node: dict[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return all(item["status"] == "True" for item in conditions if item["type"] == "Ready")


CHECKS: dict[str, Callable[[World], Result]] = {
    "operator-health": operator_health,
    "expected-resources": expected_resources,
    "gpu-operator-version": gpu_operator_version,
    "check-nvidia-smi": check_nvidia_smi,
}


def checks_of(recipe: dict[str, Any]) -> list[str]:
    """The deployment checks a recipe names, in its order."""
    return list(((recipe.get("validation") or {}).get("deployment") or {}).get("checks") or [])


def report(results: list[Result], version: str, start: int, stop: int, timestamp: str) -> dict[str, Any]:
    """The CTRF report of the deployment phase; start and stop in milliseconds since the epoch."""
    count = {
        status: sum(1 for result in results if result.status == status)
        for status in ("passed", "failed", "skipped", "pending", "other")
    }
    return {
        "reportFormat": "CTRF",
        "specVersion": "0.0.1",
        "timestamp": timestamp,
        "generatedBy": "aicr",
        "results": {
            "tool": {"name": "aicr", "version": version},
            "summary": {"tests": len(results), **count, "start": start, "stop": stop},
            "tests": [_test(result) for result in results],
        },
    }


def _test(result: Result) -> dict[str, Any]:
    test: dict[str, Any] = {
        "name": result.name,
        "status": result.status,
        "duration": result.milliseconds,
        "suite": ["deployment"],
    }
    if result.message:
        test["message"] = result.message
    if result.stdout:
        test["stdout"] = result.stdout
    return test
