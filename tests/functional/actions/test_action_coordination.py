"""Conditional writes: who wins, and that losing is silent."""

import pytest
from aicr_pipeline.adapters.coordination import Waiter
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from tests.functional.actions.support import DEADLINE, INBOX, LEDGER, Place, step
from tests.unit.samples import refused


def waiter(order: int, token: str = "", **more: object) -> Waiter:
    return Waiter("w", "job", token or f"t{order}", f"{order:04}", DEADLINE, {"n": order}, **more)  # type: ignore[arg-type]


def test_an_older_token_never_replaces_a_newer_one(place: Place) -> None:
    for order in (2, 1, 3, 2, 0):
        place.coordination.register(waiter(order), place.now)
    assert [(found.token, found.wanted) for found in place.coordination.waiters()] == [("t3", {"n": 3})]


def test_a_newer_token_starts_without_the_older_answer(place: Place) -> None:
    place.coordination.register(waiter(1), place.now)
    assert place.coordination.settle(waiter(1), {"output": {}})
    place.coordination.register(waiter(2), place.now)
    assert place.coordination.waiters()[0].answer is None
    assert not place.coordination.settle(waiter(1), {"output": {}}), "the old token's look comes too late"
    assert place.coordination.settle(waiter(2), {"output": {"n": 2}})


def test_an_answer_is_decided_once(place: Place) -> None:
    place.coordination.register(waiter(1), place.now)
    assert place.coordination.settle(waiter(1), {"output": {"who": "first"}})
    assert not place.coordination.settle(waiter(1), {"output": {"who": "second"}})
    assert place.coordination.waiters()[0].answer == {"output": {"who": "first"}}


def test_forgetting_spares_a_newer_token(place: Place) -> None:
    place.coordination.register(waiter(2), place.now)
    place.coordination.forget(waiter(1))
    assert len(place.coordination.waiters()) == 1
    place.coordination.forget(waiter(2))
    place.coordination.forget(waiter(2))
    assert place.coordination.waiters() == []
    assert not place.coordination.settle(waiter(2), {"output": {}}), "nothing is made by settling"


def test_more_waiters_than_a_page(place: Place) -> None:
    for number in range(12):
        made = Waiter(f"w{number:02}", "job", "t", "1", DEADLINE, {"text": "x" * 150_000})
        place.coordination.register(made, place.now)
    assert [found.id for found in place.coordination.waiters()] == [f"w{number:02}" for number in range(12)]


def test_the_lease(place: Place) -> None:
    table = place.coordination
    assert table.take_lease("one", place.now, 30)
    assert not table.take_lease("two", place.now, 30)
    table.drop_lease("two")
    assert not table.take_lease("two", place.now, 30), "only the holder gives it back"
    place.later(29)
    assert table.take_lease("one", place.now, 30), "renewed"
    place.later(29)
    assert not table.take_lease("two", place.now, 30)
    place.later(2)
    assert table.take_lease("two", place.now, 30), "its holder died"
    assert not table.take_lease("one", place.now, 30)
    table.drop_lease("two")
    assert table.take_lease("one", place.now, 30)


def test_the_lease_of_a_sleeper_is_anybodys_and_it_does_not_take_it_back(place: Place) -> None:
    table = place.coordination
    assert table.take_lease("one", place.now, 30)
    assert not table.take_lease("two", place.now, 30)
    assert table.rest_lease("one", place.now, 30)
    assert not table.nudge_lease(), "nobody works: whoever comes takes it"
    assert table.take_lease("two", place.now, 30)
    assert table.rest_lease("two", place.now, 30)
    assert not table.wake_lease("one", place.now, 30), "also not while the other sleeps"
    assert not table.renew_lease("one", place.now, 30)
    assert table.wake_lease("two", place.now, 30)
    place.later(29)
    assert table.renew_lease("two", place.now, 30)
    place.later(29)
    assert not table.take_lease("one", place.now, 30), "renewed"


