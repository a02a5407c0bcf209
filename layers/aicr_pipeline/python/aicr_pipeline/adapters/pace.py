"""Keeps a kind of request below what a registry allows, without a word between processes.

ECR takes 10 PutImage a second in an account and region. Each chart is one operation that puts its
manifest last, and at most eight operations run at once ("Mirror charts", the command line). Each waits
until a second has passed since it began, and between its own attempts: whatever had its place before has
put its manifest before that, so there are never more than eight in any second. The wait passes while
blobs are on their way, and costs next to nothing.
"""

import time
from collections.abc import Callable

#: Operations at once that the interval below is made for; "Mirror charts" has it as MaxConcurrency.
AT_ONCE = 8
#: Seconds between the start of an operation, or its last attempt, and its next attempt.
INTERVAL = 1.0


class Pace:
    """One operation's PutImage requests; made when the operation begins.

    Parameters
    ----------
    sleep, clock:
        Tests pass their own.
    """

    def __init__(
        self, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.sleep = sleep
        self.clock = clock
        self._last = clock()

    def __call__(self) -> None:
        """Wait until the next attempt may be made."""
        pause = self._last + INTERVAL - self.clock()
        if pause > 0:
            self.sleep(pause)
        self._last = self.clock()
