"""The gate before each step: it opens for what the records say, and for nothing else."""

import json
from datetime import timedelta
from typing import Any

import pytest
from aicr_pipeline.actions.check_gate import check_gate
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.clock import after
from aicr_pipeline.decide.application import new_application
from aicr_pipeline.decide.assess import assess
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key, step_key

from local.argocd.installed import controller
from local.kube import APP_PROJECTS, APPLICATIONS
from local.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.functional.actions.support import BEGAN, DEADLINE, INBOX, LEDGER, PLAN, ROLLOUT, Place, item, step
from tests.unit.samples import DEPLOYED, config, plan, refused, release, sha

RELEASE = PLAN.desired_state.releases[0]
TO = {"toPlan": PLAN.desired_state_digest}


def gate(place: Place, **changes: Any) -> dict[str, Any]:
    given = {**TO, **changes.get("input", {})}
    retries = changes.get("retries", 0)
    made = step("Check gate", item=item(**changes.get("item", {})), token=None, input=given, retries=retries)
    settings = changes.get("config", place.config)
    return check_gate(
        made,
        settings,
        place.ledger,
        place.inbox,
        place.argocd,
        place.coordination,
        place.bus,
        place.clock,
        DEPLOYED,
    )


@pytest.fixture(autouse=True)
def wish(place: Place) -> None:
    place.submit()


def installed(place: Place, **patch: Any) -> None:
    """The release as the plan has it."""
    body = new_application(RELEASE, place.config, PLAN.desired_state_digest, "demo-0/001-gpu-operator")
    place.store.create(APPLICATIONS, body, namespace="argocd")
    if patch:
        place.set_application(RELEASE.name, patch)


def fresh(place: Place, hours: float = 12) -> None:
    """A token of ECR's, which lives twelve hours, with so many left."""
    fact = {"mintedAt": after(BEGAN, (hours - 12) * 3600), "expiresAt": after(BEGAN, hours * 3600)}
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
        ({"by": ["mallory"]}, Reason.RolloutFailed),
        ({"asked": {"minApprovals": 2}}, Reason.RolloutFailed),
        ({"asked": {"digest": sha("another question")}}, Reason.RolloutFailed),
    ],
)
def test_decisions_that_do_not_open_it(place: Place, changes: dict[str, Any], reason: Reason) -> None:
    place.approve(place.put_rollout(PLAN), **changes)
    fresh(place)
    with refused(reason):
        gate(place)


@pytest.mark.parametrize(
    "given",
    [
        {"fromPlan": sha("from")},
        {"toPlan": sha("to")},
        {"deadline": after(BEGAN, 99 * 3600)},
        {"deadline": after(BEGAN, 0)},
    ],
    ids=["from", "to", "later", "earlier"],
)
def test_an_execution_of_something_else_than_was_recorded(ready: Place, given: dict[str, Any]) -> None:
    with refused(Reason.StepUnknown, "not for what rollout", "nothing is written"):
        gate(ready, input=given)


@pytest.mark.parametrize(
    "given",
    [{"release": "no-such"}, {"release": "kai-scheduler"}, {"index": 2}, {"index": 3}, {"action": "Upgrade"}],
    ids=["no such release", "another's index", "another's release", "no such index", "another action"],
)
def test_a_step_that_is_not_the_reports(ready: Place, given: dict[str, Any]) -> None:
    with refused(Reason.StepUnknown, "has no step"):
        gate(ready, item=given)


def test_only_the_active_rollout_goes_on(ready: Place) -> None:
    ready.coordination.take_lock("demo-99999999-1")
    with refused(Reason.RolloutSuperseded, "demo-99999999-1 is the active one"):
        gate(ready)
    ready.coordination.drop_lock("demo-99999999-1")
    assert gate(ready) == {"open": True}, "a table that was lost says nothing"
    ready.coordination.take_lock(ROLLOUT)
    assert gate(ready) == {"open": True}


def unchanged(place: Place) -> dict[str, Any]:
    place.approve(place.put_rollout(PLAN, before=PLAN))
    fresh(place)
    return {"item": {"action": "Unchanged"}, "input": {"fromPlan": PLAN.desired_state_digest}}


def test_unchanged_and_in_place_opens(place: Place) -> None:
    given = unchanged(place)
    installed(place)
    assert gate(place, **given) == {"open": True}


@pytest.mark.parametrize(
    "patch",
    [
        None,
        {"spec": {"project": "default"}},
        {"spec": {"source": {"targetRevision": sha("x")}}},
        {"spec": {"source": {"helm": {"valuesObject": {"replicas": 9}}}}},
        {"spec": {"destination": {"namespace": "elsewhere"}}},
    ],
    ids=["gone", "project", "revision", "values", "namespace"],
)
def test_unchanged_but_not_in_place_is_drift(place: Place, patch: dict[str, Any] | None) -> None:
    given = unchanged(place)
    if patch is not None:
        installed(place, **patch)
    with refused(Reason.InventoryDrift, "gpu-operator", "Submit the runtime again"):
        gate(place, **given)


