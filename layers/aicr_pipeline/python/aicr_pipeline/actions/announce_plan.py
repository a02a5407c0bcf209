"""State "Announce plan": after the stabilization window, if the plan is still what is wanted."""

from typing import Any

from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import active_plan, cause_key
from aicr_pipeline.adapters.runtimes import read_runtime, require_current
from aicr_pipeline.adapters.statuses import is_drifted
from aicr_pipeline.decide.resolve_end import PLAN_PAUSED, PLAN_READY, PLAN_UNCHANGED, trigger_of
from aicr_pipeline.model.step import StepEvent

TARGET = "target"


def announce_plan(
    step: StepEvent, inbox: Inbox, ledger: Ledger, coordination: Coordination, bus: Bus
) -> dict[str, Any]:
    """Make the plan the target and say so on the bus, unless there is nothing new in it.

    A paused runtime is resolved but not rolled out.

    Returns
    -------
    dict
        ``announced``, ``event`` (how the resolve ends), and ``because`` when it is not announced.

    Raises
    ------
    PipelineError
        ``ResolveSuperseded`` when a newer runtime was submitted: its plan takes the place of this one.
    """
    version = str(step.input["runtimeVersion"])
    digest = str(step.input["plan"]["digest"])
    require_current(inbox, version)
    if read_runtime(inbox, version).spec.paused:
        return {"announced": False, "event": PLAN_PAUSED, "because": "spec.paused is true"}
    run = str(step.input["run"])
    because = _nothing_new(digest, run, trigger_of(step.input), ledger, coordination)
    if because is not None:
        return {"announced": False, "event": PLAN_UNCHANGED, "because": because}
    target = {"plan": digest, "runtimeVersion": version, "run": run}
    coordination.put_fact(TARGET, target)
    more = {"releases": step.input["plan"]["releases"], "trigger": trigger_of(step.input)}
    bus.announce(PLAN_READY, target | more)
    return {"announced": True, "event": PLAN_READY}


def _nothing_new(
    digest: str, run: str, trigger: str, ledger: Ledger, coordination: Coordination
) -> str | None:
    """Why the plan needs no announcement, if so.

    Submitting again is how people ask for a fresh rollout, so only the active plan is nothing new to
    them. A schedule asks for nothing: a plan whose rollout failed or was rejected would come back with
    every run of it.
    """
    target = coordination.fact(TARGET)
    if target is None or target["plan"] != digest or target["run"] == run:
        return None
    active = active_plan(ledger)
    if active.digest == digest and active.is_whole and not is_drifted(coordination):
        return "the plan is active already"
    if trigger == "schedule" and ledger.get(cause_key(str(target["run"]))) is not None:
        return "the plan had its rollout already"
    return None
