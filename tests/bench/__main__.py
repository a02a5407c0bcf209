"""``python -m tests.bench [PART ...]``: imports, demo, mirror, resolve, approvals, rollout, evidence; or all.

What is over its budget is said. Times depend on the machine, so no test holds them; budgets are for an idle
machine of two cores.
"""

import argparse
import sys
from collections.abc import Callable

from tests.bench.approvals import approvals
from tests.bench.demo import demo
from tests.bench.evidence import evidence
from tests.bench.imports import imports
from tests.bench.mirror import CONTENDERS, ROUNDS, mirror
from tests.bench.resolve import resolve
from tests.bench.rollout import rollout


def main() -> int:
    """Run the parts that were asked for; 1 when one is over its budget."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    names = ("imports", "demo", "mirror", "resolve", "approvals", "rollout", "evidence")
    parser.add_argument("part", nargs="*", help=f"{', '.join(names)}; all of them when none is named")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measured rounds of the mirror")
    parser.add_argument(
        "--beside", action="append", default=[], choices=CONTENDERS, help="contenders of the mirror; all"
    )
    asked = parser.parse_args()
    if unknown := set(asked.part) - set(names):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    parts: dict[str, Callable[[], bool]] = {
        "imports": imports,
        "demo": demo,
        "mirror": lambda: mirror(asked.rounds, asked.beside),
        "resolve": resolve,
        "approvals": approvals,
        "rollout": rollout,
        "evidence": evidence,
    }
    within = [part() for name, part in parts.items() if name in asked.part or not asked.part]
    print("\nwithin the budgets" if all(within) else "\nover a budget")
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
