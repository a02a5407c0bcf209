"""AICR's Jobs through the resolve machine, with real faults: each ends with its reason, or is tried again.

The real command is a shim here that writes its calls down and breaks as it is told to; what it renders is
the stand-in's.
"""

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from local.kube import (
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    NODES,
    RESOURCE_QUOTAS,
    SECRETS,
)
from local.kube.options import DeleteOptions
from local.progress import Progress
from tests.workflow.machine import ROOT, Machine, machine, runtime
from tests.workflow.small.machine import small_bundle

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("workflow-jobs")]

SPACE = "aicr-system"


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shim")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, shim: Path) -> Iterator[Machine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "AICR_BIN", shlex.join([sys.executable, str(ROOT / "tests" / "aicr_shim.py"), str(shim)])
        )
        patch.setenv("AICR_BIN_COMMANDS", "snapshot,recipe,bundle")
        folder = tmp_path_factory.mktemp("jobs")
        with machine(folder / "work", bundle=small_bundle(folder / "bundle")) as found:
            yield found


@pytest.fixture
def wish() -> bytes:
    return runtime(paused=True)


def jobs(running: Machine, run: str) -> list[dict[str, Any]]:
    found = running.pipeline.kube.store.list(JOBS, namespace=SPACE)
    return [job for job in found if job["metadata"]["labels"]["aicr-pipeline.dev/run"] == run]


def names(running: Machine, ended: Progress) -> list[str]:
    found = sorted(job["metadata"]["name"] for job in jobs(running, ended.name))
    return [name.removeprefix(f"{ended.name}-") for name in found]


def owned(running: Machine, ended: Progress) -> set[str]:
    store = running.pipeline.kube.store
    found = [item["metadata"]["name"] for ref in (CONFIG_MAPS, SECRETS) for item in store.list(ref, SPACE)]
    return {name.removeprefix(f"{ended.name}-") for name in found if name.startswith(ended.name)}


def break_next(shim: Path, command: str, *faults: str) -> None:
    (shim / f"{command}.faults").write_text("\n".join(faults))


@contextmanager
def minutes_later(running: Machine, minutes: int) -> Iterator[None]:
    """What is made now looks as old to whoever judges it: nobody waits here."""
    store = running.pipeline.kube.store
    clock = store.clock
    store.clock = lambda: datetime.now(UTC) - timedelta(minutes=minutes)
    try:
        yield
    finally:
        store.clock = clock


def stalled(running: Machine, wish: bytes, reason: str) -> tuple[str, Progress]:
    ended = running.resolve(wish)
    assert (ended.status, ended.error) == ("FAILED", reason), ended.cause
    assert reason in (running.pipeline.aws.messages[-1].subject or ""), "people are told"
    return ended.cause or "", ended


# Another attempt


def test_what_passes_is_tried_again_and_a_refused_push_gets_another_token(
    running: Machine, shim: Path, wish: bytes
) -> None:
    break_next(shim, "snapshot", "7")
    break_next(shim, "bundle", "wrong password")
    ended = running.resolve(wish)
    assert ended.status == "SUCCEEDED", ended.cause
    assert names(running, ended) == ["render-1", "render-2", "snapshot-1", "snapshot-2"]
    assert ended.output["rendering"]["tag"] == f"{ended.name}-2"
    log = (running.pipeline.ledger(f"resolves/{ended.name}/jobs/{ended.name}-render-1.log") or b"").decode()
    assert "command failed" in log
    assert running.pipeline.ledger(f"resolves/{ended.name}/jobs/{ended.name}-render-2.log") is None
    snapshot = running.pipeline.kube.store.get(CONFIG_MAPS, f"{ended.name}-snapshot-2", namespace=SPACE)
    assert "snapshot.yaml" in snapshot["data"], "AICR wrote into what was made ahead"
    assert owned(running, ended) == set(names(running, ended))
    for job in jobs(running, ended.name):
        # As the controller does when a Job's time to live is over.
        over = DeleteOptions(propagation="Foreground")
        running.pipeline.kube.store.delete(JOBS, job["metadata"]["name"], SPACE, over)
    assert owned(running, ended) == set(), "everything of a Job goes with it"


def test_a_push_that_stays_refused_ends_after_the_second(running: Machine, shim: Path, wish: bytes) -> None:
    break_next(shim, "bundle", "no password", "wrong password", "never asked")
    said, ended = stalled(running, wish + b"# refused\n", "AICRUnauthorized")
    assert names(running, ended) == ["render-1", "render-2", "snapshot-1"]
    assert "ended with exit code 4 (the registry or the cluster refused it). Its last words:" in said
    break_next(shim, "bundle")


