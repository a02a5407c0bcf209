"""Runs of one rollout with faults, what a person does about them, and what must hold at the end."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from local.registry import LocalRegistry
from tests.chaos.faults import KINDS
from tests.chaos.wired import world
from tests.chaos.world import World

#: What a person does about a stall: the console's redrive, or the same wish again.
Cure = Literal["redrive", "fresh"]
#: So often, until the rollout has come through.
_CURES = 6
_READS = ("Get", "List", "Query", "Head", "Describe", "GET")
#: To a call that only reads, the others are one of these.
_TO_READS = ("drop", "cut", "kill", "late")


@dataclass(frozen=True)
class Straight:
    """The undisturbed run."""

    calls: tuple[str, ...]
    applications: dict[str, Any]
    documents: frozenset[str]
    operations: Counter[tuple[str, str]]
    messages: int
    #: How many calls there were at each turn.
    turns: tuple[int, ...]


def straight(found: LocalRegistry) -> Straight:
    """Run without a fault."""
    turns: list[int] = []

    def count(there: World) -> bool:
        turns.append(len(there.faults.calls))
        return False

    with world(found) as made:
        made.submit()
        made.settle(count)
        _holds(made)
        return Straight(
            calls=tuple(made.faults.calls),
            applications=made.applications(),
            documents=_documents(made),
            operations=Counter(made.operations),
            messages=made.messages(),
            turns=tuple(turns),
        )


def points(calls: tuple[str, ...]) -> list[tuple[int, str]]:
    """Every call with everything that can go wrong with it."""
    return [
        (number, kind)
        for number, what in enumerate(calls)
        for kind in (_TO_READS if what.split()[1].startswith(_READS) else KINDS)
    ]


def some(calls: tuple[str, ...]) -> list[tuple[int, str]]:
    """Each kind of write once, a third of the reads, each with another fault: what the suite has time for."""
    first: dict[str, int] = {}
    for number, what in enumerate(calls):
        first.setdefault(what, number)
    chosen = []
    for turn, (what, number) in enumerate(first.items()):
        is_read = what.split()[1].startswith(_READS)
        if is_read and turn % 3:
            continue
        kinds = _TO_READS if is_read else tuple(KINDS)
        chosen.append((number, kinds[turn % len(kinds)]))
    return chosen


def disturbed(found: LocalRegistry, expected: Straight, plan: dict[int, str], cure: Cure) -> World:
    """Run with faults; a person cures what stalls. Everything that must hold is asserted."""
    with world(found) as made:
        made.faults.plan = plan
        made.submit()
        made.settle()
        after_the_faults(made, expected, cure)
        return made


def after_the_faults(made: World, expected: Straight, cure: Cure) -> None:
    """Cure what stalled, until it has come through, and assert what must hold."""
    for _ in range(_CURES):
        if _succeeded(made) or _is_rolled_out(made, cure):
            break
        _cure(made, cure)
        made.settle()
    made.minute()
    said = f"{made.faults.plan} {made.faults.done} {_ends(made)}"
    assert _succeeded(made) or _is_rolled_out(made, cure), said
    _holds(made)
    assert made.applications() == expected.applications, said
    if len(made.executions) == 1 and _succeeded(made):
        assert made.operations == expected.operations, said
        assert _documents(made) == expected.documents, said
    told = made.messages() + made.untold + _failed(made)
    assert told >= expected.messages, f"somebody was not told: {said}"


def end_of(made: World) -> str:
    """Whether anybody had to do something."""
    redrives = sum(execution.redrives for execution in made.executions.values())
    return "fresh" if len(made.executions) > 1 else "redriven" if redrives else "by itself"


def replayed(found: LocalRegistry, expected: Straight, times: int) -> World:
    """Every event comes so often, at once and again when all is over."""
    with world(found) as made:
        made.replays = times
        made.submit()
        made.settle()
        made.replays = 1
        for function, event in list(made.seen):
            for _ in range(times):
                made.events.append((function, event))
        made.settle()
        _holds(made)
        assert made.applications() == expected.applications
        assert made.operations == expected.operations
        assert _documents(made) == expected.documents
        assert made.messages() == expected.messages
        assert made.dead == []
        return made


def without_the_table(found: LocalRegistry, expected: Straight, turn: int) -> World:
    """The table is lost between two things. People see that nothing goes on, stop it, and submit again."""
    with world(found) as made:
        turns = 0

        def at_turn(_: World) -> bool:
            nonlocal turns
            turns += 1
            return turns > turn

        made.submit()
        made.settle(at_turn)
        decided = {key: made.json(key) for key in made.versions() if key.endswith("/decision.json")}
        made.lose_the_table()
        quiet = made.now

        def nothing_happens(there: World) -> bool:
            return (there.now - quiet).total_seconds() > 3600

        made.settle(nothing_happens)
        for execution in made.executions.values():
            execution.stop()
        made.settle()
        for _ in range(_CURES):
            made.put_credentials()
            if _succeeded(made):
                break
            made.submit()
            made.settle()
        made.minute()
        said = f"turn {turn}: {_ends(made)}"
        assert _succeeded(made), said
        _holds(made)
        assert made.applications() == expected.applications, said
        for key, decision in decided.items():
            assert made.json(key) == decision, "what was decided is still known"
        return made


def randomly(seed: int, calls: int) -> tuple[dict[int, str], Cure]:
    """Some faults, the same for the same seed."""
    dice = random.Random(seed)
    plan = {dice.randrange(calls + 40): dice.choice(list(KINDS)) for _ in range(dice.randint(2, 7))}
    return plan, dice.choice(("redrive", "fresh"))


def _succeeded(made: World) -> bool:
    return bool(made.executions) and made.last().status == "SUCCEEDED"


def _is_rolled_out(made: World, cure: Cure) -> bool:
    """It stalled after its end was written: the plan is active, and a fresh submission has nothing to do.

    Once people were told as well, nothing is left for a redrive either.
    """
    if not made.executions:
        return False
    folder = f"rollouts/{made.last().name}"
    outcome, told = made.json(f"{folder}/outcome.json"), made.json(f"{folder}/told.json")
    is_done = bool(outcome) and outcome["outcome"] == "Succeeded"
    return is_done and (cure == "fresh" or told is not None)


def _ends(made: World) -> list[tuple[str, ...]]:
    return [(e.name, e.status, e.error, e.cause[:300]) for e in made.executions.values()]


def _cure(made: World, cure: Cure) -> None:
    """As the runbook says: a stall is redriven or its wish submitted again, an end needs a fresh rollout."""
    last = made.last() if made.executions else None
    if last is None or made.json(f"rollouts/{last.name}/told.json") is not None or cure == "fresh":
        made.submit()
        return
    stalls = [key for key in made.versions() if key.startswith(f"rollouts/{last.name}/stalls/")]
    assert stalls, f"nobody was told that {last.name} stalled: {made.faults.done}"
    last.redrive()


def _failed(made: World) -> int:
    """Messages that were not taken, and recorded so: a rollout waits for neither of two approvers."""
    keys = [key for key in made.versions() if "/messages/" in key]
    return sum(message["error"] is not None for key in keys for message in made.json(key)["messages"])


def _documents(made: World) -> frozenset[str]:
    """Keys of the ledger, but for those that a signature or an attempt names; of whichever run of a resolve.

    Where all attempts to start a rollout died, the wish that was submitted again is what started it.
    """
    loose = ("evidence/", "rollouts/")
    return frozenset(
        re.sub(r"^resolves/[^/]+/", "resolves/", key)
        for key in made.versions()
        if not (key.startswith(loose) and ("/stalls/" in key or "/messages/" in key or "evidence/" in key))
    )


def _holds(made: World) -> None:
    """At the end of every run, whatever went wrong in it."""
    said = f"{made.faults.done}"
    last = made.last()
    outcome = made.json(f"rollouts/{last.name}/outcome.json")
    assert outcome["outcome"] == "Succeeded", said
    assert outcome["installed"] == [release.name for release in made.plan.desired_state.releases], said
    assert set(made.versions().values()) == {1}, f"a record was written twice: {said}"
    assert set(made.operations.values()) <= {1}, f"a step was written twice: {made.operations} {said}"
    assert made.rows("WAITERS") == [], said
    assert made.rows("LOCK") == [], f"the lock leaks: {said}"
    assert all(e.status != "RUNNING" for e in made.executions.values()), said
    for name in list(made.executions)[:-1]:
        assert made.json(f"rollouts/{name}/outcome.json") is not None, f"{name} has no end: {said}"
