"""Two requests at the same time. A chart's requests wait for the network far longer than they work."""

import threading
from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def both(one: Callable[[], A], other: Callable[[], B]) -> tuple[A, B]:
    """Run two things side by side and wait for both.

    Returns
    -------
    tuple
        What each returned.

    Raises
    ------
    BaseException
        What ``one`` raised, else what ``other`` did: which comes first is nobody's to see. An interrupt does
        not wait for the other.
    """
    results: list[B] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(other())
        except BaseException as error:  # noqa: BLE001 - it is raised again, by whoever waits
            problems.append(error)

    beside = threading.Thread(target=run, daemon=True)  # nor does the end of the program
    beside.start()
    try:
        first = one()
    except Exception:
        beside.join()
        raise
    beside.join()
    if problems:
        raise problems[0]
    return first, results[0]
