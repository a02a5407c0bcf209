"""The gate before each step: one row a reason, with the sentence that the person reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.application import SKIP, new_application
from aicr_pipeline.decide.assess import assess, request_digest
from aicr_pipeline.decide.gate import (
    EngineSeen,
    Records,
    check_engine,
    check_records,
    check_release,
    controllers_stopped,
    pause,
    planned,
    unacknowledged,
    window,
)
from aicr_pipeline.model.reasons import ROLLOUT_REASONS, Reason
from aicr_pipeline.model.rollout import (
    Acknowledgement,
    Action,
    Outcome,
    Report,
    Revocation,
    Rollout,
    RolloutOutcome,
    Step,
    Verdict,
)
from aicr_pipeline.model.runtime import Wish

from tests.unit.samples import config, decision, plan, refused, release, request, sha

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEADLINE = "2026-01-02T00:00:00.000Z"
NAME = "demo-12345678-1"
BEFORE = plan(release("gpu-operator", "1.0.0"), release("kai-scheduler"), release("nvsentinel"))
AFTER = plan(
    release("gpu-operator", "1.1.0"), release("kai-scheduler"), release("nvsentinel", namespace="monitoring")
)
REPORT = assess(BEFORE, AFTER, always_ask=True, from_is_whole=True)
ROLLOUT = Rollout(
    name=NAME, cluster="demo", from_plan=BEFORE.desired_state_digest, to_plan=AFTER.desired_state_digest,
    number=1, created_at="2026-01-01T00:00:00.000Z", deadline=DEADLINE, runtime_version="v1",
)  # fmt: skip
ASKED = request_digest(REPORT, DEADLINE)
SAID = {"fromPlan": ROLLOUT.from_plan, "toPlan": ROLLOUT.to_plan, "deadline": DEADLINE}
ITEM = {"index": 1, "of": 3, "release": "gpu-operator", "action": "Upgrade"}
OPEN = Records(
    ROLLOUT, REPORT, request(digest=ASKED), decision(request_digest=ASKED), None, None, Wish("v1"), NAME
)
UPGRADE, UNCHANGED, MOVE = REPORT.steps
CONFIG = config()


@dataclass(frozen=True)
class Row:
    """A world in which the gate is closed, and what is said about it."""

    reason: Reason
    words: tuple[str, ...]
    records: dict[str, Any] | None = None
    said: dict[str, Any] | None = None
    item: dict[str, Any] | None = None
    at: datetime = NOW
    bypass: bool = False


def revoked() -> Revocation:
    return Revocation(
        rollout=NAME, by="kim", identity="link", issuer="x", reason="not today", at=rfc3339(NOW)
    )


def over() -> RolloutOutcome:
    return RolloutOutcome(
        rollout=NAME, outcome=Outcome.Failed, reason=Reason.RolloutFailed, message="boom", finished_at="x"
    )


def bypassed() -> Any:
    return decision(request_digest=ASKED, by=("nobody",), identity="bypass")


RECORDS = {
    "over": Row(Reason.RolloutSuperseded, ("is over: boom",), {"outcome": over()}),
    "revoked": Row(Reason.RolloutRevoked, ("Revoked by kim", "not today"), {"revocation": revoked()}),
    "another is active": Row(
        Reason.RolloutSuperseded, ("demo-9-9 is the active one",), {"holder": "demo-9-9"}
    ),
    "report lost": Row(Reason.PlanUnreadable, ("has lost its report",), {"report": None}),
    "another plan": Row(Reason.StepUnknown, ("not for what rollout",), said={**SAID, "toPlan": sha("x")}),
    "no such step": Row(Reason.StepUnknown, ("has no step 7",), item={**ITEM, "index": 7}),
    "deadline": Row(Reason.RolloutExpired, (DEADLINE,), at=NOW + timedelta(hours=12)),
    "nothing decided": Row(Reason.RolloutFailed, ("No approval is recorded",), {"decision": None}),
    "rejected": Row(
        Reason.RolloutRejected, ("Rejected by alex",), {"decision": decision(decision="Rejected")}
    ),
    "another question": Row(Reason.RolloutFailed, ("for another request",), {"decision": decision()}),
    "approval expired": Row(
        Reason.RolloutExpired,
        ("The approval of alex expired",),
        {"decision": decision(request_digest=ASKED, expires_at="2026-01-01T11:00:00.000Z")},
    ),
    "bypass taken back": Row(Reason.RolloutFailed, ("approvals.bypass",), {"decision": bypassed()}),
    "deleted": Row(
        Reason.Deleting, ("was deleted from the inbox", "nothing is removed"), {"wish": Wish(None)}
    ),
}


@pytest.mark.parametrize("row", RECORDS.values(), ids=RECORDS)
def test_records_that_close_the_gate(row: Row) -> None:
    seen = replace(OPEN, **(row.records or {}))
    with refused(row.reason, *row.words):
        check_records(seen, row.said or SAID, row.item or ITEM, row.bypass, row.at)
    assert row.reason in ROLLOUT_REASONS, "else the execution would stop there, as broken"


@pytest.mark.parametrize("holder", [NAME, None])
def test_records_that_open_it(holder: str | None) -> None:
    assert check_records(replace(OPEN, holder=holder), SAID, ITEM, False, NOW) == UPGRADE


def test_nobody_is_asked_where_nobody_need_be() -> None:
    report = REPORT.model_copy(update={"approval_needed": False})
    seen = replace(OPEN, report=report, request=None, decision=None)
    assert check_records(seen, SAID, ITEM, False, NOW) == UPGRADE


def test_a_paused_runtime_holds_and_lifting_it_goes_on() -> None:
    held = pause(Wish("v2", paused=True))
    assert held is not None
    assert held.wire() == {
        "reason": "Paused",
        "message": "The runtime is paused. Set spec.paused to false and submit it: the rollout goes on where "
        "it is.",
    }
    assert pause(Wish("v3")) is None


# The engine


PROJECT = {"metadata": {"name": "aicr"}, "spec": {}}
APPLICATION = new_application(AFTER.desired_state.releases[0], CONFIG, AFTER.desired_state_digest, "x")


def deny(kind: str = "deny", schedule: str = "0 11 * * *", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "schedule": schedule, "duration": "2h", "applications": ["*"], **more}


def windows(*found: dict[str, Any]) -> dict[str, Any]:
    return {**PROJECT, "spec": {"syncWindows": list(found)}}


def controller(replicas: int | None) -> dict[str, Any]:
    spec = {} if replicas is None else {"replicas": replicas}
    return {"metadata": {"name": "argocd-application-controller"}, "spec": spec}


ENGINES = {
    "no CRD": (EngineSeen(False, None), Reason.EngineMissing, "Application CRD is missing"),
    "no project": (EngineSeen(True, None), Reason.ProjectMissing, "AppProject aicr is gone from argocd"),
    "controller at zero": (
        EngineSeen(True, PROJECT, [controller(0)]),
        Reason.EngineSuspended,
        "(argocd-application-controller) is scaled to zero",
    ),
}


@pytest.mark.parametrize(("seen", "reason", "words"), ENGINES.values(), ids=ENGINES)
def test_engines_that_close_the_gate(seen: EngineSeen, reason: Reason, words: str) -> None:
    with refused(reason, words, "then a fresh rollout"):
        check_engine(CONFIG.engine, seen)
    assert reason in ROLLOUT_REASONS


@pytest.mark.parametrize(
    "seen",
    [
        EngineSeen(True, PROJECT),
        EngineSeen(True, PROJECT, [controller(1)]),
        EngineSeen(True, PROJECT, [controller(None)]),
        EngineSeen(True, PROJECT, [controller(0), controller(2)]),
    ],
    ids=["plain", "runs", "default", "one runs"],
)
def test_engines_that_open_it(seen: EngineSeen) -> None:
    check_engine(CONFIG.engine, seen)


@pytest.mark.parametrize(
    ("project", "words"),
    [
        (windows(deny()), "denies syncs now: deny 0 11 * * * for 2h (UTC). The step begins when it is over"),
        (windows(deny("allow", "0 3 * * *")), "outside of allow 0 3 * * *"),
        (windows(deny(manualSync=True)), None),
        (windows(deny(schedule="0 9 * * *")), None),
        (windows(deny(applications=["other-*"])), None),
        (windows(deny(schedule="whenever")), None),
        (PROJECT, None),
        (None, None),
    ],
    ids=["denied", "not allowed", "manual syncs", "over", "not ours", "unreadable", "none", "no project"],
)
def test_a_sync_window_holds_the_step_and_ends_nothing(project: Any, words: str | None) -> None:
    found = window(CONFIG.engine, project, APPLICATION, NOW)
    if words is None:
        assert found is None
        return
    assert found is not None and found.reason is Reason.EngineSuspended
    assert words in found.message


def test_no_controller_known_is_none_stopped() -> None:
    assert controllers_stopped([]) is None


# The release


def seen(made: Any, compared: Any = "the same", **patch: Any) -> dict[str, Any]:
    """Application of a release as it is after a rollout; ``compared`` is the release last compared."""
    body = new_application(made, CONFIG, BEFORE.desired_state_digest, "x")
    spec = body["spec"] if compared == "the same" else new_application(compared, CONFIG, "", "x")["spec"]
    body["status"] = {"sync": {"comparedTo": {part: spec[part] for part in ("source", "destination")}}}
    return {**body, **patch}


def left_alone(body: dict[str, Any]) -> dict[str, Any]:
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "annotations": {**metadata["annotations"], SKIP: "true"}}}


OLD = {found.name: found for found in BEFORE.desired_state.releases}
NEW = {found.name: found for found in AFTER.desired_state.releases}
STRANGER = release("gpu-operator", "0.9.0")
FOREIGN = {"metadata": {"name": "gpu-operator", "labels": {"app.kubernetes.io/managed-by": "Helm"}}}
_VALUES = OLD["gpu-operator"].model_copy(update={"values": {"replicas": 9}})

RELEASES: dict[str, tuple[Step, Any, Reason, str]] = {
    "foreign": (UPGRADE, seen(OLD["gpu-operator"], **FOREIGN), Reason.ForeignObject, "it never adopts"),
    "gone": (UPGRADE, None, Reason.InventoryDrift, "was installed by the active plan, and is gone"),
    "another digest": (
        UPGRADE, seen(STRANGER), Reason.InventoryDrift, f"is at {STRANGER.chart.manifest_digest[:19]}",
    ),
    "compared with another": (
        UPGRADE, seen(OLD["gpu-operator"], STRANGER), Reason.InventoryDrift, "by what Argo CD last compared",
    ),
    "other values": (UPGRADE, seen(_VALUES), Reason.InventoryDrift, "somebody changed it"),
    "unchanged, gone": (UNCHANGED, None, Reason.InventoryDrift, "kai-scheduler is not what the active plan"),
    "unchanged, another compared": (
        UNCHANGED, seen(OLD["kai-scheduler"], release("kai-scheduler", "3.0.0")), Reason.InventoryDrift,
        "Submit the runtime again",
    ),
    "left alone by Argo CD": (
        UPGRADE, left_alone(seen(OLD["gpu-operator"])), Reason.EngineSuspended, f"by its annotation {SKIP}",
    ),
    "unchanged, left alone by Argo CD": (
        UNCHANGED, left_alone(seen(OLD["kai-scheduler"])), Reason.EngineSuspended, "Take it off",
    ),
    "move, gone": (MOVE, None, Reason.MovedReleaseMissing, "was to move from namespace gpu-operator, but"),
    "move, elsewhere": (
        MOVE, seen(OLD["nvsentinel"].model_copy(update={"namespace": "kubeflow"})), Reason.InventoryDrift,
        "in gpu-operator: somebody changed it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("step", "found", "reason", "words"), RELEASES.values(), ids=RELEASES)
def test_releases_that_close_the_gate(step: Step, found: Any, reason: Reason, words: str) -> None:
    with refused(reason, words):
        check_release(step, NEW[step.release], OLD[step.release], found, CONFIG)
    assert reason in ROLLOUT_REASONS


@pytest.mark.parametrize("step", [UPGRADE, UNCHANGED, MOVE], ids=lambda step: str(step.action))
@pytest.mark.parametrize("which", [OLD, NEW], ids=["as before", "by an earlier try"])
def test_releases_that_open_it(step: Step, which: dict[str, Any]) -> None:
    check_release(step, NEW[step.release], OLD[step.release], seen(which[step.release]), CONFIG)


def test_what_was_asked_for_says_nothing_about_what_is_installed() -> None:
    """Half of this step was done: the spec is the new release, and Argo CD compared the old one last."""
    found = seen(NEW["gpu-operator"], OLD["gpu-operator"])
    check_release(UPGRADE, NEW["gpu-operator"], OLD["gpu-operator"], found, CONFIG)


@pytest.mark.parametrize("found", [None, seen(STRANGER), seen(OLD["gpu-operator"])])
def test_between_two_plans_anything_of_ours_may_be_there(found: Any) -> None:
    check_release(UPGRADE, NEW["gpu-operator"], None, found, CONFIG)


def test_a_registry_that_moved_is_no_drift() -> None:
    found = seen(OLD["gpu-operator"])
    found["status"]["sync"]["comparedTo"]["source"]["repoURL"] = "oci://elsewhere/charts/gpu-operator"
    check_release(UPGRADE, NEW["gpu-operator"], OLD["gpu-operator"], found, CONFIG)


def test_a_plan_without_the_release() -> None:
    with refused(Reason.StepUnknown, "has no release gpu-operator"):
        planned(plan(release("other")), UPGRADE)


# Acknowledgements


def test_a_manual_step_waits_until_it_is_acknowledged() -> None:
    step = UPGRADE.model_copy(update={"verdict": Verdict.manual, "action": Action.Upgrade})
    report: Report = REPORT.model_copy(update={"steps": (step, *REPORT.steps[1:])})
    held = unacknowledged(step, report, ROLLOUT, None)
    assert held is not None
    assert held.reason is Reason.AwaitingAcknowledgement
    assert "gpu-operator from 1.0.0 to 1.1.0 is manual" in held.message
    record = Acknowledgement(
        rollout=NAME, release="gpu-operator", request_digest=request_digest(report, DEADLINE), by="kim",
        identity="link", issuer="x", reason="done", at=rfc3339(NOW),
    )  # fmt: skip
    assert unacknowledged(step, report, ROLLOUT, record) is None
    other = record.model_copy(update={"request_digest": sha("another")})
    assert unacknowledged(step, report, ROLLOUT, other) is not None
