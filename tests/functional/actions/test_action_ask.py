"""Assessing, asking people and starting Jobs: each safe to run twice."""

import json
from typing import Any

import pytest
from aicr_pipeline.actions.assess_transition import assess_transition
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.actions.request_approval import request_approval
from aicr_pipeline.actions.tell_approvers import Ways
from aicr_pipeline.adapters import jobs
from aicr_pipeline.clock import after
from aicr_pipeline.decide.aicr_job import snapshot_job
from aicr_pipeline.decide.application import PLAN_ANNOTATION, new_application
from aicr_pipeline.decide.names import job_name
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key

from local.kube import APPLICATIONS, JOBS
from tests.functional.actions.support import BEGAN, DEADLINE, INBOX, PLAN, ROLLOUT, Place, step
from tests.unit.samples import DEPLOYED, IMAGE, plan, refused, release, runtime, sha

TO = {"toPlan": PLAN.desired_state_digest}


def assessed(place: Place, **changes: Any) -> dict[str, Any]:
    given = {**TO, "fromPlan": None, **changes.pop("input", {})}
    made = step("Assess transition", input=given, token=None, **changes)
    return assess_transition(
        made,
        place.config,
        place.ledger,
        place.inbox,
        place.cluster,
        place.argocd,
        place.coordination,
        place.bus,
        place.clock,
        DEPLOYED,
    )


@pytest.fixture(autouse=True)
def wish(place: Place) -> None:
    place.submit()
    place.allow_validation()


def test_nobody_is_asked_for_a_runtime_that_was_deleted(place: Place) -> None:
    place.start_rollout(PLAN)
    fresh(place)
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    with refused(Reason.Deleting, "nothing is removed"):
        assessed(place)
    assert place.ledger_keys("rollouts/") == [rollout_key(ROLLOUT, "rollout")]


def fresh(place: Place, hours: float = 12) -> None:
    place.coordination.put_fact(
        CREDENTIALS, {"mintedAt": after(BEGAN, 0), "expiresAt": after(BEGAN, hours * 3600)}
    )


def test_an_assessment_twice_is_one_report(place: Place) -> None:
    place.start_rollout(PLAN)
    fresh(place)
    first = assessed(place)
    assert first["approvalNeeded"] is True
    assert [(found["index"], found["of"], found["release"]) for found in first["steps"]] == [
        (1, 2, "gpu-operator"),
        (2, 2, "kai-scheduler"),
    ]
    assert len(json.dumps(first)) < 8192
    assert assessed(place) == first
    documents = ("deployed", "report", "rollout")
    assert place.ledger_keys("rollouts/") == [rollout_key(ROLLOUT, name) for name in documents]
    began = place.ledger.get_json(rollout_key(ROLLOUT, "deployed"))
    assert (began["pipeline"], began["development"]) == (DEPLOYED, place.config.development)


def test_the_steps_of_two_hundred_releases_fit_into_the_state(place: Place) -> None:
    """docs/decisions/0018: the one exception to states of 8 KB, far from the 256 KB that AWS takes."""
    whole = plan(*(release(f"a-release-with-a-long-name-{number:03}") for number in range(200)))
    place.start_rollout(whole)
    fresh(place)
    found = assessed(place, input={"toPlan": whole.desired_state_digest})
    assert len(found["steps"]) == 200
    assert len(json.dumps(found)) < 24 << 10


def test_an_assessment_knows_whether_the_last_plan_is_whole(place: Place) -> None:
    place.start_rollout(PLAN, before=PLAN, from_is_whole=False)
    fresh(place)
    place.allow_validation(**{"approvals.always": False})
    found = assessed(place, input={"fromPlan": PLAN.desired_state_digest})
    assert found["approvalNeeded"] is True
    assert {made["action"] for made in found["steps"]} == {"Reconfigure"}


