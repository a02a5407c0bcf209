"""States that run AICR in the cluster: twice is once, and a retry goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from aicr_pipeline.actions.confirm_criteria import confirm_criteria
from aicr_pipeline.actions.look_at_waiters import World, look
from aicr_pipeline.actions.render_bundle import render_bundle
from aicr_pipeline.actions.run_job import JobPlace
from aicr_pipeline.actions.take_snapshot import take_snapshot
from aicr_pipeline.actions.validate_deployment import validate_deployment
from aicr_pipeline.actions.validation_record import load_attempt
from aicr_pipeline.adapters.coordination import Waiter
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason

from local.kube import CONFIG_MAPS, JOBS, NODES, SECRETS, DeleteOptions
from tests.functional.actions.support import PLAN, ROLLOUT, Place, step
from tests.unit.samples import VALIDATOR_IMAGE, config, ctrf, refused, sha

WHO = FixedCredentials("AWS", "very-secret-password")
RUN = {"run": "run-1"}
SNAPSHOT = b"""apiVersion: aicr.run/v1
kind: Snapshot
metadata: {version: v1.1.2}
fingerprint: {service: {value: eks}, k8sVersion: {value: 1.34.2}, nodeCount: {value: 4}}
"""


def resolving(place: Place, **more: Any) -> Any:
    return step("Take snapshot", input={**RUN, "runtimeVersion": place.submit()}, **more)


def at(place: Place) -> JobPlace:
    return JobPlace(place.cluster, place.waits, place.clock)


def snapshot(place: Place, **more: Any) -> dict[str, Any]:
    return take_snapshot(resolving(place, **more), place.config, place.inbox, place.ledger, at(place))


class Bundles:
    """Tags that are in the registry, in place of one."""

    def __init__(self, *tags: str) -> None:
        self.tags = tags

    def repository(self, *_: Any) -> Bundles:
        return self

    def head_manifest(self, tag: str) -> str | None:
        return sha(tag) if tag in self.tags else None


def render(place: Place, *tags: str, **more: Any) -> dict[str, Any]:
    registry = cast("Destination", Bundles(*tags))
    made = resolving(place, **more)
    return render_bundle(made, place.config, place.inbox, registry, WHO, at(place))


ENABLED = config(**{"validation.enabled": True, "aicr.validatorImages": [VALIDATOR_IMAGE]})
AICR_KEY = "awskms:///alias/aicr"
SIGNED = config(
    **{
        "validation.enabled": True,
        "aicr.validatorImages": [VALIDATOR_IMAGE],
        "validation.signingKey": AICR_KEY,
    }
)


def validate(place: Place, settings: ClusterConfig = ENABLED, **more: Any) -> dict[str, Any]:
    made = step("Validate deployment", input={"toPlan": PLAN.desired_state_digest}, **more)
    return validate_deployment(made, settings, place.ledger, WHO, at(place), str.encode)


def confirm(place: Place, **more: Any) -> dict[str, Any]:
    made = step("Confirm criteria", input={"toPlan": PLAN.desired_state_digest}, **more)
    return confirm_criteria(made, place.config, place.ledger, at(place))


@pytest.fixture
def ready(place: Place) -> Place:
    for name in ("system", "gpu"):
        place.store.create(NODES, {"metadata": {"name": name, "labels": {"pool": name}}})
    place.put_rollout(PLAN)
    run = PLAN.recorded.run
    place.ledger.put_once(f"resolves/{run}/recipe.yaml", b"kind: RecipeResult")
    place.ledger.put_once(f"resolves/{run}/snapshot.yaml", SNAPSHOT)
    return place


@pytest.mark.parametrize("act", [snapshot, render, validate, confirm])
def test_a_retry_finds_the_job_and_brings_its_newer_token(ready: Place, act: Callable[..., Any]) -> None:
    act(ready, token="old")
    act(ready, token="new", retries=1)
    jobs = [
        job for space in ("aicr-system", "aicr-validation") for job in ready.store.list(JOBS, namespace=space)
    ]
    assert len(jobs) == 1
    (waiting,) = ready.coordination.waiters()
    assert waiting.token == "new"
    assert waiting.wanted["job"] == jobs[0]["metadata"]["name"]
    assert "very-secret-password" not in json.dumps([jobs, dict(waiting.wanted), ready.events.entries])


@pytest.mark.parametrize("act", [snapshot, render, validate, confirm])
def test_after_a_failed_attempt_the_next_has_its_own_names(ready: Place, act: Callable[..., Any]) -> None:
    act(ready)
    (first,) = ready.coordination.waiters()
    status = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    ready.store.merge_status(JOBS, first.wanted["job"], status, namespace=first.wanted["namespace"])
    act(ready, retries=1)
    (second,) = ready.coordination.waiters()
    assert second.wanted["job"] != first.wanted["job"]
    for name in ("tag", "repository", "configMap"):
        if name in first.wanted:
            assert second.wanted[name] != first.wanted[name], (
                "a half-pushed artifact is never taken for this one's"
            )


def test_a_render_pushes_to_the_tag_that_is_looked_for(ready: Place) -> None:
    render(ready)
    (job,) = ready.store.list(JOBS, namespace="aicr-system")
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    tag = ready.coordination.waiters()[0].wanted["tag"]
    registry = ready.config.registry
    assert f"oci://{registry.host}/{registry.prefix}/bundles/demo:{tag}" in arguments


@pytest.mark.parametrize("act", [render, validate])
def test_the_registry_secret_goes_with_its_job(ready: Place, act: Callable[..., Any]) -> None:
    act(ready)
    wanted = ready.coordination.waiters()[0].wanted
    job = ready.store.get(JOBS, wanted["job"], namespace=wanted["namespace"])
    secret = ready.store.get(SECRETS, wanted["job"], namespace=wanted["namespace"])
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": wanted["job"], "uid": job["metadata"]["uid"]}
    assert secret["metadata"]["ownerReferences"] == [owner]
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    found = json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))
    assert list(found["auths"]) == [ready.config.registry.host]
    # As the TTL controller deletes it, and kubectl.
    ready.store.delete(JOBS, wanted["job"], wanted["namespace"], DeleteOptions(propagation="Background"))
    assert ready.store.list(SECRETS, namespace=wanted["namespace"]) == [], "the collector takes what it owned"


@pytest.mark.parametrize("act", [render, validate])
def test_a_second_start_writes_the_secret_again(ready: Place, act: Callable[..., Any]) -> None:
    """The token of the first start may be near its end when a state is retried hours later."""
    act(ready)
    wanted = ready.coordination.waiters()[0].wanted
    merged = {"data": {".dockerconfigjson": base64.b64encode(b"{}").decode()}}
    ready.store.merge(SECRETS, wanted["job"], merged, namespace=wanted["namespace"])
    act(ready, retries=1)
    (secret,) = ready.store.list(SECRETS, namespace=wanted["namespace"])
    assert secret["metadata"]["name"] == wanted["job"]
    assert len(secret["metadata"]["ownerReferences"]) == 1
    assert (
        "very-secret-password"
        in base64.b64decode(
            json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))["auths"][
                ready.config.registry.host
            ]["auth"]
        ).decode()
    )


def test_a_validation_gets_the_plans_own_recipe_and_snapshot(ready: Place) -> None:
    validate(ready)
    name = ready.coordination.waiters()[0].wanted["job"]
    for suffix, text in (("recipe", "kind: RecipeResult"), ("snapshot", SNAPSHOT.decode())):
        found = ready.store.get(CONFIG_MAPS, f"{name}-{suffix}", namespace="aicr-validation")
        assert found["data"]["snapshot.yaml"] == text
    (job,) = ready.store.list(JOBS, namespace="aicr-validation")
    image = job["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.endswith(PLAN.desired_state.aicr.image_digest), "the AICR that rendered the plan"


def test_no_node_of_a_group(place: Place) -> None:
    with refused(Reason.NodeGroupEmpty, "spec.placement.system.nodeSelector (pool=system)"):
        snapshot(place)
    place.store.create(NODES, {"metadata": {"name": "a", "labels": {"pool": "system"}}})
    with refused(Reason.NodeGroupEmpty, "spec.placement.accelerated.nodeSelector (pool=gpu)"):
        snapshot(place)
    assert place.store.list(JOBS, namespace="aicr-system") == []


def test_validation_that_is_not_enabled(ready: Place) -> None:
    made = step("Validate deployment", input={"toPlan": PLAN.desired_state_digest})
    with refused(Reason.ValidationUnavailable):
        validate_deployment(made, ready.config, ready.ledger, WHO, at(ready), str.encode)


def ended(place: Place, job: str, report: str) -> None:
    """A validation Job that AICR ended well."""
    place.store.merge(CONFIG_MAPS, job, {"data": {"report.json": report}}, namespace="aicr-validation")
    status = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    place.store.merge_status(JOBS, job, status, namespace="aicr-validation")


def judged(place: Place, waiter: Waiter) -> dict[str, Any]:
    world = World(
        place.ledger,
        place.coordination,
        lambda: place.cluster,
        lambda: place.argocd,
        place.clock,
        lambda: place.inbox,
        lambda: place.config,
    )
    # Which validators ran is another matter.
    wanted = {key: value for key, value in waiter.wanted.items() if key != "validatorImages"}
    found = look(replace(waiter, wanted=wanted), world)
    assert found is not None
    return dict(found["output"])


@pytest.mark.parametrize("again", [1, 2, 5])
def test_a_redrive_without_the_jobs_names_the_attempt_whose_report_it_is(ready: Place, again: int) -> None:
    """A day later the Jobs are gone, and the report is of whichever attempt wrote it."""
    failed = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    for attempt in range(1, again):
        validate(ready, retries=attempt - 1)
        (waiter,) = ready.coordination.waiters()
        ready.store.merge_status(JOBS, waiter.wanted["job"], failed, namespace="aicr-validation")
    validate(ready, retries=again - 1)
    (waiter,) = ready.coordination.waiters()
    ended(ready, waiter.wanted["job"], ctrf("passed").decode())
    first = judged(ready, waiter)
    assert first["repository"] == f"{ROLLOUT}-{again}"
    assert judged(ready, waiter) == first, "a second look"
    for job in ready.store.list(JOBS, namespace="aicr-validation"):
        ready.store.delete(JOBS, job["metadata"]["name"], namespace="aicr-validation")
    assert judged(ready, waiter) == first, "its Job is gone"
    validate(ready, retries=again)
    (waiter,) = ready.coordination.waiters()
    assert waiter.wanted["recorded"] is True
    assert judged(ready, waiter) == first, "a redrive"


@pytest.mark.parametrize("started", [ENABLED, SIGNED], ids=["unsigned", "signed"])
@pytest.mark.parametrize("adopted", [ENABLED, SIGNED], ids=["by now unsigned", "by now signed"])
def test_what_the_job_was_started_with_is_written_down(
    ready: Place, started: ClusterConfig, adopted: ClusterConfig
) -> None:
    """A retry finds the Job running, with whatever is configured by then."""
    validate(ready, started)
    validate(ready, adopted)
    (waiter,) = ready.coordination.waiters()
    ended(ready, waiter.wanted["job"], ctrf("passed").decode())
    judged(ready, waiter)
    kept = load_attempt(ready.ledger, ROLLOUT, f"{ROLLOUT}-1")
    assert kept is not None
    assert kept.signing_key == (AICR_KEY if started is SIGNED else None)
    known = started is SIGNED and adopted is SIGNED
    assert kept.public_key == (base64.b64encode(AICR_KEY.encode()).decode() if known else None)


# A rollout that is over


@pytest.mark.parametrize("act", [validate, confirm])
def test_no_job_of_a_rollout_that_is_over(ready: Place, act: Callable[..., Any]) -> None:
    ready.end_rollout()
    with refused(Reason.RolloutSuperseded, "is over: a newer plan"):
        act(ready)
    assert ready.coordination.waiters() == []
    assert not ready.store.list(JOBS, namespace="aicr-system") + ready.store.list(
        JOBS, namespace="aicr-validation"
    )
