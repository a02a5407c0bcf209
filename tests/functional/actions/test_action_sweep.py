"""The sweeper: every answer once, kept until its token took it, and nothing believed that it did not read."""

from typing import Any

import pytest
from aicr_pipeline.actions.look_at_waiters import refused
from aicr_pipeline.adapters import cluster
from aicr_pipeline.adapters.rollouts import load_report
from aicr_pipeline.decide.application import new_application, operation
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.ending import caught
from aicr_pipeline.decide.names import request_id
from aicr_pipeline.errors import MOST_CHARACTERS, PipelineError
from aicr_pipeline.model.reasons import CAUGHT_BEFORE, GENERATION, ROLLOUT_REASONS, Reason
from aicr_pipeline.model.rollout import rollout_key

from local.kube import APPLICATIONS
from tests.functional.actions.support import DEADLINE, INBOX, PLAN, ROLLOUT, Place, item, step
from tests.unit.samples import plan, sha

RELEASE = PLAN.desired_state.releases[0]
OURS = request_id(ROLLOUT, 1, RELEASE.name)
STEP = "step 1/2 gpu-operator (Install)"
WANTED = {"rollout": ROLLOUT, "release": RELEASE.name, "step": STEP,
          "digest": RELEASE.chart.manifest_digest, "requestId": OURS}  # fmt: skip


ENDED = {"output": {"outcome": {"reason": "Paused", "message": "m"}}}


def install(place: Place) -> None:
    body = new_application(RELEASE, place.config, PLAN.desired_state_digest, OURS)
    place.store.create(APPLICATIONS, body, namespace="argocd")


def become(place: Place, phase: str = "Succeeded", health: str = "Healthy", **state: Any) -> None:
    """What Argo CD writes when it has done the operation."""
    application, digest = place.application(RELEASE.name), RELEASE.chart.manifest_digest
    compared = {"source": application["spec"]["source"], "destination": application["spec"]["destination"]}
    place.set_application(
        RELEASE.name,
        {
            "operation": None,
            "status": {
                "sync": {"status": "Synced", "revision": digest, "comparedTo": compared},
                "health": {"status": health},
                "reconciledAt": "2026-01-01T12:00:09Z",
                "operationState": {
                    "phase": phase,
                    "startedAt": "2026-01-01T12:00:01Z",
                    "finishedAt": "2026-01-01T12:00:08Z",
                    "operation": operation(RELEASE, OURS),
                    "syncResult": {"revision": digest},
                    **state,
                },
            },
        },
    )


def waiting(place: Place, **changes: Any) -> None:
    place.wait_for("w", "application", {**WANTED, **changes.pop("wanted", {})}, **changes)


def answer(place: Place, id: str = "w") -> dict[str, Any]:
    return place.sfn.answered[f"token of {id}"]


# Releases


def test_a_release_becomes_ready_while_the_sweep_loops(place: Place) -> None:
    install(place)
    waiting(place)
    done = place.sweep(lambda turn: become(place) if turn == 3 else None)
    assert done == {"leased": True, "answered": 1, "waiting": 0}
    assert answer(place) == {"output": {"release": RELEASE.name, "revision": RELEASE.chart.manifest_digest}}
    assert place.coordination.waiters() == []
    assert place.application(RELEASE.name)["spec"]["syncPolicy"]["automated"] == {
        "prune": True,
        "selfHeal": True,
    }


def test_unchanged_asks_for_no_request_and_writes_nothing(place: Place) -> None:
    install(place)
    become(place, operation={})
    before = place.application(RELEASE.name)
    waiting(place, wanted={"requestId": None})
    place.sweep()
    assert "output" in answer(place)
    assert place.application(RELEASE.name) == before


def test_a_release_that_is_not_ready_keeps_waiting(place: Place) -> None:
    install(place)
    become(place, health="Progressing")
    waiting(place)
    assert place.sweep()["waiting"] == 1
    assert place.sfn.calls == 0
    assert "automated" not in place.application(RELEASE.name)["spec"]["syncPolicy"]


