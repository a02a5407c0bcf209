"""How a write or a deletion is asked for: the query parameters and DeleteOptions of the real API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["Background", "Foreground", "Orphan"]


def _ignore(warning: str) -> None:
    """Nobody listens to warnings."""


@dataclass(frozen=True)
class WriteOptions:
    """`manager` is the field manager; `force` takes over fields in an apply; `warn` receives warnings."""

    manager: str = "unknown"
    force: bool = False
    dry_run: bool = False
    field_validation: FieldValidation = "Warn"
    warn: Callable[[str], None] = _ignore


@dataclass(frozen=True)
class DeleteOptions:
    """None leaves propagation and grace to the kind; `uid` and `resource_version` are preconditions."""

    propagation: Propagation | None = None
    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False
    warn: Callable[[str], None] = _ignore
