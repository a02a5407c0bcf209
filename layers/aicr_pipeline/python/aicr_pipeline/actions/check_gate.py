"""State "Check gate", before every step: may this step run now?"""

import json
from typing import Any

from aicr_pipeline.actions.gate_records import gate_records, waits_for_acknowledgement
from aicr_pipeline.actions.want_credentials import want_credentials
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import load_outcome, load_plan, load_rollout
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.application import new_application
from aicr_pipeline.decide.ending import step_words
from aicr_pipeline.decide.gate import (
    EngineSeen,
    Hold,
    check_engine,
    check_over,
    check_records,
    check_release,
    pause,
    planned,
    window,
)
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.plan import PlannedRelease
from aicr_pipeline.model.rollout import Rollout, Step, StepStarted, step_key
from aicr_pipeline.model.step import StepEvent


def check_gate(
    step: StepEvent,
    config: ClusterConfig,
    ledger: Ledger,
    inbox: Inbox,
    argocd: ArgoCd,
    coordination: Coordination,
    bus: Bus,
    clock: Clock,
    deployed: str,
) -> dict[str, Any]:
    """Read everything itself: what a state said before is not trusted. The rules are ``decide.gate``'s.

    ``deployed`` is the digest of what is deployed, which the step's record keeps.

    Returns
    -------
    dict
        ``{"open": True}``; or ``open`` False with ``hold`` (``reason`` and ``message``), which the state
        "Hold step" waits on until a person lifts it.

    Raises
    ------
    PipelineError
        With the reason of the first thing that forbids the step.
    """
    name, now, item = str(step.input["rollout"]), clock(), dict(step.item or {})
    # First: of a rollout that is over, the other records need not be sound.
    check_over(load_outcome(ledger, name))
    rollout = load_rollout(ledger, name)
    records = gate_records(rollout, ledger, inbox, coordination)
    found = check_records(records, step.input, item, config.approvals.bypass, now)
    report = records.report
    assert report is not None  # check_records saw to it
    paused = pause(records.wish)
    if paused is not None:
        return _held(paused, item)
    to_plan = load_plan(ledger, rollout.to_plan)
    release = planned(to_plan, found)
    wanted = new_application(release, config, to_plan.desired_state_digest, "")
    engine = _engine(argocd)
    check_engine(config.engine, engine)
    application = argocd.application(found.release)
    check_release(found, release, _before(rollout, found, ledger), application, config)
    manual = waits_for_acknowledgement(found, report, rollout, ledger)
    if manual is not None:
        return _held(manual, item)
    # After the release itself: what ends the rollout need not wait for a window's end.
    frozen = window(config.engine, engine.project, wanted, now)
    if frozen is not None:
        return _held(frozen, item)
    want_credentials(step, release, config, coordination, bus, clock)
    started = StepStarted(
        rollout=name, index=found.index, release=found.release, at=rfc3339(now), pipeline=deployed
    )
    # A retry finds it written; the first time is when the step began.
    ledger.put_once(step_key(name, found.index), json.dumps(started.wire(), sort_keys=True).encode())
    return {"open": True}


def _engine(argocd: ArgoCd) -> EngineSeen:
    if not argocd.is_installed():
        return EngineSeen(False, None)
    return EngineSeen(True, argocd.project(), list(argocd.controllers()))


def _before(rollout: Rollout, step: Step, ledger: Ledger) -> PlannedRelease | None:
    """The release that the step starts from, where that is known."""
    if rollout.from_plan is None or not rollout.from_is_whole:
        return None
    return load_plan(ledger, rollout.from_plan).release(step.release)


def _held(hold: Hold, item: dict[str, Any]) -> dict[str, Any]:
    return {"open": False, "hold": {**hold.wire(), "message": f"{step_words(item)}: {hold.message}"}}
