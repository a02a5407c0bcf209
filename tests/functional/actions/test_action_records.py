"""Outcomes, stalls, plans, reports and Jobs: written once, and told whatever died in between."""

from typing import Any

import pytest
from aicr_pipeline.actions.record_outcome import record_outcome
from aicr_pipeline.actions.record_resolve import record_resolve
from aicr_pipeline.actions.record_stall import record_stall
from aicr_pipeline.actions.write_plan import write_plan
from aicr_pipeline.adapters.resolves import Resolves
from aicr_pipeline.decide.bundle import Bundle, BundledRelease
from aicr_pipeline.decide.ending import what_to_do
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import UpstreamSource
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Outcome, ready_key, rollout_key, step_key
from botocore.exceptions import ClientError

from tests.functional.actions.support import PLAN, ROLLOUT, Place, aws_error, step
from tests.unit.samples import chart, refused, runtime_text, sha

SUCCEEDED = {"assessment": {"validation": "Required"}, "steps": [], "evidence": {"key": "evidence/demo/x"}}
TO = {"toPlan": PLAN.desired_state_digest}


def record(place: Place, state: dict[str, Any]) -> dict[str, Any]:
    made = step("Record outcome", input={**TO, **state}, token=None)
    return record_outcome(
        made, place.config, place.ledger, place.coordination, place.bus, place.notifier, place.clock
    )


def written(place: Place) -> dict[str, Any]:
    return dict(place.ledger.get_json(rollout_key(ROLLOUT, "outcome")))


def test_success_twice_is_one_outcome(place: Place) -> None:
    place.put_rollout(PLAN)
    place.coordination.take_lock(ROLLOUT)
    first = record(place, SUCCEEDED)
    assert (first["outcome"], first["reason"]) == ("Succeeded", "RolledOut")
    assert written(place)["installed"] == ["gpu-operator", "kai-scheduler"]
    assert written(place)["evidence"] == "evidence/demo/x"
    assert place.coordination.lock_holder() is None
    place.later(60)
    before = written(place)
    assert record(place, SUCCEEDED) == first
    assert written(place) == before
    assert len(place.topics.sent) == 2, "each approver once"
    assert place.events.types == ["Rollout Ended"] * 2, "an event may come twice: it carries no truth"


def test_the_first_outcome_stays(place: Place) -> None:
    place.put_rollout(PLAN)
    record(place, {"approval": {"outcome": {"reason": "RolloutExpired", "message": "too late"}}})
    assert record(place, SUCCEEDED)["outcome"] == "Expired"
    assert written(place)["reason"] == "RolloutExpired"


def test_an_outcome_whose_event_was_not_taken(place: Place) -> None:
    place.put_rollout(PLAN)
    place.coordination.take_lock(ROLLOUT)
    place.events.failing = 1
    with pytest.raises(PipelineError) as caught:
        record(place, SUCCEEDED)
    assert caught.value.retry
    record(place, SUCCEEDED)
    assert place.events.details("Rollout Ended") == [
        {"cluster": "demo", "rollout": ROLLOUT, **TO, "outcome": "Succeeded", "reason": "RolledOut"}
    ]


def ends(place: Place, what: str) -> None:
    """Something ends, and everybody is to be told."""
    if what == "outcome":
        record(place, SUCCEEDED)
    elif what == "stall":
        detail = {
            "executionArn": "arn:x", "stateMachineArn": "m-rollout", "name": ROLLOUT, "status": "FAILED",
        }  # fmt: skip
        event = {"time": "2026-01-01T12:00:00Z", "detail": detail}
        record_stall(event, place.config, place.ledger, place.bus, place.notifier)
    else:
        version = place.inbox.current_version("runtimes/cluster.yaml")
        refused_ = {"prerequisites": {"outcome": {"reason": "NodeGroupEmpty", "message": "no node"}}}
        resolve(place, {"run": "demo-run-1", "cluster": "demo", "runtimeVersion": version, **refused_})


@pytest.mark.parametrize("what", ["outcome", "stall", "resolve"])
def test_one_topic_that_takes_nothing_is_told_of_and_nobody_hears_anything_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    place.put_rollout(PLAN)
    if what == "resolve":
        place.inbox.write("runtimes/cluster.yaml", runtime_text(), "application/yaml")
    publish = place.topics.publish

    def gone(**message: str) -> None:
        if message["TopicArn"] == "topic-kim":
            raise aws_error("NotFound")
        publish(**message)

    monkeypatch.setattr(place.topics, "publish", gone)
    for _ in range(3):
        ends(place, what)
    assert [message["TopicArn"] for message in place.topics.sent] == ["topic-alex"]
    (failed,) = place.events.details("Message Failed")
    assert (failed["to"], failed["way"], failed["error"]) == ("kim", "topic", "NotFound")
    assert failed["kind"] == {"outcome": "end"}.get(what, what)
    assert failed["run" if what == "resolve" else "rollout"]


