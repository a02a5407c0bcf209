"""Faults on purpose, by Application: a small YAML in ``local/scenarios``.

applications:
  gpu-operator: {operation: Failed, message: "hook gate failed", times: 1}
  nvsentinel: {health: Degraded}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "scenarios"


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one Application.

    Attributes
    ----------
    operation
        Phase its operations end with, ``Failed`` or ``Error``, instead of being carried out.
    health
        Health reported instead of Healthy: ``Degraded``, ``Progressing``, ``Suspended``.
    message
        Words for either.
    hook
        Name of a PostSync hook that the failed operation blames.
    stale
        After an operation the status is not refreshed: health and reconciledAt stay from before.
    blocked
        Operations stay Running, blocked by a sync window.
    ignored
        The controller does not look at the Application at all.
    times
        How many operations the fault touches; None: all.
    """

    operation: str = ""
    health: str = ""
    message: str = ""
    hook: str = ""
    stale: bool = False
    blocked: bool = False
    ignored: bool = False
    times: int | None = None


@dataclass(frozen=True)
class Scenario:
    """Faults by Application name."""

    applications: Mapping[str, Fault] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str) -> Scenario:
        """The scenario ``local/scenarios/<name>.yaml``."""
        return cls.load(FOLDER / f"{name}.yaml")

    @classmethod
    def load(cls, path: Path) -> Scenario:
        """Read a scenario; raises ValueError for a key it does not know."""
        document = yaml.safe_load(path.read_text()) or {}
        known = {item.name for item in fields(Fault)}
        found: dict[str, Fault] = {}
        for name, values in (document.get("applications") or {}).items():
            if unknown := set(values) - known:
                raise ValueError(f"{path.name}: {name}: unknown {', '.join(sorted(unknown))}")
            found[name] = Fault(**values)
        return cls(found)

    def fault(self, application: str, operations: int) -> Fault:
        """The fault of an Application after that many operations; none when it has had its times."""
        fault = self.applications.get(application, Fault())
        return Fault() if fault.times is not None and operations > fault.times else fault