def test_what_changes_anyway_may_be_anything_before(ready: Place) -> None:
    installed(ready, spec={"source": {"targetRevision": sha("x")}})
    assert gate(ready) == {"open": True}


def test_the_deadline_is_the_approved_one(ready: Place) -> None:
    ready.later(6 * 3600)
    with refused(Reason.RolloutExpired, DEADLINE):
        gate(ready)


def test_a_rollout_that_is_over_stays_over(ready: Place) -> None:
    ready.end_rollout()
    with refused(Reason.RolloutSuperseded, "is over: a newer plan"):
        gate(ready)


@pytest.mark.parametrize("hours", [0.25, 0.2, 0])
def test_a_token_that_would_die_during_the_step_is_asked_for_and_waited_for(
    place: Place, hours: float
) -> None:
    place.approve(place.put_rollout(PLAN))
    fresh(place, hours)
    with refused(Reason.RegistryCredentialsStale, "asked for again") as caught:
        gate(place, retries=4)
    assert caught.info.value.retry
    place.later(600)
    with refused(Reason.RegistryCredentialsStale, "refresh_credentials") as caught:
        gate(place, retries=40)
    assert not caught.info.value.retry
    assert place.events.types == ["Credentials Wanted"] * 2
    place.later(-600)
    fresh(place)
    assert gate(place, retries=1) == {"open": True}


def test_a_token_that_nobody_knows_of(place: Place) -> None:
    place.approve(place.put_rollout(PLAN))
    with refused(Reason.RegistryCredentialsUnavailable) as caught:
        gate(place)
    assert caught.info.value.retry, "the table may be lost; asking again rebuilds it"
    assert place.events.details("Credentials Wanted") == [
        {
            "cluster": "demo",
            "rollout": ROLLOUT,
            "repository": RELEASE.repository,
            "digest": RELEASE.chart.manifest_digest,
        }
    ]
    place.later(600)
    with refused(Reason.RegistryCredentialsUnavailable) as caught:
        gate(place, retries=40)
    assert not caught.info.value.retry


@pytest.mark.parametrize(
    "changes",
    [
        {"engine.kind": "eks-capability"},
        {"registry.auth": {"provider": "static", "secretArn": "arn:aws:secretsmanager:x"}},
    ],
)
def test_credentials_that_somebody_else_keeps(place: Place, changes: dict[str, Any]) -> None:
    place.approve(place.put_rollout(PLAN))
    assert gate(place, config=config(**changes)) == {"open": True}


def test_what_is_gone_or_foreign(ready: Place) -> None:
    installed(ready, metadata={"labels": None})
    with refused(Reason.ForeignObject):
        gate(ready)
    ready.store.delete(APP_PROJECTS, "aicr", namespace="argocd")
    with refused(Reason.ProjectMissing):
        gate(ready)


def test_a_report_of_a_release_that_the_plan_lacks(place: Place) -> None:
    report = place.put_rollout(PLAN).wire()
    report["steps"][0]["release"] = "no-such"
    place.s3.put_object(
        Bucket=LEDGER,
        Key=rollout_key(ROLLOUT, "report"),
        Body=json.dumps({**report, "approvalNeeded": False}).encode(),
    )
    fresh(place)
    with refused(Reason.StepUnknown, "has no release no-such"):
        gate(place, item={"release": "no-such"})


def test_a_report_to_another_plan(ready: Place) -> None:
    report = ready.ledger.get_json(rollout_key(ROLLOUT, "report"))
    body = json.dumps({**report, "toPlan": plan(recipe="other").desired_state_digest}).encode()
    ready.s3.put_object(Bucket=LEDGER, Key=rollout_key(ROLLOUT, "report"), Body=body)
    with refused(Reason.StepUnknown, "not for what rollout"):
        gate(ready)


def test_a_report_that_is_gone(place: Place) -> None:
    place.start_rollout(PLAN)
    with refused(Reason.PlanUnreadable, "lost its report"):
        gate(place)


def test_a_pause_holds_the_step_and_lifting_it_goes_on(ready: Place) -> None:
    ready.submit(paused=True)
    held = gate(ready)
    assert (
        held
        == gate(ready)
        == {
            "open": False,
            "hold": {
                "reason": "Paused",
                "message": "step 1/2 gpu-operator (Install): The runtime is paused. Set spec.paused to "
                "false and submit it: the rollout goes on where it is.",
            },
        }
    )
    assert ready.ledger_keys(f"rollouts/{ROLLOUT}/steps/") == [], "it has not begun"
    ready.submit()
    assert gate(ready) == {"open": True}


def test_a_pause_outlasts_an_engine_that_is_away(ready: Place) -> None:
    """Who pauses to work on Argo CD must not lose the rollout."""
    ready.submit(paused=True)
    ready.store.delete(APP_PROJECTS, "aicr", namespace="argocd")
    assert gate(ready)["hold"]["reason"] == "Paused"