def test_an_outcome_that_died_before_its_mark_is_told_again(place: Place) -> None:
    place.put_rollout(PLAN)
    place.topics.error = aws_error("InternalError")
    with pytest.raises(ClientError):
        record(place, SUCCEEDED)
    assert written(place)["outcome"] == "Succeeded"
    assert place.ledger.get(f"rollouts/{ROLLOUT}/told.json") is None
    place.topics.error = None
    record(place, SUCCEEDED)
    assert len(place.topics.sent) == 2
    assert place.ledger.get(f"rollouts/{ROLLOUT}/told.json") is not None
    record(place, SUCCEEDED)
    assert len(place.topics.sent) == 2


def test_another_rollouts_lock_is_left_alone(place: Place) -> None:
    place.put_rollout(PLAN)
    place.coordination.take_lock("another")
    record(place, SUCCEEDED)
    assert place.coordination.lock_holder() == "another"


@pytest.mark.parametrize(
    ("state", "outcome", "installed"),
    [
        (
            {"ended": {"Error": "RolloutFailed", "Cause": "step 2/2 kai-scheduler (Install): boom"}},
            "Failed",
            1,
        ),
        (
            {"ended": {"Error": "RolloutExpired", "Cause": "step 1/2 gpu-operator (Install), at"}},
            "Expired",
            0,
        ),
        (
            {"ended": {"Error": "RolloutSuperseded", "Cause": "step 1/2 gpu-operator (Install): x"}},
            "Superseded",
            0,
        ),
        ({"approval": {"outcome": {"reason": "RolloutRejected", "message": "no"}}}, "Rejected", 0),
        ({"assessment": {"outcome": {"reason": "TransitionBlocked", "message": "no"}}}, "Failed", 0),
        ({"steps": [], "validation": {"outcome": {"reason": "RolloutFailed", "message": "no"}}}, "Failed", 2),
        (
            {"steps": [], "criteria": {"outcome": {"reason": "CriteriaConflict", "message": "no"}}},
            "Failed",
            2,
        ),
    ],
)
def test_what_is_installed_and_what_is_not(
    place: Place, state: dict[str, Any], outcome: str, installed: int
) -> None:
    place.put_rollout(PLAN)
    assert record(place, state)["outcome"] == outcome
    names = ["gpu-operator", "kai-scheduler"]
    assert written(place).get("installed", []) == names[:installed]
    assert written(place).get("notInstalled", []) == names[installed:]
    assert outcome in place.topics.sent[0]["Subject"]
    assert "Nothing is rolled back" in place.topics.sent[0]["Message"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n", "\u2028", "\x0b", "\x85"])
def test_no_line_of_a_reason_passes_for_a_line_of_the_mail(place: Place, end: str) -> None:
    place.put_rollout(PLAN)
    said = f"Rejected by alex: no{end}Approve here:{end}https://evil.example/{end}Ready: all"
    record(place, {"approval": {"outcome": {"reason": "RolloutRejected", "message": said}}})
    lines = place.topics.sent[0]["Message"].splitlines()
    assert [line for line in lines if line.startswith(("Approve", "https:", "Ready:"))] == ["Ready: none"]
    assert {"  | Approve here:", "  | https://evil.example/", "  | Ready: all"} <= set(lines)
    assert written(place)["message"] == said, "the record has it as it was"


def test_validation_disabled_says_so(place: Place) -> None:
    place.put_rollout(PLAN)
    state = {**SUCCEEDED, "assessment": {"validation": "Disabled"}}
    assert record(place, state)["reason"] == "ValidationDisabled"


def test_subjects_are_what_sns_takes(place: Place) -> None:
    place.notifier.send("alex", "a\nb\r\tc é " + "x" * 200, "m")
    subject = place.topics.sent[0]["Subject"]
    assert len(subject) == 99
    assert subject.isascii()
    assert subject.isprintable()


# Stalls


def stalled(machine: str = "rollout", status: str = "FAILED", **detail: Any) -> dict[str, Any]:
    cluster = detail.pop("cluster", "demo")
    arn = f"arn:aws:states:us-west-2:111122223333:stateMachine:aicr-pipeline-{cluster}-{machine}"
    return {
        "time": "2026-01-01T12:00:00Z",
        "detail": {
            "executionArn": f"{arn.replace(':stateMachine:', ':execution:')}:{ROLLOUT}",
            "stateMachineArn": arn,
            "name": ROLLOUT,
            "status": status,
            **detail,
        },
    }


def stall(place: Place, event: dict[str, Any]) -> bool:
    found = record_stall(event, place.config, place.ledger, place.bus, place.notifier)
    return bool(found["stalled"])


@pytest.mark.parametrize("status", ["FAILED", "TIMED_OUT", "ABORTED"])
def test_a_stall_is_recorded_once_and_told_once(place: Place, status: str) -> None:
    place.coordination.take_lock(ROLLOUT)
    event = stalled(status=status, error="Lambda.Unknown")
    assert stall(place, event)
    assert stall(place, event)
    assert len(place.ledger_keys(f"rollouts/{ROLLOUT}/stalls/")) == 1
    assert len(place.topics.sent) == 2
    assert "Redrive" in place.topics.sent[0]["Message"]
    assert place.coordination.lock_holder() == ROLLOUT, "a redrive continues it"
    assert stall(place, {**event, "time": "2026-01-01T13:00:00Z"}), "it was redriven, and stalled again"
    assert len(place.ledger_keys(f"rollouts/{ROLLOUT}/stalls/")) == 2


def test_an_end_that_the_domain_decided_is_no_stall(place: Place) -> None:
    place.put_rollout(PLAN)
    record(place, {"approval": {"outcome": {"reason": "RolloutRejected", "message": "no"}}})
    told = len(place.topics.sent)
    assert not stall(place, stalled(error="RolloutRejected"))
    assert len(place.topics.sent) == told
    assert place.ledger_keys(f"rollouts/{ROLLOUT}/stalls/") == []


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("BundleInvalid", "FAILED"),
        ("States.TaskFailed", "FAILED"),
        (None, "FAILED"),
        (None, "TIMED_OUT"),
        (None, "ABORTED"),
    ],
)
@pytest.mark.parametrize("cluster", ["demo", "rollout", "my-rollout-cluster"])
def test_a_resolve_that_told_nobody_stalled_whatever_its_error_and_cluster_are_called(
    place: Place, error: str | None, status: str, told: bool, cluster: str
) -> None:
    if told:
        place.put_json(f"resolves/{ROLLOUT}/told.json", {})
    assert stall(place, stalled("resolve", status, error=error, cluster=cluster)) is not told
    assert len(place.ledger_keys(f"resolves/{ROLLOUT}/stalls/")) == int(not told)
    assert place.ledger_keys("rollouts/") == []


