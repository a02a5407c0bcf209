"""Whether a validation could run is known before anything runs; afterwards, which validators really ran."""

import json
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from aicr_pipeline.actions import look_at_validators
from aicr_pipeline.actions.check_validation import check_validation
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.decide.aicr_job import PushTarget, validate_job
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.aicr_generation import Generation
from aicr_pipeline.model.reasons import Reason

from infra.cluster_manifests import manifests
from infra.names import kubernetes_group
from local.kube import Identity, KubeServer
from local.kube.argocd_crds import install
from local.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)
from local.kubelet.objects import job_failed, job_succeeded
from tests.functional.actions.support import PLAN, ROLLOUT, Place
from tests.functional.actions.test_action_ask import assessed, fresh
from tests.unit.samples import IMAGE, VALIDATOR_IMAGE, ctrf, refused, runtime

NAMESPACE = "aicr-validation"
V10, V11 = "v1.0.3", "v1.1.2"
REPOSITORY, _, DIGEST = VALIDATOR_IMAGE.partition("@")
COMMAND = "make cluster-manifests CLUSTER=demo"


# Before anything runs


@pytest.mark.parametrize("version", [V10, V11])
def test_what_the_manifests_print_is_enough(place: Place, version: str) -> None:
    place.allow_validation(**{"aicr.version": version})
    check_validation("Required", place.config, version, place.cluster)


Take = Callable[[Place], Any]


def no_account(name: str) -> Take:
    return lambda place: place.store.delete(SERVICE_ACCOUNTS, name, namespace=NAMESPACE)


def no_admin(name: str) -> Take:
    return lambda place: place.store.delete(CLUSTER_ROLE_BINDINGS, name)


def nobody_bound(place: Place) -> None:
    place.store.merge(CLUSTER_ROLE_BINDINGS, "aicr-validator", {"subjects": []})


def no_role(place: Place) -> None:
    place.store.delete(ROLE_BINDINGS, "aicr-validation", namespace=NAMESPACE)


ACCOUNT = "ServiceAccount aicr-validation/"
ADMIN = "ClusterRoleBinding {0} ({0} to cluster-admin)"


@pytest.mark.parametrize(
    ("version", "take", "words"),
    [
        (V11, no_account("aicr-validator"), ACCOUNT + "aicr-validator"),
        (V11, no_account("aicr-validation"), ACCOUNT + "aicr-validation"),
        (V11, no_admin("aicr-validator"), ADMIN.format("aicr-validator")),
        (V11, nobody_bound, ADMIN.format("aicr-validator")),
        (V11, no_role, "RoleBinding aicr-validation (aicr-validation to aicr-validation)"),
        (V10, no_account("aicr-validation"), ACCOUNT + "aicr-validation"),
        (V10, no_admin("aicr-validation"), ADMIN.format("aicr-validation")),
    ],
    ids=["validators", "launcher", "admin", "nobody", "role", "launcher 1.0", "admin 1.0"],
)
def test_each_thing_that_is_missing_is_named_with_the_command(
    place: Place, version: str, take: Take, words: str
) -> None:
    place.allow_validation(**{"aicr.version": version})
    take(place)
    with refused(Reason.ValidationUnavailable, words, COMMAND):
        check_validation("Required", place.config, version, place.cluster)
    check_validation("Disabled", place.config, version, place.cluster)


@pytest.mark.parametrize(
    ("printed", "pinned", "lacks"),
    [(V11, V10, "aicr-validation to cluster-admin"), (V10, V11, "aicr-validator")],
)
def test_a_runtime_of_the_other_generation(place: Place, printed: str, pinned: str, lacks: str) -> None:
    """What is printed is for the configuration's version, so that has to be changed first."""
    place.allow_validation(**{"aicr.version": printed})
    with refused(Reason.ValidationUnavailable, lacks, f"aicr.version, which is {printed}"):
        check_validation("Required", place.config, pinned, place.cluster)


def test_a_runtime_whose_aicr_cannot_sign_with_the_key(place: Place) -> None:
    place.allow_validation(**{"validation.signingKey": "awskms:///alias/k"})
    with refused(Reason.ValidationUnavailable, "AICR v1.0.3, which this runtime is pinned to, cannot sign"):
        check_validation("Required", place.config, V10, place.cluster)
    check_validation("Disabled", place.config, V10, place.cluster)


@pytest.mark.parametrize("version", [V10, V11])
@pytest.mark.parametrize("function", ["check_prerequisites", "assess_transition"])
def test_the_rights_of_the_functions_that_look_are_enough(place: Place, version: str, function: str) -> None:
    """With RBAC enforced, as the group that the manifests bind."""
    place.allow_validation(**{"aicr.version": version})

    who = Identity("somebody", (kubernetes_group(function), "system:authenticated"))
    with KubeServer(authenticate=lambda _token: who) as server:
        install(server.store)
        server.store.create(NAMESPACES, {"metadata": {"name": "argocd"}})
        for manifest in manifests(place.config):
            server.store.apply(manifest, manifest["metadata"].get("namespace"))
        cluster = Cluster(server.url, None, lambda: "token")
        check_validation("Required", place.config, version, cluster)
        server.store.delete(SERVICE_ACCOUNTS, "aicr-validation", namespace=NAMESPACE)
        with refused(Reason.ValidationUnavailable, "ServiceAccount aicr-validation/aicr-validation"):
            check_validation("Required", place.config, version, cluster)


