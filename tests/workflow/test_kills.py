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

from infra.resolve import main as resolve_by_hand
from local.aws.model import ExecutionView, InvokeResult
from local.kube import JOBS, PODS
from tests.workflow.machine import Machine, machine, runtime
from tests.workflow.small.machine import small_bundle

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("kills")]

STATES = (
    "Check prerequisites",
    "Take snapshot",
    "Render bundle",
    "Read bundle",
    "Mirror chart",
    "Write plan",
    "Announce plan",
    "Record resolve",
)
#: States that wait, in which an execution is stopped.
STOPPED = ("Take snapshot", "Render bundle", "Stabilize")


class Kills:
    """Runs of one runtime; ``lose`` says whose answers are lost, each once."""

    def __init__(self, running: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running, self.aws = running, running.pipeline.aws
        self.sfn = self.aws.client("stepfunctions")
        self.arn = running.pipeline.machine("resolve")
        self.pushes: Counter[tuple[str, str]] = Counter()
        self.lose: set[tuple[int, str]] = set()
        self._lock = threading.Lock()
        lambdas, store = self.aws._lambdas, running.pipeline.registry.store
        invoke, put_manifest = lambdas.invoke, store.put_manifest

        def lossy(name: str, body: bytes) -> InvokeResult:
            result = invoke(name, body)
            return self._lost(json.loads(body)) or result

        def counted(repository: str, reference: str, content: bytes, media_type: str) -> str:
            self.pushes[repository, reference] += 1
            return put_manifest(repository, reference, content, media_type)

        monkeypatch.setattr(lambdas, "invoke", lossy)
        monkeypatch.setattr(store, "put_manifest", counted)

    def _lost(self, event: dict[str, Any]) -> InvokeResult | None:
        run = event.get("input", {}).get("run")
        with self._lock:
            if run is None or (number(run), event.get("state")) not in self.lose:
                return None
            self.lose.remove((number(run), event.get("state")))
        document = {"errorType": "ClientError", "errorMessage": "the answer was lost"}
        return InvokeResult(json.dumps(document).encode(), "Unhandled", "request", 1.0)

    def start(self, run: int) -> None:
        """Another run of the runtime that the first is for."""
        first = self.views()[0]
        name = f"{first.name.rpartition('-')[0]}-{run}"
        state = {**first.input, "run": name, "trigger": "hand"}
        self.sfn.start_execution(
            stateMachineArn=self.aws.outputs["ResolveMachine"], name=name, input=json.dumps(state)
        )

    def redrive(self, view: ExecutionView, number: int) -> ExecutionView:
        """Let a run that was killed go on at its state, under its name.

        The engine has no redrive: a machine of its own begins with that state and what it was given.
        """
        found, state = self.sfn.describe_state_machine(stateMachineArn=self.arn), self.entered(view)
        made = self.sfn.create_state_machine(
            name=f"redrive-{number}-{view.name}",
            definition=json.dumps(json.loads(found["definition"]) | {"StartAt": state["name"]}),
            roleArn=found["roleArn"],
        )
        arn = made["stateMachineArn"]
        self.sfn.start_execution(stateMachineArn=arn, name=view.name, input=state["input"])
        return self.aws.executions(arn)[0]

    def stop(self, view: ExecutionView, state: str) -> None:
        """Stop an execution while it waits in a state; for a Job when there is one."""
        job = {"Take snapshot": "snapshot", "Render bundle": "render"}.get(state)

        def waits() -> bool:
            names = {found["metadata"]["name"] for found in self.jobs()}
            is_there = job is None or f"{view.name}-{job}-1" in names
            return bool(self.entered(view).get("name") == state and is_there)

        self.running.wait(waits, 60, f"waiting in {state}")
        self.sfn.stop_execution(executionArn=view.arn, error="Killed")

    def ended(self, view: ExecutionView) -> ExecutionView:
        """Wait until an execution ended, and its functions with it: a Map leaves some behind."""
        found = self.aws.wait_execution(view.arn, timeout=100)
        self.running.wait(lambda: not any(p.busy for p in self.aws.processes()), 60, "quiet functions")
        return found

    def views(self) -> list[ExecutionView]:
        return self.aws.executions(self.arn)

    def jobs(self) -> list[Any]:
        return list(self.running.pipeline.kube.store.list(JOBS, "aicr-system"))

    def entered(self, view: ExecutionView) -> dict[str, Any]:
        """The state of the machine itself that was entered last."""
        entered = [event.get("stateEnteredEventDetails") for event in self.aws.history(view.arn)]
        states = [state for state in entered if state and state["name"] != "Mirror chart"]
        return dict(states[-1]) if states else {}


def number(run: str) -> int:
    return int(run.rpartition("-")[2])


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kills]:
    folder = tmp_path_factory.mktemp("kills")
    bundle = small_bundle(folder / "bundle")
    with (
        machine(folder / "work", bundle=bundle) as running,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        for name, value in running.pipeline.aws.environment().items():
            monkeypatch.setenv(name, value)
        yield Kills(running, monkeypatch)


def test_one_run_killed_at_each_of_its_states_goes_on(kills: Kills) -> None:
    states = (*STATES[:6], "Stabilize", *STATES[6:])
    # Stopped first: while its Job runs.
    moments = [(s, kind) for s in states for kind, of in (("stop", STOPPED), ("lose", STATES)) if s in of]
    view = None
    for count, (state, kind) in enumerate(moments):
        kills.lose = {(1, state)} if kind == "lose" else set()
        if view is None:
            kills.running.pipeline.submit(runtime())
            kills.running.wait(lambda: kills.views(), 60, "a resolve")
            view = kills.views()[0]
        else:
            view = kills.redrive(view, count)
        if kind == "stop":
            kills.stop(view, state)
        view = kills.ended(view)
        expected = ("ABORTED", "Killed") if kind == "stop" else ("FAILED", "ClientError")
        assert (view.status, view.error) == expected, f"{state}: {view.cause}"
        assert kills.entered(view)["name"] == ("Mirror charts" if state == "Mirror chart" else state)
    assert view is not None
    view = kills.ended(kills.redrive(view, len(moments)))
    assert (view.status, view.cause) == ("SUCCEEDED", None)
    kills.aws.quiet()
    assert len(_keys(kills.running, f"resolves/{view.name}/stalls/")) == 1, "the one that had an event"
    _one_of_everything(kills, {view.name})


def test_a_fresh_run_after_runs_that_were_killed_at_each_state(kills: Kills) -> None:
    dead = dict(enumerate(STATES, start=2))
    kills.lose = set(dead.items())
    for run in dead:
        kills.start(run)
    for view in kills.views()[1:]:
        assert kills.ended(view).error == "ClientError"
    assert kills.lose == set()
    kills.aws.quiet()
    for view in kills.views()[1:]:
        stalls = _keys(kills.running, f"resolves/{view.name}/stalls/")
        # One that had told people of its end is no stall.
        assert len(stalls) == (0 if dead[number(view.name)] == "Record resolve" else 1), view.name
    # The way a person asks for one.
    assert resolve_by_hand("demo") == 0
    fresh = kills.ended(kills.views()[-1])
    assert (fresh.status, fresh.cause) == ("SUCCEEDED", None)
    assert fresh.input["trigger"] == "hand"
    assert fresh.output["recorded"]["event"] == "Plan Ready"
    kills.aws.quiet()
    _one_of_everything(kills, {view.name for view in kills.views()})


def _one_of_everything(kills: Kills, runs: set[str]) -> None:
    """One plan, one rollout that waits for its approval, nothing pushed twice, no Job without its run."""
    running, aws = kills.running, kills.aws
    (plan,) = _keys(running, "plans/")
    digest = f"sha256:{plan[6:-5]}"
    assert {key: times for key, times in kills.pushes.items() if times != 1} == {}
    jobs = kills.jobs()
    assert {job["metadata"]["labels"][RUN_LABEL] for job in jobs} <= runs
    kinds = {(job["metadata"]["labels"][RUN_LABEL], job["metadata"]["name"].split("-")[-2]) for job in jobs}
    assert len(kinds) == len(jobs), "a second attempt"
    running.wait(lambda: all(_is_complete(job) for job in kills.jobs()), 60, "the end of every Job")
    pods = running.pipeline.kube.store.list(PODS, "aicr-system")
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
    # However often the plan was announced.
    running.wait(lambda: aws.executions(running.pipeline.machine("rollout")), 30, "a rollout")
    (rollout,) = aws.executions(running.pipeline.machine("rollout"))
    assert (rollout.status, rollout.input["toPlan"]) == ("RUNNING", digest)

    def waiters() -> list[str]:
        return [sk for pk, sk in _items(running) if pk == "WAITERS"]

    asked = [f"{rollout.name}/request_approval"]
    running.wait(lambda: waiters() == asked, 30, "that only the approval is waited for")
    items = _items(running)
    assert items["LOCK", "rollout"]["holder"]["S"] == rollout.name
    assert json.loads(items["FACT", "target"]["value"]["S"])["plan"] == digest
    assert aws.problems == []


def _is_complete(job: dict[str, Any]) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def _keys(running: Machine, prefix: str) -> list[str]:
    s3, bucket = running.pipeline.aws.client("s3"), running.pipeline.aws.outputs["LedgerBucket"]
    return [item["Key"] for item in s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])]


def _items(running: Machine) -> dict[tuple[str, str], Any]:
    aws = running.pipeline.aws
    found = aws.client("dynamodb").scan(TableName=aws.outputs["CoordinationTable"])["Items"]
    return {(item["pk"]["S"], item["sk"]["S"]): item for item in found}
