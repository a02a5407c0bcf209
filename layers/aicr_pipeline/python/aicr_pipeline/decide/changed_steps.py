"""A rollout's steps as the page prints them: verdicts in words, and changed values side by side."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.assess import verdict_words
from aicr_pipeline.decide.canonical import equal
from aicr_pipeline.decide.compare_plans import Difference
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.rollout import Report, Step, Verdict
from aicr_pipeline.model.upgrades import Guidance

#: Bounds of one page: a Lambda answers at most 6 MB, and nobody reads more on a phone.
MOST_VALUES_PER_STEP = 50
MOST_VALUES = 800
MOST_VALUE_CHARACTERS = 600


@dataclass(frozen=True)
class ValueChange:
    """One value of a release on both sides, as text; None where it is not set."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class StepView:
    """One step, ready to print."""

    index: int
    release: str
    action: str
    namespace: str
    from_version: str | None
    to_version: str
    verdict: str
    verdict_reason: str
    attention: bool
    changes: tuple[ValueChange, ...]
    more_changes: int
    guidance: Guidance | None
    with_release: str | None


def step_views(report: Report | None, from_plan: Plan | None, to_plan: Plan | None) -> Iterator[StepView]:
    """The steps of a report, ready to print; none before there is a report."""
    budget = MOST_VALUES
    for step in report.steps if report else ():
        changes = tuple(_changes(step, from_plan, to_plan))
        # Only what is shown is cleaned: looking for credentials in 60 large releases takes half a minute.
        shown = tuple(map(_side_by_side, changes[: min(MOST_VALUES_PER_STEP, budget)]))
        budget -= len(shown)
        yield StepView(
            index=step.index,
            release=step.release,
            action=str(step.action),
            namespace=step.namespace,
            from_version=step.from_version,
            to_version=step.to_version,
            verdict=str(step.verdict) if step.verdict else "",
            verdict_reason=verdict_words(step.verdict_reason or ""),
            attention=step.verdict not in (None, Verdict.safe),
            changes=shown,
            more_changes=len(changes) - len(shown),
            guidance=step.guidance,
            with_release=step.with_release,
        )


def _changes(step: Step, from_plan: Plan | None, to_plan: Plan | None) -> Iterator[Difference]:
    before = from_plan.release(step.release) if from_plan else None
    after = to_plan.release(step.release) if to_plan else None
    if before is not None and after is not None:
        yield from _differing(before.values, after.values, "")


def value_changes(before: Any, after: Any) -> Iterator[ValueChange]:
    """Where two value trees differ, with both sides; lists compare as a whole, as the report's do."""
    return map(_side_by_side, _differing(before, after, ""))


def _differing(before: Any, after: Any, path: str) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(set(before) | set(after)):
            where = f"{path}.{key}" if path else str(key)
            if key not in before:
                yield Difference(where, after=after[key])
            elif key not in after:
                yield Difference(where, before[key])
            else:
                yield from _differing(before[key], after[key], where)
    elif not equal(before, after):
        yield Difference(path or "(all)", before, after)


def _side_by_side(difference: Difference) -> ValueChange:
    """As the commands show it: what looks like a credential is taken out."""
    wire = difference.wire()
    before, after = (value_text(wire[side]) if side in wire else None for side in ("before", "after"))
    return ValueChange(difference.path, before, after)


def value_text(value: Any) -> str:
    """A value as JSON, indented when it is a tree, cut with a note when it is long."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict | list) else None)
    more = len(text) - MOST_VALUE_CHARACTERS
    return text if more <= 0 else f"{text[:MOST_VALUE_CHARACTERS]}… ({more} more characters)"
