"""The transition between two plans: an action per release, a verdict per changed component."""

from collections.abc import Iterable

from aicr_pipeline.decide.canonical import digest, equal
from aicr_pipeline.decide.versions import numbers, same
from aicr_pipeline.model.plan import Plan, PlannedRelease
from aicr_pipeline.model.rollout import Action, Report, Step, Verdict

_GATE = "-readiness"


def assess(from_plan: Plan | None, to_plan: Plan, *, always_ask: bool, from_is_whole: bool) -> Report:
    """Compare plans, never cluster state, so that the same question has the same answer tomorrow.

    Added and removed components make no transition; a removed component stays installed. Where a later
    rollout ended half-way (``from_is_whole`` is False) nothing is known to be unchanged: every release is
    applied again, its origin is undefined, and a person is asked.
    """
    before = {release.name: release for release in from_plan.desired_state.releases} if from_plan else {}
    changed = {
        release.component
        for release in to_plan.desired_state.releases
        if release.name not in before or _action(before[release.name], release) is not Action.Unchanged
    }
    make = _step if from_is_whole else _step_from_nowhere
    steps = tuple(
        make(index, before.get(release.name), release, changed)
        for index, release in enumerate(to_plan.desired_state.releases, 1)
    )
    names = {release.name for release in to_plan.desired_state.releases}
    because = tuple(_because(from_plan, to_plan, steps, always_ask, from_is_whole))
    return Report(
        from_plan=from_plan.desired_state_digest if from_plan else None,
        to_plan=to_plan.desired_state_digest,
        validation=to_plan.desired_state.validation,
        steps=steps,
        removed=tuple(name for name in before if name not in names),
        approval_needed=bool(because),
        approval_because=because,
    )


def request_digest(report: Report, deadline: str) -> str:
    """What an approval binds: from, to, report and absolute deadline."""
    question = {
        "from": report.from_plan,
        "to": report.to_plan,
        "report": report.wire(),
        "deadline": deadline,
    }
    return digest(question, "the approval request")


def changed_values(before: object, after: object, path: str = "") -> list[str]:
    """Dotted paths at which two value trees differ, sorted; lists compare as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: list[str] = []
        for key in sorted(set(before) | set(after)):
            where = f"{path}.{key}" if path else str(key)
            if key not in before or key not in after:
                found.append(where)
            else:
                found += changed_values(before[key], after[key], where)
        return found
    return [] if equal(before, after) else [path or "(all)"]


def _step(index: int, before: PlannedRelease | None, after: PlannedRelease, changed: set[str]) -> Step:
    action = Action.Install if before is None else _action(before, after)
    if action is Action.Unchanged and after.name.endswith(_GATE) and after.component in changed:
        action = Action.Reconfigure  # the gate of a changed component runs again
    verdict, why = _verdict(before, after, action)
    return Step(
        index=index,
        release=after.name,
        component=after.component,
        namespace=after.namespace,
        action=action,
        verdict=verdict,
        verdict_reason=why,
        from_version=before.chart.version if before else None,
        to_version=after.chart.version,
        changed_values=tuple(changed_values(before.values, after.values)[:50]) if before else (),
    )


def _step_from_nowhere(
    index: int, before: PlannedRelease | None, after: PlannedRelease, changed: set[str]
) -> Step:
    step = _step(index, before, after, changed)
    if step.action is not Action.Unchanged:
        return step
    origin = {"action": Action.Reconfigure, "verdict": Verdict.unknown, "verdict_reason": "undefined-origin"}
    return step.model_copy(update=origin)


def _action(before: PlannedRelease, after: PlannedRelease) -> Action:
    if (before.namespace, before.kind, before.repository) != (after.namespace, after.kind, after.repository):
        return Action.Move
    if not same(before.chart.version, after.chart.version):
        return Action.Upgrade
    if before.chart != after.chart or not equal(before.values, after.values):
        return Action.Reconfigure
    return Action.Unchanged


def _verdict(
    before: PlannedRelease | None, after: PlannedRelease, action: Action
) -> tuple[Verdict | None, str | None]:
    """Without AICR's upgrade records nothing is known to be safe, however small the jump."""
    if before is None or action is Action.Unchanged:
        return None, None
    if action is Action.Move:
        return Verdict.unknown, "identity-changed"
    old, new = numbers(before.chart.version), numbers(after.chart.version)
    if old is None or new is None:
        return Verdict.unversioned, "not-comparable"
    return Verdict.unknown, "downgrade" if new < old else "no-record"


def _because(
    from_plan: Plan | None, to_plan: Plan, steps: Iterable[Step], always_ask: bool, from_is_whole: bool
) -> Iterable[str]:
    if not from_is_whole:
        yield "an earlier rollout ended half-way, so the cluster may be between two plans"
    if from_plan is None:
        yield "first install"
    elif from_plan.desired_state.aicr.image_digest != to_plan.desired_state.aicr.image_digest:
        yield "the AICR image changes"
    for step in steps:
        if step.action is Action.Move:
            yield f"{step.release} moves"
        elif step.verdict not in (None, Verdict.safe):
            yield f"{step.release}: {step.verdict} ({step.verdict_reason})"
    if always_ask:
        yield "approvals.always"
