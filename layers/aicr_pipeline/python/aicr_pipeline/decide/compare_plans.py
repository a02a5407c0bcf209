"""Two plans side by side: what happens to each release, and which of its values change, typed."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.assess import assess
from aicr_pipeline.decide.canonical import equal
from aicr_pipeline.decide.redact import redact
from aicr_pipeline.model.plan import Plan, PlannedRelease

#: A release that is no longer planned. The pipeline removes nothing, so it stays installed.
REMOVE = "Remove"

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NOTHING: Any = object()
#: Of a value this much is looked at together with its name.
_BESIDE_ITS_NAME = 128


@dataclass(frozen=True)
class Difference:
    """One place where two JSON values differ. A side without it is absent, which is not ``null``."""

    path: str
    before: Any = _NOTHING
    after: Any = _NOTHING

    @property
    def sides(self) -> dict[str, Any]:
        """``before`` and ``after``, those there are."""
        both = {"before": self.before, "after": self.after}
        return {name: value for name, value in both.items() if value is not _NOTHING}

    def wire(self) -> dict[str, Any]:
        """``path``, ``before``, ``after``; what looks like a credential is taken out."""
        key = re.split(r"[.\[\]\"]", self.path.rstrip('"]'))[-1]
        return {"path": self.path} | {name: _clean(value, key) for name, value in self.sides.items()}


@dataclass(frozen=True)
class ReleaseChange:
    """What happens to one release. ``fields`` are those of the plan, ``values`` the chart's values."""

    release: str
    action: str
    from_version: str | None
    to_version: str | None
    fields: tuple[Difference, ...] = ()
    values: tuple[Difference, ...] = ()

    def wire(self) -> dict[str, Any]:
        """As JSON."""
        made: dict[str, Any] = {"release": self.release, "action": self.action}
        if self.from_version is not None:
            made["fromVersion"] = self.from_version
        if self.to_version is not None:
            made["toVersion"] = self.to_version
        fields = [difference.wire() for difference in self.fields]
        return made | {"fields": fields, "values": [difference.wire() for difference in self.values]}


@dataclass(frozen=True)
class Comparison:
    """All of it. ``plan`` is what differs outside the releases, and their order."""

    before: str | None
    after: str
    plan: tuple[Difference, ...]
    releases: tuple[ReleaseChange, ...]

    def wire(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "from": self.before,
            "to": self.after,
            "plan": [difference.wire() for difference in self.plan],
            "releases": [change.wire() for change in self.releases],
        }


def compare(before: Plan | None, after: Plan, *, from_is_whole: bool = True) -> Comparison:
    """What a rollout from one plan to the other does, by the same rules as its report.

    Parameters
    ----------
    before:
        None for a first install, where every value is new and none is listed.
    from_is_whole:
        As in ``assess``: False where the cluster may be between two plans.
    """
    report = assess(before, after, always_ask=False, from_is_whole=from_is_whole)
    old = {release.name: release for release in before.desired_state.releases} if before else {}
    new = {release.name: release for release in after.desired_state.releases}
    changes = [
        ReleaseChange(
            step.release,
            str(step.action),
            step.from_version,
            step.to_version,
            *_details(old.get(step.release), new[step.release]),
        )
        for step in report.steps
    ]
    changes += [ReleaseChange(name, REMOVE, old[name].chart.version, None) for name in report.removed]
    head = tuple(_head(before, after)) if before else ()
    return Comparison(report.from_plan, report.to_plan, head, tuple(changes))


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """Every place where two JSON values differ, by sorted keys.

    Maps are walked. So are lists of one length, and lists that only grew or shrank at their end, by index;
    any other list is one place, since counting on from an inserted item would name all that follow.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            where = _below(path, key)
            yield from _one(before.get(key, _NOTHING), after.get(key, _NOTHING), where)
    elif isinstance(before, list) and isinstance(after, list) and _walked(before, after):
        for index in range(max(len(before), len(after))):
            one, other = (side[index] if index < len(side) else _NOTHING for side in (before, after))
            yield from _one(one, other, f"{path}[{index}]")
    elif not equal(before, after):
        yield Difference(path or "(all)", before, after)


def _one(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if before is _NOTHING or after is _NOTHING:
        yield Difference(path, before, after)
    else:
        yield from differences(before, after, path)


def _walked(before: list[Any], after: list[Any]) -> bool:
    common = min(len(before), len(after))
    return bool(common) and (len(before) == len(after) or equal(before[:common], after[:common]))


def _below(path: str, key: str) -> str:
    """A key that holds a dot or a bracket is quoted, so that a path says one place only."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def _details(
    before: PlannedRelease | None, after: PlannedRelease
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    if before is None:
        return (), ()
    fields = differences(_without(before.wire(), "values"), _without(after.wire(), "values"))
    # A wrapper has no values; maps are walked, so what came or went with a move is named key by key.
    return tuple(fields), tuple(differences(before.values or {}, after.values or {}))


def _head(before: Plan, after: Plan) -> Iterable[Difference]:
    one, other = before.desired_state, after.desired_state
    yield from differences(_without(one.wire(), "releases"), _without(other.wire(), "releases"))
    both = {release.name for release in one.releases} & {release.name for release in other.releases}
    orders = [[release.name for release in state.releases if release.name in both] for state in (one, other)]
    if orders[0] != orders[1]:
        yield Difference("releases (order)", *orders)


def _without(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


def _clean(value: Any, key: str) -> Any:
    """Values hold no credentials; should one have got in, it is not shown."""
    if isinstance(value, dict):
        return {name: _clean(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner, key) for inner in value]
    if not isinstance(value, str) or not value:
        return value
    shown = redact(value)
    if shown == value:
        named = (
            f"{key}={value.strip()[:_BESIDE_ITS_NAME]}"  # how the value begins decides, not how it goes on
        )
        if redact(named) != named:
            return "[redacted]"
    return shown
