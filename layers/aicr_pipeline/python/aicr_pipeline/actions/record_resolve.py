"""State "Record resolve": every resolve says on the bus how it ended, and people are told what matters."""

import json
from typing import Any

from aicr_pipeline.actions.tell_approvers import tell_everybody
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import told_key
from aicr_pipeline.decide.resolve_end import (
    PLAN_READY,
    ResolveEnd,
    is_worth_a_message,
    resolve_end,
    trigger_of,
    words,
)
from aicr_pipeline.errors import MOST_CHARACTERS
from aicr_pipeline.model.runtime import RUNTIME_KEY
from aicr_pipeline.model.step import StepEvent


def record_resolve(
    step: StepEvent, inbox: Inbox, ledger: Ledger, bus: Bus, notifier: Notifier
) -> dict[str, Any]:
    """Announce how the resolve ended; whatever it was, the last good plan stays what it is.

    Returns
    -------
    dict
        ``event``; for a resolve that stalled also ``reason`` and ``message``, which the Fail state after
        it carries.
    """
    run, cluster = str(step.input["run"]), str(step.input["cluster"])
    end = resolve_end(step.input, inbox.current_version(RUNTIME_KEY))
    if end.event != PLAN_READY:  # that one is put together with the target
        bus.announce(end.event, end.detail)
    told = told_key("resolves", run)
    if ledger.get(told) is None:
        marks = [told, *_today(step, end)]
        if is_worth_a_message(end, step.input) and all(ledger.get(mark) is None for mark in marks):
            tell_everybody(bus, notifier, *words(end, cluster), run=run, kind="resolve")
        # Last: a run that dies before this tells again, rather than nobody.
        for mark in reversed(marks[1:]):
            ledger.put_once(mark, b"{}")
        # With how it ended, from which the status can be told at any time.
        ledger.put_once(told, json.dumps({"event": end.event, **end.detail}, sort_keys=True).encode())
    found: dict[str, Any] = {"event": end.event}
    if end.reason is not None:
        found |= {"reason": str(end.reason), "message": str(end.detail["message"])[:MOST_CHARACTERS]}
    return found


def _today(step: StepEvent, end: ResolveEnd) -> list[str]:
    """A scheduled run that stalls for the same reason again and again writes one message a day."""
    if end.reason is None or trigger_of(step.input) != "schedule":
        return []
    return [told_key("resolves", f"stalled/{step.entered_at[:10]}/{end.reason}")]
