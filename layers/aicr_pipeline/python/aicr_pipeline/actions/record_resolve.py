"""State "Record resolve": a resolve that ended badly says why, and people are told."""

from typing import Any

from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import told_key
from aicr_pipeline.decide.ending import RESULTS, ended_with
from aicr_pipeline.errors import MOST_CHARACTERS, PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.step import StepEvent

STALLED = "Resolve Stalled"


def record_resolve(step: StepEvent, ledger: Ledger, bus: Bus, notifier: Notifier) -> dict[str, Any]:
    """Announce why the resolve stalled; the last good plan stays what it is.

    Returns
    -------
    dict
        ``reason`` and ``message``, which the Fail state after it carries.
    """
    ended = ended_with(step.input, RESULTS)
    if ended is None:
        raise PipelineError(Reason.Resolving, "Record resolve was reached, but no state says how it ended.")
    reason, message = ended
    run, cluster = str(step.input["run"]), str(step.input["cluster"])
    bus.announce(STALLED, {"run": run, "reason": str(reason), "message": message})
    told = told_key("resolves", run)
    if ledger.get(told) is None:
        notifier.send_all(
            f"[aicr {cluster}] Resolved=False: {reason}",
            f"The runtime of cluster {cluster} stalled with {reason}.\n\n{message}\n\n"
            f"Run: {run}\nWhat to do: docs/runbook.md, {reason}. The last good plan stays active.\n",
        )
        # Last: a run that dies before this tells again, rather than nobody.
        ledger.put_once(told, b"{}")
    return {"reason": str(reason), "message": message[:MOST_CHARACTERS]}
