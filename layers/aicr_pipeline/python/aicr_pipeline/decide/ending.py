"""How a rollout ended, from the data that its states left."""

import re
from collections.abc import Mapping
from typing import Any

from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Outcome

_STEP = re.compile(r"^step (\d+)/")

#: Result names in the order of the states.
RESULTS = ("prerequisites", "snapshot", "rendering", "bundle", "plan", "announcement")
ROLLOUT_RESULTS = ("assessment", "approval", "ended", "validation", "criteria", "evidence")

_OUTCOMES: Mapping[Reason, Outcome] = {
    Reason.RolloutExpired: Outcome.Expired,
    Reason.RolloutRevoked: Outcome.Revoked,
    Reason.RolloutRejected: Outcome.Rejected,
    Reason.RolloutSuperseded: Outcome.Superseded,
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


def outcome_of(reason: Reason) -> Outcome:
    """The outcome that a reason stands for; anything without a name of its own is ``Failed``."""
    return _OUTCOMES.get(reason, Outcome.Failed)
