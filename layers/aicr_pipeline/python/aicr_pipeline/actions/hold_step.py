"""State "Hold step": the gate let a step not through, and a person can change that. Say so, and wait."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from aicr_pipeline.actions.tell_approvers import Message, Ways, letters, tell_or_try_again
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import load_report
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock, parse_time, rfc3339
from aicr_pipeline.decide.approval_message import held, held_subject
from aicr_pipeline.decide.ending import step_words
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import StepHeld, hold_key
from aicr_pipeline.model.step import StepEvent


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
    cluster, report = config.cluster.name, load_report(ledger, hold.rollout)
    steps = report.steps if report is not None else ()
    guidance = next((found.guidance for found in steps if found.index == hold.index), None)
    deadline = str(step.input["deadline"])

    def text(link: str) -> str:
        identity, development = config.approvals.identity, config.development
        return held(cluster, hold, step_words(item), guidance, deadline, link, identity, development)

    message = Message(
        rollout=hold.rollout,
        kind="hold",
        name=name,
        about=hold.reason,
        people=tuple(one.name for one in config.approvals.approvers if one.name in ways.notifier.topics),
        subject=held_subject(cluster, hold),
        letter=letters(config, key, base_url, hold.rollout, text),
    )
    tell_or_try_again(message, ways, config, ledger, step.retries, clock)
