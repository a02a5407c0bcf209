"""A resolve that is killed at each of its states, and goes on: one plan, no Job or push too many.

Kills are of two kinds. A function's answer is lost after it did its work, and replaced by an error that no
state retries: whatever it did is done again. Or the execution is stopped while it waits.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from aicr_pipeline.decide.aicr_job import RUN_LABEL

from infra.asl import function_of
from infra.resolve import main as resolve_by_hand
from local.aws.model import InvokeResult
from local.kube import JOBS, PODS
from tests.workflow.machine import Machine, machine, runtime

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("kills")]

#: Run number -> the state whose function's answer is lost.
LOST = {
    1: "Mirror chart",
    2: "Check prerequisites",
    3: "Take snapshot",
    4: "Render bundle",
    5: "Read bundle",
    6: "Write plan",
    7: "Announce plan",
    8: "Record resolve",
}
#: Run number -> the state in which the execution is stopped.
STOPPED = {9: "Take snapshot", 10: "Render bundle", 11: "Stabilize"}


class Kills:
    """Drives runs of one runtime, kills each once, and lets it go on."""

    def __init__(self, running: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running, self.aws = running, running.pipeline.aws
        self.sfn = self.aws.client("stepfunctions")
        self.arn = running.pipeline.machine("resolve")
        self.pushes: Counter[tuple[str, str]] = Counter()
        self.killed: set[int] = set()
        self.redriven: set[str] = set()
        self._lock = threading.Lock()
        lambdas, store = self.aws._lambdas, running.pipeline.registry.store
        invoke, put_manifest = lambdas.invoke, store.put_manifest

        def lossy(name: str, body: bytes) -> InvokeResult:
            result = invoke(name, body)
            return self._lost(lambdas.find(name).name, body) or result

        def counted(repository: str, reference: str, content: bytes, media_type: str) -> str:
            self.pushes[repository, reference] += 1
            return put_manifest(repository, reference, content, media_type)

        monkeypatch.setattr(lambdas, "invoke", lossy)
        monkeypatch.setattr(store, "put_manifest", counted)

    def _lost(self, function: str, body: bytes) -> InvokeResult | None:
        run = json.loads(body).get("input", {}).get("run")
        if run is None:
            return None
        number = int(run.rpartition("-")[2])
        with self._lock:
            state = LOST.get(number)
            if state is None or number in self.killed or not function.endswith(f"-{function_of(state)}"):
                return None
            self.killed.add(number)
        document = {"errorType": "ClientError", "errorMessage": "the answer was lost"}
        return InvokeResult(json.dumps(document).encode(), "Unhandled", "request", 1.0)

    def start(self, number: int) -> None:
        """Another run of the runtime that run 1 is for."""
        first = self.views()[0]
        run = f"{first.name.rpartition('-')[0]}-{number}"
        state = {**first.input, "run": run, "trigger": "hand"}
        self.sfn.start_execution(
            stateMachineArn=self.aws.outputs["ResolveMachine"], name=run, input=json.dumps(state)
        )

    def views(self) -> list[Any]:
        return self.aws.executions(self.arn)

    def entered(self, arn: str) -> dict[str, Any]:
        """The state of the machine itself that was entered last."""
        entered = [
            event["stateEnteredEventDetails"]
            for event in self.aws.history(arn)
            if event["type"].endswith("StateEntered")
        ]
        found: dict[str, Any] = next((e for e in reversed(entered) if e["name"] != "Mirror chart"), {})
        return found

    def stop(self) -> None:
        """Stop each run of ``STOPPED`` while it waits in its state."""
        waiting = {int(view.name.rpartition("-")[2]): view for view in self.views()}
        left = {number: waiting[number] for number in STOPPED}

        def stopped() -> bool:
            for number, view in list(left.items()):
                state = STOPPED[number]
                job = f"{view.name}-{'snapshot' if state == 'Take snapshot' else 'render'}-1"
                if self.entered(view.arn).get("name") == state and (
                    state == "Stabilize" or self.has_job(job)
                ):
                    self.sfn.stop_execution(executionArn=view.arn, error="Killed")
                    del left[number]
            return not left

        self.running.wait(stopped, 100, "the states to stop in")

    def has_job(self, name: str) -> bool:
        return any(job["metadata"]["name"] == name for job in self.jobs())

    def jobs(self) -> list[Any]:
        return list(self.running.pipeline.kube.store.list(JOBS, "aicr-system"))

    def ended(self, arn: str) -> None:
        """Wait until all executions of a machine ended, and what they caused is done."""
        self.running.wait(
            lambda: all(v.status != "RUNNING" for v in self.aws.executions(arn)), 150, f"the ends of {arn}"
        )
        self.running.wait(lambda: not any(p.busy for p in self.aws.processes()), 60, "quiet functions")
        self.aws.quiet()

    def redrive(self) -> list[Any]:
        """Let every run that was killed go on at its state, under its name; returns how they ended.

        The engine has no redrive: a machine of its own begins with that state and what it was given.
        """
        machine_ = self.sfn.describe_state_machine(stateMachineArn=self.arn)
        arns = []
        for view in self.views():
            if view.status == "SUCCEEDED" or view.name in self.redriven:
                continue
            self.redriven.add(view.name)
            state = self.entered(view.arn)
            definition = json.loads(machine_["definition"]) | {"StartAt": state["name"]}
            made = self.sfn.create_state_machine(
                name=f"redrive-{view.name}", definition=json.dumps(definition), roleArn=machine_["roleArn"]
            )
            arns.append(made["stateMachineArn"])
            self.sfn.start_execution(stateMachineArn=arns[-1], name=view.name, input=state["input"])
        for arn in arns:
            self.ended(arn)
        return [view for arn in arns for view in self.aws.executions(arn)]


@pytest.fixture
def kills(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kills]:
    with machine(tmp_path) as running:
        yield Kills(running, monkeypatch)


def test_killed_at_each_state_and_gone_on(kills: Kills, monkeypatch: pytest.MonkeyPatch) -> None:
    running, aws = kills.running, kills.aws
    # The first alone: it is the one that pushes charts.
    assert running.resolve(runtime()).error == "ClientError"
    assert kills.entered(kills.views()[0].arn)["name"] == "Mirror charts"
    first = kills.redrive()
    assert [view.status for view in first] == ["SUCCEEDED"], first[0].cause
    for number in (*LOST, *STOPPED):
        if number != 1:
            kills.start(number)
    kills.stop()
    kills.ended(kills.arn)
    assert kills.killed == set(LOST)
    found = {int(v.name.rpartition("-")[2]): v for v in kills.views()}
    for number, state in (LOST | STOPPED).items():
        status, error = ("FAILED", "ClientError") if number in LOST else ("ABORTED", "Killed")
        assert (found[number].status, found[number].error) == (status, error)
        assert kills.entered(found[number].arn)["name"] == state.replace("Mirror chart", "Mirror charts")
        stalls = _keys(running, f"resolves/{found[number].name}/stalls/")
        # One that had told people of its end is no stall.
        assert len(stalls) == (0 if state == "Record resolve" else 1)
    again = [*first, *kills.redrive()]
    assert [(view.status, view.cause) for view in again] == [("SUCCEEDED", None)] * len(found)
    # Then a fresh run, the way a person asks for one.
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    assert resolve_by_hand("demo") == 0
    kills.ended(kills.arn)
    fresh = kills.views()[-1]
    assert fresh.status == "SUCCEEDED", fresh.cause
    assert fresh.input["trigger"] == "hand"

    (plan,) = _keys(running, "plans/")
    digest = f"sha256:{plan[6:-5]}"
    runs = [*again, fresh]
    assert {view.output["plan"]["digest"] for view in runs} == {digest}
    assert {view.output["recorded"]["event"] for view in runs} == {"Plan Ready"}
    _no_job_is_orphaned(kills, {view.name for view in runs})
    assert {key: times for key, times in kills.pushes.items() if times != 1} == {}
    bundles = [reference for repository, reference in kills.pushes if "/bundles/" in repository]
    assert sorted(bundles) == sorted(f"{view.name}-1" for view in runs)
    # Twelve runs want one plan: one rollout, which waits for its approval.
    (rollout,) = aws.executions(running.pipeline.machine("rollout"))
    assert (rollout.status, rollout.input["toPlan"]) == ("RUNNING", digest)
    items = _items(running)
    assert items["LOCK", "rollout"]["holder"]["S"] == rollout.name
    assert json.loads(items["FACT", "target"]["value"]["S"])["plan"] == digest
    assert [sk for pk, sk in items if pk == "WAITERS"] == [f"{rollout.name}/request_approval"]
    assert aws.problems == []


def _no_job_is_orphaned(kills: Kills, runs: set[str]) -> None:
    """Each run has its one Job of each kind, which ended, and nothing of them runs."""
    jobs = kills.jobs()
    names = {f"{run}-{purpose}-1" for run in runs for purpose in ("snapshot", "render")}
    assert {job["metadata"]["name"] for job in jobs} == names
    for job in jobs:
        assert job["metadata"]["labels"][RUN_LABEL] in runs
        assert [c["type"] for c in job["status"]["conditions"] if c["status"] == "True"][-1] == "Complete"
    pods = kills.running.pipeline.kube.store.list(PODS, "aicr-system")
    assert {pod["status"]["phase"] for pod in pods} <= {"Succeeded"}


def _keys(running: Machine, prefix: str) -> list[str]:
    s3, bucket = running.pipeline.aws.client("s3"), running.pipeline.aws.outputs["LedgerBucket"]
    return [item["Key"] for item in s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])]


def _items(running: Machine) -> dict[tuple[str, str], Any]:
    aws = running.pipeline.aws
    found = aws.client("dynamodb").scan(TableName=aws.outputs["CoordinationTable"])["Items"]
    return {(item["pk"]["S"], item["sk"]["S"]): item for item in found}