@pytest.mark.parametrize(
    ("change", "came_from"),
    [
        ({}, "3.0.0"),
        ({"status": {"sync": {"status": "OutOfSync"}}}, "1.0.0"),
        ({"status": {"sync": {"revision": PLAN.desired_state.releases[0].chart.manifest_digest}}}, "1.0.0"),
        ({"status": {"sync": {"comparedTo": {"source": {"targetRevision": sha("x")}}}}}, "1.0.0"),
        ({"metadata": {"annotations": {PLAN_ANNOTATION: sha("a plan that nobody has")}}}, "1.0.0"),
        ({"metadata": {"annotations": {PLAN_ANNOTATION: None}}}, "1.0.0"),
    ],
    ids=["compared and synced", "out of sync", "at another revision", "other source", "no plan", "no word"],
)
@pytest.mark.parametrize("whole", [True, False])
def test_what_a_rollout_that_ended_half_way_installed_is_where_the_next_one_starts(
    place: Place, change: dict[str, Any], came_from: str, whole: bool
) -> None:
    """It is judged as an upgrade from there: going back to the active plan would be no transition at all."""
    half = place.put_plan(plan(release("gpu-operator", "3.0.0"), release("added")))
    place.start_rollout(PLAN, before=PLAN, from_is_whole=whole)
    fresh(place)
    for made in half.desired_state.releases:
        body = new_application(made, place.config, half.desired_state_digest, "x")
        del body["operation"]
        compared = {part: body["spec"][part] for part in ("source", "destination")}
        revision = made.chart.manifest_digest
        body["status"] = {"sync": {"status": "Synced", "revision": revision, "comparedTo": compared}}
        place.store.create(APPLICATIONS, body, namespace="argocd")
    place.set_application("gpu-operator", change)
    assessed(place, input={"fromPlan": PLAN.desired_state_digest})
    report = place.ledger.get_json(rollout_key(ROLLOUT, "report"))
    first, second = report["steps"]
    assert first["fromVersion"] == ("1.0.0" if whole else came_from)
    assert first["action"] == ("Unchanged" if whole else "Upgrade" if came_from == "3.0.0" else "Reconfigure")
    assert second["fromVersion"] == "1.0.0"
    assert report.get("removed", []) == ([] if whole else ["added"])


def test_a_rollout_that_is_over_is_not_assessed(place: Place) -> None:
    place.start_rollout(PLAN)
    fresh(place)
    place.end_rollout()
    with refused(Reason.RolloutSuperseded, "is over: a newer plan"):
        assessed(place)
    assert place.ledger.get(rollout_key(ROLLOUT, "report")) is None


def test_credentials_are_asked_for_and_then_waited_for(place: Place) -> None:
    place.start_rollout(PLAN)
    with refused(Reason.RegistryCredentialsUnavailable) as caught:
        assessed(place)
    assert caught.info.value.retry
    assert place.events.types == ["Credentials Wanted"]
    place.later(600)
    with refused(Reason.RegistryCredentialsUnavailable, "refresh_credentials") as caught:
        assessed(place, retries=40)
    assert not caught.info.value.retry
    fresh(place)
    place.later(0)
    assessed(place)
    assert place.events.types == ["Credentials Wanted"] * 2, "fresh ones are not asked for"


def test_foreign_applications_are_all_named_before_anything_runs(place: Place) -> None:
    place.put_plan(PLAN)
    fresh(place)
    for name in ("gpu-operator", "kai-scheduler", "unrelated"):
        body = {
            "metadata": {"name": name},
            "spec": {"project": "x", "destination": {}, "source": {"repoURL": "r"}},
        }
        place.store.create(APPLICATIONS, body, namespace="argocd")
    with refused(Reason.ForeignObject, "gpu-operator, kai-scheduler"):
        assessed(place)
    # What was deployed when it began is kept of every rollout; nothing else is.
    assert place.ledger_keys("rollouts/") == [f"rollouts/{ROLLOUT}/deployed.json"]


def ask(place: Place, **changes: Any) -> dict[str, Any]:
    made = step("Request approval", input=TO, **changes)
    return request_approval(
        made,
        place.config,
        place.ledger,
        Ways(place.notifier, None, place.bus),
        place.waits,
        b"k" * 64,
        "https://x.example",
        place.clock,
    )