def test_no_step_of_a_rollout_that_could_not_be_validated(place: Place) -> None:
    place.submit()
    place.start_rollout(PLAN)
    fresh(place)
    with refused(Reason.ValidationUnavailable, "validation.enabled is false"):
        assessed(place)
    place.allow_validation()
    place.store.delete(CLUSTER_ROLE_BINDINGS, "aicr-validator")
    with refused(Reason.ValidationUnavailable, COMMAND):
        assessed(place)
    assert place.ledger.get(f"rollouts/{ROLLOUT}/report.json") is None


# Afterwards


def started(place: Place, attempt: int = 1) -> str:
    """A validation Job that runs."""
    name = f"{ROLLOUT}-validate-{attempt}"
    system, target = runtime().spec.placement.system, PushTarget("r.example/aicr/demo/evidence/x", False)
    body = validate_job(name, ROLLOUT, IMAGE, Generation.NAMED_ACCOUNT, system, target, None)
    place.store.create(JOBS, body, namespace=NAMESPACE)
    return name


def waits(place: Place, job: str, **changes: Any) -> dict[str, Any]:
    wanted = {
        "namespace": NAMESPACE,
        "job": job,
        "purpose": "validate",
        "configMap": job,
        "keep": f"rollouts/{ROLLOUT}/validation.json",
        "repository": f"{ROLLOUT}-1",
        "validatorImages": [VALIDATOR_IMAGE],
        "validators": f"rollouts/{ROLLOUT}/validators",
        "podsStay": True,
        **changes,
    }
    place.wait_for("validate", "job", wanted)
    return wanted


def ran(place: Place, check: str, digest: str = DIGEST, run: str = "run-1") -> str:
    """A check's pod that a node has run."""
    name = f"aicr-{check}-1"
    container = {
        "name": "validator",
        "image": f"{REPOSITORY}:v1.1.2",
        "env": [{"name": "AICR_RUN_ID", "value": run}],
    }
    labels = {"aicr.run/validator": check, "app.kubernetes.io/component": "validation"}
    place.store.create(
        PODS,
        {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}},
        namespace=NAMESPACE,
    )
    status = {"containerStatuses": [{"name": "validator", "imageID": f"{REPOSITORY}@{digest}"}]}
    place.store.merge_status(PODS, name, {"status": status}, namespace=NAMESPACE)
    return name


def ended(place: Place, job: str, *statuses: str, well: bool = True) -> None:
    now = "2026-01-02T03:04:05Z"
    status = job_succeeded(now) if well else job_failed(now, "BackoffLimitExceeded")
    place.store.merge_status(JOBS, job, {"status": status}, namespace=NAMESPACE)
    place.store.create(
        CONFIG_MAPS,
        {"metadata": {"name": job}, "data": {"report.json": ctrf(*statuses).decode()}},
        namespace=NAMESPACE,
    )


def answer(place: Place) -> dict[str, Any]:
    return dict(place.sfn.answered["token of validate"]["output"])


def recorded(place: Place) -> list[dict[str, str]]:
    return list(json.loads(place.ledger.get(f"rollouts/{ROLLOUT}/validators.json") or b"null"))


def test_what_ran_is_recorded_and_counts(place: Place) -> None:
    job = started(place)
    waits(place, job)
    for check in ("check-0", "check-1"):
        ran(place, check)
    ended(place, job, "passed", "passed", "skipped")
    place.sweep()
    assert answer(place)["passed"] == 2
    assert recorded(place) == [
        {
            "check": check,
            "image": f"{REPOSITORY}:v1.1.2",
            "digest": DIGEST,
            "pod": f"aicr-{check}-1",
            "run": "run-1",
        }
        for check in ("check-0", "check-1")
    ]


def refusal(place: Place) -> str:
    place.sweep()
    found = answer(place)["outcome"]
    assert found["reason"] == Reason.RolloutFailed
    return str(found["message"])


def test_another_image_fails_the_rollout(place: Place) -> None:
    job = started(place)
    waits(place, job)
    other = "sha256:" + "e" * 64
    ran(place, "check-0", other)
    ended(place, job, "passed")
    message = refusal(place)
    assert f"check check-0 ran {REPOSITORY}:v1.1.2 at {other}" in message
    assert f"name {DIGEST}" in message
    assert recorded(place)[0]["digest"] == other, "what ran is recorded all the same"


def test_pods_that_were_gone_fail_the_rollout(place: Place) -> None:
    job = started(place)
    waits(place, job)
    ran(place, "check-0")
    ended(place, job, "passed", "passed")
    assert "the pods of check-1 were gone before they were looked at" in refusal(place)


