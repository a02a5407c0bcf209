"""The status: made from ledger, inbox and cluster alone, told once per change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from aicr_pipeline.actions.record_resolve import record_resolve
from aicr_pipeline.actions.record_stall import record_stall
from aicr_pipeline.actions.start_rollout import start_rollout
from aicr_pipeline.actions.update_status import Sources, see, update_status
from aicr_pipeline.adapters.rollouts import load_rollout
from aicr_pipeline.adapters.statuses import read_status
from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.aicr_job import RUN_LABEL
from aicr_pipeline.decide.application import AUTOMATED, MANAGED_BY, MANAGED_BY_LABEL, SKIP, new_application
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.decide.subscriptions import Subscription
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key, step_key
from aicr_pipeline.model.status import Condition, ConditionType, Status
from aicr_pipeline.status import told as terminal

from local.argocd.installed import controller
from local.kube import APP_PROJECTS, APPLICATIONS
from local.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBS
from tests.functional.actions.support import (
    INBOX,
    LEDGER,
    PLAN,
    ROLLOUT,
    TABLE,
    Place,
    aws_error,
    step,
)
from tests.unit.samples import config, plan, release, sha

RELEASES = PLAN.desired_state.releases


@dataclass
class Looks:
    """What looks at the status, with what it measured."""

    place: Place
    measured: list[tuple[str, int]] = field(default_factory=list)
    executions: dict[str, Any] = field(default_factory=dict)
    subscribed: dict[str, list[Subscription]] = field(default_factory=dict)

    def __call__(self) -> Status:
        place = self.place
        place.notifier.subscriptions = lambda name: self.subscribed.get(name, [_CONFIRMED])  # type: ignore[method-assign]
        sources = Sources(
            place.config, place.ledger, place.inbox, place.cluster, place.argocd, place.notifier,
            self.state, self.state,
        )  # fmt: skip
        self.said = update_status(
            sources, place.coordination, place.bus, lambda *it: self.measured.append(it), place.clock
        )
        status = read_status(place.coordination)
        assert status is not None
        return status

    def state(self, name: str) -> Any:
        return self.executions.get(name, "absent")

    @property
    def ready(self) -> Condition:
        return self().condition(ConditionType.Ready)


_CONFIRMED = Subscription("x@example.com", True)


@pytest.fixture
def look(place: Place) -> Looks:
    return Looks(place)


def told(condition: Condition) -> tuple[str, str | None]:
    return condition.status, str(condition.reason) if condition.reason else None


def resolved(place: Place, **changes: Any) -> str:
    """A runtime that resolved to PLAN; returns its version."""
    version = place.submit(**changes.pop("spec", {}))
    state = {
        "run": execution_name("demo", version, 1), "cluster": "demo", "runtimeVersion": version,
        "plan": {"digest": PLAN.desired_state_digest, "releases": 2, "isNew": True},
        "announcement": {"announced": True, "event": "Plan Ready"},
    } | changes  # fmt: skip
    record_resolve(
        step("Record resolve", execution=state["run"], input=state, token=None),
        place.inbox, place.ledger, place.bus, place.notifier,
    )  # fmt: skip
    place.topics.sent.clear()
    return version


def install(place: Place, at: str = "2026-01-01T12:00:00Z", **status: Any) -> None:
    """Both releases, as they are after a rollout."""
    for made in RELEASES:
        body = new_application(made, place.config, PLAN.desired_state_digest, "x")
        del body["operation"]
        body["spec"]["syncPolicy"]["automated"] = AUTOMATED
        compared = {part: body["spec"][part] for part in ("source", "destination")}
        body["status"] = {
            "sync": {"status": "Synced", "revision": made.chart.manifest_digest, "comparedTo": compared},
            "health": {"status": "Healthy"},
            "reconciledAt": at,
            **status,
        }
        place.store.create(APPLICATIONS, body, namespace="argocd")


def succeeded(place: Place, name: str = ROLLOUT, reason: str = "RolledOut") -> None:
    ended(place, name, "Succeeded", reason, f"rollout {name}: 2 releases are ready at their revisions")


def ended(place: Place, name: str, outcome: str, reason: str, message: str) -> None:
    record = {
        "rollout": name,
        "outcome": outcome,
        "reason": reason,
        "message": message,
        "finishedAt": rfc3339(place.now),
    }
    place.put_json(rollout_key(name, "outcome"), record)


@pytest.fixture
def well(place: Place) -> Place:
    """A cluster whose rollout succeeded."""
    resolved(place)
    place.approve(place.put_rollout(PLAN))
    succeeded(place)
    install(place)
    return place


# What is well


def test_a_cluster_that_is_well(well: Place, look: Looks) -> None:
    status = look()
    assert {found.type.value: told(found) for found in status.conditions} == {
        "Resolved": ("True", None),
        "EngineAvailable": ("True", None),
        "Ready": ("True", "RolledOut"),
        "Stalled": ("False", None),
    }
    assert status.condition(ConditionType.Ready).message == "2 releases are ready"
    assert status.active_plan == status.resolved_plan == PLAN.desired_state_digest
    assert [(one.name, one.state) for one in status.releases] == [(one.name, "Ready") for one in RELEASES]
    assert look.measured == [("Ready", 1), ("RuntimeUnwell", 0)]
    assert well.events.details("Status Changed") == well.topics.sent == [], "nothing changed"


def test_without_validation_it_says_so(place: Place, look: Looks) -> None:
    resolved(place)
    place.put_rollout(PLAN)
    succeeded(place, reason="ValidationDisabled")
    install(place)
    assert told(look.ready) == ("True", "ValidationDisabled")


def test_times_stay_while_nothing_changes(well: Place, look: Looks) -> None:
    first = look()
    well.later(300)
    second = look()
    assert second.observed_at != first.observed_at
    assert second.conditions == first.conditions
    well.set_application("kai-scheduler", {"status": {"health": {"status": "Degraded"}}})
    third = look()
    assert third.condition(ConditionType.Ready).last_transition_time == rfc3339(well.now)
    assert third.condition(ConditionType.Resolved) == first.condition(ConditionType.Resolved)


def without_times(status: Status) -> dict[str, Any]:
    found = status.wire()
    del found["observedAt"]
    for condition in found["conditions"]:
        del condition["lastTransitionTime"]
    return found


def lose_the_table(place: Place) -> None:
    for item in place.dynamodb.scan(TableName=TABLE)["Items"]:
        place.dynamodb.delete_item(TableName=TABLE, Key={key: item[key] for key in ("pk", "sk")})
    assert read_status(place.coordination) is None


@pytest.mark.parametrize("where", ["well", "in step 2", "awaiting", "failed"])
def test_lost_and_made_anew_it_is_the_same_but_for_times(place: Place, look: Looks, where: str) -> None:
    resolved(place)
    report = place.put_rollout(PLAN)
    if where != "awaiting":
        place.approve(report)
    if where == "in step 2":
        begun(place, 1, 2)
    if where == "failed":
        ended(place, ROLLOUT, "Failed", "RolloutFailed", "step 2/2 kai-scheduler (Install): boom")
    if where == "well":
        succeeded(place)
    install(place)
    place.coordination.take_lock(ROLLOUT)
    place.want(PLAN)
    before = look()
    lose_the_table(place)
    place.later(60)
    assert without_times(look()) == without_times(before)


# A rollout that is on


def begun(place: Place, *indexes: int, ready: int = 0) -> None:
    """Steps that the gate let through; those up to ``ready`` were seen ready."""
    steps = json.loads(place.ledger.get(rollout_key(ROLLOUT, "report")) or b"{}")["steps"]
    for index in indexes:
        started = {"rollout": ROLLOUT, "index": index, "release": steps[index - 1]["release"], "at": "x"}
        place.put_json(step_key(ROLLOUT, index), started)
    for index in range(1, ready + 1):
        place.put_json(f"rollouts/{ROLLOUT}/ready/{index:04}.json", {})


def validation_job(place: Place, attempt: int) -> None:
    name = f"{ROLLOUT}-validate-{attempt}"
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}
    metadata = {"name": name, "labels": {RUN_LABEL: ROLLOUT}}
    place.store.create(JOBS, {"metadata": metadata, "spec": spec}, namespace="aicr-validation")


def test_the_messages_that_people_know(place: Place, look: Looks) -> None:
    resolved(place)
    assert told(look.ready) == ("False", "NoActivePlan")
    report = place.put_rollout(PLAN)
    found = look.ready
    assert (told(found), found.message) == (
        ("False", "AwaitingApproval"),
        f"rollout {ROLLOUT} awaiting approval",
    )
    place.approve(report)
    seen = []
    for change in (
        lambda: None,
        lambda: begun(place, 1),
        lambda: begun(place, 2, ready=1),
        lambda: place.put_json(f"rollouts/{ROLLOUT}/ready/0002.json", {}),
        lambda: (validation_job(place, 1), validation_job(place, 2)),
        lambda: place.put_json(f"rollouts/{ROLLOUT}/validation.json", {}),
    ):
        change()
        found = look.ready
        assert told(found) == ("False", "RollingOut")
        seen.append(found.message)
    assert seen == [
        f"rollout {ROLLOUT}: step 1/2 gpu-operator (Install)",
        f"rollout {ROLLOUT}: step 1/2 gpu-operator (Install)",
        f"rollout {ROLLOUT}: step 2/2 kai-scheduler (Install)",
        f"rollout {ROLLOUT}: deployment validation run about to start",
        f"rollout {ROLLOUT}: deployment validation run {ROLLOUT}-validate-2",
        f"rollout {ROLLOUT}: criteria are confirmed and evidence is bound",
    ]


@pytest.mark.parametrize("where", ["before the first step", "step 2 in flight", "validation"])
def test_an_approval_that_ran_out_is_not_waited_for(place: Place, look: Looks, where: str) -> None:
    """No further step begins; what is in flight goes on, and so does the validation."""
    resolved(place)
    place.approve(place.put_rollout(PLAN), expiresAt=rfc3339(place.now + timedelta(hours=1)))
    said = f"rollout {ROLLOUT}: step 1/2 gpu-operator (Install)"
    if where == "step 2 in flight":
        begun(place, 1, 2, ready=1)
        said = f"rollout {ROLLOUT}: step 2/2 kai-scheduler (Install)"
    if where == "validation":
        begun(place, 1, 2, ready=2)
        said = f"rollout {ROLLOUT}: deployment validation run about to start"
    place.later(2 * 3600)
    found = look.ready
    assert (told(found), found.message) == (("False", "RollingOut"), said)


def test_a_pause_in_the_middle(place: Place, look: Looks) -> None:
    resolved(place)
    place.approve(place.put_rollout(PLAN))
    begun(place, 1)
    resolved(place, spec={"paused": True}, announcement={"announced": False, "event": "Plan Paused"})
    assert told(look.ready) == ("False", "RollingOut"), "what is in flight goes on"
    place.put_json(f"rollouts/{ROLLOUT}/ready/0001.json", {})
    found = look.ready
    assert told(found) == ("False", "Paused")
    assert found.message == f"rollout {ROLLOUT} is paused before step 2/2 kai-scheduler (Install)"


def test_a_manual_step(place: Place, look: Looks) -> None:
    resolved(place)
    report = place.put_rollout(PLAN).wire()
    report["steps"][0] |= {"verdict": "manual", "verdictReason": "recorded"}
    body = json.dumps({**report, "approvalNeeded": False}).encode()
    place.s3.put_object(Bucket=LEDGER, Key=rollout_key(ROLLOUT, "report"), Body=body)
    found = look.ready
    assert told(found) == ("False", "AwaitingAcknowledgement")
    assert found.message.startswith(
        f"rollout {ROLLOUT}: step 1/2 gpu-operator (Install) awaiting acknowledgement. gpu-operator to 1.0.0"
    )


def test_an_upgrade_that_waits_for_people_hides_no_drift(well: Place, look: Looks) -> None:
    name = "demo-99999999-1"
    record = json.loads(well.ledger.get(rollout_key(ROLLOUT, "rollout")) or b"{}")
    well.begin(record | {"name": name})
    report = json.loads(well.ledger.get(rollout_key(ROLLOUT, "report")) or b"{}")
    well.put_json(rollout_key(name, "report"), report)
    found = look.ready
    assert (told(found), found.message) == (
        ("False", "AwaitingApproval"),
        f"rollout {name} awaiting approval",
    )
    well.set_application("kai-scheduler", {"spec": {"source": {"targetRevision": sha("x")}}})
    assert told(look.ready) == ("False", "InventoryDrift")


# Ends, and stalls


@pytest.mark.parametrize(
    ("outcome", "reason", "ready"),
    [
        ("Failed", "RolloutFailed", "NoActivePlan"),
        ("Expired", "RolloutExpired", "NoActivePlan"),
        ("Revoked", "RolloutRevoked", "NoActivePlan"),
        ("Failed", "InventoryDrift", "NoActivePlan"),
    ],
)
def test_an_end_stalls_the_runtime(place: Place, look: Looks, outcome: str, reason: str, ready: str) -> None:
    resolved(place)
    place.approve(place.put_rollout(PLAN))
    ended(place, ROLLOUT, outcome, reason, "step 2/2 kai-scheduler (Install): boom")
    found = look().condition(ConditionType.Stalled)
    assert told(found) == ("True", reason)
    # What a person ended did not stall.
    word = "ended" if outcome == "Revoked" else "stalled"
    assert found.message == f"rollout {ROLLOUT} {word}: step 2/2 kai-scheduler (Install): boom"
    lines = terminal(look().wire())
    assert sum("kai-scheduler (Install): boom" in line for line in lines) == 1, "said once"
    assert told(look.ready) == ("False", ready)
    assert look.ready.message == found.message


def another_rollout_ended_half_way(place: Place) -> None:
    name = "demo-99999999-1"
    report = json.loads(place.ledger.get(rollout_key(ROLLOUT, "report")) or b"{}")
    record = json.loads(place.ledger.get(rollout_key(ROLLOUT, "rollout")) or b"{}")
    place.begin({**record, "name": name})
    place.put_json(rollout_key(name, "report"), {**report, "approvalNeeded": False})
    place.put_json(step_key(name, 1), {"rollout": name, "index": 1, "release": "gpu-operator", "at": "x"})
    place.later(2)
    ended(place, name, "Failed", "RolloutFailed", "step 1/2 gpu-operator (Upgrade): boom")


def test_between_two_plans_it_is_not_ready_and_nobody_is_told_twice(well: Place, look: Looks) -> None:
    another_rollout_ended_half_way(well)
    found = look.ready
    assert told(found) == ("False", "NotReady")
    assert found.message == (
        "The cluster is between two plans: rollout demo-99999999-1 stalled: step 1/2 gpu-operator (Upgrade): "
        "boom"
    )
    for _ in range(3):
        well.later(300)
        look()
    assert well.topics.sent == [], "the rollout's own message said so"


def test_what_a_resolve_refuses_stalls_with_the_same_words(place: Place, look: Looks) -> None:
    version = place.submit()
    prerequisites = {"outcome": {"reason": "KubernetesUnsupported", "message": "1.34 or later is needed"}}
    state = {
        "run": execution_name("demo", version, 1), "cluster": "demo", "runtimeVersion": version,
        "prerequisites": prerequisites,
    }  # fmt: skip
    assert told(look().condition(ConditionType.Resolved)) == ("False", "Resolving")
    assert told(look().condition(ConditionType.Stalled)) == ("False", None)
    record_resolve(
        step("Record resolve", input=state, token=None), place.inbox, place.ledger, place.bus, place.notifier
    )
    for which, status in ((ConditionType.Resolved, "False"), (ConditionType.Stalled, "True")):
        found = look().condition(which)
        assert told(found) == (status, "KubernetesUnsupported")
        assert found.message == "1.34 or later is needed"


@pytest.mark.parametrize("reason", [found for found in Reason if found is not Reason.Resolving], ids=str)
def test_every_reason_of_a_resolve_stalls_the_runtime(place: Place, look: Looks, reason: Reason) -> None:
    version = place.submit()
    run = execution_name("demo", version, 1)
    end = {"event": "Resolve Stalled", "run": run, "reason": str(reason), "message": f"why {reason}"}
    place.put_json(f"resolves/{run}/told.json", end)
    status = look()
    resolved_, stalled = (
        status.condition(which) for which in (ConditionType.Resolved, ConditionType.Stalled)
    )
    assert told(resolved_) == ("False", str(reason))
    assert told(stalled) == ("True", str(reason))
    assert stalled.message == resolved_.message == f"why {reason}"


@pytest.mark.parametrize("folder", ["rollouts", "resolves"])
def test_an_execution_that_stopped_and_one_that_was_redriven(place: Place, look: Looks, folder: str) -> None:
    if folder == "rollouts":
        resolved(place)
        place.approve(place.put_rollout(PLAN))
        name = ROLLOUT
    else:
        name = execution_name("demo", place.submit(), 1)
    look.executions[name] = "ended"
    stall = {"execution": "arn", "status": "TIMED_OUT", "error": None, "at": "x"}
    place.put_json(f"{folder}/{name}/stalls/1.json", stall)
    found = look().condition(ConditionType.Stalled)
    assert found.status == "True"
    kind = folder.removesuffix("s")
    assert found.message.startswith(f"{kind} {name} stalled: its execution is TIMED_OUT")
    look.executions[name] = "running"
    assert told(look().condition(ConditionType.Stalled)) == ("False", None)


# The engine


def test_argo_cd_gone_projectless_stopped_and_back(well: Place, look: Looks) -> None:
    well.store.apply(controller("argocd"), "argocd")
    assert told(look.ready) == ("True", "RolledOut")
    stopped = controller("argocd")
    stopped["spec"]["replicas"] = 0
    well.store.apply(stopped, "argocd")
    for which in (ConditionType.EngineAvailable, ConditionType.Ready):
        found = look().condition(which)
        assert told(found) == ("False", "EngineSuspended")
        assert "(argocd-application-controller) is scaled to zero" in found.message
    well.store.delete(APP_PROJECTS, "aicr", namespace="argocd")
    assert told(look.ready) == ("False", "ProjectMissing")
    well.store.delete(CUSTOM_RESOURCE_DEFINITIONS, "applications.argoproj.io")
    assert told(look.ready) == ("False", "EngineMissing")


def test_a_window_that_denies_self_heal_suspends_the_engine(well: Place, look: Looks) -> None:
    window = {"kind": "deny", "schedule": "0 * * * *", "duration": "1h", "manualSync": True}
    project = {"spec": {"syncWindows": [{**window, "applications": ["kai-*"]}]}}
    well.store.merge(APP_PROJECTS, "aicr", project, namespace="argocd")
    well.later(60)
    found = look.ready
    assert told(found) == ("False", "EngineSuspended")
    assert "denies syncs of kai-scheduler now, self-heal too: deny 0 * * * * for 1h (UTC)" in found.message


def test_no_progress_of_reconciled_at_suspends_the_engine(well: Place, look: Looks) -> None:
    well.later(30 * 60)
    assert told(look.ready) == ("True", "RolledOut")
    well.later(1)
    found = look.ready
    assert told(found) == ("False", "EngineSuspended")
    assert "reconciled none of 2 Applications since 2026-01-01T12:00:00Z" in found.message
    well.set_application("gpu-operator", {"status": {"reconciledAt": rfc3339(well.now)}})
    found = look.ready
    assert told(found) == ("False", "NotReady"), "a shard of the controller that is down is not the whole"
    assert found.message == "kai-scheduler: Argo CD has not compared it since 2026-01-01T12:00:00Z"
    well.set_application("kai-scheduler", {"status": {"reconciledAt": rfc3339(well.now)}})
    assert told(look.ready) == ("True", "RolledOut")


@pytest.mark.parametrize(
    ("value", "skipped"), [("true", True), ("1", True), ("false", False), ("yes", False)]
)
def test_what_argo_cd_is_told_to_leave_alone_is_not_ready_by_what_it_said_before(
    well: Place, look: Looks, value: str, skipped: bool
) -> None:
    well.set_application("kai-scheduler", {"metadata": {"annotations": {SKIP: value}}})
    found = look.ready
    assert found.status == str(not skipped)
    if skipped:
        assert found.message == f"kai-scheduler: Argo CD leaves it alone, by its annotation {SKIP}"


def test_a_cluster_that_cannot_be_asked_is_unknown(well: Place, look: Looks) -> None:
    well.argocd._cluster._host = "http://127.0.0.1:9"
    well.argocd._cluster.get = _unreachable  # type: ignore[method-assign]
    status = look()
    assert told(status.condition(ConditionType.EngineAvailable)) == ("Unknown", "ClusterUnreachable")
    assert told(status.condition(ConditionType.Ready)) == ("False", "ClusterUnreachable")
    assert look.measured[-1] == ("RuntimeUnwell", 1)
    well.later(300)
    look()
    assert subjects(well) == ["[aicr demo] Ready=False: ClusterUnreachable"], "nobody else would say so"


def _unreachable(_path: str) -> Any:
    from aicr_pipeline.errors import TransientError

    raise TransientError(Reason.ClusterUnreachable, "The cluster's API cannot be reached.")


# Drift and health


def test_drift_names_what_differs(well: Place, look: Looks) -> None:
    well.store.delete(APPLICATIONS, "gpu-operator", namespace="argocd")
    well.set_application("kai-scheduler", {"spec": {"source": {"helm": {"valuesObject": {"replicas": 9}}}}})
    found = look.ready
    assert told(found) == ("False", "InventoryDrift")
    assert found.message == (
        "gpu-operator: its Application is gone; kai-scheduler: its Application asks for something else than "
        "the active plan"
    )


def test_an_application_that_lost_its_label_is_drift(well: Place, look: Looks) -> None:
    well.set_application("kai-scheduler", {"metadata": {"labels": None}})
    found = look.ready
    assert told(found) == ("False", "InventoryDrift")
    assert "is not the pipeline's any more" in found.message


def test_other_peoples_applications_are_not_kept_in_memory(well: Place) -> None:
    """Argo CD may have thousands of them, each as large as a plan."""
    spec = {"project": "default", "destination": {}, "source": {"repoURL": "https://example.com/x"}}
    well.store.create(APPLICATIONS, {"metadata": {"name": "theirs"}, "spec": spec}, namespace="argocd")
    well.store.create(
        APPLICATIONS,
        {"metadata": {"name": "ours-before", "labels": {MANAGED_BY_LABEL: MANAGED_BY}}, "spec": spec},
        namespace="argocd",
    )
    well.set_application("kai-scheduler", {"metadata": {"labels": None}})
    well.notifier.subscriptions = lambda _: [_CONFIRMED]  # type: ignore[method-assign]
    sources = Sources(
        well.config, well.ledger, well.inbox, well.cluster, well.argocd, well.notifier,
        lambda _: "absent", lambda _: "absent",
    )  # fmt: skip
    assert set(see(sources, well.clock).engine.applications) == {
        "gpu-operator",
        "kai-scheduler",
        "ours-before",
    }


def test_self_heal_is_no_drift(well: Place, look: Looks) -> None:
    operation = {"initiatedBy": {"automated": True}, "sync": {"revision": sha("x")}}
    out = {"sync": {"status": "OutOfSync"}, "operationState": {"phase": "Running", "operation": operation}}
    well.set_application("kai-scheduler", {"status": out})
    status = look()
    assert told(status.condition(ConditionType.Ready)) == ("True", "RolledOut")
    assert [one.state for one in status.releases] == ["Ready", "Healing"]
    by_hand = {"operation": {"initiatedBy": {"automated": None, "username": "sam"}}}
    well.set_application("kai-scheduler", {"status": {"operationState": by_hand}})
    assert told(look.ready) == ("False", "NotReady")


@pytest.mark.parametrize(("minutes", "ready"), [(15, "True"), (16, "False")])
def test_a_repair_that_does_not_end_repairs_nothing(
    well: Place, look: Looks, minutes: int, ready: str
) -> None:
    """A sync waits for its waves and hooks without an end: an image that cannot be pulled, say."""
    operation = {"initiatedBy": {"automated": True}, "sync": {"revision": sha("x")}}
    running = {"phase": "Running", "message": "waiting for healthy state of apps/DaemonSet/driver"}
    running |= {"operation": operation, "startedAt": "2026-01-01T12:00:00Z"}
    out = {"sync": {"status": "OutOfSync"}, "operationState": running}
    well.set_application("kai-scheduler", {"status": out})
    well.later(60 * minutes)
    found = look.ready
    assert found.status == ready
    if ready == "False":
        assert told(found) == ("False", "NotReady")
        assert found.message == (
            "kai-scheduler: sync is running: waiting for healthy state of apps/DaemonSet/driver (Argo CD has "
            "tried to repair it since 2026-01-01T12:00:00.000Z)"
        )


@pytest.mark.parametrize(
    "setting",
    [
        {"registry.repository": "oci://moved.example/aicr/demo"},
        {"engine.project": "other"},
        {"engine.destination": "https://other.example"},
    ],
    ids=["registry", "project", "destination"],
)
def test_applications_that_the_configuration_left_behind_are_drift(
    well: Place, look: Looks, setting: dict[str, str]
) -> None:
    """The plan stays the same, so only drift makes it news: its rollout writes every Application anew."""
    well.config = config(**setting)
    if "engine.project" in setting:
        well.store.create(APP_PROJECTS, {"metadata": {"name": "other"}, "spec": {}}, namespace="argocd")
        well.argocd._engine = well.config.engine
    found = look.ready
    assert told(found) == ("False", "InventoryDrift")
    assert "gpu-operator: its Application has another registry, project, destination" in found.message
    event = well.want(PLAN, run="run-2")
    done = start_rollout(
        event, well.config, well.ledger, well.inbox, well.coordination, well.executions, well.clock
    )
    assert done["started"], "submitted again it is rolled out again"
    assert load_rollout(well.ledger, done["execution"]).from_is_whole is False


def test_a_helm_option_that_somebody_added_is_drift(well: Place, look: Looks) -> None:
    added = {"parameters": [{"name": "driver.enabled", "value": "false"}]}
    well.set_application("gpu-operator", {"spec": {"source": {"helm": added}}})
    assert told(look.ready) == ("False", "InventoryDrift")


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_plan_that_cannot_be_read(well: Place, look: Looks, damage: str) -> None:
    key = f"plans/{PLAN.desired_state_digest.removeprefix('sha256:')}.json"
    if damage == "gone":
        well.s3.delete_object(Bucket=LEDGER, Key=key)
    else:
        well.s3.put_object(Bucket=LEDGER, Key=key, Body=b"{}")
    assert told(look.ready) == ("False", "PlanUnreadable")


# The wish


def test_a_deleted_runtime_removes_nothing_and_stops_the_checks(well: Place, look: Looks) -> None:
    before = list(well.store.list(APPLICATIONS, namespace="argocd"))
    well.set_application("kai-scheduler", {"status": {"health": {"status": "Degraded"}}})
    well.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    status = look()
    ready = status.condition(ConditionType.Ready)
    assert told(ready) == ("False", "Deleting")
    assert ready.message == (
        "The runtime was deleted from the inbox: nothing is removed, and nothing is checked any more."
    )
    assert told(status.condition(ConditionType.Stalled)) == ("False", None)
    assert status.releases == ()
    assert [one["metadata"]["name"] for one in well.store.list(APPLICATIONS, namespace="argocd")] == [
        one["metadata"]["name"] for one in before
    ]
    resolved(well)
    assert told(look.ready) == ("False", "NotReady"), "submitted again, it is looked after again"


def test_a_pipeline_that_never_had_a_runtime(place: Place, look: Looks) -> None:
    found = look.ready
    assert (told(found), found.message) == (("False", "NoActivePlan"), "No runtime was submitted yet.")


def test_a_pause_between_rollouts(well: Place, look: Looks) -> None:
    resolved(well, spec={"paused": True}, announcement={"announced": False, "event": "Plan Paused"})
    assert told(look.ready) == ("False", "Paused")
    well.set_application("kai-scheduler", {"status": {"health": {"status": "Missing"}}})
    assert told(look.ready) == ("False", "NotReady"), "what is installed is looked after all the same"


def test_a_wish_for_what_is_active_leaves_nothing_to_mend(well: Place, look: Looks) -> None:
    """Somebody rejected a newer plan, and the older wish was submitted again."""
    name, other = "demo-99999999-1", plan(release("gpu-operator", "2.0.0"))
    well.put_plan(other)
    record = json.loads(well.ledger.get(rollout_key(ROLLOUT, "rollout")) or b"{}")
    well.begin(record | {"name": name, "toPlan": other.desired_state_digest})
    ended(well, name, "Rejected", "RolloutRejected", "Rejected by alex: no")
    newer = {"digest": other.desired_state_digest, "releases": 1, "isNew": True}
    resolved(well, plan=newer)
    assert look().rollout is not None
    resolved(well)
    assert told(look().condition(ConditionType.Stalled)) == ("False", None)
    assert told(look.ready) == ("True", "RolledOut")


# Who is told, and when


def degrade(place: Place, health: str = "Degraded") -> None:
    place.set_application("kai-scheduler", {"status": {"health": {"status": health}}})


def subjects(place: Place) -> list[str]:
    return [message["Subject"] for message in place.topics.sent if message["TopicArn"] == "topic-alex"]


def test_people_are_told_once_of_what_was_seen_twice(well: Place, look: Looks) -> None:
    look()
    degrade(well)
    look()
    assert well.events.details("Status Changed") == [
        {
            "cluster": "demo", "type": "Ready", "status": "False", "reason": "NotReady",
            "message": "kai-scheduler: Degraded", "was": {"status": "True", "reason": "RolledOut"},
        }
    ]  # fmt: skip
    assert look.measured[-2:] == [("Ready", 0), ("RuntimeUnwell", 1)]
    well.later(10)
    look()
    assert subjects(well) == [], "a second look at the same moment is none"
    well.later(300)
    for _ in range(3):
        look()
        well.later(300)
    assert subjects(well) == ["[aicr demo] Ready=False: NotReady"]
    assert "kai-scheduler: Degraded" in well.topics.sent[0]["Message"]
    assert "docs/runbook.md, NotReady" in well.topics.sent[0]["Message"]
    degrade(well, "Healthy")
    for name in (found.name for found in RELEASES):
        well.set_application(name, {"status": {"reconciledAt": rfc3339(well.now)}})
    look()
    assert len(subjects(well)) == 1
    well.later(60)
    look()
    assert subjects(well)[1:] == ["[aicr demo] Ready again"]


def test_what_comes_and_goes_is_told_to_nobody(well: Place, look: Looks) -> None:
    for at in range(12):
        degrade(well, "Degraded" if at % 2 else "Healthy")
        look()
        well.later(120)
    assert well.topics.sent == []


def test_another_trouble_is_another_message(well: Place, look: Looks) -> None:
    degrade(well)
    for _ in range(2):
        look()
        well.later(60)
    well.store.delete(APPLICATIONS, "gpu-operator", namespace="argocd")
    for _ in range(2):
        look()
        well.later(60)
    assert subjects(well) == [f"[aicr demo] Ready=False: {why}" for why in ("NotReady", "InventoryDrift")]


def test_a_message_that_failed_is_sent_by_a_later_look(well: Place, look: Looks) -> None:
    degrade(well)
    look()
    well.later(60)
    well.topics.error = aws_error("Throttling")
    with pytest.raises(Exception, match="Throttling"):
        look()
    well.topics.error = None
    look()
    assert subjects(well) == [], "the first one may still be at it"
    well.later(121)
    look()
    look()
    assert subjects(well) == ["[aicr demo] Ready=False: NotReady"]


def test_a_topic_that_takes_nothing_does_not_flood_the_others(
    well: Place, look: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = well.topics.publish

    def gone(**message: str) -> None:
        if message["TopicArn"] == "topic-kim":
            raise aws_error("NotFound")
        publish(**message)

    monkeypatch.setattr(well.topics, "publish", gone)
    degrade(well)
    for _ in range(7):
        look()
        well.later(150)
    assert subjects(well) == ["[aicr demo] Ready=False: NotReady"], "the others are told once"
    assert [(one["kind"], one["to"]) for one in well.events.details("Message Failed")] == [("status", "kim")]
    well.store.delete(APPLICATIONS, "gpu-operator", namespace="argocd")
    for _ in range(2):
        look()
        well.later(150)
    assert subjects(well)[1:] == ["[aicr demo] Ready=False: InventoryDrift"]


def test_two_looks_at_once_tell_once(well: Place, look: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    degrade(well)
    look()
    well.later(60)
    change: Callable[..., bool] = well.coordination.change_fact
    inside: list[bool] = []

    def racing(name: str, before: Any, after: Any) -> bool:
        if not inside:
            inside.append(True)
            look()
        return change(name, before, after)

    monkeypatch.setattr(well.coordination, "change_fact", racing)
    look()
    assert subjects(well) == ["[aicr demo] Ready=False: NotReady"]


def test_a_slow_look_does_not_take_the_place_of_a_later_one(
    well: Place, look: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schedule's look lists while a rollout ends; the look that its outcome causes is done first."""
    degrade(well)
    listed = well.argocd.applications
    later: list[Status] = []

    def slow() -> Any:
        found = list(listed())
        if not later:
            monkeypatch.setattr(well.argocd, "applications", listed)
            degrade(well, "Healthy")
            well.later(5)
            later.append(look())
        return iter(found)

    monkeypatch.setattr(well.argocd, "applications", slow)
    assert look() == later[0]
    assert told(later[0].condition(ConditionType.Ready)) == ("True", "RolledOut")
    assert look.said == {"ready": "True", "reason": "RolledOut", "changed": [], "told": False}
    assert well.events.details("Status Changed") == []


