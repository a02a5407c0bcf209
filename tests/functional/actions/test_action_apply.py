"""Apply release and the gate before it: written once, never over somebody else, never against the records."""

import json
from typing import Any

import pytest
from aicr_pipeline.actions.apply_release import apply_release
from aicr_pipeline.actions.check_gate import check_gate
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.adapters.cluster import ObjectConflictError
from aicr_pipeline.clock import after
from aicr_pipeline.decide.application import carries, new_application, operation
from aicr_pipeline.decide.names import request_id
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key

from local.kube import APP_PROJECTS, APPLICATIONS
from tests.functional.actions.support import BEGAN, DEADLINE, LEDGER, PLAN, ROLLOUT, Place, item, step
from tests.unit.samples import config, refused, release, sha

RELEASE = PLAN.desired_state.releases[0]
OURS = request_id(ROLLOUT, 1, RELEASE.name)
TO = {"toPlan": PLAN.desired_state_digest}


def apply(place: Place, action: str = "Install", **fields: Any) -> dict[str, Any]:
    made = step(item=item(action=action, **fields), input=TO, token=None)
    return apply_release(made, place.config, place.ledger, place.argocd)


def existing(place: Place, request: str = "demo-0/001-gpu-operator", **patch: Any) -> None:
    """The release as an earlier rollout left it."""
    old = release(RELEASE.name, "0.9.0", values={"old": True, "replicas": 1})
    body = new_application(old, place.config, sha("old"), request)
    place.store.create(APPLICATIONS, body, namespace="argocd")
    state = {"phase": "Succeeded", "operation": body["operation"]}
    place.set_application(
        RELEASE.name,
        {
            "operation": None,
            "spec": {"syncPolicy": {"automated": {"prune": True, "selfHeal": True}}},
            "status": {"operationState": state, "sync": {"status": "Synced"}},
            **patch,
        },
    )


def test_a_new_release_is_one_write(place: Place) -> None:
    place.put_plan(PLAN)
    assert apply(place) == {"written": True, "digest": RELEASE.chart.manifest_digest, "requestId": OURS}
    made = place.application(RELEASE.name)
    assert carries(made["operation"], OURS)
    assert "automated" not in made["spec"]["syncPolicy"]
    assert "finalizers" not in made["metadata"]
    assert "ownerReferences" not in made["metadata"]


def test_twice_is_once(place: Place) -> None:
    place.put_plan(PLAN)
    first = apply(place)
    before = place.application(RELEASE.name)
    assert apply(place) == {**first, "written": False}
    assert place.application(RELEASE.name) == before


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_after_argo_cd_took_our_operation_nothing_is_written_again(place: Place, phase: str) -> None:
    place.put_plan(PLAN)
    apply(place)
    state = {"phase": phase, "operation": operation(RELEASE, OURS)}
    place.set_application(RELEASE.name, {"operation": None, "status": {"operationState": state}})
    before = place.application(RELEASE.name)
    assert apply(place)["written"] is False
    assert place.application(RELEASE.name) == before


def test_an_upgrade_replaces_and_clears(place: Place) -> None:
    place.put_plan(PLAN)
    existing(place)
    assert apply(place, "Upgrade")["written"]
    made = place.application(RELEASE.name)
    assert made["spec"]["source"]["helm"]["valuesObject"] == {"replicas": 1}, "dropped values are gone"
    assert "automated" not in made["spec"]["syncPolicy"]
    assert made["status"] == {"sync": {"status": "Synced"}}
    assert carries(made["operation"], OURS)


@pytest.mark.parametrize("action", ["Install", "Upgrade", "Reconfigure", "Move"])
def test_what_is_not_ours_is_never_adopted(place: Place, action: str) -> None:
    place.put_plan(PLAN)
    existing(place, metadata={"labels": {"app.kubernetes.io/managed-by": "Helm"}})
    before = place.application(RELEASE.name)
    with refused(Reason.ForeignObject, "gpu-operator", "never adopts") as caught:
        apply(place, action)
    assert not caught.info.value.retry
    assert place.application(RELEASE.name) == before