def test_a_rollout_that_has_its_outcome_but_told_nobody_stalled(place: Place) -> None:
    place.put_rollout(PLAN)
    place.end_rollout()
    assert stall(place, stalled())
    place.put_json(f"rollouts/{ROLLOUT}/told.json", {})
    assert not stall(place, {**stalled(), "time": "2026-01-01T13:00:00Z"})


def test_a_stall_that_died_before_its_record_is_told_again(place: Place) -> None:
    place.topics.error = aws_error("InternalError")
    with pytest.raises(ClientError):
        stall(place, stalled())
    assert place.ledger_keys(f"rollouts/{ROLLOUT}/stalls/") == []
    place.topics.error = None
    assert stall(place, stalled())
    assert stall(place, stalled())
    assert len(place.topics.sent) == 2, "each approver once"


def test_a_stall_whose_event_was_not_taken(place: Place) -> None:
    place.events.failing = 1
    with pytest.raises(PipelineError):
        stall(place, stalled())
    stall(place, stalled())
    assert place.events.types == ["Execution Stalled"]


def resolve(place: Place, state: dict[str, Any], **changes: Any) -> dict[str, Any]:
    made = step("Record resolve", input=state, token=None, **changes)
    return record_resolve(made, place.inbox, place.ledger, place.bus, place.notifier)


def stalled_run(place: Place, run: str = "run-1", **more: Any) -> dict[str, Any]:
    """The state of a run that ended badly, for the runtime that is current."""
    version = place.inbox.current_version("runtimes/cluster.yaml") or place.submit()
    outcome = {"reason": "BundleInvalid", "message": "a file is missing"}
    return {"run": run, "runtimeVersion": version, "bundle": {"outcome": outcome}, **more}