@pytest.mark.parametrize(
    ("body", "paused"),
    [
        (b"spec: {paused: true, tpyo: 1}", True),
        (b"spec: {paused: 'true'}", False),
        (b"spec: []", False),
        (b"[", False),
        (b"x" * (300 << 10), False),
    ],
    ids=["mistake elsewhere", "text", "no mapping", "no YAML", "too large"],
)
def test_a_runtime_with_a_mistake_pauses_where_it_says_so(ready: Place, body: bytes, paused: bool) -> None:
    ready.s3.put_object(Bucket=INBOX, Key="runtimes/cluster.yaml", Body=body)
    assert gate(ready).get("hold") is not None if paused else gate(ready) == {"open": True}


def test_a_deleted_runtime_ends_it_and_a_revocation_comes_first(ready: Place) -> None:
    ready.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    with refused(Reason.Deleting, "nothing is removed", "Submit a runtime"):
        gate(ready)
    revoked = {"rollout": ROLLOUT, "by": "kim", "identity": "link", "issuer": "x", "reason": "no", "at": "x"}
    ready.put_json(rollout_key(ROLLOUT, "revocation"), revoked)
    with refused(Reason.RolloutRevoked, "Revoked by kim"):
        gate(ready)


def test_argo_cd_that_is_gone_or_stopped(ready: Place) -> None:
    ready.store.apply(controller("argocd"), "argocd")
    assert gate(ready) == {"open": True}
    ready.store.apply(
        {**controller("argocd"), "spec": {**controller("argocd")["spec"], "replicas": 0}}, "argocd"
    )
    with refused(Reason.EngineSuspended, "argocd-application-controller", "scaled to zero"):
        gate(ready)
    ready.store.delete(CUSTOM_RESOURCE_DEFINITIONS, "applications.argoproj.io")
    with refused(Reason.EngineMissing, "Application CRD is missing"):
        gate(ready)


def test_a_sync_window_holds_until_it_is_over(ready: Place) -> None:
    window = {"kind": "deny", "schedule": "30 11 * * *", "duration": "31m", "applications": ["*"]}
    project = {"spec": {"syncWindows": [window]}}
    ready.store.merge(APP_PROJECTS, "aicr", project, namespace="argocd")
    found = gate(ready)
    assert (found["open"], found["hold"]["reason"]) == (False, "EngineSuspended")
    assert "deny 30 11 * * * for 31m (UTC)" in found["hold"]["message"]
    assert ready.ledger.get(step_key(ROLLOUT, 1)) is None, "nothing of the step began"
    ready.later(60)
    assert gate(ready) == {"open": True}


def upgrade(place: Place, **changes: Any) -> dict[str, Any]:
    """A rollout to a plan whose first release is another version of it."""
    newer = plan(release("gpu-operator", "2.0.0"), release("kai-scheduler"))
    place.start_rollout(newer, PLAN, **changes)
    report = assess(PLAN, newer, always_ask=True, from_is_whole=changes.get("from_is_whole", True))
    place.put_json(rollout_key(ROLLOUT, "report"), report.wire())
    place.approve(report)
    fresh(place)
    said = {"fromPlan": PLAN.desired_state_digest, "toPlan": newer.desired_state_digest}
    return {"item": {"action": "Upgrade"}, "input": said}


def test_what_is_installed_is_what_argo_cd_compared_last(place: Place) -> None:
    given = upgrade(place)
    with refused(Reason.InventoryDrift, "is gone: somebody removed it", "Submit the runtime again"):
        gate(place, **given)
    installed(place)
    assert gate(place, **given) == {"open": True}
    compared = {"source": {"targetRevision": sha("x")}, "destination": {"namespace": "gpu-operator"}}
    installed_by = {"status": {"sync": {"status": "Synced", "comparedTo": compared}}}
    place.set_application(RELEASE.name, installed_by)
    with refused(Reason.InventoryDrift, f"is at {sha('x')[:19]} by what Argo CD last compared"):
        gate(place, **given)


def test_between_two_plans_nothing_is_drift(place: Place) -> None:
    given = upgrade(place, from_is_whole=False)
    assert gate(place, **given) == {"open": True}
    installed(place, spec={"source": {"targetRevision": sha("x")}})
    assert gate(place, **given) == {"open": True}


def test_a_from_plan_that_was_changed(place: Place) -> None:
    given = upgrade(place)
    installed(place)
    place.s3.put_object(Bucket=LEDGER, Key=plan_key(PLAN.desired_state_digest), Body=b"{}")
    with refused(Reason.PlanUnreadable):
        gate(place, **given)


def test_a_step_keeps_what_was_deployed_when_it_first_began(ready: Place) -> None:
    assert gate(ready)["open"] is True
    written = ready.ledger.get(step_key(ROLLOUT, 1)) or b""
    assert json.loads(written)["pipeline"] == DEPLOYED
    ready.now += timedelta(minutes=1)
    assert gate(ready)["open"] is True
    assert ready.ledger.get(step_key(ROLLOUT, 1)) == written
