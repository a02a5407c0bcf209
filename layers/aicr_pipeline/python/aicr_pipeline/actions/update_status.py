"""The status of the cluster's runtime: looked at by the clock and when something happened."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from aicr_pipeline.actions.tell_approvers import tell_everybody
from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.order import newest_first
from aicr_pipeline.adapters.rollouts import (
    active_plan,
    load_acknowledgement,
    load_outcome,
    load_plan,
    load_report,
    load_rollout,
    standing_decision,
    told_key,
)
from aicr_pipeline.adapters.runtimes import standing_wish
from aicr_pipeline.adapters.statuses import keep_status, read_status
from aicr_pipeline.clock import Clock, parse_time, rfc3339
from aicr_pipeline.decide.aicr_job import VALIDATION_NAMESPACE
from aicr_pipeline.decide.application import is_ours
from aicr_pipeline.decide.gate import EngineSeen
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.decide.status import (
    ActiveSeen,
    EngineLook,
    ResolveSeen,
    Seen,
    changes,
    make_status,
    trouble,
)
from aicr_pipeline.decide.status_rollout import NEVER_STARTED, RolloutSeen
from aicr_pipeline.decide.status_told import Told, next_told, sent, words
from aicr_pipeline.decide.subscriptions import reachability
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.rollout import Outcome, Report, Rollout
from aicr_pipeline.model.runtime import Wish
from aicr_pipeline.model.status import Condition, ConditionType, Status

#: A start is tried three times, minutes apart; then its event is in the dead-letter queue.
STARTED_WITHIN = timedelta(minutes=10)
#: A run takes hours at most; where there is a schedule, one of these ended.
RECENT_RUNS = timedelta(days=2)
#: The fact that says what people know.
TOLD = "status-told"
STATUS_CHANGED = "Status Changed"
#: 1 while the Ready condition is True; 1 while people are told of a trouble.
READY, UNWELL = "Ready", "RuntimeUnwell"

ExecutionState = Callable[[str], Literal["absent", "running", "ended"]]


@dataclass(frozen=True)
class Sources:
    """What a status is made from. ``resolves`` and ``rollouts`` tell whether an execution runs."""

    config: ClusterConfig
    ledger: Ledger
    inbox: Inbox
    cluster: Cluster
    argocd: ArgoCd
    notifier: Notifier
    resolves: ExecutionState
    rollouts: ExecutionState


def update_status(
    sources: Sources,
    coordination: Coordination,
    bus: Bus,
    measure: Callable[[str, int], None],
    clock: Clock,
) -> dict[str, Any]:
    """Look at everything, keep the document, say what changed.

    Each condition that changed is an event at once; people are written to when what matters was seen twice.

    Returns
    -------
    dict
        ``ready``: the condition's status; ``reason``; ``changed``: types; ``told``: whether people were. Of a
        look that began later, when that one is kept already.
    """
    seen = see(sources, clock)
    before = read_status(coordination)
    if before is not None and parse_time(before.observed_at) > seen.now:
        return _said(before, [], told=False)  # somebody looked later, and was quicker
    status = make_status(seen, before)
    pairs = changes(before, status)
    # First: an event that comes twice harms nobody, one that never comes does.
    for was, now in pairs:
        bus.announce(STATUS_CHANGED, _change(was, now))
    kept = keep_status(coordination, status)
    if kept is not status:  # the same, but it took its place while this one was announced
        for was, now in changes(status, kept):
            bus.announce(STATUS_CHANGED, _change(was, now))
        return _said(kept, [], told=False)
    ready = status.condition(ConditionType.Ready)
    measure(READY, int(ready.status == "True"))
    measure(UNWELL, int(trouble(status) is not None))
    return _said(status, pairs, told=_tell(status, coordination, bus, sources.notifier, clock))


def _said(status: Status, pairs: Sequence[tuple[Condition, Condition]], *, told: bool) -> dict[str, Any]:
    ready = status.condition(ConditionType.Ready)
    return {
        "ready": ready.status,
        "reason": str(ready.reason) if ready.reason else None,
        "changed": [str(now.type) for _, now in pairs],
        "told": told,
    }


def see(sources: Sources, clock: Clock) -> Seen:
    """Everything a status is made from: ledger, inbox, cluster and topics, never the coordination table."""
    now = clock()  # what is seen is not older
    config, ledger, wish = sources.config, sources.ledger, standing_wish(sources.inbox)
    active = _active(ledger)
    rollout, damage = None, None
    try:
        rollout = _rollout(sources, now)
    except PipelineError as error:  # of all that is seen only this cannot be told
        damage = error
    return Seen(
        config=config,
        now=now,
        wish=wish,
        known=ledger.first_key("resolves/") is not None,
        resolve=_resolve(sources, wish, now),
        rollout=rollout,
        active=active,
        engine=_engine(sources.argocd, active),
        people=[
            reachability(approver, sources.notifier.subscriptions(approver.name))
            for approver in config.approvals.approvers
        ],
        damage=damage,
    )


def _tell(status: Status, coordination: Coordination, bus: Bus, notifier: Notifier, clock: Clock) -> bool:
    now, fact = clock(), coordination.fact(TOLD)
    before = Told.read(fact)
    after = next_told(before, status, now)
    if after == before or not coordination.change_fact(TOLD, fact, after.wire()):
        return False  # nothing new, or another look is at it
    if after.sending != rfc3339(now):
        return False
    tell_everybody(bus, notifier, *words(after, status), kind="status")
    coordination.change_fact(TOLD, after.wire(), sent(after).wire())
    return True


def _change(was: Condition, now: Condition) -> dict[str, Any]:
    return {
        "type": str(now.type),
        "status": now.status,
        "reason": str(now.reason) if now.reason else None,
        "message": now.message,
        "was": {"status": was.status, "reason": str(was.reason) if was.reason else None},
    }


def _engine(argocd: ArgoCd, active: ActiveSeen) -> EngineLook:
    """Argo CD, and the Applications that are ours or were: it may have thousands of others."""
    names = {release.name for release in active.plan.desired_state.releases} if active.plan else set()
    try:
        if not argocd.is_installed():
            return EngineLook(EngineSeen(False, None))
        seen = EngineSeen(True, argocd.project(), list(argocd.controllers()))
        found = {
            name: item
            for item in argocd.applications()
            if (name := str(item["metadata"]["name"])) in names or is_ours(item)
        }
    except PipelineError as error:
        return EngineLook(problem=error)
    return EngineLook(seen, found)


def _active(ledger: Ledger) -> ActiveSeen:
    try:
        active = active_plan(ledger)
    except PipelineError as error:
        return ActiveSeen(problem=error)
    try:
        plan = load_plan(ledger, active.digest) if active.digest else None
    except PipelineError as error:
        return ActiveSeen(active.digest, None, active.is_whole, active.outcome, error)
    return ActiveSeen(active.digest, plan, active.is_whole, active.outcome)


def _resolve(sources: Sources, wish: Wish, now: datetime) -> ResolveSeen | None:
    """How the newest run for the current runtime ended, or stopped without an end."""
    if wish.version is None:
        return None
    ledger, cluster = sources.ledger, sources.config.cluster.name
    for folder in _newest_runs(ledger, f"resolves/{execution_name(cluster, wish.version, 0)[:-1]}", now):
        ends = [
            (modified, key)
            for key, modified in ledger.keys(folder)
            if key.endswith("/told.json") or "/stalls/" in key
        ]
        if ends:
            return _resolve_seen(sources, max(ends)[1])
    return None


def _newest_runs(ledger: Ledger, runs: str, now: datetime) -> Iterator[str]:
    """Folders of the runs for one runtime, the newest first: after the first they are named by their time.

    A schedule makes thousands, so those before the last days are listed only when none of these ended.
    """
    recent = ledger.level(runs, after=f"{runs}{now - RECENT_RUNS:%Y%m%d}")
    yield from reversed(recent)
    yield from reversed([folder for folder in ledger.level(runs) if folder not in recent])


def _resolve_seen(sources: Sources, key: str) -> ResolveSeen | None:
    ledger, run = sources.ledger, key.split("/")[1]
    found = dict(ledger.get_json(key) or {})
    if key == told_key("resolves", run):
        event = found.pop("event", None)
        return ResolveSeen(run, str(event), found) if event else None
    return None if sources.resolves(run) == "running" else ResolveSeen(run, None, found)


def _rollout(sources: Sources, now: datetime) -> RolloutSeen | None:
    """The rollout that is on; else the newest that ended as something else than superseded."""
    for name in newest_first(sources.ledger):
        folder = f"rollouts/{name}/"
        documents = {key.removeprefix(folder): modified for key, modified in sources.ledger.keys(folder)}
        if "outcome.json" in documents:
            outcome = load_outcome(sources.ledger, name)
            if outcome is None or outcome.outcome is Outcome.Superseded:
                continue
        elif "rollout.json" not in documents:
            continue  # it has its place, and begins just now
        return _rollout_seen(name, documents, sources, now)
    return None


def _rollout_seen(name: str, documents: Mapping[str, str], sources: Sources, now: datetime) -> RolloutSeen:
    ledger = sources.ledger
    rollout, report = load_rollout(ledger, name), load_report(ledger, name)
    outcome = load_outcome(ledger, name)
    started, ready = _highest("steps/", documents), _highest("ready/", documents)
    seen = RolloutSeen(
        rollout=rollout,
        report=report,
        asked="request.json" in documents,
        decision=standing_decision(ledger, rollout),
        outcome=outcome,
        started=started,
        ready=ready,
        stall=None
        if outcome
        else _stall(name, documents, sources) or _unstarted(rollout, report, sources, now),
        validated="validation.json" in documents,
    )
    if outcome is not None or report is None:
        return seen
    following = seen.next_step
    if following is not None and following.must_be_acknowledged:
        record = load_acknowledgement(ledger, name, following.release)
        return replace(seen, acknowledgement=record)
    if following is None and ready == started and not seen.validated:
        return replace(seen, validation_run=_validation_run(name, sources.cluster))
    return seen


def _highest(folder: str, documents: Iterable[str]) -> int:
    numbers = [document[len(folder) : -len(".json")] for document in documents if document.startswith(folder)]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _stall(name: str, documents: Mapping[str, str], sources: Sources) -> dict[str, str] | None:
    """The newest record of an execution that stopped, unless it was redriven and runs."""
    stalls = sorted((modified, key) for key, modified in documents.items() if key.startswith("stalls/"))
    if not stalls or sources.rollouts(name) == "running":
        return None
    found = sources.ledger.get_json(f"rollouts/{name}/{stalls[-1][1]}") or {}
    return {key: str(value) for key, value in found.items() if value is not None}


def _unstarted(
    rollout: Rollout, report: Report | None, sources: Sources, now: datetime
) -> dict[str, str] | None:
    """As a stall, when nothing ever ran although every try to start it must be over."""
    if report is not None or now - parse_time(rollout.created_at) < STARTED_WITHIN:
        return None
    return {"status": NEVER_STARTED} if sources.rollouts(rollout.name) == "absent" else None


def _validation_run(rollout: str, cluster: Cluster) -> str | None:
    """The Job of the newest attempt, as the cluster has it."""
    try:
        return jobs.newest_of(cluster, VALIDATION_NAMESPACE, rollout, "validate")
    except PipelineError:
        return None
