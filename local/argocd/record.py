"""What the controller remembers of an Application, beside its object; a restart forgets it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from local.argocd.reconcile import Live


@dataclass
class Record:
    """One Application's; ``uid`` tells it from another of its name."""

    uid: str
    live: Live | None = None
    forced: bool = False
    look_again_at: float | None = None
    refreshed_at: float = field(default_factory=time.monotonic)
    failing_since: float | None = None
    finish_at: float | None = None
    operations: int = 0
    fault_ends: float | None = None
    restarted: bool = False
    synced: bool = False
    #: Why the spec was refused, by the conditions that stood there when an operation was taken up.
    refused: list[str] = field(default_factory=list)
    cached: bool = False
    missed: set[str] = field(default_factory=set)
