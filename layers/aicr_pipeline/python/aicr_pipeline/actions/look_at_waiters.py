"""What the sweeper sees when it looks at one waiter: an answer for its token, or nothing yet.

A wake-up carries no truth, so everything is read again here; the judgement is ``decide``'s.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.coordination import Coordination, Waiter
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import load_decision, load_request
from aicr_pipeline.clock import Clock, parse_time
from aicr_pipeline.decide.aicr_job import RETRIED_EXITS
from aicr_pipeline.decide.application import AUTOMATED
from aicr_pipeline.decide.approval import check_decision
from aicr_pipeline.decide.job_state import JobState, job_state
from aicr_pipeline.decide.readiness import readiness
from aicr_pipeline.decide.redact import redact
from aicr_pipeline.decide.snapshot import check_criteria, confirm_criteria, read_snapshot
from aicr_pipeline.decide.validation import judge
from aicr_pipeline.decide.versions import check_recorded
from aicr_pipeline.errors import PipelineError, TransientError
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


def look(waiter: Waiter, world: World) -> Answer | None:
    """The answer for a waiter's token, or None while there is none.

    Returns
    -------
    dict or None
        ``{"output": {...}}`` for success. ``{"error": reason, "cause": sentence}`` for a release: it
        fails the item of the Map, which is caught by the reason's name. Elsewhere a domain end is an
        output ``{"outcome": {...}}`` for the Choice that follows.
    """
    return _LOOKS[waiter.kind](waiter, world)


def _application(waiter: Waiter, world: World) -> Answer | None:
    wanted, argocd = waiter.wanted, world.argocd()
    release, step = str(wanted["release"]), str(wanted["step"])
    application = argocd.application(release)
    if application is None:
        return _failed(Reason.RolloutFailed, f"{step}: Application {release} is gone; somebody deleted it.")
    found = readiness(application, str(wanted["digest"]), wanted["requestId"])
    if found.state == "failed":
        return _failed(Reason.RolloutFailed, f"{step}: {found.message}")
    if found.state == "waiting":
        return overdue(waiter, world.clock(), found.message)
    if wanted["requestId"] is not None:
        argocd.restore_automated(release, AUTOMATED)
    status = application["status"]
    return {"output": {"release": release, "revision": status["sync"]["revision"]}}


def _approval(waiter: Waiter, world: World) -> Answer | None:
    wanted = waiter.wanted
    decision = load_decision(world.ledger, str(wanted["rollout"]))
    if decision is not None:
        request = load_request(world.ledger, str(wanted["rollout"]))
        check_decision(decision, request, str(wanted["digest"]), world.clock())
        return {"output": {"decision": decision.decision, "by": list(decision.by)}}
    target = world.coordination.fact(TARGET)
    if target is not None and target["plan"] != wanted["toPlan"]:
        raise PipelineError(
            Reason.RolloutSuperseded,
            f"Plan {target['plan']} is wanted by now, before this rollout was approved.",
        )
    return overdue(waiter, world.clock(), "nobody answered")


def _job(waiter: Waiter, world: World) -> Answer | None:
    wanted, cluster = waiter.wanted, world.cluster()
    namespace, name = str(wanted["namespace"]), str(wanted["job"])
    job = cluster.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    state = job_state(job, jobs.pods_of(cluster, namespace, name) if job is not None else [], world.clock())
    if state.state == "running":
        return overdue(waiter, world.clock(), "it still runs")
    if state.exit_code in RETRIED_EXITS:
        # The state machine's Retry matches this name: the state starts the Job of the next attempt.
        words = f"{state.message}: AICR found something unavailable or was rate limited"
        return {"error": TransientError.__name__, "cause": words}
    return _PURPOSES[str(wanted["purpose"])](state, wanted, world)


def _snapshot(state: JobState, wanted: Mapping[str, Any], world: World) -> Answer:
    """The ConfigMap that AICR wrote goes to the ledger, and must agree with the wish."""
    _require_complete(state, wanted, world)
    text = _collect(wanted, "snapshot.yaml", world)
    snapshot = read_snapshot(text)
    check_recorded("snapshot", snapshot.aicr_version, str(wanted["aicrVersion"]))
    check = confirm_criteria if wanted["purpose"] == "confirm" else check_criteria
    check(snapshot, Criteria.model_validate(wanted["criteria"]))
    world.ledger.put_same(str(wanted["keep"]), text, "application/yaml")
    kept_out = wanted.get("keptOut", 0)
    return {"output": {"digest": snapshot.digest, "nodes": snapshot.node_count, "keptOut": kept_out}}


def _render(state: JobState, wanted: Mapping[str, Any], world: World) -> Answer:
    _require_complete(state, wanted, world)
    return {"output": {"tag": wanted["tag"]}}


def _validate(state: JobState, wanted: Mapping[str, Any], world: World) -> Answer:
    """The report decides. Exit 8 with a report is a failed validation, not AICR's fault."""
    found = jobs.config_map(world.cluster(), str(wanted["namespace"]), str(wanted["configMap"]))
    report = _report(found)
    if report is None:
        _require_complete(state, wanted, world)
        raise PipelineError(Reason.AICRInternal, f"Job {wanted['job']} ended well, but wrote no report.")
    result, problem = judge(report)
    world.ledger.put_same(str(wanted["keep"]), report)
    if problem is not None:
        raise PipelineError(Reason.RolloutFailed, problem)
    _require_complete(state, wanted, world)
    return {"output": {**result.wire(), "repository": wanted["repository"]}}


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
    if state.state == "complete":
        return
    tail = ""
    if state.pod and state.container:
        tail = jobs.log_tail(world.cluster(), str(wanted["namespace"]), state.pod, state.container)
    words = f". Its last words: {redact(tail)[-1500:]}" if tail else "."
    raise PipelineError(state.reason or Reason.AICRInternal, f"{state.message}{words}")


def overdue(waiter: Waiter, now: datetime, words: str) -> Answer | None:
    """The answer for a waiter whose deadline has passed, with what was seen last; None before that."""
    if parse_time(waiter.deadline) > now:
        return None
    if waiter.kind == "application":
        return _failed(Reason.RolloutExpired, f"{waiter.wanted['step']}, at the deadline: {words}")
    if waiter.kind == "approval":
        return _outcome(
            Reason.RolloutExpired, f"Nobody answered until {waiter.deadline}; start a fresh rollout."
        )
    job = waiter.wanted.get("job")
    return _outcome(Reason.AICRTimeout, f"Job {job} did not end until {waiter.deadline}: {words}.")


def _failed(reason: Reason, message: str) -> Answer:
    return {"error": str(reason), "cause": message[:30000]}


def _outcome(reason: Reason, message: str) -> Answer:
    return {"output": {"outcome": {"reason": str(reason), "message": message[:30000]}}}


def refused(waiter: Waiter, error: PipelineError) -> Answer:
    """The answer for a domain end that a look raised. A release's names its step first, as all do."""
    return (
        _failed(error.reason, f"{waiter.wanted['step']}: {error.message}")
        if waiter.kind == "application"
        else _outcome(error.reason, error.message)
    )


_LOOKS: Mapping[str, Callable[[Waiter, World], Answer | None]] = {
    "application": _application,
    "approval": _approval,
    "job": _job,
}
_PURPOSES: Mapping[str, Callable[[JobState, Mapping[str, Any], World], Answer]] = {
    "snapshot": _snapshot,
    "confirm": _snapshot,
    "render": _render,
    "validate": _validate,
}