def test_a_nudge_is_kept_until_the_next_look_begins(place: Place) -> None:
    table = place.coordination
    assert not table.nudge_lease(), "nothing is made by a nudge"
    assert table.take_lease("one", place.now, 30)
    assert table.nudge_lease()
    assert table.nudge_lease()
    assert table.renew_lease("one", place.now, 30)
    assert not table.rest_lease("one", place.now, 30)
    assert not table.drop_lease("one")
    assert table.wake_lease("one", place.now, 30)
    assert table.rest_lease("one", place.now, 30), "one look answers them all"
    assert table.wake_lease("one", place.now, 30)
    assert table.drop_lease("one")
    assert not table.drop_lease("one")


def test_the_lock_has_no_end(place: Place) -> None:
    table = place.coordination
    assert table.lock_holder() is None
    assert table.take_lock("a") == "a"
    place.later(10**8)
    assert table.take_lock("b") == "a"
    assert table.take_lock("a") == "a", "a retry of the holder"
    table.drop_lock("b")
    assert table.lock_holder() == "a"
    table.drop_lock("a")
    table.drop_lock("a")
    assert table.take_lock("b") == "b"


def test_a_lock_that_is_freed_while_it_is_asked_for_is_taken_not_assumed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = place.coordination
    table.take_lock("a")
    read = table.lock_holder

    def freed() -> str | None:
        table.drop_lock("a")
        return read()

    monkeypatch.setattr(table, "lock_holder", freed)
    assert table.take_lock("b") == "b"
    assert read() == "b"
    assert table.take_lock("c") == "b"


def test_facts(place: Place) -> None:
    assert place.coordination.fact("x") is None
    place.coordination.put_fact("x", {"a": 1})
    place.coordination.put_fact("x", {"a": 2})
    assert place.coordination.fact("x") == {"a": 2}


def test_other_errors_are_not_lost_races(place: Place) -> None:
    place.dynamodb.delete_table(TableName="coordination")
    for call in (
        lambda: place.coordination.take_lock("a"),
        lambda: place.coordination.register(waiter(1), place.now),
        lambda: place.coordination.waiters(),
    ):
        with pytest.raises(Exception, match="ResourceNotFound"):
            call()


# The ledger


def test_the_ledger_is_written_once(place: Place) -> None:
    assert place.ledger.get("k") is None
    assert place.ledger.get_json("k") is None
    assert place.ledger.put_once("k", b"1")
    assert not place.ledger.put_once("k", b"2")
    assert place.ledger.get("k") == b"1"
    place.ledger.put_same("k", b"1")
    with refused(Reason.Conflict, "Ledger key k", "written once") as caught:
        place.ledger.put_same("k", b"2")
    assert not caught.info.value.retry
    assert place.ledger_keys() == ["k"]
    assert len(place.s3.list_object_versions(Bucket=LEDGER)["Versions"]) == 1


def test_the_inbox_is_read_by_version(place: Place) -> None:
    key = "runtimes/cluster.yaml"
    assert place.inbox.current_version(key) is None
    first = place.submit()
    second = place.submit(paused=True)
    assert place.inbox.current_version(key) == second
    found = place.inbox.read(key, first, 10)
    assert found is not None
    assert (found.version, len(found.body), found.size > 11) == (first, 11, True)
    place.s3.delete_object(Bucket=INBOX, Key=key)
    assert place.inbox.current_version(key) is None
    assert place.inbox.read(key, second, 10) is not None, "an older version stays readable"


# Waiting


def test_a_wait_is_a_row_then_an_event(place: Place) -> None:
    made = step("Wait until ready", item={"release": "a"})
    place.events.failing = 1
    with pytest.raises(PipelineError) as caught:
        place.waits.register(made, "application", {}, DEADLINE)
    assert caught.value.retry, "the state machine tries again"
    assert [found.id for found in place.coordination.waiters()] == ["demo-12345678-1/wait_until_ready/a"]
    again = step("Wait until ready", item={"release": "a"}, retries=1, token="newer")
    place.waits.register(again, "application", {}, DEADLINE)
    assert [found.token for found in place.coordination.waiters()] == ["newer"]
    assert place.events.details("Waiter Registered") == [
        {"cluster": "demo", "waiter": "demo-12345678-1/wait_until_ready/a"}
    ]
    assert "newer" not in str(place.events.entries), "no token in an event"


def test_a_state_without_a_token_cannot_wait(place: Place) -> None:
    with pytest.raises(ValueError, match="no task token"):
        place.waits.register(step(token=None), "job", {}, DEADLINE)
