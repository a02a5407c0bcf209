"""``python -m tests.chaos``: all that can go wrong with each external call of a rollout, one at a time.

Then random runs, tenfold replay, and the table lost at every turn. A run takes about a second.
"""

import argparse
import contextlib
import io
import random
import sys
import time
from collections import Counter
from collections.abc import Callable

from local.registry import LocalRegistry
from tests.chaos.runs import (
    Cure,
    Straight,
    disturbed,
    points,
    randomly,
    replayed,
    straight,
    without_the_table,
)
from tests.chaos.world import World, registry

_CURES: tuple[Cure, ...] = ("redrive", "fresh")
#: More than a rollout's turns: each is one event, one thing that Argo CD or a person does, or a minute.
_TURNS = 24


class Tally:
    """Counts runs, and keeps what went wrong."""

    def __init__(self) -> None:
        self.came: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.began = time.monotonic()

    def run(self, what: str, run: Callable[[], World]) -> None:
        """One run, told apart by whether anybody had to do something."""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                made = run()
        except Exception as error:
            self.wrong.append(f"{what}: {type(error).__name__}: {str(error)[:1500]}")
            print(f"WRONG {self.wrong[-1]}", flush=True)
            return
        redrives = sum(execution.redrives for execution in made.executions.values())
        end = "fresh" if len(made.executions) > 1 else "redriven" if redrives else "by itself"
        self.came[end] += 1

    def say(self, what: str) -> None:
        """A line of figures; the next part counts anew."""
        runs, took = self.came.total(), time.monotonic() - self.began
        print(f"{what}: {runs} runs, {dict(self.came)}, {len(self.wrong)} wrong, {took:.0f} s", flush=True)
        self.came.clear()
        self.began = time.monotonic()


def main() -> int:
    """Run the parts; 1 when something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="part of the points, chosen by chance")
    parser.add_argument("--seeds", type=int, default=100, help="random runs")
    asked = parser.parse_args()
    tally = Tally()
    with registry() as found:
        with contextlib.redirect_stdout(io.StringIO()):
            expected = straight(found)
        calls = expected.calls
        print(f"undisturbed: {len(calls)} external calls, {len(set(calls))} of a kind", flush=True)
        _points(tally, found, expected, asked.share)
        tally.say("one fault")
        for seed in range(asked.seeds):
            plan, cure = randomly(seed, len(calls))
            tally.run(f"seed {seed}", lambda p=plan, c=cure: disturbed(found, expected, p, c))  # type: ignore[misc]
        tally.say("random faults")
        tally.run("replay", lambda: replayed(found, expected, 10))
        tally.say("tenfold replay")
        for turn in range(_TURNS):
            tally.run(f"table {turn}", lambda t=turn: without_the_table(found, expected, t))  # type: ignore[misc]
        tally.say("the table lost")
    return 1 if tally.wrong else 0


def _points(tally: Tally, found: LocalRegistry, expected: Straight, share: float) -> None:
    dice = random.Random(1)
    chosen = [point for point in points(expected.calls) if dice.random() < share]
    dice.shuffle(chosen)  # a run that is cut short is a sample
    for turn, (number, kind) in enumerate(chosen):
        cure = _CURES[turn % len(_CURES)]
        what = f"{kind} {expected.calls[number]} #{number} {cure}"
        tally.run(what, lambda n=number, k=kind, c=cure: disturbed(found, expected, {n: k}, c))  # type: ignore[misc]
        if turn % 100 == 99:
            print(f"  {turn + 1} of {len(chosen)}: {dict(tally.came)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
