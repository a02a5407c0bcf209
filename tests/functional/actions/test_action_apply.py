"""Apply release: written once, never over somebody else, never another plan than the recorded one."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aicr_pipeline.actions.apply_release import OperationInFlightError, apply_release
from aicr_pipeline.adapters.cluster import ObjectConflictError
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.application import (
    ASKED_ANNOTATION,
    READY_ANNOTATION,
    REFRESHED_ANNOTATION,
    application_spec,
    carries,
    new_application,
    operation,
    spec_digest,
)
from aicr_pipeline.decide.ending import step_words
from aicr_pipeline.decide.names import request_id
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key

from local.kube import APPLICATIONS
from tests.functional.actions.support import PLAN, ROLLOUT, Place, item, step
from tests.unit.samples import config, refused, release, sha

RELEASE = PLAN.desired_state.releases[0]
OURS = request_id(ROLLOUT, 1, RELEASE.name)
TO = {"toPlan": PLAN.desired_state_digest}
ANSWER = {
    "digest": RELEASE.chart.manifest_digest,
    "requestId": OURS,
    "spec": spec_digest(application_spec(RELEASE, config())),
}


def apply(
    place: Place, action: str = "Install", gate: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    said = TO if gate is None else TO | {"gate": gate}
    made = step(item=item(action=action, **fields), input=said, token=None)
    return apply_release(made, place.config, place.ledger, place.argocd, place.clock)


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
    assert apply(place) == {"written": True, **ANSWER}
    made = place.application(RELEASE.name)
    assert carries(made["operation"], OURS)
    assert "automated" not in made["spec"]["syncPolicy"]
    assert "finalizers" not in made["metadata"]
    assert "ownerReferences" not in made["metadata"]


@pytest.mark.parametrize("action", ["Install", "Unchanged"])
@pytest.mark.parametrize("reason", [Reason.Paused, Reason.AwaitingAcknowledgement])
def test_a_step_that_the_gate_held_is_not_written_by_a_definition_that_knows_no_hold(
    place: Place, reason: Reason, action: str
) -> None:
    # Executions keep the definition they started with: to an older one all that is no end is an open gate.
    place.put_plan(PLAN)
    words = step_words(item(action=action))
    hold = {"reason": str(reason), "message": f"{words}: somebody has to do something first."}
    with refused(reason, "somebody has to do something first. This rollout began before") as caught:
        apply(place, action, {"open": False, "hold": hold})
    assert not caught.info.value.message.startswith("step "), "the handler puts the step's words before it"
    assert place.store.list(APPLICATIONS, "argocd") == []


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


EARLIER = operation(RELEASE, "demo-12345678-0/001-gpu-operator")
THEIRS = {"info": None}
HEALING = {"initiatedBy": {"automated": True}, "sync": {}}


@pytest.mark.parametrize(
    ("patch", "whose"),
    [
        ({"operation": {"sync": {"revision": sha("x")}, **THEIRS, "initiatedBy": None}}, "somebody else"),
        ({"operation": {"initiatedBy": {"username": "sam"}, **THEIRS}}, "sam"),
        ({"operation": EARLIER}, "rollout demo-12345678-0"),
        (
            {"status": {"operationState": {"phase": "Running", "operation": EARLIER}}},
            "rollout demo-12345678-0",
        ),
        ({"status": {"operationState": {"phase": "Running", "operation": HEALING}}}, "automated sync"),
        (
            {"status": {"operationState": {"phase": "Terminating", "operation": {"sync": {}}}}},
            "somebody else",
        ),
    ],
    ids=["asked", "a person's", "an earlier one of ours", "and it runs", "self-heal", "terminating"],
)
def test_somebody_elses_operation_is_waited_for(place: Place, patch: dict[str, Any], whose: str) -> None:
    place.put_plan(PLAN)
    existing(place, **patch)
    before = place.application(RELEASE.name)
    with refused(Reason.Conflict, f"{whose} in flight", "waiting for it", "Terminate it") as caught:
        apply(place, "Upgrade")
    assert type(caught.info.value) is OperationInFlightError, "the state machine comes back every 20 seconds"
    assert caught.info.value.retry
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
    assert apply(place) == {"written": False, **ANSWER}


@pytest.mark.parametrize("lost", ["create", "replace"])
def test_a_crash_between_the_write_and_its_answer_is_no_second_write(
    place: Place, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """The cluster took it and nobody heard so; meanwhile Argo CD may do anything with it."""
    place.put_plan(PLAN)
    if lost == "replace":
        existing(place)
    name, real = f"{lost}_application", getattr(place.argocd, f"{lost}_application")

    def unheard(body: Any) -> Any:
        real(body)
        raise TransientError(Reason.ClusterUnreachable, "the connection was cut")

    with monkeypatch.context() as patched:
        patched.setattr(place.argocd, name, unheard)
        with refused(Reason.ClusterUnreachable, "cut"):
            apply(place, "Upgrade")
    writes = counted(place, monkeypatch)
    assert apply(place, "Upgrade") == {"written": False, **ANSWER}
    # Argo CD is done, and somebody's own sync stands in the place of ours.
    place.set_application(
        RELEASE.name,
        {"operation": None, "status": {"operationState": {"phase": "Failed", "operation": {"sync": {}}}}},
    )
    assert apply(place, "Upgrade") == {"written": False, **ANSWER}
    assert writes == []


def counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written from here on."""
    writes: list[str] = []

    def counting(name: str) -> Any:
        real = getattr(place.argocd, name)
        return lambda body: (writes.append(name), real(body))[1]

    for name in ("create_application", "replace_application"):
        monkeypatch.setattr(place.argocd, name, counting(name))
    return writes


