"""The status document, from what was seen. Of the document before only its times are taken over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.application import is_ours
from aicr_pipeline.decide.gate import EngineSeen, controllers_stopped
from aicr_pipeline.decide.release_status import SILENT, release_status
from aicr_pipeline.decide.resolve_end import PLAN_PAUSED, PLAN_READY, PLAN_UNCHANGED, RESOLVE_STALLED
from aicr_pipeline.decide.status_rollout import RolloutSeen, rollout_ready, rollout_stalled, stall_words
from aicr_pipeline.decide.subscriptions import Reachability
from aicr_pipeline.decide.sync_windows import denial
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import RolloutOutcome
from aicr_pipeline.model.runtime import Wish
from aicr_pipeline.model.status import (
    Condition,
    ConditionType,
    ReleaseStatus,
    RolloutStatus,
    Status,
    UnreachableApprover,
)

#: Of a message in the document.
_MOST = 2000
_MOST_NAMED = 5


@dataclass(frozen=True)
class ResolveSeen:
    """The newest run for the current runtime that ended or stalled; ``event`` None when it stalled."""

    run: str
    event: str | None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ActiveSeen:
    """The active plan, and the outcome that made it so.

    ``whole`` is False when a rollout after it ended half-way. ``problem`` when it cannot be read.
    """

    digest: str | None = None
    plan: Plan | None = None
    whole: bool = True
    outcome: RolloutOutcome | None = None
    problem: PipelineError | None = None


@dataclass(frozen=True)
class EngineLook:
    """Argo CD and its Applications, by name; ``problem`` when the cluster could not be asked."""

    seen: EngineSeen | None = None
    applications: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problem: PipelineError | None = None


@dataclass(frozen=True)
class Seen:
    """Everything that a status is made from."""

    config: ClusterConfig
    now: datetime
    wish: Wish
    #: Whether there was ever a runtime: one that is not there now was then deleted.
    known: bool
    resolve: ResolveSeen | None
    rollout: RolloutSeen | None
    active: ActiveSeen
    engine: EngineLook
    people: Sequence[Reachability] = ()
    #: Why the newest rollout cannot be told of, when its records cannot be read.
    damage: PipelineError | None = None


def make_status(seen: Seen, before: Status | None) -> Status:
    """The document. ``before`` gives conditions that did not change their times; nothing else."""
    releases = _releases(seen)
    resolved = _resolved(seen)
    engine = _engine(seen)
    conditions = (resolved, engine, _ready(seen, engine, releases), _stalled(seen, resolved))
    rollout = seen.rollout
    return Status(
        cluster=seen.config.cluster.name,
        observed_at=rfc3339(seen.now),
        runtime_version=seen.wish.version,
        resolved_plan=_resolved_plan(seen),
        active_plan=seen.active.digest,
        rollout=None
        if rollout is None
        else RolloutStatus(
            name=rollout.name,
            to_plan=rollout.rollout.to_plan,
            outcome=rollout.outcome.outcome if rollout.outcome else None,
            step=rollout.started or None,
            of=len(rollout.report.steps) if rollout.report else None,
            newer_plan=_newer(seen),
        ),
        conditions=tuple(_timed(found, before, rfc3339(seen.now)) for found in conditions),
        releases=releases,
        unreachable=tuple(
            UnreachableApprover(name=one.approver, why=one.why) for one in seen.people if not one.reachable
        ),
    )


def changes(before: Status | None, after: Status) -> list[tuple[Condition, Condition]]:
    """Conditions whose status or reason changed, as pairs of before and after. Of a first one, none."""
    if before is None:
        return []
    pairs = [(before.condition(found.type), found) for found in after.conditions]
    return [pair for pair in pairs if (pair[0].status, pair[0].reason) != (pair[1].status, pair[1].reason)]


def _timed(found: Condition, before: Status | None, now: str) -> Condition:
    since = now
    if before is not None:
        old = before.condition(found.type)
        since = old.last_transition_time if old.status == found.status else now
    return found.model_copy(update={"last_transition_time": since, "message": found.message[:_MOST]})


def _condition(
    which: ConditionType, status: Any, reason: Reason | None = None, message: str = ""
) -> Condition:
    return Condition(type=which, status=status, reason=reason, message=message)


# Resolved


def _newer(seen: Seen) -> str | None:
    """The plan that waits for the end of the rollout which is on."""
    rollout, wanted = seen.rollout, _resolved_plan(seen)
    if rollout is None or rollout.outcome is not None or wanted == rollout.rollout.to_plan:
        return None
    return wanted


def _resolved_plan(seen: Seen) -> str | None:
    found = seen.resolve
    if seen.wish.version is None or found is None or found.event not in _GOOD_ENDS:
        return None
    return str(found.detail["plan"])


_GOOD_ENDS = (PLAN_READY, PLAN_UNCHANGED, PLAN_PAUSED)


def _resolved(seen: Seen) -> Condition:
    found, which = seen.resolve, ConditionType.Resolved
    if seen.wish.version is None:
        return _condition(which, "Unknown", message="There is no runtime in the inbox.")
    if found is not None and found.event in _GOOD_ENDS:
        message = f"plan {found.detail['plan']} with {found.detail['releases']} releases"
        return _condition(which, "True", message=message)
    if found is not None and found.event == RESOLVE_STALLED:
        return _condition(which, "False", Reason(found.detail["reason"]), str(found.detail["message"]))
    if found is not None and found.event is None:
        return _condition(which, "False", Reason.Resolving, f"resolve {found.run} stalled: {_stall(found)}")
    message = f"Version {seen.wish.version} of the runtime is being resolved."
    return _condition(which, "False", Reason.Resolving, message)


def _stall(found: ResolveSeen) -> str:
    return f"its execution is {stall_words(found.detail)}. Redrive it, or resolve again"


# Engine


def _engine(seen: Seen) -> Condition:
    which, look, engine = ConditionType.EngineAvailable, seen.engine, seen.config.engine
    if look.problem is not None:
        unknown = look.problem.retry
        status = "Unknown" if unknown else "False"
        return _condition(which, status, look.problem.reason, look.problem.message)
    found = look.seen or EngineSeen(False, None)
    if not found.installed:
        message = "The cluster has no Argo CD: the Application CRD is missing. Install it again."
        return _condition(which, "False", Reason.EngineMissing, message)
    if found.project is None:
        message = f"AppProject {engine.project} is gone from {engine.namespace}. Apply the cluster manifests."
        return _condition(which, "False", Reason.ProjectMissing, message)
    suspended = _suspended(seen, found)
    if suspended is not None:
        return _condition(which, "False", Reason.EngineSuspended, suspended)
    return _condition(which, "True", message=f"Argo CD reconciles in {engine.namespace}.")


def _suspended(seen: Seen, engine: EngineSeen) -> str | None:
    """Why Argo CD does not reconcile, if so: a controller at zero, a sync window, or no progress."""
    stopped = controllers_stopped(engine.controllers)
    if stopped is not None:
        return stopped
    ours = [found for _, found in sorted(seen.engine.applications.items()) if is_ours(found)]
    for application in ours:
        denied = denial(engine.project or {}, application, seen.now)
        if denied is not None:
            return (
                f"A sync window of AppProject {seen.config.engine.project} denies syncs of "
                f"{application['metadata']['name']} now, self-heal too: {denied.words}."
            )
    times = [text for found in ours if (text := (found.get("status") or {}).get("reconciledAt"))]
    newest = max(times, default=None)
    if newest is not None and seen.now - parse_time(str(newest)) > SILENT:
        return (
            f"Argo CD has reconciled none of {len(ours)} Applications since {newest}. Look at its "
            "application controller."
        )
    return None


# Releases


def _releases(seen: Seen) -> tuple[ReleaseStatus, ...]:
    """Each release of the active plan; none where nothing could be seen, or between two plans."""
    look, active = seen.engine, seen.active
    if (
        look.problem
        or look.seen is None
        or not look.seen.installed
        or active.plan is None
        or not active.whole
        or seen.wish.version is None
    ):
        return ()
    moving = _moving(seen)
    return tuple(
        release_status(release, look.applications.get(release.name), seen.config, seen.now)
        for release in active.plan.desired_state.releases
        if release.name not in moving
    )


def _moving(seen: Seen) -> set[str]:
    """Releases that a rollout which is on has begun to change: its own checks hold for them."""
    rollout = seen.rollout
    if rollout is None or rollout.outcome is not None or rollout.report is None:
        return set()
    return {step.release for step in rollout.report.steps if step.index <= rollout.started}


# Ready


def _ready(seen: Seen, engine: Condition, releases: Sequence[ReleaseStatus]) -> Condition:
    reason, message = _not_ready(seen, engine, releases)
    if reason is not None:
        return _condition(ConditionType.Ready, "False", reason, message)
    outcome = seen.active.outcome
    known = outcome.reason if outcome is not None else Reason.RolledOut
    return _condition(ConditionType.Ready, "True", known, f"{len(releases)} releases are ready")


def _not_ready(seen: Seen, engine: Condition, releases: Sequence[ReleaseStatus]) -> tuple[Reason | None, str]:
    if seen.wish.version is None:
        if not seen.known:
            return Reason.NoActivePlan, "No runtime was submitted yet."
        return Reason.Deleting, (
            "The runtime was deleted from the inbox: nothing is removed, and nothing is checked any more."
        )
    if engine.status != "True":
        return engine.reason, engine.message
    active = seen.active
    if active.problem is not None:
        return active.problem.reason, active.problem.message
    if seen.damage is not None:
        return seen.damage.reason, seen.damage.message
    rolling = None
    if seen.rollout is not None and seen.rollout.outcome is None:
        rolling = rollout_ready(seen.rollout, seen.wish)
        if seen.rollout.started:
            return rolling
    worst = _worst(releases)
    if worst is not None:
        return worst
    if rolling is not None:
        return rolling
    if active.digest is None:
        return Reason.NoActivePlan, _ended(seen) or "No rollout has succeeded yet."
    if not active.whole:
        return Reason.NotReady, f"The cluster is between two plans: {_ended(seen) or _HALF_WAY}"
    if seen.wish.paused:
        return Reason.Paused, "The runtime is paused: its releases are ready, and nothing new is rolled out."
    return None, ""


def _ended(seen: Seen) -> str:
    stalled = rollout_stalled(seen.rollout) if seen.rollout is not None else None
    return stalled[1] if stalled is not None else ""


_HALF_WAY = (
    "an earlier rollout ended half-way. Submit the runtime again: the fresh rollout applies everything"
)


def _worst(releases: Sequence[ReleaseStatus]) -> tuple[Reason, str] | None:
    """Drift before what is not ready; the message names the first few."""
    for state, reason in (("Drifted", Reason.InventoryDrift), ("NotReady", Reason.NotReady)):
        found = [release.message for release in releases if release.state == state]
        if found:
            more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            return reason, "; ".join(found[:_MOST_NAMED]) + more
    return None


# Stalled


def _stalled(seen: Seen, resolved: Condition) -> Condition:
    which = ConditionType.Stalled
    if resolved.status == "False" and resolved.reason is not Reason.Resolving:
        return _condition(which, "True", resolved.reason, resolved.message)
    if seen.resolve is not None and seen.resolve.event is None and seen.wish.version is not None:
        return _condition(which, "True", resolved.reason, resolved.message)
    rollout = seen.rollout
    if seen.damage is not None and seen.wish.version is not None:
        return _condition(which, "True", seen.damage.reason, seen.damage.message)
    if rollout is None or seen.wish.version is None:
        return _condition(which, "False")
    found = rollout_stalled(rollout)
    wanted = _resolved_plan(seen)
    # A wish for what is active already leaves nothing to mend.
    settled = wanted is not None and wanted == seen.active.digest and seen.active.whole
    if found is None or (rollout.outcome is not None and settled):
        return _condition(which, "False")
    return _condition(which, "True", *found)


def trouble(status: Status) -> Reason | None:
    """What people are told about, beside what each rollout tells them itself."""
    ready, stalled = status.condition(ConditionType.Ready), status.condition(ConditionType.Stalled)
    if ready.status == "True" or ready.reason not in _TROUBLES:
        return None
    if ready.reason is Reason.NotReady and not status.releases and stalled.status == "True":
        return None  # between two plans: the rollout's own message said so
    return ready.reason


_TROUBLES = (
    Reason.NotReady,
    Reason.InventoryDrift,
    Reason.EngineSuspended,
    Reason.EngineMissing,
    Reason.ProjectMissing,
    Reason.PlanUnreadable,
    Reason.Unauthorized,
    Reason.ClusterUnreachable,
)
