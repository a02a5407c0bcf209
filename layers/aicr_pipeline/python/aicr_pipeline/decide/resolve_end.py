"""How a resolve ended, what is put on the bus about it, and what people are written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aicr_pipeline.decide.ending import RESULTS, ended_with
from aicr_pipeline.model.reasons import Reason

Trigger = Literal["submission", "schedule", "hand"]

PLAN_READY = "Plan Ready"
PLAN_UNCHANGED = "Plan Unchanged"
PLAN_PAUSED = "Plan Paused"
RESOLVE_SUPERSEDED = "Resolve Superseded"
RESOLVE_STALLED = "Resolve Stalled"

_CAME_BY: Mapping[str, str] = {
    "submission": "after a submission",
    "schedule": "by its schedule",
    "hand": "because somebody asked",
}


@dataclass(frozen=True)
class ResolveEnd:
    """``event`` is the detail type; ``detail`` is what the event carries beside the cluster."""

    event: str
    detail: Mapping[str, Any]

    @property
    def reason(self) -> Reason | None:
        """Why it stalled; None for every other end."""
        return Reason(self.detail["reason"]) if self.event == RESOLVE_STALLED else None


def trigger_of(state: Mapping[str, Any]) -> str:
    """What started a run; runs of older definitions were all submitted."""
    return str(state.get("trigger", "submission"))


def resolve_end(state: Mapping[str, Any], current_version: str | None) -> ResolveEnd:
    """How the run ended, by what its states left.

    A run that failed while a newer runtime was current ended as superseded: nobody has to mend it.

    Raises
    ------
    RuntimeError
        When no state says how it ended: no end of the domain, so the execution stops there and people hear
        of it, where one would pass for a resolve that went well.
    """
    base = {
        "run": str(state["run"]),
        "runtimeVersion": str(state["runtimeVersion"]),
        "trigger": trigger_of(state),
    }
    ended = ended_with(state, RESULTS)
    if ended is not None:
        reason, message = ended
        if reason is Reason.ResolveSuperseded or current_version != base["runtimeVersion"]:
            return ResolveEnd(RESOLVE_SUPERSEDED, base | {"currentVersion": current_version})
        return ResolveEnd(RESOLVE_STALLED, base | {"reason": str(reason), "message": message})
    announcement = state.get("announcement")
    if not isinstance(announcement, Mapping):
        raise RuntimeError("Record resolve was reached, but no state says how it ended.")
    plan = {"plan": str(state["plan"]["digest"]), "releases": int(state["plan"]["releases"])}
    return ResolveEnd(str(announcement["event"]), base | plan)


def is_worth_a_message(end: ResolveEnd, state: Mapping[str, Any]) -> bool:
    """Whether people are written to at all.

    A run that gave way says nothing, the newer one will. Nobody asked for a scheduled run, so it only
    speaks when it has news.
    """
    if end.event == RESOLVE_SUPERSEDED:
        return False
    if trigger_of(state) != "schedule" or end.event in (PLAN_READY, RESOLVE_STALLED):
        return True
    return end.event == PLAN_PAUSED and bool(state["plan"]["isNew"])


def words(end: ResolveEnd, cluster: str) -> tuple[str, str]:
    """Subject and text of the message."""
    detail = end.detail
    came = f"Run: {detail['run']}, {_CAME_BY[detail['trigger']]}."
    if end.reason is not None:
        return (
            f"[aicr {cluster}] Resolved=False: {end.reason}",
            f"The runtime of cluster {cluster} stalled with {end.reason}.\n\n{detail['message']}\n\n"
            f"{came}\nWhat to do: docs/runbook.md, {end.reason}. The last good plan stays active.\n",
        )
    short = detail["plan"].removeprefix("sha256:")[:8]
    made = f"Cluster {cluster} resolved to plan {detail['plan']} with {detail['releases']} releases."
    head, then = _ENDS[end.event]
    return f"[aicr {cluster}] {head}: {short}", f"{made}\n{came}\n{then}\n"


_ENDS: Mapping[str, tuple[str, str]] = {
    PLAN_READY: (
        "plan ready",
        "Its rollout starts now, or when the active one ends. You are asked where that is needed.",
    ),
    PLAN_UNCHANGED: ("nothing to roll out", "That plan was announced before. Nothing is rolled out."),
    PLAN_PAUSED: (
        "plan paused",
        "spec.paused is true, so nothing is rolled out. Submit the runtime without it to go on.",
    ),
}
