"""A look at a release: what Argo CD is asked meanwhile, what is taken back, and whose Application it is."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from aicr_pipeline.adapters.cluster import ObjectConflictError
from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.application import (
    AUTOMATED,
    MANAGED_BY_LABEL,
    READY_ANNOTATION,
    REFRESH,
    REFRESHED_ANNOTATION,
    application_spec,
    new_application,
    operation,
    spec_digest,
)
from aicr_pipeline.decide.names import request_id

from local.kube import APPLICATIONS
from tests.functional.actions.support import BEGAN, PLAN, ROLLOUT, Place

RELEASE = PLAN.desired_state.releases[0]
DIGEST = RELEASE.chart.manifest_digest
OURS = request_id(ROLLOUT, 1, RELEASE.name)
STEP = "step 1/2 gpu-operator (Install)"
BLOCKED = "Sync operation blocked by sync window"


def stamp(minutes: float) -> str:
    return (BEGAN + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def install(place: Place, **wanted: Any) -> None:
    """Our write, just now, and the wait for it."""
    body = new_application(RELEASE, place.config, PLAN.desired_state_digest, OURS)
    place.store.create(APPLICATIONS, body, namespace="argocd")
    place.wait_for(
        "w",
        "application",
        {
            "rollout": ROLLOUT,
            "index": 1,
            "release": RELEASE.name,
            "step": STEP,
            "digest": DIGEST,
            "requestId": OURS,
            "spec": spec_digest(application_spec(RELEASE, place.config)),
            **wanted,
        },
    )


def become(place: Place, **status: Any) -> None:
    """What Argo CD writes when it has done the operation; ``status`` takes the place of parts."""
    spec = place.application(RELEASE.name)["spec"]
    place.set_application(
        RELEASE.name,
        {
            "operation": None,
            "status": {
                "sync": {
                    "status": "Synced",
                    "revision": DIGEST,
                    "comparedTo": {"source": spec["source"], "destination": spec["destination"]},
                },
                "health": {"status": "Healthy", "lastTransitionTime": stamp(0.2)},
                "reconciledAt": stamp(0.2),
                "operationState": state(),
                **status,
            },
        },
    )


def state(**changes: Any) -> dict[str, Any]:
    return {
        "phase": "Succeeded",
        "startedAt": stamp(0),
        "finishedAt": stamp(0.1),
        "operation": operation(RELEASE, OURS),
        "syncResult": {"revision": DIGEST},
        **changes,
    }


def look(place: Place, after: float = 0) -> dict[str, Any] | None:
    """One sweep, ``after`` minutes later; the answer if there is one."""
    place.later(after * 60)
    place.sweep(budget=-1)
    return place.sfn.answered.get("token of w")


def annotations(place: Place) -> dict[str, str]:
    return place.application(RELEASE.name)["metadata"].get("annotations") or {}


TROUBLE = {"type": "ComparisonError", "message": "words", "lastTransitionTime": stamp(0.2)}


# Refreshes


@pytest.mark.parametrize(("message", "kind"), [("words", "normal"), ("Manifest (cached): words", "hard")])
def test_a_condition_that_stays_is_looked_at_again_once(place: Place, message: str, kind: str) -> None:
    install(place)
    become(place, conditions=[{**TROUBLE, "message": message}])
    assert look(place, after=0.5) is None
    assert REFRESH not in annotations(place), "most of it passes by itself"
    assert look(place, after=1) is None
    assert annotations(place)[REFRESH] == kind
    assert parse_time(annotations(place)[REFRESHED_ANNOTATION].partition(" ")[0]) == place.now
    # Argo CD does it, and has the same trouble.
    place.set_application(
        RELEASE.name, {"metadata": {"annotations": {REFRESH: None}}, "status": {"reconciledAt": stamp(2)}}
    )
    for _ in range(8):
        assert look(place, after=1) is None
        assert REFRESH not in annotations(place)
    answer = look(place, after=2)
    assert answer is not None
    assert answer["error"] == "RolloutFailed"
    assert message in answer["cause"]


def test_a_refresh_that_was_missed_is_asked_for_again_and_then_the_engine_is_suspended(place: Place) -> None:
    install(place)
    become(place, reconciledAt=stamp(-10))
    versions = []
    for _ in range(10):
        assert look(place, after=1) is None
        versions.append(annotations(place).get(REFRESHED_ANNOTATION))
    assert annotations(place)[REFRESH] == "normal"
    assert len(set(versions) - {None}) == 2, "asked for, and once more half-way"
    answer = look(place, after=1)
    assert answer is not None
    assert answer["error"] == "EngineSuspended"
    assert answer["cause"].startswith(f"{STEP}: gpu-operator: Argo CD does not reconcile: ")


def test_a_cached_error_of_our_operation_is_cleared_for_the_next_rollout(place: Place) -> None:
    install(place)
    become(place, operationState=state(phase="Error", message="ComparisonError: Manifest (cached): words"))
    answer = look(place)
    assert answer is not None
    assert "(cached): words" in answer["cause"]
    assert annotations(place)[REFRESH] == "hard"


# What would run later without a gate is taken back


def test_an_operation_that_nobody_takes_up_is_taken_back(place: Place) -> None:
    install(place)
    assert look(place, after=9) is None
    assert "operation" in place.application(RELEASE.name)
    answer = look(place, after=2)
    assert answer is not None
    assert answer["error"] == "EngineSuspended"
    assert "its operation has not started" in answer["cause"]
    assert "operation" not in place.application(RELEASE.name)


def test_an_operation_that_a_window_holds_is_taken_back(place: Place) -> None:
    install(place)
    place.set_application(
        RELEASE.name, {"status": {"operationState": state(phase="Running", message=BLOCKED, syncResult={})}}
    )
    assert look(place, after=9) is None
    answer = look(place, after=2)
    assert answer is not None
    assert answer["error"] == "EngineSuspended"
    assert BLOCKED in answer["cause"]
    left = place.application(RELEASE.name)
    assert "operation" not in left
    assert "operationState" not in left["status"]


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (None, False),
        (state(phase="Running", message="waiting for hook"), True),
        (state(phase="Running", message=BLOCKED, syncResult={"resources": [{"kind": "Job"}]}), True),
    ],
    ids=["not taken up", "a hook runs", "a window closed over it"],
)
def test_at_the_deadline_what_has_not_begun_is_taken_back(place: Place, found: Any, kept: bool) -> None:
    """What has begun goes on: it cannot be undone by stopping half-way."""
    install(place)
    alive = {"reconciledAt": stamp(400), "operationState": found}
    place.set_application(RELEASE.name, {"status": alive})
    answer = look(place, after=6 * 60)
    assert answer is not None
    assert answer["error"] == "RolloutExpired"
    assert ("operation" in place.application(RELEASE.name)) is kept


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (None, False),
        (state(phase="Running", message=BLOCKED, syncResult={}), False),
        (state(phase="Running", message="waiting for hook"), True),
        (state(phase="Running", message=BLOCKED, syncResult={"resources": [{"kind": "Job"}]}), True),
    ],
    ids=["not taken up", "held since its beginning", "a hook runs", "a window closed over it"],
)
def test_what_a_rollout_that_gave_way_has_not_begun_is_taken_back(
    place: Place, found: Any, kept: bool
) -> None:
    """Its execution stopped, and a newer wish took its place: no gate stands before this operation."""
    install(place)
    place.set_application(RELEASE.name, {"status": {"reconciledAt": stamp(0), "operationState": found}})
    place.end_rollout()
    answer = look(place)
    assert answer is not None
    assert answer["error"] == "RolloutSuperseded"
    assert ("operation" in place.application(RELEASE.name)) is kept


def test_of_a_rollout_that_gave_way_somebody_elses_operation_stays(place: Place) -> None:
    install(place)
    place.set_application(RELEASE.name, {"operation": {"info": None, "initiatedBy": {"username": "sam"}}})
    place.end_rollout()
    look(place)
    assert place.application(RELEASE.name)["operation"]["initiatedBy"] == {"username": "sam"}


def test_what_cannot_be_taken_back_now_is_taken_back_by_a_later_look(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(place)
    place.end_rollout()

    def conflict(*_: Any) -> Any:
        raise ObjectConflictError("applications/gpu-operator")

    with monkeypatch.context() as patched:
        patched.setattr(place.argocd, "change_application", conflict)
        assert look(place) is None
    assert look(place, after=1) is not None
    assert "operation" not in place.application(RELEASE.name)


def test_an_operation_that_is_taken_up_meanwhile_is_not_taken_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our look and our write the controller came back: what it says then is judged."""
    install(place)
    real = place.argocd.change_application

    def racing(name: str, patch: Any) -> Any:
        monkeypatch.setattr(place.argocd, "change_application", real)
        place.set_application(
            name, {"status": {"operationState": state(phase="Running"), "reconciledAt": stamp(11)}}
        )
        return real(name, patch)

    monkeypatch.setattr(place.argocd, "change_application", racing)
    assert look(place, after=11) is None
    assert "operation" in place.application(RELEASE.name)


