"""Many waiters and many sweeps: one list of Applications, each waiter settled once, no wake-up lost."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from aicr_pipeline.actions import sweep_waiters
from aicr_pipeline.adapters import cluster
from aicr_pipeline.decide.application import new_application, operation
from aicr_pipeline.model.rollout import ready_key
from botocore.exceptions import ConnectionClosedError

from local.kube import APPLICATIONS
from tests.functional.actions.support import BEGAN, PLAN, ROLLOUT, Place
from tests.functional.actions.test_action_sweep import RELEASE, become, install, waiting

DIGEST = RELEASE.chart.manifest_digest


def many(place: Place, count: int, ready: Callable[[int], bool] = lambda number: True) -> list[str]:
    """So many releases, each waited for; returns their names."""
    names = []
    for number in range(count):
        release = RELEASE.model_copy(update={"name": f"release-{number:03}"})
        names.append(release.name)
        ours = f"request of {release.name}"
        body = new_application(release, place.config, PLAN.desired_state_digest, ours)
        wanted = {"rollout": ROLLOUT, "index": number + 1, "release": release.name, "digest": DIGEST,
                  "step": f"step {number + 1}/{count} {release.name}", "requestId": ours}  # fmt: skip
        if ready(number):
            body = {key: value for key, value in body.items() if key != "operation"} | {
                "status": synced(body["spec"], operation(release, ours))
            }
        place.store.create(APPLICATIONS, body, namespace="argocd")
        place.wait_for(release.name, "application", wanted)
    return names


def synced(spec: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """What Argo CD says of a release that is ready."""
    return {
        "sync": {
            "status": "Synced",
            "revision": DIGEST,
            "comparedTo": {"source": spec["source"], "destination": spec["destination"]},
        },
        "health": {"status": "Healthy"},
        "reconciledAt": "2026-01-01T12:00:09Z",
        "operationState": {
            "phase": "Succeeded",
            "startedAt": "2026-01-01T12:00:01Z",
            "finishedAt": "2026-01-01T12:00:08Z",
            "operation": asked,
            "syncResult": {"revision": DIGEST},
        },
    }


class Calls:
    """Counts what a sweep asks of the cluster, the table, the ledger and Step Functions."""

    def __init__(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: Counter[str] = Counter()
        send, make = place.cluster._send, place.dynamodb._make_api_call
        lock = threading.Lock()

        def count(what: str) -> None:
            with lock:
                self.seen[what] += 1

        def sent(method: str, path: str, *rest: Any) -> Any:
            count(f"{method} {'list' if '?' in path else 'one'}")
            return send(method, path, *rest)

        def made(name: str, arguments: Any) -> Any:
            with lock:  # a conditional write is one thing in DynamoDB, not in moto
                self.seen[name] += 1
                return make(name, arguments)

        monkeypatch.setattr(place.cluster, "_send", sent)
        monkeypatch.setattr(place.dynamodb, "_make_api_call", made)


def test_many_releases_cost_one_list_and_four_calls_each(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = many(place, 40)
    calls = Calls(place, monkeypatch)
    assert place.sweep(budget=-1) == {"leased": True, "answered": 40, "waiting": 0}
    assert calls.seen == {
        "GET list": 1,
        "PATCH one": 40,  # self-heal comes back
        "Query": 1,
        "PutItem": 1,  # the lease
        "UpdateItem": 40,  # what is decided
        "DeleteItem": 41,  # the rows, and the lease
    }
    assert place.sfn.calls == 40
    assert set(place.sfn.answered) == {f"token of {name}" for name in names}
    assert len(place.ledger_keys(f"rollouts/{ROLLOUT}/ready/")) == 40


@pytest.mark.parametrize(("count", "lists", "gets"), [(1, 0, 1), (3, 0, 3), (4, 1, 0), (9, 1, 0)])
def test_a_look_at_few_that_are_not_ready_asks_for_each(
    place: Place, monkeypatch: pytest.MonkeyPatch, count: int, lists: int, gets: int
) -> None:
    many(place, count, lambda number: False)
    calls = Calls(place, monkeypatch)
    assert place.sweep(budget=-1)["waiting"] == count
    assert (calls.seen["GET list"], calls.seen["GET one"]) == (lists, gets)
    assert (calls.seen["PATCH one"], calls.seen["UpdateItem"]) == (0, 0)


def test_one_that_is_missing_in_the_list_is_asked_for_before_it_is_called_gone(place: Place) -> None:
    names = many(place, 5, lambda number: number != 2)
    place.store.delete(APPLICATIONS, names[2], namespace="argocd")
    assert place.sweep()["answered"] == 5
    assert "is gone" in place.sfn.answered[f"token of {names[2]}"]["cause"]


def test_a_list_that_fails_fails_no_release(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.time, "sleep", lambda _: None)
    many(place, 5)
    host = place.cluster._host
    place.cluster._host = "http://127.0.0.1:1"
    place.wait_for("z", "ended", {}, answer={"output": {}})

    def mended(turn: int) -> None:
        place.cluster._host = host

    assert place.sweep(mended)["answered"] == 6
    assert len([words for words in place.problems if "cannot be reached" in words]) == 5
    assert all("output" in answer for answer in place.sfn.answered.values())


def test_that_a_release_became_ready_is_kept_once_before_anybody_hears_of_it(place: Place) -> None:
    install(place)
    become(place)
    waiting(place, wanted={"index": 1})
    place.sfn.errors = ["ThrottlingException"]
    place.sweep(budget=-1)
    key = ready_key(ROLLOUT, 1)
    kept = place.ledger.get_json(key)
    assert (kept["release"], kept["index"], kept["digest"]) == (RELEASE.name, 1, DIGEST)
    assert place.sfn.answered == {}
    place.later(60)
    place.sweep()
    assert place.ledger.get_json(key) == kept
    assert "output" in place.sfn.answered["token of w"]


def test_a_release_that_fails_leaves_no_such_record(place: Place) -> None:
    install(place)
    become(place, "Failed", message="boom")
    waiting(place, wanted={"index": 1})
    place.sweep()
    assert place.ledger_keys(f"rollouts/{ROLLOUT}/ready/") == []


def test_what_a_rollout_left_that_gave_way_is_not_waited_for(place: Place) -> None:
    """It stalled after its row was written: until the deadline nothing would answer it."""
    install(place)
    waiting(place)
    place.wait_for("ask", "approval", {"rollout": ROLLOUT, "digest": "d", "toPlan": "p"})
    place.end_rollout()
    place.sfn.errors = ["TaskTimedOut", "TaskTimedOut"]
    assert place.sweep(budget=-1) == {"leased": True, "answered": 2, "waiting": 0}
    assert place.coordination.waiters() == []
    assert place.problems == []


# Two sweeps


def test_whoever_is_woken_takes_the_place_of_one_that_sleeps(place: Place) -> None:
    """A notification arrives in the middle of the interval: it is looked at then, not at its end."""
    install(place)
    waiting(place)
    later = []

    def notified(turn: int) -> None:
        become(place)
        later.append(place.sweep(holder="woken", budget=-1))

    assert place.sweep(notified) == {"leased": False, "answered": 0, "waiting": 1}
    assert later == [{"leased": True, "answered": 1, "waiting": 0}]
    assert place.sfn.calls == 1


@pytest.mark.parametrize("budget", [30, -1], ids=["in-time", "at-the-end-of-its-time"])
def test_a_wake_up_during_a_look_brings_another_look_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, budget: float
) -> None:
    install(place)
    waiting(place)
    read, turns = place.argocd.application, []

    def stale(name: str) -> Any:
        found = read(name)
        if not turns:
            become(place)  # just too late for this look
            assert place.sweep(holder="woken") == {"leased": False, "answered": 0, "waiting": 0}
        turns.append(place.now)
        return found

    monkeypatch.setattr(place.argocd, "application", stale)
    slept: list[int] = []
    assert place.sweep(slept.append, budget=budget)["answered"] == 1
    assert len(turns) == 2
    assert turns[0] == turns[1], "no interval between them"


def test_a_run_that_is_woken_without_end_leaves_its_lease_to_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lambda ends a run that looks on for too long, and then its lease would keep others out for a while."""
    install(place)
    waiting(place)
    read = place.argocd.application

    def stormy(name: str) -> Any:
        place.later(4)
        place.coordination.nudge_lease()
        return read(name)

    monkeypatch.setattr(place.argocd, "application", stormy)
    assert place.sweep(budget=-1) == {"leased": True, "answered": 0, "waiting": 1}
    assert (place.now - BEGAN).total_seconds() < 20
    assert place.coordination.take_lease("next", place.now, 30)


