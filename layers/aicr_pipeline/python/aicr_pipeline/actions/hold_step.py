"""State "Hold step": the gate let a step not through, and a person can change that. Say so, and wait."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from aicr_pipeline.actions.tell_approvers import Letters, Ways, letters, messages_key, record, tell
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import load_report
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock, parse_time, rfc3339
from aicr_pipeline.decide.approval_message import held, subject
from aicr_pipeline.decide.ending import step_words
from aicr_pipeline.decide.names import short_name
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import StepHeld, hold_key
from aicr_pipeline.model.step import StepEvent

#: So often the state is tried again when not one message was taken; the page and the status show the hold.
_MOST_RETRIES = 3


def hold_step(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    ways: Ways,
    waits: Waits,
    key: bytes,
    base_url: str,
    clock: Clock,
) -> dict[str, Any]:
    """Record the hold, register the wait until the rollout's deadline, and tell each approver once.

    A retry finds hold and message written and only gives the wait its newer token. A step that is held again
    for the same reason, after it was let go, is told again.

    Raises
    ------
    TransientError
        When not one message was taken, so that the state is tried again; a few times, then it waits.
    """
    rollout, deadline = str(step.input["rollout"]), str(step.input["deadline"])
    hold, item = step.input["gate"]["hold"], dict(step.item or {})
    mine = StepHeld(
        rollout=rollout,
        index=int(item["index"]),
        release=str(item["release"]),
        reason=Reason(hold["reason"]),
        message=str(hold["message"]),
        at=rfc3339(clock()),
    )
    _record(mine, step, ledger)
    wanted = {
        "rollout": rollout,
        "release": mine.release,
        "step": step_words(item),
        "item": item,
        "input": {name: step.input.get(name) for name in ("fromPlan", "toPlan", "deadline")},
        **hold,
    }
    waiting = waits.register(step, "hold", wanted, deadline)
    _tell(step, mine, item, config, ledger, ways, key, base_url, clock)
    return waiting


def _record(hold: StepHeld, step: StepEvent, ledger: Ledger) -> None:
    body = json.dumps(hold.wire(), sort_keys=True).encode()
    if ledger.put_once(hold_key(hold), body):
        return
    kept = StepHeld.model_validate_json(ledger.get(hold_key(hold)) or body)
    if parse_time(kept.at) < parse_time(step.entered_at):
        # It was let go and comes back: the newest record is why the step waits now.
        ledger.put_once(hold_key(hold, _entry(step)), body)


def _entry(step: StepEvent) -> str:
    """A retry has the time at which the state was entered; a hold that comes back has another."""
    return hashlib.sha256(f"{step.redrives}#{step.entered_at}".encode()).hexdigest()[:12]


def _tell(
    step: StepEvent,
    hold: StepHeld,
    item: Mapping[str, Any],
    config: ClusterConfig,
    ledger: Ledger,
    ways: Ways,
    key: bytes,
    base_url: str,
    clock: Clock,
) -> None:
    name = f"hold-{hold.index:04}-{hold.reason}-{_entry(step)}"
    if ledger.get(messages_key(hold.rollout, name)) is not None:
        return
    cluster, report = config.cluster.name, load_report(ledger, hold.rollout)
    steps = report.steps if report is not None else ()
    guidance = next((found.guidance for found in steps if found.index == hold.index), None)
    deadline = str(step.input["deadline"])

    def text(link: str) -> str:
        identity, development = config.approvals.identity, config.development
        return held(cluster, hold, step_words(item), guidance, deadline, link, identity, development)

    what = "is paused" if hold.reason is Reason.Paused else f"waits at {hold.release}"
    heading = subject(cluster, f"rollout {short_name(hold.rollout)} {what}")
    people = [one.name for one in config.approvals.approvers if one.name in ways.notifier.topics]
    made: Letters = letters(config, key, base_url, hold.rollout, text)
    deliveries = tell(ways, config, people, heading, made)
    missed = bool(deliveries) and all(delivery.error for delivery in deliveries)
    again = missed and step.retries < _MOST_RETRIES
    record(ways, ledger, hold.rollout, "hold", f"{name}-{step.retries}" if again else name, deliveries, clock)
    if again:
        raise TransientError(
            hold.reason,
            f"Not one message about the hold of rollout {hold.rollout} was taken: {deliveries[0].error}. It "
            "is tried again.",
        )
