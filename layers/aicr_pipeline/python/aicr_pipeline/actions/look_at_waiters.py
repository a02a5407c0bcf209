"""What the sweeper sees when it looks at one waiter: an answer for its token, or nothing yet.

A wake-up carries no truth, so everything is read again here; the judgement is ``decide``'s.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.actions.look_at_application import look_at_application, take_back
from aicr_pipeline.actions.look_at_hold import look_at_hold
from aicr_pipeline.actions.look_at_validators import note_validators, validators_end
from aicr_pipeline.actions.validation_record import keep_attempt
from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import Cluster, Json
from aicr_pipeline.adapters.coordination import Coordination, Waiter
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import (
    is_over,
    load_request,
    load_rollout,
    refuse_over,
    refuse_revoked,
    standing_decision,
)
from aicr_pipeline.adapters.runtimes import standing_wish
from aicr_pipeline.clock import Clock, parse_time
from aicr_pipeline.decide.approval import check_decision
from aicr_pipeline.decide.gate import check_wish
from aicr_pipeline.decide.job_state import (
    JobState,
    JobToTryAgainError,
    blame_overrides,
    is_late,
    job_state,
    tries_again,
)
from aicr_pipeline.decide.readiness import Graces
from aicr_pipeline.decide.redact import redact
from aicr_pipeline.decide.snapshot import check_criteria, confirm_criteria, read_snapshot
from aicr_pipeline.decide.validation import judge, read_report
from aicr_pipeline.decide.versions import check_recorded
from aicr_pipeline.errors import MOST_CHARACTERS, PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import Criteria

Answer = dict[str, Any]


@dataclass(frozen=True)
class World:
    """What a look may read. The cluster is asked for only when something in it is waited for."""

    ledger: Ledger
    coordination: Coordination
    cluster: Callable[[], Cluster]
    argocd: Callable[[], ArgoCd]
    clock: Clock
    inbox: Callable[[], Inbox]
    config: Callable[[], ClusterConfig]
    graces: Graces = Graces()  # noqa: RUF009 - frozen


def look(waiter: Waiter, world: World) -> Answer | None:
    """The answer for a waiter's token, or None while there is none.

    Returns
    -------
    dict or None
        ``{"output": {...}}`` for success. ``{"error": reason, "cause": sentence}`` for a release: it
        fails the item of the Map, which is caught by the reason's name. Elsewhere a domain end is an
        output ``{"outcome": {...}}`` for the Choice that follows.

    Raises
    ------
    PipelineError
        What ends the wait; ``RolloutSuperseded`` for what a rollout left that stalled and gave way.
    """
    rollout = waiter.wanted.get("rollout")
    if rollout is not None and is_over(world.ledger, str(rollout)):
        if waiter.kind == "application":
            take_back(waiter, world.argocd())
        refuse_over(world.ledger, str(rollout))
    return _LOOKS[waiter.kind](waiter, world)


def _application(waiter: Waiter, world: World) -> Answer | None:
    wanted, now = waiter.wanted, world.clock()
    found = look_at_application(waiter, world.argocd(), now, world.graces)
    if found.state == "failed":
        return _failed(found.reason, f"{wanted['step']}: {found.message}")
    if found.state == "waiting":
        return overdue(waiter, now, found.message)
    return {"output": {"release": wanted["release"], "revision": wanted["digest"]}}


def _approval(waiter: Waiter, world: World) -> Answer | None:
    wanted, rollout = waiter.wanted, str(waiter.wanted["rollout"])
    refuse_revoked(world.ledger, rollout)
    decision = standing_decision(world.ledger, load_rollout(world.ledger, rollout))
    if decision is not None:
        request = load_request(world.ledger, rollout)
        check_decision(decision, request, str(wanted["digest"]), world.clock())
        return {"output": {"decision": decision.decision, "by": list(decision.by)}}
    check_wish(standing_wish(world.inbox()))
    target = world.coordination.fact(TARGET)
    if target is not None and target["plan"] != wanted["toPlan"]:
        raise PipelineError(
            Reason.RolloutSuperseded,
            f"Plan {target['plan']} is wanted by now, before this rollout was approved.",
        )
    return overdue(waiter, world.clock(), "nobody answered")


def _hold(waiter: Waiter, world: World) -> Answer | None:
    """Nothing but "go and look again": the gate reads everything itself."""
    wanted, now = waiter.wanted, world.clock()
    found = look_at_hold(
        wanted, world.ledger, world.inbox(), world.coordination, world.argocd, world.config(), now
    )
    if found is not None:
        return overdue(waiter, now, found.message)
    return {"output": {"release": wanted["release"], "lifted": wanted["reason"]}}


def _job(waiter: Waiter, world: World) -> Answer | None:
    wanted, cluster = waiter.wanted, world.cluster()
    namespace, name = str(wanted["namespace"]), str(wanted["job"])
    if wanted.get("recorded"):
        return _PURPOSES[str(wanted["purpose"])](JobState("complete"), wanted, world, _record(wanted, world))
    job = jobs.job(cluster, namespace, name)
    record = _record(wanted, world) if job is None else None
    state = JobState("complete") if record is not None else _state(job, namespace, world)
    if state.state == "running":
        if wanted["purpose"] == "validate" and job is not None:
            note_validators(wanted, job, cluster, world.ledger)
        return overdue(waiter, world.clock(), "it still runs")
    try:
        return _PURPOSES[str(wanted["purpose"])](state, wanted, world, record)
    except JobToTryAgainError as error:
        # The state machine's Retry matches this name: the state starts the Job of the next attempt.
        return {"error": type(error).__name__, "cause": error.message}


def _state(job: Json | None, namespace: str, world: World) -> JobState:
    """What a Job has come to; its events are read only when nothing started in time."""
    if job is None:
        return job_state(None, [], world.clock())
    cluster, name, now = world.cluster(), str(job["metadata"]["name"]), world.clock()
    pods = jobs.pods_of(cluster, namespace, name)
    events: list[Json] = []
    if is_late(job, pods, now):
        events = jobs.warnings(cluster, namespace, [name, *(pod["metadata"]["name"] for pod in pods)])
    return job_state(job, pods, now, events)


def _record(wanted: Mapping[str, Any], world: World) -> bytes | None:
    """What the ledger keeps of a Job that is gone."""
    return world.ledger.get(str(wanted["keep"])) if "keep" in wanted else None


def _snapshot(state: JobState, wanted: Mapping[str, Any], world: World, record: bytes | None) -> Answer:
    """The ConfigMap that AICR wrote goes to the ledger, and must agree with the wish."""
    _require_complete(state, wanted, world)
    text = record if record is not None else _collect(wanted, "snapshot.yaml", world)
    snapshot = read_snapshot(text)
    check_recorded("snapshot", snapshot.aicr_version, str(wanted["aicrVersion"]))
    check = confirm_criteria if wanted["purpose"] == "confirm" else check_criteria
    check(snapshot, Criteria.model_validate(wanted["criteria"]))
    world.ledger.put_same(str(wanted["keep"]), text, "application/yaml")
    kept_out = wanted.get("keptOut", 0)
    return {"output": {"digest": snapshot.digest, "nodes": snapshot.node_count, "keptOut": kept_out}}


def _render(state: JobState, wanted: Mapping[str, Any], world: World, _record: bytes | None) -> Answer:
    state = blame_overrides(state, str(wanted.get("overrides", "")))
    _require_complete(state, wanted, world)
    return {"output": {"tag": wanted["tag"]}}


def _validate(state: JobState, wanted: Mapping[str, Any], world: World, record: bytes | None) -> Answer:
    """The report decides. Exit 8 with a report is a failed validation, not AICR's fault.

    It is kept when it is the last: an attempt that is made again writes another.
    """
    found = jobs.config_map(world.cluster(), str(wanted["namespace"]), str(wanted["configMap"]))
    report = record if record is not None else _report(found)
    if report is None:
        _require_complete(state, wanted, world)
        raise PipelineError(Reason.AICRInternal, f"Job {wanted['job']} ended well, but wrote no report.")
    result, problem = judge(report)
    if problem is None:
        _require_complete(state, wanted, world)
        problem = _validators(wanted, world, report)
    # Before the report: one that is recorded has its attempt recorded, too.
    job = jobs.job(world.cluster(), str(wanted["namespace"]), str(wanted["job"])) if record is None else None
    repository = keep_attempt(wanted, job, report, world.ledger)
    world.ledger.put_same(str(wanted["keep"]), report)
    if problem is not None:
        raise PipelineError(Reason.RolloutFailed, problem)
    return {"output": {**result.wire(), "repository": repository}}


def _validators(wanted: Mapping[str, Any], world: World, report: bytes) -> str | None:
    """Before the report is kept: a validation that is recorded has its validators recorded, too."""
    cluster = world.cluster()
    job = jobs.job(cluster, str(wanted["namespace"]), str(wanted["job"]))
    problem = validators_end(wanted, job, cluster, world.ledger, read_report(report))
    return None if problem is None else f"deployment validation does not count: {problem}"


def _report(found: Mapping[str, str] | None) -> bytes | None:
    texts = [text for key, text in (found or {}).items() if key.endswith(".json") or '"reportFormat"' in text]
    return texts[0].encode() if texts else None


def _collect(wanted: Mapping[str, Any], key: str, world: World) -> bytes:
    found = jobs.config_map(world.cluster(), str(wanted["namespace"]), str(wanted["configMap"]))
    if found is None or key not in found:
        raise PipelineError(
            Reason.SnapshotIncomplete,
            f"Job {wanted['job']} ended well, but ConfigMap {wanted['configMap']} has no {key}.",
        )
    return found[key].encode()


def _require_complete(state: JobState, wanted: Mapping[str, Any], world: World) -> None:
    """Raise what a failed Job means: another attempt, or the end with the last words of its log."""
    if state.state == "complete":
        return
    tail = _last_words(state, wanted, world)
    message = state.message.rstrip(".") + (f". Its last words: {tail[-1500:]}" if tail else ".")
    if tries_again(state, PUSHING[str(wanted["purpose"])], _earlier(state, wanted, world)):
        raise JobToTryAgainError(state.reason or Reason.AICRInternal, message)
    raise PipelineError(state.reason or Reason.AICRInternal, message)


def _last_words(state: JobState, wanted: Mapping[str, Any], world: World) -> str:
    """The end of the log, without what looks like a secret; also kept in the ledger: a Job goes in a day."""
    if not state.pod or not state.container:
        return ""
    tail = redact(jobs.log_tail(world.cluster(), str(wanted["namespace"]), state.pod, state.container))
    if tail and "logs" in wanted:
        # The first look's words stay: a second one may find the log rotated.
        world.ledger.put_once(f"{wanted['logs']}/{wanted['job']}.log", tail.encode(), "text/plain")
    return tail


def _earlier(state: JobState, wanted: Mapping[str, Any], world: World) -> list[JobState]:
    """What became of the attempts before, as far as they are still there."""
    if state.exit_code is None and not state.lost:
        return []  # nothing that another attempt would be made for
    namespace = str(wanted["namespace"])
    found = jobs.earlier(world.cluster(), namespace, str(wanted["job"]))
    return [_state(job, namespace, world) for job in found]


def overdue(waiter: Waiter, now: datetime, words: str) -> Answer | None:
    """The answer for a waiter whose deadline has passed, with what was seen last; None before that."""
    if parse_time(waiter.deadline) > now:
        return None
    if waiter.kind in _STEPS:
        return _failed(Reason.RolloutExpired, f"{waiter.wanted['step']}, at the deadline: {words}")
    if waiter.kind == "approval":
        return _outcome(
            Reason.RolloutExpired, f"Nobody answered until {waiter.deadline}; start a fresh rollout."
        )
    job = waiter.wanted.get("job")
    return _outcome(Reason.AICRTimeout, f"Job {job} did not end until {waiter.deadline}: {words}.")


def _failed(reason: Reason, message: str) -> Answer:
    return {"error": str(reason), "cause": message[:MOST_CHARACTERS]}


def _outcome(reason: Reason, message: str) -> Answer:
    return {"output": {"outcome": {"reason": str(reason), "message": message[:MOST_CHARACTERS]}}}


def refused(waiter: Waiter, error: PipelineError) -> Answer:
    """The answer for a domain end that a look raised. A release's names its step first, as all do."""
    return (
        _failed(error.reason, f"{waiter.wanted['step']}: {error.message}")
        if waiter.kind in _STEPS
        else _outcome(error.reason, error.message)
    )


#: What a step of the Map waits for: its end fails the item, by the reason's name.
_STEPS = frozenset({"application", "hold"})
_LOOKS: Mapping[str, Callable[[Waiter, World], Answer | None]] = {
    "application": _application,
    "approval": _approval,
    "hold": _hold,
    "job": _job,
}
#: The containers whose end may be the registry's doing.
PUSHING: Mapping[str, frozenset[str]] = {
    "snapshot": frozenset(),
    "confirm": frozenset(),
    "render": frozenset({"bundle"}),
    "validate": frozenset({"aicr"}),
}
_PURPOSES: Mapping[str, Callable[[JobState, Mapping[str, Any], World, bytes | None], Answer]] = {
    "snapshot": _snapshot,
    "confirm": _snapshot,
    "render": _render,
    "validate": _validate,
}
