"""When something is resolved, what is rolled out of it, and what people hear: one machine, one day."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.model.rollout import step_key

from local.argocd import Fault, Scenario
from local.aws.model import ExecutionView
from local.kube import JOBS
from local.progress import progress
from tests.workflow import exhibits
from tests.workflow.machine import ROOT, Machine, machine, runtime
from tests.workflow.small.machine import small_bundle

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("when")]

START = "aicr-pipeline-demo-start_resolve"


def wish(number: int, **spec: Any) -> bytes:
    return runtime(overrides={"cert-manager": {"number": number}}, **spec)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("when")
    document = yaml.safe_load((ROOT / "clusters" / "demo.yaml").read_text())
    document["resolve"] = {"schedule": "cron(0 6 * * ? *)"}
    (folder / "demo.yaml").write_text(yaml.safe_dump(document))
    bundle = small_bundle(folder / "bundle")
    with machine(folder / "work", cluster=folder / "demo.yaml", bundle=bundle) as found:
        yield found


def executions(running: Machine, name: str) -> list[ExecutionView]:
    return running.pipeline.aws.executions(running.pipeline.machine(name))


def events(running: Machine, run: str) -> list[str]:
    """The ends of a run on the bus."""
    found = running.pipeline.aws.events
    return [
        event["detail-type"]
        for event in found
        if event["source"] == "aicr.pipeline" and event["detail"].get("run") == run
    ]


def subjects(running: Machine, seen: int) -> list[str]:
    return [message.subject or "" for message in running.pipeline.aws.messages[seen:]]


def target(running: Machine) -> str:
    aws = running.pipeline.aws
    key = {"pk": {"S": "FACT"}, "sk": {"S": "target"}}
    item = aws.client("dynamodb").get_item(TableName=aws.outputs["CoordinationTable"], Key=key)["Item"]
    return str(json.loads(item["value"]["S"])["plan"])


def scheduled(running: Machine, slot: str) -> dict[str, Any]:
    """What Scheduler delivers for a slot; the answer of the function."""
    event = json.dumps({"source": "schedule", "at": slot})
    answer: dict[str, Any] = running.pipeline.aws.invoke(START, event).json()
    return answer


def test_the_clock_before_the_first_runtime(running: Machine) -> None:
    running.pipeline.aws.fire("resolve")
    running.pipeline.aws.quiet()
    assert executions(running, "resolve") == []
    assert running.pipeline.aws.problems == []
    assert "no runtime was submitted yet" in running.pipeline.aws.logs(START)


def test_a_newer_runtime_supersedes_the_one_that_resolves(running: Machine) -> None:
    aws, store = running.pipeline.aws, running.pipeline.kube.store
    running.pipeline.submit(wish(1))
    running.wait(lambda: store.list(JOBS, "aicr-system"), 60, "the snapshot Job")
    ended = running.resolve(wish(2))
    older, newer = executions(running, "resolve")
    assert older.output["recorded"] == {"event": "Resolve Superseded"}
    assert "plan" not in older.output
    assert events(running, older.name) == ["Resolve Superseded"]
    assert (ended.status, ended.output["recorded"]) == ("SUCCEEDED", {"event": "Plan Ready"})
    assert events(running, newer.name) == ["Plan Ready"]
    exhibits.seen(running, "ResolveSuperseded", f"{older.name} gave way to {newer.name}, and succeeded.")
    # Its one Job ended before it did; nobody heard of it.
    jobs = [job for job in store.list(JOBS, "aicr-system") if older.name in job["metadata"]["name"]]
    assert [job["status"]["conditions"][-1]["type"] for job in jobs] == ["Complete"]
    assert not any(older.name in message.message for message in aws.messages)
    assert target(running) == ended.output["plan"]["digest"]
    running.link()
    assert len(executions(running, "rollout")) == 1
    assert any(subject.startswith("[aicr demo] plan ready: ") for subject in subjects(running, 0))


def test_an_unchanged_plan_by_schedule_starts_and_says_nothing(running: Machine) -> None:
    aws = running.pipeline.aws
    seen, before = len(aws.messages), executions(running, "resolve")[-1]
    aws.fire("resolve")
    aws.fire("resolve")
    running.wait(lambda: len(executions(running, "resolve")) > 2, 30, "a scheduled resolve")
    found = aws.wait_execution(executions(running, "resolve")[-1].arn, timeout=90)
    aws.quiet()
    assert len(executions(running, "resolve")) == 3, "one slot, one run"
    assert (found.status, found.input["trigger"]) == ("SUCCEEDED", "schedule")
    assert found.output["plan"] == before.output["plan"] | {"isNew": False}
    assert events(running, found.name) == ["Plan Unchanged"]
    assert subjects(running, seen) == []
    assert [view.status for view in executions(running, "rollout")] == ["RUNNING"]


def test_a_resolve_that_fails_keeps_the_last_good_plan(running: Machine) -> None:
    aws = running.pipeline.aws
    good, seen = target(running), len(aws.messages)
    assert running.resolve(runtime(surprise=1)).error == "InvalidRuntime"
    assert subjects(running, seen) == ["[aicr demo] Resolved=False: InvalidRuntime"] * len(
        _approvers(running)
    )
    seen = len(aws.messages)
    for slot in ("2026-01-02T06:00:00Z", "2026-01-02T07:00:00Z"):
        answer = scheduled(running, slot)
        assert answer["started"] is True
        found = aws.wait_execution(executions(running, "resolve")[-1].arn, timeout=60)
        assert found.error == "InvalidRuntime"
        aws.quiet()
        assert events(running, found.name) == ["Resolve Stalled"]
    # The second of the day with the same reason is an event only.
    assert subjects(running, seen) == ["[aicr demo] Resolved=False: InvalidRuntime"] * len(
        _approvers(running)
    )
    assert target(running) == good
    assert [view.status for view in executions(running, "rollout")] == ["RUNNING"]


def _approvers(running: Machine) -> dict[str, str]:
    found: dict[str, str] = json.loads(running.pipeline.aws.outputs["ApproverTopics"])
    return found


def test_paused_is_resolved_and_unpausing_rolls_out(running: Machine) -> None:
    aws = running.pipeline.aws
    good, seen = target(running), len(aws.messages)
    paused = running.resolve(wish(3, paused=True))
    assert paused.output["recorded"] == {"event": "Plan Paused"}
    assert target(running) == good
    assert all(subject.startswith("[aicr demo] plan paused: ") for subject in subjects(running, seen))
    assert len(executions(running, "rollout")) == 1
    going = running.resolve(wish(3))
    assert going.output["plan"]["digest"] == paused.output["plan"]["digest"] == target(running)
    # The older question goes, and another is asked.
    running.wait(lambda: len(executions(running, "rollout")) == 2, 100, "a second rollout")
    older = aws.wait_execution(executions(running, "rollout")[0].arn, timeout=60)
    assert older.error == "RolloutSuperseded"
    assert running.outcome(older.name)["outcome"] == "Superseded"
    assert executions(running, "rollout")[1].input["toPlan"] == target(running)


def test_a_rollout_that_runs_is_not_disturbed(running: Machine) -> None:
    aws, arn = running.pipeline.aws, running.pipeline.machine("rollout")

    def rolls() -> bool:
        now = progress(aws, arn)
        return now is not None and bool(now.steps)

    asked = "-".join(executions(running, "rollout")[1].name.split("-")[-2:])
    running.wait(lambda: running.link()[1] == asked, 60, "the question about the second rollout")
    running.pipeline.argocd.scenario = Scenario({"cert-manager": Fault(health="Progressing")})
    running.approve()
    running.wait(rolls, 60, "the first step")
    seen = len(executions(running, "resolve"))
    running.pipeline.submit(wish(4))
    running.wait(lambda: len(executions(running, "resolve")) > seen, 60, "a resolve")
    newer = aws.wait_execution(executions(running, "resolve")[-1].arn, timeout=90)
    assert newer.output["recorded"] == {"event": "Plan Ready"}
    assert rolls() and executions(running, "rollout")[1].status == "RUNNING"
    running.pipeline.argocd.scenario = Scenario()
    second = aws.wait_execution(executions(running, "rollout")[1].arn, timeout=120)
    assert (second.status, second.cause) == ("SUCCEEDED", None)
    running.wait(lambda: len(executions(running, "rollout")) == 3, 60, "the newer plan's rollout")
    third = executions(running, "rollout")[2]
    assert (third.input["fromPlan"], third.input["toPlan"]) == (second.input["toPlan"], target(running))
    assert running.pipeline.aws.problems == []


def test_a_token_answered_past_the_pages_opens_nothing(running: Machine) -> None:
    """An administrator, or whoever found the token in a history, says that people approved."""
    aws, waits = running.pipeline.aws, executions(running, "rollout")[2]
    table = Coordination(aws.client("dynamodb"), aws.outputs["CoordinationTable"])

    def tokens() -> list[str]:
        found = [waiter for waiter in table.waiters() if waiter.wanted.get("rollout") == waits.name]
        return [waiter.token for waiter in found if waiter.kind == "approval"]

    running.wait(tokens, 60, "the question")
    forged = json.dumps({"decision": "Approved", "by": ["mallory"]})
    aws.client("stepfunctions").send_task_success(taskToken=tokens()[0], output=forged)
    ended = aws.wait_execution(waits.arn, timeout=60)
    assert ended.error == "RolloutFailed" and "No approval is recorded" in (ended.cause or "")
    assert running.outcome(waits.name)["installed"] == []
    assert running.pipeline.ledger(step_key(waits.name, 1)) is None
