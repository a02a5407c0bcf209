"""What a rollout of 17 releases costs in the state machine, and that waiting costs nothing there."""

from collections import Counter
from collections.abc import Iterator

import pytest
from aicr_pipeline.model.plan import Plan

from local.registry import LocalRegistry
from tests.chaos.interpreter import Execution
from tests.chaos.services import registry
from tests.chaos.wired import world
from tests.chaos.world import World
from tests.unit.samples import plan, release

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("chaos")]

RELEASES = tuple(release(f"release-{number:02}") for number in range(1, 18))
WHOLE = plan(*RELEASES, **{"validation": "Disabled"})
HOURS = 5400.0


@pytest.fixture(scope="module")
def network() -> Iterator[LocalRegistry]:
    with registry() as found:
        yield found


def run(made: World) -> tuple[Execution, Counter[str]]:
    """A rollout to its end, and how often each function was invoked."""
    invoked: Counter[str] = Counter()
    invoke = made.invoke

    def counted(function: str, payload: dict[str, object]) -> dict[str, object]:
        invoked[function] += 1
        return invoke(function, payload)

    made.invoke = counted  # type: ignore[method-assign]
    made.submit()
    made.settle()
    assert made.last().status == "SUCCEEDED", made.last().cause
    return made.last(), invoked


@pytest.fixture(scope="module")
def three(network: LocalRegistry) -> tuple[Execution, Counter[str]]:
    """A rollout of three releases."""
    return finished(network, few(3), {})


def few(count: int) -> Plan:
    return plan(*RELEASES[:count], **{"validation": "Disabled"})


def test_a_rollout_of_seventeen_releases_stays_within_its_limits(network: LocalRegistry) -> None:
    straight, _ = finished(network, WHOLE, {})
    # Validation is disabled here; it adds 2 transitions and 8 events.
    assert straight.transitions <= 108
    assert straight.history <= 492


def test_ninety_minutes_of_waiting_cost_no_transition_and_no_event(
    network: LocalRegistry, three: tuple[Execution, Counter[str]]
) -> None:
    straight, calls = three
    waited, more = finished(network, few(3), {"release-02": HOURS})
    assert (waited.transitions, waited.history) == (straight.transitions, straight.history)
    assert waited.entered == straight.entered
    sweeps = more["sweep_waiters"] - calls["sweep_waiters"]
    assert more - calls == Counter(sweep_waiters=sweeps), "nobody but the sweeper is called more often"
    assert sweeps == pytest.approx(90, abs=3), "once a minute"


def test_transitions_grow_by_the_same_for_each_release(
    network: LocalRegistry, three: tuple[Execution, Counter[str]]
) -> None:
    found = [*(finished(network, few(count), {})[0] for count in (1, 2)), three[0]]
    each = found[1].transitions - found[0].transitions
    assert found[2].transitions == found[0].transitions + 2 * each
    events = found[1].history - found[0].history
    assert found[2].history == found[0].history + 2 * events


def finished(network: LocalRegistry, wanted: Plan, slow: dict[str, float]) -> tuple[Execution, Counter[str]]:
    """A rollout to a plan, some of whose releases take long."""
    with world(network, wanted) as made:
        made.slow = slow
        return run(made)
