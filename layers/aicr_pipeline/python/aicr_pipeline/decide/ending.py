"""How a rollout ended, from the data that its states left."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.model.reasons import CAUGHT_BEFORE, GENERATION, Reason
from aicr_pipeline.model.rollout import Outcome, Step

_STEP = re.compile(r"^step (\d+)/")

#: Result names in the order of the states.
RESULTS = ("prerequisites", "snapshot", "rendering", "bundle", "plan", "announcement")
ROLLOUT_RESULTS = ("assessment", "approval", "ended", "validation", "criteria", "evidence")

_OUTCOMES: Mapping[Reason, Outcome] = {
    Reason.RolloutExpired: Outcome.Expired,
    Reason.RolloutRevoked: Outcome.Revoked,
    Reason.RolloutRejected: Outcome.Rejected,
    Reason.RolloutSuperseded: Outcome.Superseded,
    Reason.RolledOut: Outcome.Succeeded,
    Reason.ValidationDisabled: Outcome.Succeeded,
}

_CONTINUES = "a fresh rollout then continues from what is installed."
_WHAT_TO_DO: Mapping[Outcome, str] = {
    Outcome.Succeeded: "Nothing: the plan is the active one.",
    Outcome.Failed: "Mend what the message names (docs/runbook.md, {reason}) and submit the runtime again: "
    + _CONTINUES,
    Outcome.Expired: "Submit the runtime again: people are asked anew, and " + _CONTINUES,
    Outcome.Revoked: "Once the reason to stop is gone, submit the runtime again: people are asked anew, and "
    + _CONTINUES,
    Outcome.Rejected: "Change the runtime, or submit it again to ask anew. Nothing was written.",
    Outcome.Superseded: "Nothing: what is wanted by now has a rollout of its own, which continues from what "
    "is installed.",
}


def ended_with(state: Mapping[str, Any], results: tuple[str, ...]) -> tuple[Reason, str] | None:
    """Reason and message that a state left, or None when all went well.

    A state's result carries them as ``outcome``; an item of the Map as ``Error`` and ``Cause``.
    """
    for name in results:
        result = state.get(name)
        if not isinstance(result, Mapping):
            continue
        if "outcome" in result:
            return Reason(result["outcome"]["reason"]), str(result["outcome"]["message"])
        if "Error" in result:
            return Reason(result["Error"]), str(result.get("Cause", ""))
    return None


def step_words(item: Mapping[str, Any]) -> str:
    """A step as people know it: ``step 9/18 gpu-operator (Upgrade)``."""
    return f"step {item['index']}/{item['of']} {item['release']} ({item['action']})"


def steps_done(state: Mapping[str, Any], releases: int) -> int:
    """How many steps became ready: all once the Map ended well, else those before the one that ended it.

    The Map's error names its step first (``step_words``).
    """
    if "steps" in state:
        return releases
    match = _STEP.match(str((state.get("ended") or {}).get("Cause", "")))
    return int(match[1]) - 1 if match else 0


@dataclass(frozen=True)
class Progress:
    """What a rollout did to the releases of its report, each in the report's order.

    ``unfinished`` are those of ``not_installed`` that may have been written and were not seen ready.
    """

    installed: tuple[str, ...] = ()
    not_installed: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


def progress_of(
    steps: Sequence[Step], started: Collection[int], ready: Collection[int], done: int = 0
) -> Progress:
    """What is installed, from the records of the steps rather than from how the state machine ended.

    Parameters
    ----------
    started, ready:
        Indices that the gate let through, and that were seen ready.
    done:
        So many first steps became ready by the state's own account: all that there is of a rollout that
        began before the records were kept.
    """
    there = {step.index for step in steps if step.index <= done or step.index in ready}
    return Progress(
        installed=tuple(step.release for step in steps if step.index in there),
        not_installed=tuple(step.release for step in steps if step.index not in there),
        unfinished=tuple(s.release for s in steps if s.index in started and s.index not in there),
    )


def what_to_do(outcome: Outcome, reason: Reason) -> str:
    """One or two sentences for the person who is told of an end."""
    return _WHAT_TO_DO[outcome].format(reason=reason)


def outcome_of(reason: Reason) -> Outcome:
    """The outcome that a reason stands for; anything without a name of its own is ``Failed``."""
    return _OUTCOMES.get(reason, Outcome.Failed)


def caught(generation: int, reason: str, message: str) -> tuple[str, str]:
    """Reason and message of a step's end, as the execution's own definition can catch them.

    ``generation`` is the definition's. Uncaught, the end would pass for a stall of the infrastructure.
    """
    known = CAUGHT_BEFORE.get(Reason(reason)) if reason in Reason.__members__ else None
    if generation >= GENERATION or known is None:
        return reason, message
    step, separator, rest = message.partition(": ")
    return str(known), f"{step}: {reason}: {rest}" if separator else f"{reason}: {message}"
