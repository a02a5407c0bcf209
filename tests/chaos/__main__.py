"""``python -m tests.chaos``: all that can go wrong with each external call of a rollout, one at a time.

Then random runs, tenfold replay, and the table lost at every turn.
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
from tests.chaos.branches import Branch, Point, branches
from tests.chaos.runs import (
    Cure,
    Straight,
    disturbed,
    end_of,
    points,
    randomly,
    replayed,
    straight,
    without_the_table,
)
from tests.chaos.services import registry
from tests.chaos.world import World

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
        self.came[end_of(made)] += 1

    def note(self, branch: Branch, what: str) -> None:
        """One fault's branch of the undisturbed run."""
        point = branch.point
        wrong = branch.wrong or ("" if branch.done else "nothing went wrong there")
        if wrong:
            self.wrong.append(f"{point.kind} {what} #{point.number} {point.cure}: {wrong}")
            print(f"WRONG {self.wrong[-1]}", flush=True)
            return
        self.came[branch.end] += 1

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
    with_cures = [Point(*point, dice.choice(_CURES)) for point in chosen]

    def note(branch: Branch) -> None:
        tally.note(branch, expected.calls[branch.point.number])
        ran = tally.came.total() + len(tally.wrong)
        if ran % 100 == 0:
            print(f"  {ran} of {len(chosen)}: {dict(tally.came)}", flush=True)

    branches(found, expected, with_cures, note)


if __name__ == "__main__":
    sys.exit(main())
