"""The transition between two plans: an action per release, a verdict per changed component."""

from collections.abc import Iterable, Mapping

from aicr_pipeline.decide.canonical import digest, equal
from aicr_pipeline.decide.component_verdict import judged
from aicr_pipeline.decide.upgrade_verdict import judge
from aicr_pipeline.decide.versions import same
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import Plan, PlannedRelease
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Action, Report, Step, Verdict

_GATE = "-readiness"
#: The verdict's reason, as a person reads it.
_WORDS: Mapping[str, str] = {
    "recorded": "an upgrade record describes exactly this move",
    "record-blocks": "an upgrade record on the way blocks it",
    "multiple-boundaries": "it crosses several recorded boundaries at once, and no record describes that",
    "undefined-origin": "no upgrade record starts from what is installed",
    "no-record": "no upgrade record exists for this jump",
    "no-boundary-crossed": "there is an upgrade record, but it says nothing about this range",
    "beyond-record-ceiling": "the upgrade records do not reach as far",
    "downgrade": "this is a downgrade",
    "identity-changed": "the release moves: namespace, kind or repository changes",
    "not-comparable": "the two versions cannot be compared",
}
#: Of what a record has to say; all else needs a person, and no more than that.
_STRICTNESS: Mapping[Verdict | None, int] = {Verdict.blocked: 2, Verdict.manual: 1}
_UNDEFINED_ORIGIN = {
    "verdict": Verdict.unknown,
    "verdict_reason": "undefined-origin",
    "guidance": None,
    "with_release": None,
}


def assess(
    from_plan: Plan | None,
    to_plan: Plan,
    *,
    always_ask: bool,
    from_is_whole: bool,
    installed: Mapping[str, PlannedRelease] | None = None,
) -> Report:
    """Compare plans, not the cluster, so that the same question has the same answer tomorrow.

    Added and removed components make no transition; a removed component stays installed. Where a later
    rollout ended half-way (``from_is_whole`` is False) nothing is known to be unchanged: every release is
    applied again, its origin is undefined, and a person is asked.

    Parameters
    ----------
    installed:
        Where a rollout ended half-way: releases as Argo CD last compared them, of which a third plan knows.
        The move from there is judged, too, and the stricter of the two verdicts holds.
    """
    before = {release.name: release for release in from_plan.desired_state.releases} if from_plan else {}
    found = {} if from_is_whole else installed or {}
    steps = _assessed(before, to_plan)
    if found:
        steps = _stricter(steps, _assessed({**before, **found}, to_plan))
    if not from_is_whole:
        steps = tuple(map(_from_nowhere, steps))
    names = {release.name for release in to_plan.desired_state.releases}
    because = tuple(_because(from_plan, to_plan, steps, always_ask, from_is_whole))
    return Report(
        from_plan=from_plan.desired_state_digest if from_plan else None,
        to_plan=to_plan.desired_state_digest,
        validation=to_plan.desired_state.validation,
        steps=steps,
        removed=tuple(name for name in {**before, **found} if name not in names),
        approval_needed=bool(because),
        approval_because=because,
    )


def _assessed(before: Mapping[str, PlannedRelease], to_plan: Plan) -> tuple[Step, ...]:
    """The steps from one state of the releases."""
    changed = {
        release.component
        for release in to_plan.desired_state.releases
        if release.name not in before or _action(before[release.name], release) is not Action.Unchanged
    }
    steps = tuple(
        _step(index, before.get(release.name), release, changed)
        for index, release in enumerate(to_plan.desired_state.releases, 1)
    )
    return judged(steps, before, to_plan)


def _stricter(planned: tuple[Step, ...], seen: tuple[Step, ...]) -> tuple[Step, ...]:
    """Component by component the steps with the stricter verdict: its guidance stands at one of them."""

    def strictness(steps: tuple[Step, ...], component: str) -> int:
        return max(_STRICTNESS.get(step.verdict, 0) for step in steps if step.component == component)

    return tuple(
        one if strictness(planned, one.component) > strictness(seen, one.component) else other
        for one, other in zip(planned, seen, strict=True)
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


def check_blocked(report: Report) -> None:
    """An approval does not change what a record forbids.

    Raises
    ------
    PipelineError
        ``TransitionBlocked`` naming each component that cannot move so far at once, why, and where to stop.
    """
    blocked = [step for step in report.steps if step.verdict is Verdict.blocked and not step.with_release]
    if blocked:
        raise PipelineError(
            Reason.TransitionBlocked,
            "; ".join(map(_blocked, blocked)) + ". An approval does not change that.",
        )


def verdict_words(reason: str) -> str:
    """A verdict's reason, for a person."""
    return _WORDS.get(reason, reason)


def _blocked(step: Step) -> str:
    words = f"{step.release} must not go from {step.from_version} to {step.to_version} in one step: "
    words += verdict_words(step.verdict_reason or "")
    if step.guidance and step.guidance.steps:
        words += ". Its record says what to do instead: " + ", ".join(
            # A sentence stands on one line, however many the record has for it.
            f"{number}. {' '.join(instruction.description.split()).rstrip('.')}"
            for number, instruction in enumerate(step.guidance.steps, 1)
        )
    elif step.stop_at:
        words += f". Go to {step.stop_at} first"
    else:
        words += ". Nothing recorded leads there; let somebody write the record"
    return words


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


def _from_nowhere(step: Step) -> Step:
    """Between two plans no record vouches for the start; what one forbids or asks for still holds."""
    if step.action is Action.Unchanged:
        return step.model_copy(update={"action": Action.Reconfigure, **_UNDEFINED_ORIGIN})
    return step.model_copy(update=_UNDEFINED_ORIGIN) if step.verdict is Verdict.safe else step


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
    """Before the records are looked at: nothing is known to be safe, however small the jump."""
    if before is None or action is Action.Unchanged:
        return None, None
    if action is Action.Move:
        return Verdict.unknown, "identity-changed"
    found = judge(None, before.chart.version, after.chart.version)
    return found.verdict, found.reason


def _because(
    from_plan: Plan | None, to_plan: Plan, steps: Iterable[Step], always_ask: bool, from_is_whole: bool
) -> Iterable[str]:
    if not from_is_whole:
        yield "an earlier rollout ended half-way, or somebody changed the cluster: it may not be as planned"
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
