"""What can go wrong with one external call: lost, late, twice, or its process dies before or after it.

Beneath the clients' own retries, so that they are tried too: a call whose answer was lost is made again by
the client, and meets what it did itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

#: What each kind does to the call.
KINDS = {
    "drop": "the request is lost, once",
    "lose": "it is done, the answer is lost, once",
    "cut": "it and all like it of this invocation are lost",
    "cut-after": "it is done; its answer and all that follow of its like are lost",
    "kill": "the process dies before it",
    "kill-after": "the process dies after it was done",
    "double": "it is done twice",
    "late": "it is done forty seconds later: longer than the sweeper's lease",
}


class KilledError(BaseException):
    """The process is gone: nothing after this has an effect, and nobody may catch it."""


class Faults:
    """Counts external calls, and does to some what ``plan`` says."""

    def __init__(self, late: Callable[[float], object]) -> None:
        """``late`` lets so many seconds pass."""
        self.calls: list[str] = []
        self.plan: dict[int, str] = {}
        self.done: list[str] = []
        self._late = late
        self._lock = threading.Lock()
        self._dead = False
        self._cut: set[str] = set()

    def begin(self) -> None:
        """An invocation begins: another process, another network."""
        self._dead, self._cut = False, set()

    def pass_on(self, what: str, call: Callable[[], T], lost: Callable[[], Exception]) -> T:
        """Make a call, or not. ``lost`` makes the error of a connection that broke."""
        with self._lock:
            number, kind = len(self.calls), ""
            self.calls.append(what)
            kind = self.plan.get(number, "")
            if kind:
                self.done.append(f"{kind} {what} #{number}")
        if self._dead:
            raise KilledError
        if what in self._cut:
            raise lost()
        if kind.startswith("cut"):
            self._cut.add(what)
        if kind in ("drop", "cut"):
            raise lost()
        if kind == "kill":
            self._dead = True
            raise KilledError
        if kind == "late":
            self._late(40)
        result = call()
        if kind == "double":
            with suppress(Exception):
                call()
        if kind == "kill-after":
            self._dead = True
            raise KilledError
        if kind in ("lose", "cut-after"):
            raise lost()
        return result