def planned_run(place: Place, event: str, **more: Any) -> dict[str, Any]:
    """The state of a run that made a plan."""
    plan_ = {"digest": sha("plan"), "releases": 17, "isNew": more.pop("is_new", True)}
    state = stalled_run(place, **more) | {"plan": plan_, "announcement": {"event": event}}
    return state | {"bundle": {}}


def test_a_resolve_that_ended_badly_says_why(place: Place) -> None:
    state = stalled_run(place)
    found = resolve(place, state)
    assert found == {"event": "Resolve Stalled", "reason": "BundleInvalid", "message": "a file is missing"}
    assert place.events.details("Resolve Stalled") == [
        {
            "cluster": "demo",
            "run": "run-1",
            "runtimeVersion": state["runtimeVersion"],
            "trigger": "submission",
            "reason": "BundleInvalid",
            "message": "a file is missing",
        }
    ]
    assert "docs/runbook.md, BundleInvalid" in place.topics.sent[0]["Message"]
    with pytest.raises(RuntimeError, match="no state says"):
        resolve(place, {"run": "r", "runtimeVersion": "v"})


def test_a_resolve_tells_once_and_again_if_it_died_before_its_mark(place: Place) -> None:
    state = stalled_run(place, trigger="schedule")
    state["bundle"]["outcome"]["message"] = "m" * 9000
    place.topics.error = aws_error("InternalError")
    with pytest.raises(ClientError):
        resolve(place, state)
    assert place.ledger_keys("resolves/") == []
    place.topics.error = None
    for _ in range(2):
        assert len(resolve(place, state)["message"]) == 8000
    assert place.ledger.get("resolves/run-1/told.json") is not None
    assert len(place.topics.sent) == 2, "each approver once"


def test_a_run_that_gave_way_is_no_stall_whatever_ended_it(place: Place) -> None:
    state = stalled_run(place)
    newer = place.submit(paused=True)
    assert resolve(place, state) == {"event": "Resolve Superseded"}
    assert place.events.types == ["Resolve Superseded"]
    assert place.events.details("Resolve Superseded")[0]["currentVersion"] == newer
    assert place.topics.sent == []
    assert place.ledger.get("resolves/run-1/told.json") is not None


def test_a_schedule_that_stalls_for_the_same_reason_writes_once_a_day(place: Place) -> None:
    def run(number: int, day: str, **more: Any) -> int:
        before = len(place.topics.sent)
        state = stalled_run(place, f"run-{number}", trigger="schedule", **more)
        assert resolve(place, state, enteredAt=f"2026-01-{day}T06:00:00.000Z")["reason"]
        return len(place.topics.sent) - before

    assert [run(1, "01"), run(2, "01"), run(3, "02")] == [2, 0, 2], "two approvers each"
    assert run(4, "02", bundle={"outcome": {"reason": "AICRTimeout", "message": "m"}}) == 2, "another reason"
    before = len(place.topics.sent)
    resolve(place, stalled_run(place, "run-5"))
    assert len(place.topics.sent) - before == 2, "who submits is told"
    assert len(place.events.details("Resolve Stalled")) == 5, "an event for each"


@pytest.mark.parametrize(
    ("event", "trigger", "is_new", "written"),
    [
        ("Plan Ready", "submission", True, True),
        ("Plan Ready", "schedule", True, True),
        ("Plan Unchanged", "submission", False, True),
        ("Plan Unchanged", "hand", False, True),
        ("Plan Unchanged", "schedule", False, False),
        ("Plan Paused", "submission", True, True),
        ("Plan Paused", "schedule", True, True),
        ("Plan Paused", "schedule", False, False),
    ],
)
def test_every_end_is_an_event_and_word_where_it_is_news(
    place: Place, event: str, trigger: str, is_new: bool, written: bool
) -> None:
    assert resolve(place, planned_run(place, event, trigger=trigger, is_new=is_new)) == {"event": event}
    # Plan Ready is put by Announce plan, with the target.
    assert place.events.types == ([] if event == "Plan Ready" else [event])
    assert len(place.topics.sent) == (2 if written else 0)
    for message in place.topics.sent:
        assert message["Subject"].startswith("[aicr demo] ")
        assert sha("plan") in message["Message"]
        assert len(message["Message"].splitlines()) == 3


# Plans

SNAPSHOT = b"""apiVersion: aicr.run/v1
kind: Snapshot
metadata: {version: v1.1.2}
fingerprint: {service: {value: eks}, k8sVersion: {value: 1.34.2}, nodeCount: {value: 4}}
"""
MIRRORED = [{"release": "app", "status": "mirrored"}, {"release": "app-post", "status": "unchanged"}]


