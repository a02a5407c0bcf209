"""Every way in which a rollout stops or waits, in the words that a person reads on page and terminal."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from aicr_pipeline import status as status_command
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.clock import now, parse_time, rfc3339
from moto.stepfunctions.parser.asl.component.state import state as state_module

from local.approve import answer
from local.argocd import Fault
from local.argocd.installed import controller
from local.kube import APP_PROJECTS, APPLICATIONS, ROLE_BINDINGS
from local.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.workflow import exhibits
from tests.workflow.small.machine import RELEASES, SmallMachine
from tests.workflow.small.terminal import run, told

SLOW = Fault(health="Progressing")


def asked(small: SmallMachine, plan: str | None = None) -> tuple[str, int]:
    """A rollout that asks: its plan, and the messages before its question."""
    plan, sent = plan or small.plan(), small.offset
    small.start(plan)
    small.link(after=sent)
    return plan, sent


def in_step_one(small: SmallMachine) -> int:
    """A rollout whose first step is in flight; the messages before its question."""
    small.faults(cert_manager=SLOW)
    _, sent = asked(small)
    small.approve()
    small.step(1)
    return sent


def stopped(small: SmallMachine, reason: str, *words: str, outcome: str = "Failed", sent: int) -> str:
    """The rollout ended with this reason, and everybody is told the same: execution, ledger, mail, page,
    terminal. Returns its message."""
    ended = small.ended()
    record = small.outcome(ended.name)
    assert (ended.error, record["reason"], record["outcome"]) == (reason, reason, outcome), ended.cause
    small.pipeline.aws.quiet()
    mail = next(m.message for m in reversed(small.pipeline.aws.messages) if reason in m.message)
    page, terminal = " ".join(small.page(after=sent).split()), told(small)
    for word in words:
        assert word in record["message"], record["message"]
        assert word in mail
        assert word in terminal
    word = "ended" if outcome in ("Rejected", "Revoked") else "stalled"
    assert f"rollout {ended.name} {word}: " in terminal
    assert f'data-state="{outcome.lower()}"' in page or words[0] in page
    return str(record["message"])


def test_the_messages_that_people_know(small: SmallMachine) -> None:
    assert "Ready=False (NoActivePlan)\n  No rollout has succeeded yet." in told(small)
    small.faults(gpu_operator=SLOW)
    asked(small)
    name = small.pipeline.aws.executions(small.pipeline.machine("rollout"))[-1].name
    assert f"Ready=False (AwaitingApproval)\n  rollout {name} awaiting approval" in told(small)
    small.approve()
    small.step(2)
    said = told(small)
    assert f"Ready=False (RollingOut)\n  rollout {name}: step 2/3 gpu-operator (Install)" in said
    assert f"rollout       {name}: on, step 2/3" in said
    small.faults()
    assert small.ended().status == "SUCCEEDED"
    said = told(small)
    assert "cluster demo: Ready=True (ValidationDisabled)\n  3 releases are ready\n" in said
    assert "releases      3 of 3 are ready" in said
    assert "no message reaches" not in said or "subscription" in said


def test_rejected(small: SmallMachine) -> None:
    _, sent = asked(small)
    link, short_name = small.link(after=sent)
    answer(link, short_name, "not this week", "Rejected")
    message = stopped(small, "RolloutRejected", "not this week", outcome="Rejected", sent=sent)
    assert message.startswith("Rejected by ")
    assert [small.application(release) for release in RELEASES] == [None] * 3


def test_expired(small: SmallMachine) -> None:
    _, sent = asked(small)
    small.expire()
    wake(small)
    stopped(small, "RolloutExpired", "Nobody answered until", outcome="Expired", sent=sent)


def test_superseded(small: SmallMachine) -> None:
    _, sent = asked(small)
    first = small.pipeline.aws.executions(small.pipeline.machine("rollout"))[-1].name
    newer = small.plan()
    small.start(newer)
    arn = small.pipeline.aws.executions(small.pipeline.machine("rollout"))[small.seen].arn
    assert small.pipeline.aws.wait_execution(arn, timeout=60).error == "RolloutSuperseded"
    assert f"Plan {newer} is wanted by now" in small.outcome(first)["message"]
    assert 'data-state="superseded"' in small.page(after=sent)
    exhibits.seen(small, "RolloutSuperseded", small.outcome(first)["message"], first)
    small.link(after=small.offset)
    small.wait(lambda: "awaiting approval" in told(small), 30, "the newer question")
    assert first not in told(small), "what took its place speaks"


def wake(small: SmallMachine) -> None:
    """Somebody or something wakes the sweeper; that carries no truth."""
    bus = Bus(small.pipeline.aws.client("events"), "default", small.pipeline.config.cluster.name)
    bus.announce("Waiter Registered", {"waiter": "x"})


def test_a_pause_in_the_middle_holds_the_next_step_until_it_is_lifted(small: SmallMachine) -> None:
    sent = in_step_one(small)
    small.wish(paused=True)
    small.faults()
    name = small.pipeline.aws.executions(small.pipeline.machine("rollout"))[-1].name
    small.wait(lambda: small.pipeline.ledger(f"rollouts/{name}/ready/0001.json"), 60, "the first release")
    small.wait(
        lambda: any("is paused" in m.message for m in small.pipeline.aws.messages[sent:]), 30, "a message"
    )
    said = told(small)
    assert f"Ready=False (Paused)\n  rollout {name} is paused before step 2/3 gpu-operator (Install)" in said
    assert small.application("gpu-operator") is None
    page = small.page(after=sent)
    assert "The runtime is paused" in page and "Acknowledge" not in page
    small.wish()
    wake(small)
    assert small.ended().status == "SUCCEEDED"
    assert "Ready=True" in told(small)
    paused = [m for m in small.pipeline.aws.messages[sent:] if "is paused" in m.message]
    assert len(paused) == len({m.topic_arn for m in paused}), "told once"


def test_a_deleted_runtime_stops_the_rollout_and_removes_nothing(small: SmallMachine) -> None:
    sent = in_step_one(small)
    aws = small.pipeline.aws
    aws.client("s3").delete_object(Bucket=aws.outputs["InboxBucket"], Key="runtimes/cluster.yaml")
    small.faults()
    ended = small.ended()
    assert ended.error == "Deleting", ended.cause
    outcome = small.outcome(ended.name)
    assert "What is installed stays, and nothing is removed" in outcome["message"]
    assert (outcome["installed"], outcome["notInstalled"]) == (list(RELEASES[:1]), list(RELEASES[1:]))
    aws.quiet()
    # Woken by S3's event: nobody asked.
    said = run(small, status_command)
    assert (
        "Ready=False (Deleting)\n  The runtime was deleted from the inbox: nothing is removed, and nothing "
        "is checked any more."
    ) in said
    assert "nothing is removed" in small.page(after=sent)
    assert small.application("cert-manager") is not None
    small.wish()
    plan = small.plan()
    small.start(plan)
    small.approve()
    assert small.ended().status == "SUCCEEDED"
    assert "Ready=True" in told(small)


def tampered(small: SmallMachine, release: str) -> None:
    """Somebody changes the values of an installed release, and Argo CD compares them."""
    store = small.pipeline.kube.store
    patch = {"spec": {"source": {"helm": {"valuesObject": {"somebody": "was here"}}}}}
    store.merge(APPLICATIONS, release, patch, "argocd")
    small.wait(
        lambda: "somebody" in json.dumps((small.application(release) or {})["status"]["sync"]["comparedTo"]),
        30,
        "the comparison",
    )


def test_drift_is_told_between_rollouts_and_stops_the_next(small: SmallMachine) -> None:
    small.installed()
    tampered(small, "cert-manager")
    drift = "cert-manager: its Application asks for something else than the active plan"
    assert f"Ready=False (InventoryDrift)\n  {drift}" in told(small)
    plan, sent = asked(small)
    assert drift in told(small), "a question hides no drift"
    small.approve()
    again = "somebody changed it. Submit the runtime again"
    stopped(small, "InventoryDrift", "cert-manager is at sha256:", again, sent=sent)
    small.start(plan)
    small.approve()
    assert small.ended().status == "SUCCEEDED", "the fresh rollout applies everything"
    assert "Ready=True" in told(small)


def test_a_move_whose_old_release_is_gone(small: SmallMachine) -> None:
    active = small.installed()

    def move(state: dict[str, Any]) -> None:
        state["releases"][0]["namespace"] = "monitoring"

    _, sent = asked(small, small.plan(move, of=active))
    small.pipeline.kube.store.delete(APPLICATIONS, "cert-manager", "argocd")
    assert "cert-manager: its Application is gone" in told(small)
    small.approve()
    stopped(small, "MovedReleaseMissing", "was to move from namespace cert-manager", sent=sent)


@contextmanager
def project(small: SmallMachine, **spec: Any) -> Iterator[None]:
    """Another spec of the AppProject for a while; without one it is gone."""
    store = small.pipeline.kube.store
    before = store.get(APP_PROJECTS, "aicr", "argocd")
    if spec:
        store.merge(APP_PROJECTS, "aicr", {"spec": spec}, "argocd")
    else:
        store.delete(APP_PROJECTS, "aicr", "argocd")
    try:
        yield
    finally:
        if spec:
            store.merge(APP_PROJECTS, "aicr", {"spec": dict.fromkeys(spec)}, "argocd")
        else:
            kept = {key: before[key] for key in ("apiVersion", "kind", "spec")}
            metadata = {key: before["metadata"][key] for key in ("name", "namespace", "labels")}
            store.create(APP_PROJECTS, kept | {"metadata": metadata}, "argocd")


def test_the_project_is_gone(small: SmallMachine) -> None:
    _, sent = asked(small)
    with project(small):
        small.approve()
        stopped(small, "ProjectMissing", "AppProject aicr is gone from argocd", sent=sent)
        assert "EngineAvailable  False   ProjectMissing" in told(small)


def test_argo_cd_is_gone(small: SmallMachine) -> None:
    store, name = small.pipeline.kube.store, "applications.argoproj.io"
    _, sent = asked(small)
    kept = store.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    store.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
    try:
        small.approve()
        stopped(small, "EngineMissing", "the Application CRD is missing. Install it again", sent=sent)
        assert "EngineAvailable  False   EngineMissing" in told(small)
    finally:
        definition = {key: kept[key] for key in ("apiVersion", "kind", "spec")}
        store.create(CUSTOM_RESOURCE_DEFINITIONS, definition | {"metadata": {"name": name}})


def test_a_sync_window_holds_the_step_until_it_is_over(small: SmallMachine) -> None:
    _, sent = asked(small)
    window = {"kind": "deny", "schedule": "* * * * *", "duration": "1h", "applications": ["*"]}
    with project(small, syncWindows=[window]):
        small.approve()
        name = small.pipeline.aws.executions(small.pipeline.machine("rollout"))[-1].name
        key = f"rollouts/{name}/holds/0001-EngineSuspended.json"
        small.wait(lambda: small.pipeline.ledger(key) is not None, 60, "the hold")
        small.wait(
            lambda: any("waits at" in (m.subject or "") for m in small.pipeline.aws.messages[sent:]),
            30,
            "a mail",
        )
        words = "A sync window of AppProject aicr denies syncs now: deny * * * * *"
        assert words in small.page(after=sent)
        assert small.application("cert-manager") is None
    wake(small)
    ended = small.ended()
    assert ended.status == "SUCCEEDED", (ended.error, ended.cause)


def test_the_controller_is_scaled_to_zero(small: SmallMachine) -> None:
    store = small.pipeline.kube.store
    _, sent = asked(small)
    away = controller("argocd")
    away["spec"]["replicas"] = 0
    store.apply(away, "argocd")
    try:
        small.approve()
        words = "Argo CD's application controller (argocd-application-controller) is scaled to zero"
        stopped(small, "EngineSuspended", words, sent=sent)
        assert f"Ready=False (EngineSuspended)\n  {words}, so nothing is synced." in told(small)
    finally:
        store.apply(controller("argocd"), "argocd")


def test_somebody_puts_automated_sync_back(small: SmallMachine) -> None:
    small.faults(gpu_operator=Fault(automates=True, health="Progressing"))
    _, sent = asked(small)
    small.approve()
    stopped(small, "EngineSuspensionRefused", "automated sync could not be taken off", sent=sent)


def test_the_cluster_refuses_us(small: SmallMachine) -> None:
    store = small.pipeline.kube.store
    _, sent = asked(small)
    name = "aicr-pipeline-check-gate"
    binding = store.get(ROLE_BINDINGS, name, "argocd")
    store.delete(ROLE_BINDINGS, name, "argocd")
    try:
        small.approve()
        stopped(small, "Unauthorized", "Check the access entry and the cluster manifests", sent=sent)
    finally:
        kept = {key: binding[key] for key in ("apiVersion", "kind", "roleRef", "subjects")}
        store.apply(kept | {"metadata": {"name": name}}, "argocd")


@pytest.mark.parametrize(
    ("damage", "reason", "words"),
    [("plan", "PlanUnreadable", "is not a plan document"), ("report", "StepUnknown", "has no step 2")],
)
def test_a_record_is_changed_in_the_middle(small: SmallMachine, damage: str, reason: str, words: str) -> None:
    sent = in_step_one(small)
    execution = small.pipeline.aws.executions(small.pipeline.machine("rollout"))[-1]
    if damage == "plan":
        key, body = f"plans/{execution.input['toPlan'][7:]}.json", b"{}"
        before = small.pipeline.ledger(key) or b""
    else:
        key = f"rollouts/{execution.name}/report.json"
        before = small.pipeline.ledger(key) or b""
        report = json.loads(before)
        report["steps"][1]["action"] = "Move"
        body = json.dumps(report).encode()
    small._put("LedgerBucket", key, body)
    small.faults()
    ended = small.ended()
    outcome = small.outcome(ended.name)
    assert (ended.error, outcome["reason"]) == (reason, reason), ended.cause
    assert words in outcome["message"]
    assert words in told(small)
    assert any(words in m.message for m in small.pipeline.aws.messages[sent:])
    page = small.page(after=sent)
    assert 'data-state="failed"' in page and reason in page and words in page


def survives_the_table(small: SmallMachine) -> None:
    """The status is the same from ledger and cluster alone."""
    before = json.loads(run(small, status_command, "--rebuild", "--json"))
    table, client = small.pipeline.aws.outputs["CoordinationTable"], small.pipeline.aws.client("dynamodb")
    kept = client.scan(TableName=table)["Items"]
    for row in kept:
        client.delete_item(TableName=table, Key={"pk": row["pk"], "sk": row["sk"]})
    try:
        after = json.loads(run(small, status_command, "--rebuild", "--json"))
    finally:
        for row in kept:
            client.put_item(TableName=table, Item=row)
    for found in (before, after):
        del found["observedAt"]
        for condition in found["conditions"]:
            del condition["lastTransitionTime"]
    assert before == after


def test_what_is_seen_after_a_rollout(small: SmallMachine) -> None:
    """One rollout: its status without the table, a release that is not healthy, and drift that is mended."""
    plan, sent = small.plan(), small.offset
    small.start(plan)
    small.approve()
    assert small.ended().status == "SUCCEEDED"
    survives_the_table(small)
    small.faults(gpu_operator=Fault(health="Degraded", message="a node reboots"))
    small.wait(lambda: "Degraded" in json.dumps(small.application("gpu-operator")), 30, "Degraded")
    said = told(small)
    assert "Ready=False (NotReady)\n  gpu-operator: Degraded a node reboots" in said
    assert "releases      2 of 3 are ready" in said
    assert 'data-state="succeeded"' in small.page(after=sent), "the page is about its rollout"
    small.faults()
    small.wait(lambda: "Degraded" not in json.dumps(small.application("gpu-operator")), 30, "Healthy")
    assert "Ready=True" in told(small)
    small.start(plan)
    small.pipeline.aws.quiet()
    runs = small.pipeline.machine("rollout")
    assert len(small.pipeline.aws.executions(runs)) == small.seen, "nothing is news"
    small.pipeline.kube.store.delete(APPLICATIONS, "gpu-operator", "argocd")
    assert "Ready=False (InventoryDrift)\n  gpu-operator: its Application is gone" in told(small)
    small.start(plan)
    small.approve()
    ended = small.ended()
    assert ended.status == "SUCCEEDED", ended.cause
    assert [step.action for step in ended.steps.values()] == ["Reconfigure"] * 3
    assert "Ready=True" in told(small)


def test_expired_in_the_middle(small: SmallMachine) -> None:
    sent = in_step_one(small)
    # Its wait is registered a moment after the gate.
    small.wait(lambda: '"Progressing"' in json.dumps(small.application("cert-manager")), 30, "Progressing")
    small.expire()
    stopped(small, "RolloutExpired", "step 1/3 cert-manager (Install)", outcome="Expired", sent=sent)


def test_a_token_that_would_run_out_during_the_step(
    small: SmallMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is renewed too late: the gate has waited ten minutes for it."""
    _, sent = asked(small)
    soon = rfc3339(now() + timedelta(minutes=10))
    old = {"mintedAt": rfc3339(now() - timedelta(hours=12)), "expiresAt": soon, "checkedAt": rfc3339(now())}
    small.put_fact("credentials", old)
    entered = state_module.StateData

    def long_ago(*, EnteredTime: str, **more: Any) -> Any:
        at = rfc3339(parse_time(EnteredTime) - timedelta(minutes=11))
        return entered(EnteredTime=at, **more)

    monkeypatch.setattr(state_module, "StateData", long_ago)
    small.approve()
    words = f"Argo CD's registry token expires at {soon}, too soon for a step"
    stopped(small, "RegistryCredentialsStale", words, sent=sent)
    small.pipeline.aws.quiet()
    assert parse_time((small.fact("credentials") or {})["expiresAt"]) > parse_time(soon), "it was asked for"
