"""What a resolve costs beside AICR's Jobs: large bundles, many nodes, and our own time of a whole resolve."""

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.bench.imports import LAYER, ROOT

_DRIVERS = Path(__file__).resolve().parent / "drivers"
#: Seconds and megabytes at the largest size.
BUNDLE_BUDGET, NODES_BUDGET = (1.0, 150.0), (10.0, 120.0)
OWN_SECONDS = 5.0
RELEASES, NODES = (100, 200, 400), (1250, 2500, 5000)
#: Of four times as much, for growth that is linear: so many times the processor's time.
LINEAR = 5.0
ROUNDS = 3


def resolve() -> bool:
    """All three; whether all are within their budgets."""
    return all([_bundles(), _nodes(), _own_time()])


def _bundles() -> bool:
    """Budget at 200 releases; 400 are measured for the growth."""
    found = {}
    with tempfile.TemporaryDirectory() as work:
        for count in RELEASES:
            folder = Path(work) / str(count)
            write_bundle(folder, count)
            found[count] = _measure("bundle", str(folder))
    return _report("releases", found, 200, BUNDLE_BUDGET)


def _nodes() -> bool:
    found = {}
    for count in NODES:
        with _cluster(count) as url:
            found[count] = _measure("nodes", url)
    return _report("nodes", found, 5000, NODES_BUDGET)


def _report(what: str, found: dict[int, dict[str, float]], at: int, budget: tuple[float, float]) -> bool:
    print(f"\n{what:>9} {'seconds':>8} {'peak':>8}")
    for count, cost in found.items():
        limit = f"   budget {budget[0]:g} s, {budget[1]:g} MB" if count == at else ""
        print(f"{count:9} {cost['seconds']:8.2f} {cost['peak']:5.0f} MB{limit}")
        assert cost["found"] == count, f"{cost['found']} of {count} {what} were read"
    least, most = min(found), max(found)
    growth = found[most]["busy"] / found[least]["busy"]
    print(f"{most // least} times as many take {growth:.1f} times the processor's time, at most {LINEAR:g}")
    within = found[at]["seconds"] <= budget[0] and found[at]["peak"] <= budget[1]
    return within and growth <= LINEAR


def _measure(what: str, where: str) -> dict[str, float]:
    """The quickest of three processes, and of them the least processor time; the largest peak."""
    environment = {**os.environ, "PYTHONPATH": str(LAYER)}
    command = [sys.executable, str(_DRIVERS / "resolve.py"), what, where]
    runs: list[dict[str, float]] = [
        json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]
    best = min(runs, key=lambda run: run["seconds"])
    return best | {"peak": max(run["peak"] for run in runs), "busy": min(run["busy"] for run in runs)}


@contextmanager
def _cluster(nodes: int) -> Iterator[str]:
    """The embedded cluster as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(LAYER)))}
    process = subprocess.Popen(
        [sys.executable, str(_DRIVERS / "cluster.py"), str(nodes)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(timeout=30)


def write_bundle(folder: Path, releases: int) -> None:
    """A bundle of so many releases with values as long as AICR's: 1.5 KB on average, up to 6 KB."""
    refs = [{"name": f"app-{number:03d}", "namespace": "apps"} for number in range(1, releases + 1)]
    recipe = {
        "apiVersion": "aicr.run/v1",
        "kind": "RecipeResult",
        "metadata": {"version": "v1.1.2", "name": "bench"},
        "componentRefs": refs,
        "constraints": [{"name": "K8s.server.version", "value": ">= 1.34"}],
    }
    files = {"recipe.yaml": _yaml(recipe)}
    for number, ref in enumerate(refs, 1):
        inside = f"{number:03d}-{ref['name']}"
        size = 6 if number % 10 == 0 else 1
        files[f"{inside}/values.yaml"] = _yaml(_values(size))
        files[f"{inside}/cluster-values.yaml"] = "{}\n"
        files[f"{inside}/upstream.env"] = (
            f"CHART='{ref['name']}'\nREPO='https://charts.example'\nVERSION='1.0.0'\n"
        )
        files[f"{inside}/install.sh"] = "#!/bin/sh\n" * 20
    sums = "".join(
        f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(files.items())
    )
    for name, text in {**files, "checksums.txt": sums}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _yaml(value: Any) -> str:
    import yaml

    return str(yaml.dump(value, Dumper=yaml.CSafeDumper))


def _values(kilobytes: int) -> dict[str, Any]:
    return {
        f"section{number}": {
            "enabled": True,
            "image": {"repository": f"registry.example/team/app-{number}", "tag": "v1.2.3"},
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        }
        for number in range(3 * kilobytes)
    }


def _own_time() -> bool:
    """Time in our functions during a second resolve of 17 releases: from each state's start to its end.

    Waiting for AICR's Jobs and for the stabilization window is not counted, nor is what the machinery of
    Step Functions takes between two states. Of "Mirror charts", whose items run side by side, it is the
    longest chain that counts: the time of the whole Map.
    """
    from tests.workflow.machine import machine, runtime

    with tempfile.TemporaryDirectory() as work, machine(Path(work)) as running:
        running.resolve(runtime(paused=True), timeout=300)
        totals = []
        for number in range(ROUNDS):
            ended = running.resolve(runtime(paused=True) + f"# again {number}\n".encode(), timeout=300)
            assert ended.status == "SUCCEEDED", ended.cause
            aws = running.pipeline.aws
            arn = aws.executions(running.pipeline.machine("resolve"))[-1].arn
            totals.append(own_seconds(aws.history(arn)))
    print(f"\n{'state':22} {'seconds':>8}   of the quickest of {ROUNDS} resolves with warm Jobs, 17 releases")
    best = min(totals, key=lambda found: sum(found.values()))
    for state, seconds in best.items():
        print(f"{state:22} {seconds:8.2f}")
    total, middle = sum(best.values()), statistics.median(sum(found.values()) for found in totals)
    print(f"{'all':22} {total:8.2f}   median {middle:.2f}, budget {OWN_SECONDS:g} s")
    return total <= OWN_SECONDS


def own_seconds(events: list[dict[str, Any]]) -> dict[str, float]:
    """By state, from an execution's history; a state that waits for a token ends where its function did."""
    found: dict[str, float] = {}
    state, began, depth = "", datetime.min, 0
    for event in events:
        kind, at = event["type"], event["timestamp"]
        if kind.endswith("StateEntered"):
            name = event["stateEnteredEventDetails"]["name"]
            if kind == "MapStateEntered":
                state, began, depth = name, at, 1
            elif not depth and kind == "TaskStateEntered":
                state, began = name, at
        elif kind == "MapStateExited":
            found[state], depth = (at - began).total_seconds(), 0
        elif not depth and kind in ("TaskSubmitted", "TaskSucceeded", "LambdaFunctionSucceeded"):
            found.setdefault(state, (at - began).total_seconds())
    return found
