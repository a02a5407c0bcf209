"""Two things side by side: what they return, what they raise, and who waits for whom."""

import threading

import pytest
from aicr_pipeline.adapters.at_once import both


def test_both_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=5)
    assert sorted(both(meeting.wait, meeting.wait)) == [0, 1]


def test_the_first_ones_problem_goes_before_the_others_which_has_ended() -> None:
    ended = []

    def one() -> None:
        raise ValueError("one")

    def other() -> None:
        ended.append(True)
        raise ValueError("other")

    with pytest.raises(ValueError, match="one"):
        both(one, other)
    assert ended
    with pytest.raises(ValueError, match="other"):
        both(lambda: None, other)


def test_an_interrupt_does_not_wait() -> None:
    release = threading.Event()
    ended = threading.Event()

    def interrupted() -> None:
        raise KeyboardInterrupt

    def other() -> None:
        release.wait(10)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        both(interrupted, other)
    assert not ended.is_set()
    release.set()
    assert ended.wait(5)