def resolved(place: Place, run: str, content: str = "content") -> dict[str, Any]:
    """What the states before "Write plan" leave; returns its input."""
    source = UpstreamSource(chart="app", repo="https://charts.example", version="1.2.3")
    bundle = Bundle(
        recipe={}, recipe_digest=sha("recipe"), recipe_name="h100", aicr_version="v1.1.2",
        content_digest=sha(content), info=None,
        releases=(
            BundledRelease("app", "app", "apps", "001-app", source, {"a": 1}, {}),
            BundledRelease("app-post", "app", "apps", "002-app-post", None, None, {"Chart.yaml": b"\xff"}),
        ),
    )  # fmt: skip
    resolves = Resolves(place.ledger, run)
    resolves.put_bundle(bundle, sha("artifact"), b"kind: RecipeResult", b"")
    place.ledger.put_same(resolves.snapshot_key, SNAPSHOT)
    for release in bundle.releases:
        resolves.put_chart(release.name, chart(release.name, "1.2.3"))
    assert [(r.name, r.files) for r in resolves.bundle()[0].releases] == [
        (r.name, dict(r.files)) for r in bundle.releases
    ]
    return {"run": run, "runtimeVersion": place.submit(), "mirror": MIRRORED}


def plan_of(place: Place, state: dict[str, Any]) -> dict[str, Any]:
    made = step("Write plan", input=state, token=None)
    return write_plan(made, place.config, place.inbox, place.ledger, place.clock)


def test_a_plan_is_written_once_for_one_wish(place: Place) -> None:
    first = resolved(place, "run-1")
    found = plan_of(place, first)
    assert found["isNew"] is True
    assert found["releases"] == 2
    place.later(3600)
    assert plan_of(place, first) == {**found, "isNew": False}
    assert plan_of(place, resolved(place, "run-2")) == {**found, "isNew": False}, "another run, the same wish"
    assert len(place.ledger_keys("plans/")) == 1
    other = plan_of(place, resolved(place, "run-3", "other content"))
    assert other["digest"] != found["digest"]


def test_every_held_chart_is_named_and_no_plan_is_written(place: Place) -> None:
    state = resolved(place, "run-1")
    state["mirror"] = [
        MIRRORED[0],
        {"release": "b", "status": "held", "reason": "ChartInvalid", "message": "no Chart.yaml"},
        {"release": "c", "status": "held", "reason": "RegistryUnreachable", "message": "gone"},
    ]
    with refused(
        Reason.ChartInvalid,
        "2 of 3 charts are held",
        "b (ChartInvalid): no Chart.yaml | c (RegistryUnreachable): gone",
    ):
        plan_of(place, state)
    assert place.ledger_keys("plans/") == []


def test_something_else_under_the_plans_name_is_never_taken(place: Place) -> None:
    state = resolved(place, "run-1")
    digest = plan_of(place, state)["digest"]
    key = f"plans/{digest[7:]}.json"
    place.s3.put_object(Bucket="ledger", Key=key, Body=b"{}")
    with refused(Reason.PlanUnreadable):
        plan_of(place, state)


# What is installed, by the records of the steps


def test_the_records_of_the_steps_say_what_is_installed_whatever_the_state_said(place: Place) -> None:
    """A release that was written and not seen ready is neither installed nor untouched."""
    place.put_rollout(PLAN)
    for index, release in enumerate(("gpu-operator", "kai-scheduler"), start=1):
        started = {"rollout": ROLLOUT, "index": index, "release": release, "at": "2026-01-01T12:00:00.000Z"}
        place.put_json(step_key(ROLLOUT, index), started)
    place.put_json(ready_key(ROLLOUT, 1), {"index": 1})
    # No step is named: the end came from elsewhere.
    record(place, {"ended": {"Error": "RolloutRevoked", "Cause": "alex stopped it"}})
    found = written(place)
    assert found["installed"] == ["gpu-operator"]
    assert found["notInstalled"] == found["unfinished"] == ["kai-scheduler"]
    message = place.topics.sent[0]["Message"]
    for line in ("Ready: gpu-operator", "Begun, not seen ready: kai-scheduler", "Not reached: none"):
        assert f"\n{line}\n" in message
    assert f"What to do: {found['whatToDo']}" in message


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_end_says_what_to_do(outcome: Outcome) -> None:
    said = what_to_do(outcome, Reason.RolloutFailed)
    assert said.endswith(".")
    assert "{" not in said
    assert ("RolloutFailed" in said) == (outcome is Outcome.Failed)
