"""The verdict on moving a component from one version to another, by its upgrade record.

The rules are AICR's own (ADR-021, ``aicr upgrade-check``) in its order, with one that is stricter: crossing
two recorded boundaries at once is always ``blocked``, also when nothing has to be done at one of them.
"""

from dataclasses import dataclass

from aicr_pipeline.decide.version_range import Bound, Key, Range, parse_range, version_key
from aicr_pipeline.model.rollout import Verdict
from aicr_pipeline.model.upgrades import Boundary, ComponentRecord, Guidance


@dataclass(frozen=True)
class Judged:
    """A verdict and its reason. ``stop_at`` says where to go first when it is ``blocked``; ``guidance`` is
    there only when one record describes exactly this move."""

    verdict: Verdict
    reason: str
    stop_at: str | None = None
    guidance: Guidance | None = None


@dataclass(frozen=True)
class _Crossing:
    """A boundary that the move passes: it starts below the floor of ``to`` and reaches it."""

    boundary: Boundary
    floor: Bound
    origin: Range
    target: Range


def judge(record: ComponentRecord | None, before: str, after: str) -> Judged:
    """The verdict on one component's move, from what is recorded and from the two versions alone."""
    source, target = version_key(before), version_key(after)
    if source is None or target is None:
        return Judged(Verdict.unversioned, "not-comparable")
    if target < source:
        # A record describes going forward; nothing ever says that going back is safe.
        return Judged(Verdict.unknown, "downgrade")
    if record is None or not record.boundaries:
        return Judged(Verdict.unknown, "no-record")
    crossed = _crossings(record, source, target)
    if not crossed:
        return _uncrossed(record, source, target)
    only = crossed[0]
    if len(crossed) == 1 and only.origin.holds(source):
        return _recorded(only, target)
    blocking = next((one for one in crossed if one.boundary.verdict == "blocked"), None)
    if blocking is not None:
        return Judged(Verdict.blocked, "record-blocks", blocking.floor.text)
    if len(crossed) > 1:
        return Judged(Verdict.blocked, "multiple-boundaries", only.floor.text)
    return Judged(Verdict.blocked, "undefined-origin", _earliest_origin(record, source))


def _recorded(only: _Crossing, target: Key) -> Judged:
    ceiling = only.target.upper
    if ceiling is not None and not ceiling.ceils(target):
        return Judged(Verdict.blocked, "beyond-record-ceiling", _landing(ceiling))
    stop_at = only.floor.text if only.boundary.verdict == "blocked" else None
    return Judged(Verdict(only.boundary.verdict), "recorded", stop_at, only.boundary.guidance)


def _uncrossed(record: ComponentRecord, source: Key, target: Key) -> Judged:
    ceilings = [parse_range(boundary.guidance.applies_to).upper for boundary in record.boundaries]
    bounded = [ceiling for ceiling in ceilings if ceiling is not None]
    # The same version with other values crosses nothing, wherever it lies.
    if target != source and len(bounded) == len(ceilings):
        highest = max(bounded, key=lambda ceiling: (ceiling.key, ceiling.inclusive))
        if not highest.ceils(target):
            return Judged(Verdict.blocked, "beyond-record-ceiling", _landing(highest))
    return Judged(Verdict.unknown, "no-boundary-crossed")


def _crossings(record: ComponentRecord, source: Key, target: Key) -> list[_Crossing]:
    """The lowest first: that is where a blocked move has to stop."""
    found = []
    for boundary in record.boundaries:
        origin = parse_range(boundary.guidance.applies_from)
        to = parse_range(boundary.guidance.applies_to)
        if to.lower is not None and not to.lower.floors(source) and to.lower.floors(target):
            found.append(_Crossing(boundary, to.lower, origin, to))
    return sorted(found, key=lambda one: (one.floor.key, not one.floor.inclusive))


def _earliest_origin(record: ComponentRecord, source: Key) -> str | None:
    """The lowest version that some record starts from; None when that is no place above to go to."""
    lowest = [parse_range(boundary.guidance.applies_from).lower for boundary in record.boundaries]
    ends = [end for end in lowest if end is not None]
    if len(ends) < len(lowest):
        return None
    earliest = min(ends, key=lambda end: (end.key, not end.inclusive))
    return None if earliest.floors(source) else earliest.text


def _landing(ceiling: Bound) -> str:
    """The highest version that a ceiling covers."""
    return ceiling.text if ceiling.inclusive else f"the last version below {ceiling.text}"