@pytest.mark.parametrize(
    ("given", "reason", "said"),
    [
        ("failed", "RolloutFailed", f"{STEP}: gpu-operator: boom"),
        ("deleted", "RolloutFailed", f"{STEP}: Application gpu-operator is gone"),
        ("late", "RolloutExpired", f"{STEP}, at the deadline: gpu-operator: Progressing"),
    ],
)
def test_a_release_that_ends_badly_fails_its_item_by_the_reasons_name(
    place: Place, given: str, reason: str, said: str
) -> None:
    if given != "deleted":
        install(place)
        become(place, "Failed" if given == "failed" else "Succeeded", "Progressing", message="boom")
    waiting(place)
    if given == "late":
        place.later(6 * 3600)
    place.sweep()
    assert answer(place)["error"] == reason
    assert answer(place)["cause"].startswith(said)


def test_words_without_end_make_no_payload_without_end(place: Place) -> None:
    """Each state hands its whole input on, and Step Functions takes 256 KB."""
    install(place)
    waiting(place)
    become(place, "Failed", message="x" * 50_000)
    place.sweep()
    assert answer(place)["error"] == "RolloutFailed"
    assert len(answer(place)["cause"]) == MOST_CHARACTERS


def test_ready_at_the_deadline_is_ready(place: Place) -> None:
    install(place)
    become(place)
    waiting(place)
    place.later(7 * 3600)
    place.sweep()
    assert "output" in answer(place)


# Tokens


@pytest.mark.parametrize("code", ["InvalidToken", "TaskTimedOut", "TaskDoesNotExist"])
def test_a_token_that_is_gone_is_forgotten_silently(place: Place, code: str) -> None:
    place.wait_for("w", "ended", {}, answer=ENDED)
    place.sfn.errors = [code]
    place.sweep()
    assert place.coordination.waiters() == []
    assert place.problems == []
    assert place.sfn.answered == {}


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalFailure", "AccessDeniedException"])
def test_an_answer_that_was_not_taken_is_sent_at_the_next_look(place: Place, code: str) -> None:
    place.wait_for("w", "ended", {}, answer=ENDED)
    place.sfn.errors = [code, code]
    place.sweep()
    assert answer(place) == ENDED
    assert len(place.problems) == 2
    assert code in place.problems[0]
    assert place.coordination.waiters() == []


def test_what_was_decided_stays_decided_until_the_token_took_it(place: Place) -> None:
    """The world changes between the decision and the answer: the first decision is what is answered."""
    install(place)
    become(place, "Failed", message="boom")
    waiting(place)
    place.sfn.errors = ["ThrottlingException"]
    place.sweep(budget=-1)
    assert place.coordination.waiters()[0].answer is not None
    assert place.sfn.answered == {}
    become(place)
    place.later(60)
    place.sweep(holder="another process")
    assert answer(place)["error"] == "RolloutFailed"
    assert place.coordination.waiters() == []


def test_a_sweep_that_died_after_the_answer_is_continued(place: Place) -> None:
    install(place)
    become(place)
    waiting(place)
    place.sfn.answered["token of w"] = {"output": "before it died"}
    place.sweep()
    assert place.coordination.waiters() == []
    assert answer(place) == {"output": "before it died"}


def test_a_newer_token_is_the_one_that_is_answered(place: Place) -> None:
    install(place)
    waiting(place, token="old")
    place.later(1)
    waiting(place, token="new")
    become(place)
    place.sweep()
    assert set(place.sfn.answered) == {"new"}


def test_a_newer_token_during_a_look_is_not_lost(place: Place) -> None:
    install(place)
    become(place)
    waiting(place, token="old")
    place.sfn.errors = ["ThrottlingException"]

    def retry(turn: int) -> None:
        if turn == 1:
            place.later(1)
            waiting(place, token="new")

    place.sweep(retry)
    assert set(place.sfn.answered) == {"new"}
    assert place.coordination.waiters() == []