def test_many_retries_at_once_are_one_write(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten invocations of one step that all read before any of them writes: nine lose, and see it."""
    place.put_plan(PLAN)
    existing(place)
    real, gate = place.argocd.application, threading.Barrier(10, timeout=10)
    first = threading.local()

    def together(name: str) -> Any:
        found = real(name)
        if not hasattr(first, "read"):
            first.read = True
            gate.wait()
        return found

    monkeypatch.setattr(place.argocd, "application", together)
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda _: apply(place, "Upgrade")["written"], range(10)))
    assert sorted(found) == [False] * 9 + [True]
    assert place.application(RELEASE.name)["metadata"]["annotations"][ASKED_ANNOTATION] == f"{OURS} after -1"


@pytest.mark.parametrize("meanwhile", ["deleted", "unlabelled", "running", "asked"])
def test_what_happens_between_the_read_and_the_write_is_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    place.put_plan(PLAN)
    existing(place)
    real = place.argocd.replace_application
    does = {
        "deleted": lambda: place.store.delete(APPLICATIONS, RELEASE.name, "argocd"),
        "unlabelled": lambda: place.set_application(RELEASE.name, {"metadata": {"labels": None}}),
        "running": lambda: place.set_application(
            RELEASE.name, {"status": {"operationState": {"phase": "Running"}}}
        ),
        "asked": lambda: place.set_application(RELEASE.name, {"operation": {"sync": {"revision": sha("x")}}}),
    }

    def racing(body: Any) -> Any:
        monkeypatch.setattr(place.argocd, "replace_application", real)
        does[meanwhile]()
        return real(body)

    monkeypatch.setattr(place.argocd, "replace_application", racing)
    if meanwhile == "deleted":
        assert apply(place, "Upgrade")["written"]
        assert carries(place.application(RELEASE.name)["operation"], OURS)
        return
    reason = Reason.ForeignObject if meanwhile == "unlabelled" else Reason.Conflict
    with refused(reason) as caught:
        apply(place, "Upgrade")
    assert caught.info.value.retry is (reason is Reason.Conflict)
    assert not carries(place.application(RELEASE.name).get("operation"), OURS)


def test_one_that_is_being_deleted_is_waited_for(place: Place) -> None:
    """What is written to it would go with it."""
    place.put_plan(PLAN)
    existing(place, metadata={"finalizers": ["example.com/slow"]})
    place.store.delete(APPLICATIONS, RELEASE.name, "argocd")
    with refused(Reason.Conflict, "is being deleted") as caught:
        apply(place, "Upgrade")
    assert type(caught.info.value) is OperationInFlightError
    place.set_application(RELEASE.name, {"metadata": {"finalizers": None}})
    assert apply(place, "Upgrade")["written"]


def test_the_write_notes_where_the_history_was(place: Place) -> None:
    """A later entry at the same digest tells that our sync was done, whatever stands there then."""
    place.put_plan(PLAN)
    existing(place)
    place.set_application(RELEASE.name, {"status": {"history": [{"id": 4}, {"id": 5}]}})
    place.set_application(
        RELEASE.name, {"metadata": {"annotations": {READY_ANNOTATION: "x", REFRESHED_ANNOTATION: "y"}}}
    )
    apply(place, "Upgrade")
    found = place.application(RELEASE.name)["metadata"]["annotations"]
    assert found[ASKED_ANNOTATION] == f"{OURS} after 5"
    assert READY_ANNOTATION not in found
    assert REFRESHED_ANNOTATION not in found


def test_endless_conflicts_are_transient(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put_plan(PLAN)

    def conflict(_: Any) -> Any:
        raise ObjectConflictError("applications/gpu-operator")

    monkeypatch.setattr(place.argocd, "create_application", conflict)
    with refused(Reason.Conflict, "being written by somebody else") as caught:
        apply(place)
    assert caught.info.value.retry


@pytest.mark.parametrize("there", ["nothing", "another", "the release"])
def test_unchanged_writes_nothing_whatever_is_there(place: Place, there: str) -> None:
    """The gate before it saw that the release is in place; a person decides about anything else."""
    place.put_plan(PLAN)
    if there == "another":
        existing(place)
    elif there == "the release":
        body = new_application(RELEASE, place.config, sha("old"), "demo-0/001-x")
        place.store.create(APPLICATIONS, body, namespace="argocd")
    before = place.store.list(APPLICATIONS, namespace="argocd")
    assert apply(place, "Unchanged") == {"written": False, **ANSWER, "requestId": None}
    assert place.store.list(APPLICATIONS, namespace="argocd") == before


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


@pytest.mark.parametrize("since", ["over", "revoked", "expired"])
def test_a_redrive_days_later_writes_nothing_of_a_rollout_that_ended_meanwhile(
    place: Place, since: str
) -> None:
    """It begins at this state: no gate comes before it. Another rollout may be at work by then."""
    place.put_plan(PLAN)
    if since == "over":
        place.end_rollout()
    elif since == "revoked":
        who = {"by": "alex", "identity": "link", "issuer": "aicr-pipeline", "reason": "no"}
        place.put_json(
            rollout_key(ROLLOUT, "revocation"), {"rollout": ROLLOUT, "at": rfc3339(place.now), **who}
        )
    else:
        place.later(7 * 3600)
    reasons = {"over": Reason.RolloutSuperseded, "revoked": Reason.RolloutRevoked}
    with refused(reasons.get(since, Reason.RolloutExpired)):
        apply(place)
    assert list(place.argocd.applications()) == []