def test_asking_again_gives_the_wait_its_newer_token_and_sends_the_same_links(place: Place) -> None:
    place.put_rollout(PLAN)
    ask(place, token="old")
    request = place.ledger.get(rollout_key(ROLLOUT, "request"))
    place.later(60)
    ask(place, token="new", retries=1)
    assert place.ledger.get(rollout_key(ROLLOUT, "request")) == request
    assert [found.token for found in place.coordination.waiters()] == ["new"]
    links = [
        [line for line in message["Message"].splitlines() if line.startswith("https://")]
        for message in place.topics.sent
    ]
    assert links[:2] == links[2:]
    assert links[0] != links[1]
    assert all(len(found) == 1 and len(found[0]) < 200 for found in links)
    assert "old" not in str(place.events.entries)
    secret = links[0][0].partition("?s=")[2]
    assert secret not in str([place.ledger.get(key) for key in place.ledger_keys()])


def test_a_message_that_failed_leaves_the_wait(place: Place) -> None:
    place.put_rollout(PLAN)
    place.topics.error = PipelineError(Reason.Unauthorized, "no")
    with pytest.raises(PipelineError):
        ask(place)
    assert len(place.coordination.waiters()) == 1
    place.topics.error = None
    ask(place, retries=1)
    assert len(place.topics.sent) == 2
    assert place.coordination.waiters()[0].deadline == DEADLINE


def test_an_approver_who_left_is_not_asked_and_the_others_are(place: Place) -> None:
    place.put_rollout(PLAN)
    ask(place)
    place.topics.sent.clear()
    place.notifier.topics = {"kim": "topic-kim"}
    ask(place, retries=1)
    assert [message["TopicArn"] for message in place.topics.sent] == ["topic-kim"]


def test_nobody_left_to_ask(place: Place) -> None:
    place.put_rollout(PLAN)
    place.notifier.topics = {"somebody-new": "topic-new"}
    with refused(Reason.InvalidConfiguration, "Nobody of alex, kim"):
        ask(place)
    assert place.topics.sent == []


# Jobs


def build(attempt: int) -> dict[str, Any]:
    return snapshot_job(
        job_name("run-1", "snapshot", attempt), "run-1", IMAGE, runtime().spec.placement.accelerated
    )


def not_yet(attempt: int) -> bool:
    """No result is there."""
    return False


def conditions(place: Place, attempt: int, kind: str) -> None:
    status = {"conditions": [{"type": kind, "status": "True"}]}
    place.store.merge_status(
        JOBS, job_name("run-1", "snapshot", attempt), {"status": status}, namespace="aicr-system"
    )


def test_a_job_is_started_once_and_found_again(place: Place) -> None:
    first = jobs.start(place.cluster, build, not_yet)
    assert first.attempt == 1
    assert jobs.start(place.cluster, build, not_yet).job["metadata"]["uid"] == first.job["metadata"]["uid"]
    conditions(place, 1, "Complete")
    assert jobs.start(place.cluster, build, not_yet).attempt == 1, "one that ended well is not run again"
    assert len(place.store.list(JOBS, namespace="aicr-system")) == 1


def test_a_failed_job_stays_and_the_next_attempt_has_another_name(place: Place) -> None:
    for attempt in range(1, 10):
        assert jobs.start(place.cluster, build, not_yet).attempt == attempt
        conditions(place, attempt, "Failed")
    with refused(Reason.AICRInternal, "Nine Jobs"):
        jobs.start(place.cluster, build, not_yet)
    assert len(place.store.list(JOBS, namespace="aicr-system")) == 9


def test_two_starts_at_once_make_one_job(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = place.cluster.get, []

    def blind_once(path: str) -> Any:
        asked.append(path)
        if len(asked) == 1:
            place.cluster.create(path.rpartition("/")[0], build(1))
            return None
        return real(path)

    monkeypatch.setattr(place.cluster, "get", blind_once)
    assert jobs.start(place.cluster, build, not_yet).attempt == 1
    assert len(place.store.list(JOBS, namespace="aicr-system")) == 1


def test_what_a_job_owns_is_brought_to_the_same_content(place: Place) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "aicr-system"}, "data": {"a": "1"}}  # fmt: skip
    jobs.put_owned(place.cluster, body, "configmaps")
    jobs.put_owned(place.cluster, {**body, "data": {"a": "2"}}, "configmaps")
    assert jobs.config_map(place.cluster, "aicr-system", "c") == {"a": "2"}
    assert jobs.config_map(place.cluster, "aicr-system", "none") is None
