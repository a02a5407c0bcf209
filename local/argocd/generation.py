"""What repo-server remembers of manifests that could not be generated.

Source: reposerver/repository.go at v3.4. After three failures in a row it answers with the error it had,
for an hour, without trying; a hard refresh asks past that. What fails before, such as a registry that
refuses the token, is not remembered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from local.argocd.repository import GenerationError

#: ARGOCD_PAUSE_GEN_AFTER_FAILED_ATTEMPTS and ARGOCD_PAUSE_GEN_MINUTES.
_ATTEMPTS, _SECONDS = 3, 3600.0

T = TypeVar("T")


@dataclass
class _Remembered:
    words: str
    failures: int
    since: float


class Generations:
    """Manifest errors by what was to be generated."""

    def __init__(self) -> None:
        self._remembered: dict[str, _Remembered] = {}

    def remember(self, key: str, words: str) -> None:
        """As if it had failed often enough before."""
        self._remembered[key] = _Remembered(words, _ATTEMPTS, time.monotonic())

    def generate(self, key: str, make: Callable[[], T], *, hard: bool) -> T:
        """Make it, unless its error is remembered; raises GenerationError with Argo CD's words."""
        known = self._remembered.get(key)
        if hard:
            known = self._remembered.pop(key, None) and None
        if known and known.failures >= _ATTEMPTS and time.monotonic() - known.since < _SECONDS:
            raise GenerationError(f"Manifest generation error (cached): {known.words}")
        try:
            made = make()
        except GenerationError as error:
            failures = known.failures + 1 if known else 1
            self._remembered[key] = _Remembered(str(error), failures, time.monotonic())
            raise
        self._remembered.pop(key, None)
        return made