def test_two_validations_at_once(place: Place) -> None:
    job = started(place)
    waits(place, job)
    ran(place, "check-0")
    ran(place, "check-1", run="run-2")
    ended(place, job, "passed", "passed")
    assert "two validations ran at once" in refusal(place)


def test_pods_that_go_are_noted_although_nobody_looked(place: Place) -> None:
    """AICR before 1.1.0 removes each check's Job as soon as the check ended: here between two looks."""
    job = started(place)
    waits(place, job, podsStay=False)
    place.sweep(budget=-1)
    for check in ("check-0", "check-1"):
        place.store.delete(PODS, ran(place, check), namespace=NAMESPACE)
    assert place.sfn.answered == {}
    ended(place, job, "passed", "passed")
    place.sweep(budget=-1)
    assert answer(place)["passed"] == 2
    assert [item["check"] for item in recorded(place)] == ["check-0", "check-1"]
    notes = place.ledger_keys(f"rollouts/{ROLLOUT}/validators/")
    assert notes == [f"rollouts/{ROLLOUT}/validators/{job}/aicr-check-{n}-1.json" for n in (0, 1)]


def test_what_was_noted_counts_for_a_sweeper_that_begins_anew(place: Place) -> None:
    """Another process knows no resource version, and reads what the first wrote down."""
    job = started(place)
    waits(place, job, podsStay=False)
    pod = ran(place, "check-0")
    place.sweep(budget=-1)
    place.store.delete(PODS, pod, namespace=NAMESPACE)
    look_at_validators._WATCHED.clear()
    ended(place, job, "passed")
    place.sweep(budget=-1)
    assert answer(place)["passed"] == 1


@pytest.mark.parametrize("after", [0, 1], ids=["the first", "the second"])
def test_a_note_that_could_not_be_written_is_written_by_the_next_look(
    place: Place, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger refuses one of two notes; by the next look both pods are gone."""
    job = started(place)
    waits(place, job, podsStay=False)
    place.sweep(budget=-1)
    for check in ("check-0", "check-1"):
        place.store.delete(PODS, ran(place, check), namespace=NAMESPACE)
    put, left = place.ledger.put_once, [after]

    def refused_once(key: str, *more: Any) -> bool:
        if "/validators/" in key:
            left[0] -= 1
            if left[0] == -1:
                raise TransientError(Reason.Conflict, "another writer is at it")
        return put(key, *more)

    monkeypatch.setattr(place.ledger, "put_once", refused_once)
    place.sweep(budget=-1)
    assert left[0] < 0, "it was refused"
    ended(place, job, "passed", "passed")
    place.sweep(budget=-1)
    assert answer(place)["passed"] == 2
    assert [item["check"] for item in recorded(place)] == ["check-0", "check-1"]
    uid = place.store.get(JOBS, job, namespace=NAMESPACE)["metadata"]["uid"]
    assert uid not in look_at_validators._WATCHED, "nothing is kept of a Job that ended"


def test_a_history_that_is_too_short_is_read_anew(place: Place) -> None:
    """410: the API server keeps a few minutes. What is there now is still seen."""
    job = started(place)
    waits(place, job, podsStay=False)
    uid = place.store.get(JOBS, job, namespace=NAMESPACE)["metadata"]["uid"]
    look_at_validators._WATCHED[uid] = "1"
    history = place.store.storage._changes
    place.store.storage._changes = deque([history[-1]], maxlen=1)
    place.sweep(budget=-1)
    assert look_at_validators._WATCHED[uid] is None
    ran(place, "check-0")
    ended(place, job, "passed")
    place.sweep(budget=-1)
    assert answer(place)["passed"] == 1


def test_a_second_look_judges_the_record_of_the_first(place: Place) -> None:
    """The first was recorded and then died; by now the pods are gone."""
    job = started(place)
    waits(place, job)
    pod = ran(place, "check-0")
    ended(place, job, "passed")
    place.sweep()
    first = recorded(place)
    place.store.delete(PODS, pod, namespace=NAMESPACE)
    place.sfn.answered.clear()
    waits(place, job)
    place.sweep()
    assert answer(place)["passed"] == 1
    assert recorded(place) == first


def test_a_bad_record_stays_bad(place: Place) -> None:
    job = started(place)
    waits(place, job)
    ran(place, "check-0", run="run-1")
    pod = ran(place, "check-1", run="run-2")
    ended(place, job, "passed", "passed")
    assert "two validations" in refusal(place)
    place.store.delete(PODS, pod, namespace=NAMESPACE)
    place.sfn.answered.clear()
    waits(place, job)
    assert "two validations" in refusal(place)


def test_a_waiter_of_an_earlier_version_is_answered(place: Place) -> None:
    job = started(place)
    wanted = waits(place, job)
    for name in ("validatorImages", "validators", "podsStay"):
        del wanted[name]
    place.wait_for("validate", "job", wanted)
    ended(place, job, "passed")
    place.sweep()
    assert answer(place)["passed"] == 1


def test_a_failed_check_is_told_before_anything_about_images(place: Place) -> None:
    job = started(place)
    waits(place, job)
    ended(place, job, "failed", well=False)
    assert "deployment validation failed: check-0 (failed)" in refusal(place)