@pytest.mark.parametrize("call", ["put_object", "update_item", "delete_item", "send_task_success"])
def test_one_answer_that_cannot_be_kept_or_given_holds_up_no_other(
    place: Place, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    many(place, 3)
    client = {"put_object": place.s3, "send_task_success": place.sfn}.get(call, place.dynamodb)
    real, lost = getattr(client, call), []

    def once(*given: Any, **more: Any) -> Any:
        if "LEASE" not in str(more) and not lost:
            lost.append(call)
            raise ConnectionClosedError(endpoint_url="https://example.test")
        return real(*given, **more)

    monkeypatch.setattr(client, call, once)
    done = place.sweep()
    assert lost and (done["leased"], done["answered"], done["waiting"]) == (True, 3, 0)
    assert len(place.sfn.answered) == 3
    assert any("ConnectionClosedError" in problem for problem in place.problems)


def test_a_run_hands_over_to_the_next_minutes_without_a_gap(place: Place) -> None:
    install(place)
    waiting(place)
    found = []

    def minute(turn: int) -> None:
        if turn == 12:
            found.append(place.sweep(holder="next minute", budget=-1))

    ended = place.sweep(minute, budget=75)
    assert found[0]["leased"]
    assert not ended["leased"], "the sleeper ends, its place is taken"


def test_the_lease_is_renewed_while_a_look_takes_long(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_waiters, "_RENEW_SECONDS", 0.02)
    install(place)
    become(place)
    waiting(place)
    read = place.argocd.application

    def slow(name: str) -> Any:
        for _ in range(3):
            place.later(20)
            time.sleep(0.1)
            assert not place.coordination.take_lease("another", place.now, 30)
        return read(name)

    monkeypatch.setattr(place.argocd, "application", slow)
    assert place.sweep(budget=-1)["answered"] == 1


def test_a_sweep_that_lost_its_lease_begins_nothing_more(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_waiters, "_RENEW_SECONDS", 0.02)
    monkeypatch.setattr(sweep_waiters, "_AT_ONCE", 1)
    many(place, 3)
    read, looks = place.argocd.application, []

    def frozen(name: str) -> Any:
        looks.append(name)
        if len(looks) == 1:
            # The process stood still for a minute.
            place.now = place.now.replace(minute=1)
            assert place.coordination.take_lease("another", place.now, 30)
            time.sleep(0.2)
        return read(name)

    monkeypatch.setattr(place.argocd, "application", frozen)
    assert place.sweep()["leased"] is False
    assert len(looks) == 1
    assert len(place.sfn.answered) == 1, "what was begun is finished"
    assert not place.coordination.take_lease("third", place.now, 30), "the other's lease is left alone"


def test_two_sweeps_at_once_do_no_work_twice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they interleave: each token is answered once, and each release looked at by one of them."""
    many(place, 12)
    calls = Calls(place, monkeypatch)
    found: list[dict[str, Any]] = []

    def run(holder: str) -> None:
        found.append(place.sweep(holder=holder, budget=-1))

    threads = [threading.Thread(target=run, args=(f"sweep {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done["answered"] for done in found) == 12
    assert place.sfn.calls == 12
    assert calls.seen["PATCH one"] == 12
