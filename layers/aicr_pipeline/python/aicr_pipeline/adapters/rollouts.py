"""Rollouts as the ledger holds them: which is over, which plan is active, what was decided."""

import json
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.adapters.ledger import Ledger, LedgerReader
from aicr_pipeline.adapters.order import newest_first
from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.approval import check_revocation, is_covered
from aicr_pipeline.decide.ending import outcome_of, progress_of, what_to_do
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.decide.plan import read_plan
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import DocumentT, parse
from aicr_pipeline.model.plan import Plan, plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import (
    Acknowledgement,
    ApprovalRequest,
    Decision,
    Deployed,
    Outcome,
    Report,
    Revocation,
    Rollout,
    RolloutOutcome,
    StepHeld,
    StepStarted,
    rollout_key,
)


def cause_key(run: str) -> str:
    """Ledger key that says which rollout a resolve caused."""
    return f"resolves/{run}/rollout.json"


def load_plan(ledger: LedgerReader, digest: str) -> Plan:
    """A plan by digest, its content checked.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when it is missing or changed.
    """
    text = ledger.get(plan_key(digest))
    if text is None:
        raise PipelineError(
            Reason.PlanUnreadable,
            f"Plan {digest} is not in the ledger. Restore the object's version, or submit the runtime that "
            "it was made of: the same wish writes it again.",
        )
    return read_plan(text, digest)


def load_rollout(ledger: LedgerReader, name: str) -> Rollout:
    """Raises PipelineError ``PlanUnreadable`` when the rollout is not in the ledger."""
    found = _load(ledger, name, "rollout", Rollout)
    if found is None:
        raise PipelineError(Reason.PlanUnreadable, f"Rollout {name} is not in the ledger.")
    return found


def load_report(ledger: LedgerReader, name: str) -> Report | None:
    """The report of a rollout, once it was assessed."""
    return _load(ledger, name, "report", Report)


def load_request(ledger: LedgerReader, name: str) -> ApprovalRequest | None:
    """What people were asked, once they were."""
    return _load(ledger, name, "request", ApprovalRequest)


def load_decision(ledger: LedgerReader, name: str) -> Decision | None:
    """The decision, once there is one."""
    return _load(ledger, name, "decision", Decision)


def load_revocation(ledger: LedgerReader, name: str) -> Revocation | None:
    """Who stopped the rollout, once somebody did."""
    return _load(ledger, name, "revocation", Revocation)


def standing_decision(ledger: LedgerReader, rollout: Rollout) -> Decision | None:
    """The decision on a rollout: its own, or the one it inherits from an earlier rollout to the same plan.

    What is inherited is an approval that nobody took back, of exactly what this rollout asks: from, to,
    report and absolute deadline. Its own decision, a rejection say, outranks it.
    """
    own = load_decision(ledger, rollout.name) or load_bypass(ledger, rollout.name)
    if own is not None or rollout.inherits is None or load_revocation(ledger, rollout.inherits) is not None:
        return own
    request, earlier = load_request(ledger, rollout.name), load_decision(ledger, rollout.inherits)
    return earlier if request and earlier and is_covered(earlier, request) else None


def load_bypass(ledger: LedgerReader, name: str) -> Decision | None:
    """What stands in place of a decision where a development cluster bypassed the approval."""
    return _load(ledger, name, "bypass", Decision)


def load_acknowledgement(ledger: LedgerReader, name: str, release: str) -> Acknowledgement | None:
    """What somebody said before a ``manual`` step, once somebody did."""
    return _load(ledger, name, f"acknowledgements/{release}", Acknowledgement)


def load_hold(ledger: LedgerReader, name: str, started: int) -> StepHeld | None:
    """Why the rollout waits for a person: the last hold of a step after ``started``, the last that began."""
    keys = sorted(key for key, _ in ledger.keys(f"rollouts/{name}/holds/"))
    held = (_load(ledger, name, f"holds/{key.rpartition('/')[2][:-5]}", StepHeld) for key in keys)
    standing = [hold for hold in held if hold is not None and hold.index > started]
    return max(standing, key=lambda hold: parse_time(hold.at), default=None)


def last_step(ledger: LedgerReader, name: str) -> StepStarted | None:
    """The last step that the gate let through, if any."""
    keys = sorted(key for key, _ in ledger.keys(f"rollouts/{name}/steps/"))
    return _load(ledger, name, f"steps/{keys[-1].rpartition('/')[2][:-5]}", StepStarted) if keys else None


def load_deployed(ledger: LedgerReader, name: str) -> Deployed | None:
    """What was deployed when the rollout began; None for rollouts of earlier versions."""
    return _load(ledger, name, "deployed", Deployed)


def load_step(ledger: LedgerReader, name: str, index: int) -> StepStarted | None:
    """That the gate let a step through."""
    return _load(ledger, name, f"steps/{index:04}", StepStarted)


