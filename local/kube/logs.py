"""What containers have printed: the stand-in kubelet writes it, `pods/<name>/log` reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable

_PodKey = tuple[str, str]  # namespace, name


class PodLogs:
    """Text by pod and container. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[_PodKey, dict[str, list[str]]] = {}
        self._followers: dict[_PodKey, list[tuple[str, Callable[[str], None]]]] = {}

    def append(self, namespace: str, pod: str, container: str, text: str) -> None:
        """Add what a container printed; followers hear of it at once."""
        with self._lock:
            self._texts.setdefault((namespace, pod), {}).setdefault(container, []).append(text)
            for wanted, deliver in self._followers.get((namespace, pod), ()):
                if wanted == container:
                    deliver(text)

    def read(self, namespace: str, pod: str, container: str) -> str:
        """All that a container printed so far."""
        with self._lock:
            return "".join(self._texts.get((namespace, pod), {}).get(container, ()))

    def follow(
        self, namespace: str, pod: str, container: str, deliver: Callable[[str], None]
    ) -> Callable[[], None]:
        """Hand over what is there, then everything that comes; returns what ends it."""
        entry = (container, deliver)
        with self._lock:
            for text in self._texts.get((namespace, pod), {}).get(container, ()):
                deliver(text)
            self._followers.setdefault((namespace, pod), []).append(entry)

        def stop() -> None:
            with self._lock:
                followers = self._followers.get((namespace, pod), [])
                if entry in followers:
                    followers.remove(entry)
                if not followers:
                    self._followers.pop((namespace, pod), None)

        return stop

    def forget(self, namespace: str, pod: str) -> None:
        """Drop the logs of a pod that is gone."""
        with self._lock:
            self._texts.pop((namespace, pod), None)