def test_a_slow_look_that_writes_last_does_not_either(
    well: Place, look: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both had read what was kept before either wrote."""
    degrade(well)
    fact = well.coordination.fact
    later: list[Status] = []

    def slow(name: str) -> Any:
        found = fact(name)
        if not later and name == "status":
            monkeypatch.setattr(well.coordination, "fact", fact)
            degrade(well, "Healthy")
            well.later(5)
            later.append(look())
        return found

    first = look()
    well.later(60)
    monkeypatch.setattr(well.coordination, "fact", slow)
    assert look() == later[0] != first
    assert look.said["ready"] == "True"
    put = [(one["type"], one["status"]) for one in well.events.details("Status Changed")]
    assert put[-1] == ("Ready", "True"), "who listens has heard last what is kept"


# People


def test_approvers_whom_nothing_reaches_are_named(well: Place, look: Looks) -> None:
    approvers = [{"name": "alex", "email": "alex@example.com"}, {"name": "kim"}]
    well.config = config(**{"approvals.approvers": approvers})
    look.subscribed = {"alex": [Subscription("alex@example.com", False)], "kim": []}
    assert [(one.name, one.why) for one in look().unreachable] == [
        ("alex", "the e-mail subscription is not confirmed; it expires three days after it was made"),
        ("kim", "nobody has a confirmed subscription to the topic"),
    ]


@pytest.mark.parametrize("record", ["rollout", "report", "decision", "outcome"])
def test_a_record_of_the_newest_rollout_that_cannot_be_read_is_told_and_hides_nothing(
    place: Place, look: Looks, record: str
) -> None:
    resolved(place)
    place.approve(place.put_rollout(PLAN))
    if record == "outcome":
        ended(place, ROLLOUT, "Failed", "RolloutFailed", "boom")
    place.s3.put_object(Bucket=LEDGER, Key=rollout_key(ROLLOUT, record), Body=b'{"of": "a later version"}')
    status = look()
    ready, stalled = status.condition(ConditionType.Ready), status.condition(ConditionType.Stalled)
    assert told(ready) == ("False", "PlanUnreadable")
    assert f"{record}.json" in ready.message
    assert status.resolved_plan == PLAN.desired_state_digest
    assert status.condition(ConditionType.EngineAvailable).status == "True"
    if record != "outcome":
        assert told(stalled) == ("True", "PlanUnreadable")


def test_a_rollout_that_was_never_started_is_told_once_every_try_is_over(place: Place, look: Looks) -> None:
    resolved(place)
    place.put_rollout(PLAN)
    key = rollout_key(ROLLOUT, "report")
    place.s3.delete_object(Bucket=LEDGER, Key=key)
    begun = place.ledger.get_json(rollout_key(ROLLOUT, "rollout"))["createdAt"]
    place.now = parse_time(begun) + timedelta(minutes=5)
    assert look.ready.message == f"rollout {ROLLOUT}: the transition is assessed"
    place.later(301)
    assert "its execution was never started" in look.ready.message
    assert told(look().condition(ConditionType.Stalled)) == ("True", "RolloutFailed")
    look.executions[ROLLOUT] = "running"
    assert look.ready.message == f"rollout {ROLLOUT}: the transition is assessed"


def test_a_newer_plan_that_waits_for_the_end_of_a_rollout(place: Place, look: Looks) -> None:
    newer = sha("newer")
    resolved(place, plan={"digest": newer, "releases": 2, "isNew": True})
    place.approve(place.put_rollout(PLAN))
    rollout = look().rollout
    assert rollout is not None and rollout.newer_plan == newer
    assert f"newer plan    {newer} waits for the end of this rollout" in terminal(look().wire())
    ended(place, ROLLOUT, "Failed", "RolloutFailed", "boom")
    rollout = look().rollout
    assert rollout is not None and rollout.newer_plan is None


def test_a_stall_says_what_the_function_said(place: Place, look: Looks) -> None:
    resolved(place)
    place.put_rollout(PLAN)
    said = "RegistryUnreachable: registry.example answered 503; try again later."
    cause = json.dumps({"errorMessage": said, "errorType": "UnreachableError", "stackTrace": ["secret"]})
    detail = {
        "executionArn": "arn:x", "stateMachineArn": "m-rollout", "name": ROLLOUT, "status": "FAILED",
        "error": "UnreachableError", "cause": cause,
    }  # fmt: skip
    event = {"time": "2026-01-01T12:00:00Z", "detail": detail}
    record_stall(event, place.config, place.ledger, place.bus, place.notifier)
    assert said in place.topics.sent[-1]["Message"] and "secret" not in place.topics.sent[-1]["Message"]
    look.executions[ROLLOUT] = "ended"
    stalled = look().condition(ConditionType.Stalled)
    assert told(stalled) == ("True", "RegistryUnreachable")
    assert "FAILED (UnreachableError: registry.example answered 503; try again later.)" in stalled.message