@pytest.mark.parametrize(
    "patch",
    [
        {"operation": {"sync": {"revision": sha("x")}}},
        {"status": {"operationState": {"phase": "Running", "operation": {"sync": {}}}}},
        {"status": {"operationState": {"phase": "Terminating", "operation": {"sync": {}}}}},
    ],
    ids=["asked", "running", "terminating"],
)
def test_somebody_elses_operation_is_waited_for(place: Place, patch: dict[str, Any]) -> None:
    place.put_plan(PLAN)
    existing(place, **patch)
    before = place.application(RELEASE.name)
    with refused(Reason.Conflict, "somebody else", "waiting for it") as caught:
        apply(place, "Upgrade")
    assert caught.info.value.retry, "the state machine comes back"
    assert place.application(RELEASE.name) == before
    place.set_application(
        RELEASE.name, {"operation": None, "status": {"operationState": {"phase": "Succeeded"}}}
    )
    assert apply(place, "Upgrade")["written"]


def test_a_conflict_is_read_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put_plan(PLAN)
    existing(place)
    real, turns = place.argocd.replace_application, []

    def racing(body: Any) -> Any:
        turns.append(body["metadata"]["resourceVersion"])
        if len(turns) == 1:
            place.set_application(RELEASE.name, {"metadata": {"annotations": {"note": "in between"}}})
        return real(body)

    monkeypatch.setattr(place.argocd, "replace_application", racing)
    assert apply(place, "Upgrade")["written"]
    assert len(turns) == 2
    assert turns[0] != turns[1]
    assert place.application(RELEASE.name)["metadata"]["annotations"]["note"] == "in between"


def test_a_conflict_with_ourselves_is_no_second_write(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two invocations of one step at once: the loser reads its own request and is content."""
    place.put_plan(PLAN)
    real = place.argocd.create_application

    def racing(body: Any) -> Any:
        monkeypatch.setattr(place.argocd, "create_application", real)
        real(body)
        return real(body)

    monkeypatch.setattr(place.argocd, "create_application", racing)
    assert apply(place) == {"written": False, "digest": RELEASE.chart.manifest_digest, "requestId": OURS}


def test_endless_conflicts_are_transient(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put_plan(PLAN)

    def conflict(_: Any) -> Any:
        raise ObjectConflictError("applications/gpu-operator")

    monkeypatch.setattr(place.argocd, "create_application", conflict)
    with refused(Reason.Conflict, "being written by somebody else") as caught:
        apply(place)
    assert caught.info.value.retry


def test_unchanged_and_in_place_writes_nothing(place: Place) -> None:
    place.put_plan(PLAN)
    place.store.create(
        APPLICATIONS, new_application(RELEASE, place.config, sha("old"), "demo-0/001-x"), namespace="argocd"
    )
    before = place.application(RELEASE.name)
    digest = RELEASE.chart.manifest_digest
    assert apply(place, "Unchanged") == {"written": False, "digest": digest, "requestId": None}
    assert place.application(RELEASE.name) == before


def test_unchanged_but_not_in_place_is_written_like_any_other(place: Place) -> None:
    """The plans say nothing changes; the cluster has what a rollout that ended badly left, or nothing."""
    place.put_plan(PLAN)
    assert apply(place, "Unchanged") == {
        "written": True,
        "digest": RELEASE.chart.manifest_digest,
        "requestId": OURS,
    }
    place.store.delete(APPLICATIONS, RELEASE.name, namespace="argocd")
    existing(place)
    assert apply(place, "Unchanged")["written"]
    assert place.application(RELEASE.name)["spec"]["source"]["helm"]["valuesObject"] == {"replicas": 1}
    assert apply(place, "Unchanged")["written"] is False, "the retry finds it in place"


def test_a_step_or_a_plan_that_is_gone(place: Place) -> None:
    with refused(Reason.PlanUnreadable, "not in the ledger"):
        apply(place)
    place.put_plan(PLAN)
    with refused(Reason.StepUnknown, "no-such"):
        apply(place, release="no-such")


def test_a_plan_that_was_changed_is_never_applied(place: Place) -> None:
    document = PLAN.wire()
    document["desiredState"]["releases"][0]["values"]["replicas"] = 9
    place.put_json(plan_key(PLAN.desired_state_digest), document)
    with refused(Reason.PlanUnreadable, "was changed"):
        apply(place)
    assert place.store.find(APPLICATIONS, RELEASE.name, namespace="argocd") is None


# The gate


def gate(place: Place, **changes: Any) -> dict[str, Any]:
    made = step("Check gate", item=item(**changes.pop("item", {})), token=None, **changes)
    return check_gate(
        made, changes.get("config", place.config), place.ledger, place.argocd, place.coordination, place.clock
    )


def fresh(place: Place, hours: float = 12) -> None:
    fact = {"mintedAt": after(BEGAN, 0), "expiresAt": after(BEGAN, hours * 3600)}
    place.coordination.put_fact(CREDENTIALS, fact)


@pytest.fixture
def ready(place: Place) -> Place:
    place.approve(place.put_rollout(PLAN))
    fresh(place)
    return place


def test_an_open_gate_twice(ready: Place) -> None:
    assert gate(ready) == gate(ready) == {"open": True}


def test_no_approval_is_asked_for_where_none_is_needed(place: Place) -> None:
    report = place.put_rollout(PLAN)
    place.s3.put_object(
        Bucket=LEDGER, Key=rollout_key(ROLLOUT, "report"),
        Body=json.dumps({**report.wire(), "approvalNeeded": False}).encode(),
    )  # fmt: skip
    fresh(place)
    assert gate(place) == {"open": True}


def test_the_state_before_is_not_believed(place: Place) -> None:
    """The machine's data says Approved; the ledger has no decision."""
    place.put_rollout(PLAN)
    fresh(place)
    with refused(Reason.RolloutFailed, "No approval is recorded"):
        gate(place, input={"approval": {"decision": "Approved", "by": ["mallory"]}})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"decision": "Rejected"}, Reason.RolloutRejected),
        ({"requestDigest": sha("another question")}, Reason.RolloutFailed),
        ({"expiresAt": after(BEGAN, 0)}, Reason.RolloutExpired),
        ({"decision": "Sure"}, Reason.PlanUnreadable),
    ],
)
def test_decisions_that_do_not_open_it(place: Place, changes: dict[str, Any], reason: Reason) -> None:
    place.approve(place.put_rollout(PLAN), **changes)
    fresh(place)
    with refused(reason):
        gate(place)