def test_each_token_is_answered_once_however_often_it_is_swept(place: Place) -> None:
    for number in range(5):
        place.wait_for(f"w{number}", "ended", {}, answer=ENDED)
    for _ in range(3):
        place.sweep()
    assert place.sfn.calls == 5


# The lease


def test_two_sweeps_are_kept_apart(place: Place) -> None:
    install(place)
    waiting(place)
    assert place.coordination.take_lease("another", place.now, 30)
    assert place.sweep() == {"leased": False, "answered": 0, "waiting": 0}
    assert place.sfn.calls == 0
    place.later(31)
    become(place)
    assert place.sweep()["answered"] == 1


def test_the_lease_is_given_back(place: Place) -> None:
    place.sweep()
    assert place.coordination.take_lease("another", place.now, 30)


def test_a_waiting_person_costs_no_loop(place: Place) -> None:
    approval(place)
    place.later(60)
    turns: list[int] = []
    place.sweep(turns.append)
    assert len(turns) <= 3, "it lingers a moment, and then ends"


def test_a_wait_that_came_while_the_lease_was_held_is_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event wakes a sweep that finds the lease taken; nobody else would come before the next minute."""
    approval(place)
    drop = place.coordination.drop_lease

    def meanwhile(holder: str) -> bool:
        monkeypatch.setattr(place.coordination, "drop_lease", drop)
        place.later(1)
        place.wait_for("late", "ended", {}, answer=ENDED)
        assert not place.sweep(holder="woken")["leased"]
        return drop(holder)

    monkeypatch.setattr(place.coordination, "drop_lease", meanwhile)
    assert place.sweep()["answered"] == 1
    assert "token of late" in place.sfn.answered


# Approvals


def approval(place: Place, **changes: Any) -> str:
    place.submit()
    report = place.put_rollout(PLAN)

    digest = request_digest(report, DEADLINE)
    wanted = {"rollout": ROLLOUT, "digest": digest, "toPlan": PLAN.desired_state_digest}
    place.wait_for("w", "approval", wanted, **changes)
    return digest


def outcome(place: Place) -> tuple[str, str]:
    found = answer(place)["output"]["outcome"]
    return found["reason"], found["message"]


def test_an_approval_answers_with_who(place: Place) -> None:
    digest = approval(place)
    place.approve(place_report(place), requestDigest=digest)
    place.sweep()
    assert answer(place) == {"output": {"decision": "Approved", "by": ["alex"]}}


def place_report(place: Place) -> Any:

    return load_report(place.ledger, ROLLOUT)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"decision": "Rejected"}, "RolloutRejected"),
        ({"requestDigest": sha("another question")}, "RolloutFailed"),
        ({"expiresAt": "2026-01-01T11:59:59.000Z"}, "RolloutExpired"),
        ({"decision": "Maybe"}, "PlanUnreadable"),
        ({"by": []}, "PlanUnreadable"),
        ({"by": ["mallory"]}, "RolloutFailed"),
        ({"asked": {"minApprovals": 2}}, "RolloutFailed"),
    ],
)
def test_a_forged_or_other_decision_is_no_approval(
    place: Place, changes: dict[str, Any], reason: str
) -> None:
    approval(place)
    place.approve(place_report(place), **changes)
    place.sweep()
    assert outcome(place)[0] == reason


def test_a_decision_that_is_no_json_stops_neither_the_sweep_nor_the_others(place: Place) -> None:
    approval(place)
    place.ledger.put_once(rollout_key(ROLLOUT, "decision"), b"\xff{")
    place.wait_for("z", "ended", {}, answer=ENDED)
    place.sweep()
    assert outcome(place)[0] == "PlanUnreadable"
    assert "token of z" in place.sfn.answered


def test_nobody_answered(place: Place) -> None:
    approval(place)
    place.later(6 * 3600)
    place.sweep()
    assert outcome(place) == ("RolloutExpired", f"Nobody answered until {DEADLINE}; start a fresh rollout.")


def test_a_newer_target_supersedes_a_question_but_not_an_answer(place: Place) -> None:
    approval(place)
    place.want(PLAN)
    place.sweep()
    assert place.sfn.answered == {}
    place.want(plan(**{"recipe": "newer"}))
    place.later(60)
    place.sweep()
    assert outcome(place)[0] == "RolloutSuperseded"
    digest = approval_again(place)
    place.approve(place_report(place), requestDigest=digest)
    place.later(60)
    place.sweep()
    assert place.sfn.answered["second"]["output"]["decision"] == "Approved"


def test_a_runtime_that_is_deleted_ends_its_question_but_not_an_answer(place: Place) -> None:
    approval(place)
    place.s3.delete_object(Bucket=INBOX, Key="runtimes/cluster.yaml")
    place.sweep()
    reason, message = outcome(place)
    assert (reason, "nothing is removed" in message) == ("Deleting", True)
    digest = approval_again(place)
    place.approve(place_report(place), requestDigest=digest)
    place.later(60)
    place.sweep()
    assert place.sfn.answered["second"]["output"]["decision"] == "Approved", "the gate refuses it then"


def approval_again(place: Place) -> str:

    digest = request_digest(place_report(place), DEADLINE)
    wanted = {"rollout": ROLLOUT, "digest": digest, "toPlan": PLAN.desired_state_digest}
    place.wait_for("w2", "approval", wanted, token="second")
    return digest


def test_an_unreachable_cluster_is_reported_and_tried_again(place: Place, monkeypatch: Any) -> None:

    monkeypatch.setattr(cluster.time, "sleep", lambda _: None)
    install(place)
    become(place)
    waiting(place)
    host = place.cluster._host
    place.cluster._host = "http://127.0.0.1:1"
    place.sweep(lambda turn: setattr(place.cluster, "_host", host) if turn == 2 else None)
    assert "cannot be reached" in place.problems[0]
    assert "output" in answer(place)


def test_a_refusal_names_the_step_so_that_the_outcome_can_count(place: Place) -> None:

    waiting(place)
    found = refused(place.coordination.waiters()[0], PipelineError(Reason.Unauthorized, "No."))
    assert found == {"error": "Unauthorized", "cause": f"{STEP}: No."}


@pytest.mark.parametrize(("generation", "error"), [(1, "RolloutFailed"), (GENERATION, "Deleting")])
def test_an_execution_of_an_older_definition_is_ended_as_it_can_catch(
    place: Place, generation: int, error: str
) -> None:
    """Deployed while it ran: uncaught, the end would pass for a stall of the infrastructure."""
    answered = {"error": "Deleting", "cause": "step 1/2 gpu-operator (Install): The runtime was deleted."}
    waits = step("Hold step", item=item(), generation=generation)
    place.waits.register(waits, "hold", {"rollout": ROLLOUT}, DEADLINE)
    (waiter,) = place.coordination.waiters()
    place.coordination.settle(waiter, answered)
    place.sweep()
    found = place.sfn.answered["token"]
    assert found["error"] == error
    assert "The runtime was deleted." in found["cause"]
    assert found["cause"].startswith("step 1/2 gpu-operator (Install): ")


def test_what_older_definitions_catch_is_caught_today(place: Place) -> None:
    assert set(CAUGHT_BEFORE) | set(CAUGHT_BEFORE.values()) <= set(ROLLOUT_REASONS)
    assert caught(1, "ForeignObject", "m") == ("ForeignObject", "m")
    assert caught(1, "Deleting", "m") == ("RolloutFailed", "Deleting: m")
