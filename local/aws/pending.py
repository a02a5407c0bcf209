"""Counts work that is under way, so that a test can wait until nothing is."""

from __future__ import annotations

import threading
import time


class Pending:
    """`add` and `done` come in pairs; `wait` returns True once the count stayed zero for a moment.

    The moment matters: a finished invocation may just have put an event on the bus.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0
        self._changed = time.monotonic()

    def add(self) -> None:
        with self._condition:
            self._count += 1
            self._changed = time.monotonic()

    def done(self) -> None:
        with self._condition:
            self._count -= 1
            self._changed = time.monotonic()
            self._condition.notify_all()

    def wait(self, timeout: float, settle: float = 0.05) -> bool:
        end = time.monotonic() + timeout
        with self._condition:
            while time.monotonic() < end:
                if self._count == 0:
                    calm = time.monotonic() - self._changed
                    if calm >= settle:
                        return True
                    self._condition.wait(settle - calm)
                else:
                    self._condition.wait(min(0.5, max(0.0, end - time.monotonic())))
        return False