def test_the_deadline_is_the_approved_one(ready: Place) -> None:
    with refused(Reason.RolloutFailed, "another request"):
        gate(ready, input={"deadline": after(BEGAN, 99 * 3600)})
    ready.later(6 * 3600)
    with refused(Reason.RolloutExpired, DEADLINE):
        gate(ready)


def test_a_rollout_that_is_over_stays_over(ready: Place) -> None:
    over = {"outcome": "Superseded", "reason": "RolloutSuperseded", "message": "a newer plan"}
    ready.put_json(
        rollout_key(ROLLOUT, "outcome"), {"rollout": ROLLOUT, "finishedAt": after(BEGAN, 0), **over}
    )
    with refused(Reason.RolloutSuperseded, "is over: a newer plan"):
        gate(ready)


@pytest.mark.parametrize("hours", [0.25, 0.2, 0])
def test_a_token_that_would_die_during_the_step(place: Place, hours: float) -> None:
    place.approve(place.put_rollout(PLAN))
    with refused(Reason.RegistryCredentialsStale):
        gate(place)
    fresh(place, hours)
    with refused(Reason.RegistryCredentialsStale):
        gate(place)


@pytest.mark.parametrize(
    "changes",
    [
        {"engine.kind": "eks-capability"},
        {"registry.auth": {"provider": "static", "secretArn": "arn:aws:secretsmanager:x"}},
    ],
)
def test_credentials_that_somebody_else_keeps(place: Place, changes: dict[str, Any]) -> None:
    place.approve(place.put_rollout(PLAN))
    made = step("Check gate", item=item(), token=None)
    assert check_gate(
        made, config(**changes), place.ledger, place.argocd, place.coordination, place.clock
    ) == {"open": True}


def test_what_is_gone_or_foreign(ready: Place) -> None:
    with refused(Reason.StepUnknown, "no-such"):
        gate(ready, item={"release": "no-such"})
    existing(ready, metadata={"labels": None})
    with refused(Reason.ForeignObject):
        gate(ready)
    ready.store.delete(APP_PROJECTS, "aicr", namespace="argocd")
    with refused(Reason.ProjectMissing):
        gate(ready)


def test_a_report_that_is_gone(place: Place) -> None:
    with refused(Reason.PlanUnreadable, "lost its report"):
        gate(place)
