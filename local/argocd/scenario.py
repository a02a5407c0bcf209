"""Faults on purpose, by Application: a small YAML in ``local/scenarios``.

title: The readiness gate of the GPU Operator fails once
expect: The rollout ends at step 10; the same wish, submitted again, goes through.
reason: RolloutFailed
applications:
  gpu-operator-readiness: {operation: Failed, hook: gpu-operator-readiness-gate, times: 1}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

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
        Words for either, or of the repository.
    resource
        ``Kind/name`` that the message is of: of a failed operation, or of what is not healthy.
    hook
        Name of a PostSync hook that the failed operation blames.
    stale
        After an operation nothing is compared: the status says Synced and Healthy, and is from before.
    missed
        So many requests for a refresh are not seen: the annotation stays.
    blocked
        Operations stay Running, blocked by a sync window.
    half
        With ``blocked``: the window closes over a sync that has applied something.
    ignored
        The controller does not look at the Application at all.
    away
        Comparisons after a sync cannot reach the repository.
    cached
        Comparisons after a sync are answered with a manifest error that only a hard refresh clears.
    leaks
        An operation gets fields of an older one: it syncs one resource only, and its result is older.
    restarts
        The controller starts anew when it has taken an operation up.
    automates
        Somebody puts ``automated`` back once an operation is asked for.
    somebody
        A person's sync follows each of ours: ``whole``, ``selective`` or ``failed``.
    times
        How many operations the fault touches; None: all.
    seconds
        How long the fault lasts, from when it first shows; None: for ever.
    """

    operation: str = ""
    health: str = ""
    message: str = ""
    resource: str = ""
    hook: str = ""
    stale: bool = False
    missed: int = 0
    blocked: bool = False
    half: bool = False
    ignored: bool = False
    away: bool = False
    cached: bool = False
    leaks: bool = False
    restarts: bool = False
    automates: bool = False
    somebody: str = ""
    times: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Scenario:
    """Faults by Application name; and for people, what it is and what to expect.

    Attributes
    ----------
    reason
        What the rollout ends with; ``RolledOut`` when it goes through.
    said
        Words of the outcome that tell this end from others.
    settings
        What takes the place of the cluster's configuration, so that nobody waits for long:
        ``engine.graces.degraded: 5s``.
    """

    applications: Mapping[str, Fault] = field(default_factory=dict)
    title: str = ""
    expect: str = ""
    reason: str = "RolledOut"
    said: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str) -> Scenario:
        """The scenario ``local/scenarios/<name>.yaml``; raises ValueError when there is none."""
        if name not in names():
            raise ValueError(f"there is no scenario {name!r}; there are {', '.join(names())}")
        return cls.load(FOLDER / f"{name}.yaml")

    @classmethod
    def load(cls, path: Path) -> Scenario:
        """Read a scenario; raises ValueError for a key it does not know."""
        document = yaml.safe_load(path.read_text()) or {}
        found = {
            name: Fault(**_known(Fault, values, f"{path.name}: {name}"))
            for name, values in (document.pop("applications", None) or {}).items()
        }
        return cls(found, **_known(cls, document, path.name))

    def fault(self, application: str, operations: int) -> Fault:
        """The fault of an Application after that many operations; none when it has had its times."""
        fault = self.applications.get(application, Fault())
        return Fault() if fault.times is not None and operations > fault.times else fault

    def on(self, application: str) -> Scenario:
        """The same scenario happening to this Application."""
        return replace(self, applications=dict.fromkeys([application], *self.applications.values()))

    def configured(self, document: dict[str, Any]) -> dict[str, Any]:
        """A cluster's configuration with this scenario's settings."""
        made = dict(document)
        for path, value in self.settings.items():
            *before, last = path.split(".")
            inner = made
            for part in before:
                inner[part] = inner = dict(inner.get(part) or {})
            inner[last] = value
        return made


def names() -> list[str]:
    """The scenarios that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def _known(kind: type, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    if unknown := set(values) - {item.name for item in fields(kind)}:
        raise ValueError(f"{where}: unknown {', '.join(sorted(unknown))}")
    return dict(values)