def load_outcome(ledger: LedgerReader, name: str) -> RolloutOutcome | None:
    """The outcome, once it is over."""
    return _load(ledger, name, "outcome", RolloutOutcome)


def end_of(
    ledger: LedgerReader,
    name: str,
    reason: Reason,
    message: str,
    now: str,
    done: int = 0,
    evidence: str | None = None,
) -> RolloutOutcome:
    """The outcome of a rollout, as it is to be written: what is installed is what its steps' records say.

    Parameters
    ----------
    done:
        So many first steps became ready by the state machine's account.
    """
    report, outcome = load_report(ledger, name), outcome_of(reason)
    steps = report.steps if report else ()
    progress = progress_of(steps, _indices(ledger, name, "steps"), _indices(ledger, name, "ready"), done)
    return RolloutOutcome(
        rollout=name,
        outcome=outcome,
        reason=reason,
        message=message[:4000],
        finished_at=now,
        installed=progress.installed,
        not_installed=progress.not_installed,
        unfinished=progress.unfinished,
        what_to_do=what_to_do(outcome, reason),
        evidence=evidence,
    )


def _indices(ledger: LedgerReader, name: str, folder: str) -> set[int]:
    """Of the steps that have a record in a folder of their rollout."""
    return {int(key.rpartition("/")[2][:-5]) for key, _ in ledger.keys(f"rollouts/{name}/{folder}/")}


def told_key(folder: str, name: str) -> str:
    """The mark that people were told of an end; ``folder`` is ``rollouts`` or ``resolves``."""
    return f"{folder}/{name}/told.json"


def is_over(ledger: Ledger, name: str) -> bool:
    """Whether the rollout has its outcome."""
    return ledger.get(rollout_key(name, "outcome")) is not None


def refuse_revoked(ledger: Ledger, name: str) -> None:
    """A rollout that somebody stopped goes no further.

    Raises
    ------
    PipelineError
        ``RolloutRevoked`` with who, when and why.
    """
    check_revocation(load_revocation(ledger, name))


@dataclass(frozen=True)
class ActivePlan:
    """The plan of the newest rollout that succeeded; None before the first.

    ``is_whole`` is False when a later rollout may have written releases and then ended badly: what
    runs is then between two plans. So it is when one ended because the cluster was not what the plan has.
    """

    digest: str | None
    is_whole: bool
    #: Of that rollout.
    outcome: RolloutOutcome | None = None


def refuse_over(ledger: Ledger, name: str) -> None:
    """A rollout that is over does nothing more, also when somebody redrives its execution.

    Raises
    ------
    PipelineError
        ``RolloutSuperseded`` with how it ended.
    """
    outcome = load_outcome(ledger, name)
    if outcome is not None:
        raise PipelineError(Reason.RolloutSuperseded, f"Rollout {name} is over: {outcome.message}")


def active_plan(ledger: LedgerReader) -> ActivePlan:
    """Read the outcomes, newest first, back to the last success: no older one is asked for.

    Rollouts end in the order in which they begin, and only the newest may not be over.
    """
    is_whole = True
    for name in newest_first(ledger):
        outcome = load_outcome(ledger, name)
        if outcome is None:
            continue
        if outcome.outcome is Outcome.Succeeded:
            return ActivePlan(load_rollout(ledger, outcome.rollout).to_plan, is_whole, outcome)
        is_whole = is_whole and outcome.reason not in _DRIFTED and not _may_have_written(ledger, outcome)
    return ActivePlan(None, is_whole)


#: Ends that say so: without this a fresh rollout would start from the same, and end the same.
_DRIFTED = (Reason.InventoryDrift, Reason.MovedReleaseMissing)


def _may_have_written(ledger: LedgerReader, outcome: RolloutOutcome) -> bool:
    """Whether the gate let any step through: its record is written before the release is."""
    return ledger.first_key(f"rollouts/{outcome.rollout}/steps/") is not None


def next_number(ledger: Ledger, cluster: str, plan: str) -> int:
    """The number of a fresh rollout to a plan: one more than those that are over.

    A number is used once the one below is over, so the last of them is found by halves.
    """
    over, other = 0, 1
    while is_over(ledger, execution_name(cluster, plan, other)):
        over, other = other, 2 * other
    while other - over > 1:
        middle = (over + other) // 2
        if is_over(ledger, execution_name(cluster, plan, middle)):
            over = middle
        else:
            other = middle
    return other


def _load(ledger: LedgerReader, name: str, document: str, model: type[DocumentT]) -> DocumentT | None:
    key = rollout_key(name, document)
    text = ledger.get(key)
    if text is None:
        return None
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise PipelineError(Reason.PlanUnreadable, f"Ledger key {key} is not JSON.") from None
    return parse(model, data, Reason.PlanUnreadable, key)
