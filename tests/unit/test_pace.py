"""Eight mirrors at once, each as fast as it can: never more than eight manifests a second."""

import heapq
from itertools import count

import pytest
from aicr_pipeline.adapters.http import Counters, Transport
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.pace import AT_ONCE, INTERVAL, Pace
from hypothesis import given
from hypothesis import strategies as st

HOSTS = (
    "111122223333.dkr.ecr.us-west-2.amazonaws.com",
    "111122223333.dkr-ecr.eu-west-1.on.aws",
    "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn",
    "111122223333.dkr.ecr.eusc-de-east-1.amazonaws.eu",
)


class Clock:
    """A time that only sleeping moves."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def puts(works: list[tuple[float, float, int]]) -> list[float]:
    """When eight places put their manifests: each work is seconds before, seconds after, attempts."""
    free, at, number = [(0.0, place) for place in range(AT_ONCE)], [], count()
    for before, after, attempts in works:
        began, _ = heapq.heappop(free)
        clock = Clock(began)
        pace = Pace(clock.sleep, clock)
        clock.now += before
        for _ in range(attempts):
            pace()
            at.append(clock.now)
        heapq.heappush(free, (clock.now + after, next(number)))
    return sorted(at)


works = st.tuples(
    st.sampled_from([0.0, 0.01, 0.4, 0.999, 1.0, 3.0]), st.sampled_from([0.0, 0.01, 0.7]), st.integers(1, 4)
)


@given(st.lists(works, max_size=60))
def test_no_second_holds_more_than_eight(done: list[tuple[float, float, int]]) -> None:
    times = puts(done)
    for start in times:
        within = [time for time in times if start <= time < start + INTERVAL - 1e-9]
        assert len(within) <= AT_ONCE


def test_without_the_pace_there_would_be_more() -> None:
    instant = [(0.01, 0.0, 1)] * 40
    assert puts(instant)[-1] == pytest.approx(5.0)  # forty in five rounds of eight


def test_work_of_a_second_is_not_held_up() -> None:
    assert puts([(3.0, 0.0, 1)]) == [3.0]


@pytest.mark.parametrize("host", HOSTS)
def test_every_ecr_host_is_paced(host: str) -> None:
    paced = Destination(host, "aicr", Transport(), None).repository("charts", "a", Counters())
    assert isinstance(paced.pace, Pace)


@pytest.mark.parametrize("host", ["127.0.0.1:5000", "registry.example", "ghcr.io"])
def test_no_other_host_is_paced(host: str) -> None:
    assert Destination(host, "aicr", Transport(), None).repository("charts", "a", Counters()).pace is None
