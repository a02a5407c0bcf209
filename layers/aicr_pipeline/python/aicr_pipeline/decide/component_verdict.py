"""Upgrade records speak of components; a rollout goes by releases. What a record says, release by release."""

from collections.abc import Iterable, Iterator, Mapping

from aicr_pipeline.decide.upgrade_verdict import Judged, judge
from aicr_pipeline.model.plan import Plan, PlannedRelease
from aicr_pipeline.model.rollout import Action, Step, Verdict
from aicr_pipeline.model.upgrades import ComponentRecord

#: What a record has authority to say of a component's other releases; the rest is about versions it knows.
_AUTHORED = (Verdict.safe, Verdict.manual, Verdict.blocked)
_NO_BOUNDARY: dict[str, object] = {"verdict_reason": "no-boundary-crossed"}


def judged(steps: Iterable[Step], before: Mapping[str, PlannedRelease], to_plan: Plan) -> tuple[Step, ...]:
    """The steps with the verdicts of the records that the to-plan carries.

    A component's version is that of the release that bears its name. Its other releases (``-pre``, ``-post``,
    ``-readiness``) are versioned by AICR and go with it: they share its verdict. The guidance stands at the
    first release of the component that changes, since the work it asks for comes before all of them.
    """
    return tuple(_judged(steps, before, to_plan))


def _judged(steps: Iterable[Step], before: Mapping[str, PlannedRelease], to_plan: Plan) -> Iterator[Step]:
    records = {record.component: record for record in to_plan.upgrades or ()}
    moves = {name: _move(record, before.get(name), to_plan.release(name)) for name, record in records.items()}
    first: dict[str, str] = {}
    for step in steps:
        record = records.get(step.component)
        if record is None or step.action is Action.Unchanged:
            yield step
            continue
        found = _of_step(step, moves[step.component], to_plan)
        update: dict[str, object] = _NO_BOUNDARY if step.verdict_reason == "no-record" else {}
        if found is not None:
            told = first.setdefault(step.component, step.release)
            update = {"verdict": found.verdict, "verdict_reason": found.reason, "stop_at": found.stop_at}
            if found.verdict in _AUTHORED:
                other = told != step.release
                update |= {"with_release": told} if other else {"guidance": found.guidance}
        yield step.model_copy(update=update)


def _of_step(step: Step, move: Judged | None, to_plan: Plan) -> Judged | None:
    """What the record says of one release that is changed; None where it says nothing of it."""
    own = step.release == step.component
    if move is None:
        release = to_plan.release(step.release)
        is_wrapper = release is not None and release.kind == "wrapper"
        # The version of a chart that AICR generates is AICR's, and records are not about that.
        comparable = not own or not is_wrapper or step.action in (Action.Install, Action.Move)
        return None if comparable else Judged(Verdict.unversioned, "not-comparable")
    if step.action is Action.Move and move.verdict not in (Verdict.manual, Verdict.blocked):
        return None  # no record assesses a relocation
    return move if own or move.verdict in _AUTHORED else None


def _move(
    record: ComponentRecord, before: PlannedRelease | None, after: PlannedRelease | None
) -> Judged | None:
    """The verdict on the component's own chart; None when it is not installed, or no chart with versions."""
    if before is None or after is None:
        return None
    if (before.kind, before.chart.name) != (after.kind, after.chart.name) or after.kind != "chart":
        return None
    return judge(record, before.chart.version, after.chart.version)
