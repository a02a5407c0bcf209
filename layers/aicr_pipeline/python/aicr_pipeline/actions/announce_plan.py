"""State "Announce plan": after the stabilization window, if the plan is still what is wanted."""

from typing import Any

from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox
from aicr_pipeline.adapters.runtimes import read_runtime
from aicr_pipeline.model.runtime import RUNTIME_KEY
from aicr_pipeline.model.step import StepEvent

PLAN_READY = "Plan Ready"
TARGET = "target"


def announce_plan(step: StepEvent, inbox: Inbox, coordination: Coordination, bus: Bus) -> dict[str, Any]:
    """Make the plan the target and say so on the bus.

    A runtime that was submitted since then replaces this plan with its own; a paused one is resolved
    but not rolled out.

    Returns
    -------
    dict
        ``announced``, and ``because`` when it is not.
    """
    version = str(step.input["runtimeVersion"])
    digest = str(step.input["plan"]["digest"])
    if inbox.current_version(RUNTIME_KEY) != version:
        return {"announced": False, "because": "a newer runtime was submitted"}
    if read_runtime(inbox, version).spec.paused:
        return {"announced": False, "because": "spec.paused is true"}
    run = str(step.input["run"])
    coordination.put_fact(TARGET, {"plan": digest, "runtimeVersion": version, "run": run})
    bus.announce(PLAN_READY, {"plan": digest, "runtimeVersion": version, "run": run})
    return {"announced": True}