@pytest.mark.parametrize(
    ("code", "reason"),
    [(2, "AICRInvalidRequest"), (3, "AICRNotFound"), (5, "AICRTimeout"), (8, "AICRInternal")],
)
def test_an_exit_code_has_its_reason(
    running: Machine, shim: Path, wish: bytes, code: int, reason: str
) -> None:
    break_next(shim, "snapshot", str(code))
    said, ended = stalled(running, wish + f"# {code}\n".encode(), reason)
    assert names(running, ended) == ["snapshot-1"], "once"
    assert f"ended with exit code {code}. Its last words:" in said
    assert "broken on purpose" in said
    assert "not-for-people" not in said
    kept = (
        running.pipeline.ledger(f"resolves/{ended.name}/jobs/{ended.name}-snapshot-1.log") or b""
    ).decode()
    assert "broken on purpose" in kept
    assert "not-for-people" not in kept


# What AICR does not see


def test_a_snapshot_that_saw_nothing_though_aicr_ended_with_zero(running: Machine, wish: bytes) -> None:
    store = running.pipeline.kube.store
    binding = store.get(CLUSTER_ROLE_BINDINGS, "aicr-snapshot")
    store.delete(CLUSTER_ROLE_BINDINGS, "aicr-snapshot")
    said, ended = stalled(running, wish + b"# blind\n", "SnapshotIncomplete")
    store.apply({key: binding[key] for key in ("apiVersion", "kind", "roleRef", "subjects")} | {
        "metadata": {"name": "aicr-snapshot"}})  # fmt: skip
    assert "AICR could not read the cluster's API" in said
    (job,) = jobs(running, ended.name)
    assert job["status"]["succeeded"] == 1


# What never starts


def test_an_image_that_cannot_be_pulled(running: Machine) -> None:
    image = f"{running.pipeline.config.aicr.image.partition('@')[0]}@sha256:{'9' * 64}"
    pin = {"version": running.pipeline.config.aicr.version, "image": image}
    with minutes_later(running, 6):
        said, _ = stalled(running, runtime(paused=True, aicr=pin), "JobNotStarted")
    assert f'cannot start: ImagePullBackOff: Back-off pulling image "{image}"' in said


def test_a_namespace_that_lets_no_privileged_pod_in(running: Machine, wish: bytes) -> None:
    store, label = running.pipeline.kube.store, "pod-security.kubernetes.io/enforce"
    before = store.get(NAMESPACES, SPACE)["metadata"]["labels"][label]
    store.merge(NAMESPACES, SPACE, {"metadata": {"labels": {label: "restricted"}}})
    with minutes_later(running, 6):
        said, _ = stalled(running, wish + b"# restricted\n", "JobNotStarted")
    store.merge(NAMESPACES, SPACE, {"metadata": {"labels": {label: before}}})
    assert "no pod could be made: Error creating: pods" in said
    assert 'violates PodSecurity "restricted:latest"' in said


@pytest.mark.parametrize("what", ["pods", "count/jobs.batch"])
def test_a_namespace_that_is_full(running: Machine, wish: bytes, what: str) -> None:
    store = running.pipeline.kube.store
    store.create(
        RESOURCE_QUOTAS, {"metadata": {"name": "team"}, "spec": {"hard": {what: "0"}}}, namespace=SPACE
    )
    with minutes_later(running, 6):
        said, _ = stalled(running, wish + f"# {what}\n".encode(), "JobNotStarted")
    store.delete(RESOURCE_QUOTAS, "team", namespace=SPACE)
    assert f"exceeded quota: team, requested: {what}=1" in said


def test_nodes_that_take_no_pod(running: Machine, wish: bytes) -> None:
    """The group has nodes whose taints are tolerated; that they are cordoned shows at the scheduler only."""
    store = running.pipeline.kube.store
    nodes = [node["metadata"]["name"] for node in store.list(NODES)]
    for name in nodes:
        store.merge(NODES, name, {"spec": {"unschedulable": True}})
    with minutes_later(running, 16):
        said, _ = stalled(running, wish + b"# cordoned\n", "JobNotStarted")
    for name in nodes:
        store.merge(NODES, name, {"spec": {"unschedulable": None}})
    assert "no node took its pod within 15 minutes: 0/4 nodes are available" in said


# The calls


def test_the_calls_are_the_real_commands(running: Machine, shim: Path, captured: Path) -> None:
    """Each flag that a Job gave is one that the captured help of the real command names."""
    calls = [json.loads(line) for line in (shim / "calls.jsonl").read_text().splitlines()]
    assert {call[0] for call in calls} == {"--version", "snapshot", "recipe", "bundle"}
    for command, *arguments in calls:
        if command == "--version":
            continue
        text = (captured / "cli" / "help" / f"{command}.txt").read_text()
        for flag in (word for word in arguments if word.startswith("-") and word != "-"):
            assert f"{flag} " in text or f"{flag}," in text, (command, flag)


def test_nothing_else_broke(running: Machine) -> None:
    assert running.pipeline.aws.problems == []
