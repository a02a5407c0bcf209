"""One rollout with faults in its external calls: it ends as the undisturbed one, and nothing is done twice.

``make chaos`` tries every call with every fault; here each kind of write, and some reads, have one.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from local.registry import LocalRegistry
from tests.chaos.branches import Branch, Point, branches
from tests.chaos.faults import KINDS
from tests.chaos.runs import (
    Straight,
    disturbed,
    points,
    randomly,
    replayed,
    some,
    straight,
    without_the_table,
)
from tests.chaos.services import registry

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("chaos")]

#: Before the first decision, while people are asked, in each step, while a Job runs, at the end.
TURNS = (3, 9, 12, 15)
#: Of the random runs: those of ``make chaos`` begin with them.
SEEDS = range(3)


@pytest.fixture(scope="module")
def network() -> Iterator[LocalRegistry]:
    with registry() as found:
        yield found


@pytest.fixture(scope="module")
def expected(network: LocalRegistry) -> Straight:
    return straight(network)


def test_the_rollout_makes_every_kind_of_call(expected: Straight) -> None:
    services = {what.split()[0] for what in expected.calls}
    assert services == {"dynamodb", "eventbridge", "kubernetes", "registry", "s3", "sns", "states"}
    assert {kind for _, kind in points(expected.calls)} == set(KINDS)


def test_one_fault_in_each_kind_of_write_and_in_some_reads(
    network: LocalRegistry, expected: Straight
) -> None:
    asked = [Point(number, kind, "redrive") for number, kind in some(expected.calls)]
    made: list[Branch] = []
    branches(network, expected, asked, made.append)
    assert [branch.point.number for branch in made] == sorted(point.number for point in asked)
    for branch in made:
        call = f"{branch.point.kind} {expected.calls[branch.point.number]} #{branch.point.number}"
        assert branch.wrong == "", call
        assert branch.done, f"nothing went wrong at {call}"
        assert branch.executions == 1, call
        assert branch.dead == [], call


def test_a_branch_says_what_did_not_hold(network: LocalRegistry, expected: Straight) -> None:
    """A run that never succeeds is told as wrong."""
    made: list[Branch] = []
    elsewhere = replace(expected, applications={})
    branches(network, elsewhere, [Point(len(expected.calls) - 3, "drop", "redrive")], made.append)
    assert "AssertionError" in made[0].wrong


@pytest.mark.parametrize("what", ["s3 PutObject", "dynamodb PutItem", "kubernetes POST"])
def test_what_infrastructure_stopped_goes_on_after_a_fresh_submission(
    network: LocalRegistry, expected: Straight, what: str
) -> None:
    number = max(n for n, call in enumerate(expected.calls) if call.startswith(what))
    # Where only the answer to the last record was lost, the plan is active: then there is nothing to submit.
    disturbed(network, expected, {number: "cut-after"}, "fresh")


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults(network: LocalRegistry, expected: Straight, seed: int) -> None:
    plan, cure = randomly(seed, len(expected.calls))
    disturbed(network, expected, plan, cure)


def test_every_event_ten_times_has_the_effect_of_one(network: LocalRegistry, expected: Straight) -> None:
    made = replayed(network, expected, 10)
    functions = [function for function, _ in made.seen]
    assert functions.count("start_rollout") == 2
    assert functions.count("sweep_waiters") == 6


@pytest.mark.parametrize("turn", TURNS)
def test_the_table_is_lost(network: LocalRegistry, expected: Straight, turn: int) -> None:
    """Ledger and cluster say what was decided, and a fresh rollout starts from what is installed."""
    without_the_table(network, expected, turn)
