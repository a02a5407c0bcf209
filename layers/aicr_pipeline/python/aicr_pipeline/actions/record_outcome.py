"""State "Record outcome": how the rollout ended, written once; then the lock goes and people are told."""

import json
from collections.abc import Mapping
from typing import Any

from aicr_pipeline.actions.tell_approvers import tell_everybody
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import end_of, load_bypass, load_outcome, load_report, told_key
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.approval_message import subject
from aicr_pipeline.decide.ending import ROLLOUT_RESULTS, ended_with, steps_done
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Outcome, RolloutOutcome, rollout_key
from aicr_pipeline.model.step import StepEvent

ROLLOUT_ENDED = "Rollout Ended"

#: At the end of a message, so that nobody takes our signature for AICR's.
UNSIGNED = "; AICR's own evidence is unsigned"
#: Between the lines of what somebody else wrote.
_QUOTED = "\n  | "


def record_outcome(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    coordination: Coordination,
    bus: Bus,
    notifier: Notifier,
    clock: Clock,
) -> dict[str, Any]:
    """Write the outcome, free the lock, announce the end, tell people.

    A second run finds the outcome written and repeats only what can be repeated.

    Returns
    -------
    dict
        ``outcome``, ``reason`` and ``message``.
    """
    name = str(step.input["rollout"])
    outcome = _outcome(step.input, name, ledger, rfc3339(clock()))
    key = rollout_key(name, "outcome")
    ledger.put_once(key, json.dumps(outcome.wire(), sort_keys=True).encode())
    outcome = load_outcome(ledger, name) or outcome
    coordination.drop_lock(name)
    bus.announce(
        ROLLOUT_ENDED,
        {
            "rollout": name,
            "toPlan": step.input["toPlan"],
            "outcome": str(outcome.outcome),
            "reason": str(outcome.reason),
        },
    )
    told = told_key("rollouts", name)
    if ledger.get(told) is None:
        bypassed = load_bypass(ledger, name) is not None
        heading = subject(config.cluster.name, f"rollout {name}: {outcome.outcome}")
        tell_everybody(bus, notifier, heading, _words(config, outcome, bypassed), rollout=name, kind="end")
        # Last: a run that dies before this tells again, rather than nobody.
        ledger.put_once(told, b"{}")
    return {"outcome": str(outcome.outcome), "reason": str(outcome.reason), "message": outcome.message}


def _outcome(state: Mapping[str, Any], name: str, ledger: Ledger, now: str) -> RolloutOutcome:
    report = load_report(ledger, name)
    releases = len(report.steps) if report else 0
    ended, done = ended_with(state, ROLLOUT_RESULTS), steps_done(state, releases)
    if ended is None:
        disabled = state["assessment"]["validation"] == "Disabled"
        reason = Reason.ValidationDisabled if disabled else Reason.RolledOut
        message = f"rollout {name}: {releases} releases are ready at their revisions"
        if state["evidence"].get("aicrSigned") is False:
            message += UNSIGNED
        return end_of(ledger, name, reason, message, now, releases, str(state["evidence"]["key"]))
    return end_of(ledger, name, *ended, now, done)


def _words(config: ClusterConfig, outcome: RolloutOutcome, bypassed: bool) -> str:
    lines = [f"Rollout {outcome.rollout} of cluster {config.cluster.name} ended: {outcome.outcome}.", ""]
    if bypassed:
        lines += ["Approval was bypassed: nobody was asked, and the evidence never qualifies.", ""]
    if outcome.outcome is Outcome.Succeeded:
        lines += [f"{len(outcome.installed)} releases are ready.", f"Evidence: ledger key {outcome.evidence}"]
        if outcome.message.endswith(UNSIGNED):
            lines.append("AICR's own evidence, which it names by digest, is unsigned.")
    else:
        not_reached = [name for name in outcome.not_installed if name not in outcome.unfinished]
        lines += [
            # A person's reason or a log may have lines; none of them may pass for one of ours.
            f"{outcome.reason}: {_QUOTED.join(outcome.message.splitlines())}",
            "",
            f"Ready: {', '.join(outcome.installed) or 'none'}",
            f"Begun, not seen ready: {', '.join(outcome.unfinished) or 'none'}",
            f"Not reached: {', '.join(not_reached) or 'none'}",
            "",
            f"Nothing is rolled back. What to do: {outcome.what_to_do}",
        ]
    return "\n".join(lines) + "\n"