# Self-heal


def test_automated_that_somebody_puts_back_ends_the_step(place: Place) -> None:
    install(place)
    place.set_application(RELEASE.name, {"spec": {"syncPolicy": {"automated": {"prune": True}}}})
    answer = look(place)
    assert answer is not None
    assert answer["error"] == "EngineSuspensionRefused"
    assert "automated" in answer["cause"]
    assert "operation" not in place.application(RELEASE.name), "nothing runs after the rollout's end"


def test_automated_that_is_switched_off_is_off(place: Place) -> None:
    install(place)
    place.set_application(RELEASE.name, {"spec": {"syncPolicy": {"automated": {"enabled": False}}}})
    assert look(place) is None


def test_automated_that_is_back_with_a_ready_release_is_no_trouble(place: Place) -> None:
    install(place)
    place.set_application(RELEASE.name, {"spec": {"syncPolicy": {"automated": {"prune": True}}}})
    become(place)
    answer = look(place)
    assert answer is not None
    assert "output" in answer


@pytest.mark.parametrize("then", ["nothing", "degraded", "healed"])
def test_a_look_that_died_after_it_gave_self_heal_back(place: Place, then: str) -> None:
    """The next look finds ``automated`` by our own hand, and maybe an operation that self-heal started."""
    install(place)
    become(place)
    settle = place.coordination.settle

    def dies(*_: Any) -> bool:
        raise RuntimeError("killed")

    place.coordination.settle = dies  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        look(place)
    place.coordination.settle = settle  # type: ignore[method-assign]
    left = place.application(RELEASE.name)
    assert left["spec"]["syncPolicy"]["automated"] == AUTOMATED
    assert left["metadata"]["annotations"][READY_ANNOTATION] == OURS
    place.later(40)
    if then == "degraded":
        place.set_application(RELEASE.name, {"status": {"health": {"status": "Degraded"}}})
        assert look(place) is None, "it waits for the release, and blames nobody"
        place.set_application(RELEASE.name, {"status": {"health": {"status": "Healthy"}}})
    elif then == "healed":
        healing = {"initiatedBy": {"automated": True}, "sync": {"revision": DIGEST, "resources": [{}]}}
        source = left["spec"]["source"]
        place.set_application(
            RELEASE.name,
            {
                "status": {
                    "operationState": {"operation": healing},
                    "history": [{"id": 0, "revision": DIGEST, "source": source, "deployedAt": stamp(0)}],
                }
            },
        )
    answer = look(place)
    assert answer is not None
    assert "output" in answer


