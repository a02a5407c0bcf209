"""Many runs for less than one each: a process forks off where a fault is due, what came before is shared.

Every branch goes on from the undisturbed run, in a process of its own, to its own end.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from local.registry import LocalRegistry
from tests.chaos.runs import Cure, Straight, after_the_faults, end_of
from tests.chaos.wired import world
from tests.chaos.world import World

#: Seconds that a branch may take on a machine that does much else.
_MOST_SECONDS = 120.0


@dataclass(frozen=True)
class Point:
    """One fault: in which call, of which kind, and what a person does if the rollout stalls."""

    number: int
    kind: str
    cure: Cure


@dataclass(frozen=True)
class Branch:
    """What came of one. ``wrong`` says what did not hold; empty when everything did."""

    point: Point
    end: str = ""
    wrong: str = ""
    done: list[str] = field(default_factory=list)
    executions: int = 0
    dead: list[str] = field(default_factory=list)


def branches(
    found: LocalRegistry, expected: Straight, points: Iterable[Point], tell: Callable[[Branch], None]
) -> None:
    """Run undisturbed, and from there once with each fault; ``tell`` is told of each branch, as it ends.

    A process is forked off between two turns, when no function runs and no thread holds anything.
    """
    waiting = sorted(points, key=lambda point: point.number)
    mine: list[Point] = []  # of a branch: its own
    pipe = -1

    with world(found) as made:
        turn = 0

        def fork_off(there: World) -> bool:
            nonlocal turn, pipe
            if mine:
                return False
            assert len(there.faults.calls) == expected.turns[turn], "the run is not the one that was counted"
            turn += 1
            following = expected.turns[turn] if turn < len(expected.turns) else len(expected.calls)
            while waiting and waiting[0].number < following:
                point = waiting.pop(0)
                reads, writes = os.pipe()
                gc.freeze()  # pages that nobody writes to stay shared
                child = os.fork()
                if not child:
                    os.close(reads)
                    mine.append(point)
                    pipe = writes
                    there.apart()
                    there.faults.plan = {point.number: point.kind}
                    return False
                os.close(writes)
                tell(_result(child, reads, point))
            return False

        try:
            made.submit()
            made.settle(fork_off)
            if mine:
                after_the_faults(made, expected, mine[0].cure)
        except BaseException as error:
            if mine:
                _end(pipe, made, f"{type(error).__name__}: {str(error)[:1500]}")
            raise
        if mine:
            _end(pipe, made, "")
    assert not waiting, f"there is no such call: {waiting}"


def _end(pipe: int, made: World, wrong: str) -> NoReturn:
    """Tell, and be gone: nothing of the process before may be tidied here."""
    said: dict[str, Any] = {
        "end": "" if wrong else end_of(made),
        "wrong": wrong,
        "done": made.faults.done,
        "executions": len(made.executions),
        "dead": made.dead,
    }
    os.write(pipe, json.dumps(said).encode()[:60_000])
    os._exit(0)


def _result(child: int, reads: int, point: Point) -> Branch:
    text = b""
    try:
        while select.select([reads], [], [], _MOST_SECONDS)[0]:
            more = os.read(reads, 65_536)
            if not more:
                break
            text += more
        else:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(reads)
        os.waitpid(child, 0)
    if not text:
        return Branch(point, wrong="it did not come to an end")
    return Branch(point, **json.loads(text))
