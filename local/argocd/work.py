"""Names with the time at which each is due; a worker takes them one after the other."""

from __future__ import annotations

import threading
import time


class WorkQueue:
    """Each name is in it once, at the earliest of the times it was put for."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._wake = threading.Condition()
        self._closed = False

    def put(self, name: str, delay: float = 0.0) -> None:
        """Have a name looked at, ``delay`` seconds from now."""
        with self._wake:
            when = time.monotonic() + delay
            self._due[name] = min(when, self._due.get(name, when))
            self._wake.notify_all()

    def next(self) -> str | None:
        """The name whose time has come first, waiting for it; None when closed."""
        with self._wake:
            while not self._closed:
                name, when = min(self._due.items(), key=lambda item: item[1], default=("", 0.0))
                remaining = when - time.monotonic() if name else None
                if remaining is not None and remaining <= 0:
                    del self._due[name]
                    return name
                self._wake.wait(remaining)
        return None

    def close(self) -> None:
        """Nothing is handed out any more."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