def test_giving_self_heal_back_is_one_write(place: Place) -> None:
    install(place)
    become(place)
    place.sfn.errors = ["ThrottlingException"]
    assert look(place) is None
    version = place.application(RELEASE.name)["metadata"]["resourceVersion"]
    assert look(place, after=1) is not None
    assert place.application(RELEASE.name)["metadata"]["resourceVersion"] == version


def test_a_write_in_between_is_judged_before_self_heal_is_given_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late look of a slow sweep never gives self-heal to what a newer rollout is writing."""
    install(place)
    become(place)
    real = place.argocd.change_application

    def racing(name: str, patch: Any) -> Any:
        monkeypatch.setattr(place.argocd, "change_application", real)
        place.set_application(name, {"operation": {"sync": {}, "initiatedBy": {"username": "next"}}})
        return real(name, patch)

    monkeypatch.setattr(place.argocd, "change_application", racing)
    assert look(place) is None
    assert "automated" not in place.application(RELEASE.name)["spec"]["syncPolicy"]


def test_a_storm_of_conflicts_is_left_to_the_next_look(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    install(place)
    become(place)

    def conflict(*_: Any) -> Any:
        raise ObjectConflictError("applications/gpu-operator")

    with monkeypatch.context() as patched:
        patched.setattr(place.argocd, "change_application", conflict)
        assert look(place) is None
    assert "being written by somebody else" in place.problems[0]
    assert look(place, after=1) is not None


# Whose it is


def _unlabelled(place: Place) -> None:
    place.set_application(RELEASE.name, {"metadata": {"labels": {MANAGED_BY_LABEL: None}}})


def _theirs(place: Place) -> None:
    place.set_application(RELEASE.name, {"metadata": {"labels": {MANAGED_BY_LABEL: "Helm"}}})


def _deleted(place: Place) -> None:
    place.store.delete(APPLICATIONS, RELEASE.name, "argocd")


def _dying(place: Place) -> None:
    place.set_application(
        RELEASE.name, {"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}
    )
    _deleted(place)


def _other_values(place: Place) -> None:
    place.set_application(RELEASE.name, {"spec": {"source": {"helm": {"valuesObject": {"replicas": 9}}}}})


def _no_plan_s_values(place: Place) -> None:
    place.set_application(RELEASE.name, {"spec": {"source": {"helm": {"valuesObject": {"replicas": 2**60}}}}})


def _other_project(place: Place) -> None:
    place.set_application(RELEASE.name, {"spec": {"project": "default"}})


@pytest.mark.parametrize("when", ["before it was taken up", "when it is ready"])
@pytest.mark.parametrize(
    ("does", "reason", "said"),
    [
        (_unlabelled, "ForeignObject", "has lost its label app.kubernetes.io/managed-by: aicr-pipeline, and"),
        (_theirs, "ForeignObject", "has lost its label app.kubernetes.io/managed-by: aicr-pipeline, and"),
        (_deleted, "RolloutFailed", "is gone; somebody deleted it"),
        (_dying, "RolloutFailed", "is being deleted"),
        (_other_values, "InventoryDrift", "somebody changed its spec"),
        (_no_plan_s_values, "InventoryDrift", "somebody changed its spec"),
        (_other_project, "InventoryDrift", "somebody changed its spec"),
    ],
)
def test_what_somebody_does_to_it_in_the_middle_ends_the_step(
    place: Place, does: Callable[[Place], None], reason: str, said: str, when: str
) -> None:
    install(place)
    if when == "when it is ready":
        become(place)
    does(place)
    before = place.store.find(APPLICATIONS, RELEASE.name, namespace="argocd")
    if before is not None:  # Argo CD compares what it finds
        compared = {part: before["spec"][part] for part in ("source", "destination")}
        place.set_application(RELEASE.name, {"status": {"sync": {"comparedTo": compared}}})
        before = place.application(RELEASE.name)
    answer = look(place)
    assert answer is not None
    assert answer["error"] == reason
    assert answer["cause"].startswith(f"{STEP}: Application gpu-operator")
    assert said in answer["cause"]
    if reason == "ForeignObject":
        assert place.application(RELEASE.name) == before, "what is not ours is not written"
    elif before is not None:
        assert "operation" not in place.application(RELEASE.name)


def test_a_wait_from_before_the_spec_was_noted_still_ends(place: Place) -> None:
    install(place, spec=None)
    become(place)
    answer = look(place)
    assert answer is not None
    assert "output" in answer
