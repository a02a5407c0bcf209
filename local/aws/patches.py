"""Replaces attributes of moto for as long as an engine runs, and puts them back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Patches:
    """A stack of replaced attributes.

    `replace` returns what was there, so a replacement can call it; `undo` restores in reverse order.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def replace(self, owner: Any, name: str, value: Any) -> Any:
        # vars() keeps staticmethod objects as they are; getattr would unwrap them.
        before = vars(owner).get(name, None)
        if before is None:
            raise AttributeError(f"{owner!r} has no own attribute {name!r}: moto changed, look at this shim")
        self._undo.append(lambda: setattr(owner, name, before))
        setattr(owner, name, value)
        return before

    def on_undo(self, restore: Callable[[], object]) -> None:
        self._undo.append(restore)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
