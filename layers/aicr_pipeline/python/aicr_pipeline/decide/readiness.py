"""Ready at the current revision: one pure function over an Argo CD Application.

Argo CD writes no ``observedGeneration``, so every piece of status may be of the revision before.
The order of the checks is the order in which status becomes true after a sync.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide import engine_words as words
from aicr_pipeline.decide.application import (
    REFRESH,
    SKIP,
    WRONG,
    carries,
    done_after_asking,
    is_skipped,
    last_refresh,
    same_but_nulls,
)
from aicr_pipeline.model.config import Engine
from aicr_pipeline.model.fields import seconds
from aicr_pipeline.model.reasons import Reason

#: Of a grace: only then is a refresh asked for, since most of what is wrong heals by itself.
_BEFORE_ASKING = 0.1
_BEFORE_ASKING_AGAIN = 0.2
#: Argo CD's times have no more.
_SECOND = timedelta(seconds=1)

Refresh = Literal["normal", "hard"]


@dataclass(frozen=True)
class Graces:
    """How long what may pass is waited for, before it is a failure with its own words.

    Attributes
    ----------
    degraded
        ``Degraded``: GPU nodes reboot.
    errors
        Conditions such as ``ComparisonError``; an operation that is not ours and not the plan's.
    suspended
        What only Argo CD's controller can move on, and it is silent.
    """

    degraded: timedelta = timedelta(minutes=15)
    errors: timedelta = timedelta(minutes=10)
    suspended: timedelta = timedelta(minutes=10)

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """The configured ones."""
        given = engine.graces
        return cls(
            *(timedelta(seconds=seconds(text)) for text in (given.degraded, given.errors, given.suspended))
        )


@dataclass(frozen=True)
class Readiness:
    """``ready``; ``waiting`` with what for; ``failed`` with a reason and Argo CD's own words.

    ``refresh`` is what Argo CD should be asked for now; it is bounded here, by what the Application
    says of the last time.
    """

    state: Literal["ready", "waiting", "failed"]
    message: str
    reason: Reason = Reason.RolloutFailed
    refresh: Refresh | None = None


def readiness(
    application: Mapping[str, Any],
    digest: str,
    request_id: str | None,
    now: datetime,
    graces: Graces = Graces(),
    since: datetime | None = None,
) -> Readiness:
    """Judge an Application.

    Parameters
    ----------
    digest:
        The wanted manifest digest (``sha256:…``).
    request_id:
        Of our operation while its step waits; None for drift checks and Unchanged releases, since
        self-heal starts operations of its own later.
    now:
        When the Application was read.
    since:
        When we asked. What was wrong before that is not held against what we asked for; without it no
        grace begins before Argo CD's own times.
    """
    return _Judge(application, digest, request_id, now, graces, since).judge()


class _Judge:
    """The checks in their order; each returns a verdict, or None when it holds."""

    def __init__(
        self,
        application: Mapping[str, Any],
        digest: str,
        request_id: str | None,
        now: datetime,
        graces: Graces,
        since: datetime | None,
    ) -> None:
        self._application, self._digest, self._request = application, digest, request_id
        self._now, self._graces, self._since = now, graces, since
        self._name = application["metadata"]["name"]
        self._spec: Mapping[str, Any] = application.get("spec") or {}
        self._status: Mapping[str, Any] = application.get("status") or {}
        self._state: Mapping[str, Any] = self._status.get("operationState") or {}
        self._phase = self._state.get("phase")
        self._ours = request_id is not None and carries(self._state, request_id)
        self._finished = None if self._under_way else _time(self._state.get("finishedAt"))
        self._reconciled = _time(self._status.get("reconciledAt"))
        #: Nothing from before this is held against what was asked for.
        self._began = _latest(since, self._finished if self._ours or request_id is None else None)

    @property
    def _under_way(self) -> bool:
        return self._phase in ("Running", "Terminating")

    def judge(self) -> Readiness:
        checks = (
            self._operation_taken_up,
            self._refresh_done,
            self._our_operation,
            self._our_operation_was_whole,
            self._no_condition,
            self._compared,
            self._compared_lately,
            self._synced,
            self._healthy,
        )
        for check in checks:
            found = check()
            if found is not None:
                return found
        return Readiness("ready", f"{self._name}: Synced and Healthy at {words.short(self._digest)}")

    def _refresh_done(self) -> Readiness | None:
        if REFRESH not in (self._application["metadata"].get("annotations") or {}):
            return None
        return self._controllers_turn("a refresh is asked for and not done", ask=False)

    def _operation_taken_up(self) -> Readiness | None:
        if not self._application.get("operation") or self._under_way:
            return None
        return self._controllers_turn("its operation has not started", ask=False)

    def _our_operation(self) -> Readiness | None:
        """Ours, or somebody's whole sync of the same, has ended well; or how it goes."""
        if self._under_way:
            return self._running()
        if self._request is None:
            condition = self._condition()
            refused = condition is not None and condition[0] == "InvalidSpecError"
            return self._failed(condition[1]) if condition and refused else None
        if self._ours and self._phase in ("Failed", "Error"):
            said = words.sync_failure(self._state, self._digest, self._condition())
            # A fresh rollout would only be told the cached error again.
            return self._failed(said, refresh="hard" if words.CACHED in said else None)
        refused_spec = self._spec_refused()
        if refused_spec is not None or self._ours or self._done_by_history():
            return refused_spec
        if not self._state:
            what = "our operation is not the one Argo CD reports: there is none"
        else:
            what = f"our operation is not the one Argo CD reports, but one of {words.initiator(self._state)}"
        return self._within(self._graces.errors, _latest(self._since, self._finished), what)

    def _running(self) -> Readiness:
        whose = "sync" if self._ours or self._request is None else f"a sync of {words.initiator(self._state)}"
        said = words.running(self._state, self._digest)
        what = f"{whose} is running: {said}".rstrip(": ")
        if not words.is_blocked(self._state) or self._request is None or not self._ours:
            return self._waiting(what)
        if words.has_begun(self._state, self._digest):
            # Argo CD looks at the windows all through a sync. Nobody knows since when one has held this, and
            # it cannot be taken back: it goes on when the window is over.
            return self._waiting(what)
        began = _latest(_time(self._state.get("startedAt")), self._since)
        return self._within(self._graces.suspended, began, what, Reason.EngineSuspended)

    def _spec_refused(self) -> Readiness | None:
        """A refusal from before we asked may be of the spec before; it must be said again."""
        condition = self._condition()
        if condition is None or condition[0] != "InvalidSpecError":
            return None
        _, message, at = condition
        if self._began is None or at is None or at >= self._began:
            return self._failed(message)
        return self._within(self._graces.errors, self._began, message)

    def _no_condition(self) -> Readiness | None:
        condition = self._condition()
        if condition is None:
            return None
        _, message, at = condition
        began = _latest(at, self._began)
        refresh: Refresh = "hard" if words.CACHED in message else "normal"
        return self._within(self._graces.errors, began, message, refresh=refresh)

    def _compared(self) -> Readiness | None:
        compared = (self._status.get("sync") or {}).get("comparedTo") or {}
        parts = ("source", "destination")
        if all(same_but_nulls(compared.get(part), self._spec.get(part)) for part in parts):
            return None
        return self._controllers_turn("Argo CD has not compared the current spec yet")

    def _compared_lately(self) -> Readiness | None:
        """Where we ask for nothing only Argo CD's last look tells; one from long ago is of another time."""
        if self._request is not None or self._since is None:
            return None
        if self._reconciled is not None and self._since - self._reconciled <= self._graces.suspended:
            return None
        return self._controllers_turn("Argo CD has not compared it for long")

    def _synced(self) -> Readiness | None:
        """Synced at the digest, by a comparison that is not from before the last operation."""
        sync = self._status.get("sync") or {}
        before = self._finished is not None and (
            self._reconciled is None or self._reconciled < self._finished
        )
        if sync.get("status") == "Synced" and sync.get("revision") == self._digest:
            return self._controllers_turn("health is from before the sync") if before else None
        at = words.short(sync.get("revision"))
        what = f"{sync.get('status', 'Unknown')} at {at}, not at {words.short(self._digest)}"
        if sync.get("revision") == self._digest:
            what = f"{sync.get('status', 'Unknown')} at {at}"
        what += words.out_of_sync(self._status)
        # Times have whole seconds: what was compared in the second of the end may be from before it.
        if before or (self._finished is not None and self._reconciled == self._finished):
            return self._controllers_turn(f"{what}, which is from before the end of the sync")
        return self._waiting(what)

    def _our_operation_was_whole(self) -> Readiness | None:
        if self._request is None or self._whole() or self._done_by_history():
            return None
        what = "the operation is not finished at the wanted digest"
        return self._within(self._graces.errors, self._finished, what)

    def _whole(self) -> bool:
        result = self._state.get("syncResult") or {}
        asked = (self._state.get("operation") or {}).get("sync") or {}
        return (
            self._ours
            and self._phase == "Succeeded"
            and self._finished is not None
            and result.get("revision") == self._digest
            # Fields of an older operation leak into a new one in some releases: a selective sync is not ours.
            and not asked.get("resources")
            and not asked.get("dryRun")
            and asked.get("revision") == self._digest
        )

    def _done_by_history(self) -> bool:
        return self._request is not None and done_after_asking(self._application, self._digest, self._request)

    def _healthy(self) -> Readiness | None:
        health = self._status.get("health") or {}
        status = health.get("status")
        if status == "Healthy":
            return None
        what = f"{status or 'health unknown'} {words.unhealthy(self._status)}".rstrip()
        if status != "Degraded":
            return self._waiting(what)
        began = _latest(_time(health.get("lastTransitionTime")), self._began)
        return self._within(self._graces.degraded, began, what)

    # Verdicts

    def _waiting(self, what: str, refresh: Refresh | None = None) -> Readiness:
        return Readiness("waiting", f"{self._name}: {what}", refresh=refresh)

    def _failed(
        self, what: str, reason: Reason = Reason.RolloutFailed, refresh: Refresh | None = None
    ) -> Readiness:
        return Readiness("failed", f"{self._name}: {what}", reason, refresh)

    def _within(
        self,
        grace: timedelta,
        began: datetime | None,
        what: str,
        reason: Reason = Reason.RolloutFailed,
        refresh: Refresh | None = None,
    ) -> Readiness:
        """Waiting until the grace is over; nothing is over that has no beginning."""
        if began is None:
            return self._waiting(what)
        if self._now - began > grace:
            return self._failed(f"{what} (since {rfc3339(began)})", reason)
        if refresh is None or self._now - began <= grace * _BEFORE_ASKING:
            return self._waiting(what)
        return self._waiting(what, refresh if self._may_ask(refresh, grace, began) else None)

    def _controllers_turn(self, what: str, ask: bool = True) -> Readiness:
        """Only Argo CD's controller can move this on. It is asked for a refresh; then it is suspended."""
        grace, last = self._graces.suspended, _latest(self._began, self._reconciled)
        if self._since is None or last is None:
            return self._waiting(what)
        silent = self._now - last
        if silent > grace:
            said = f"{what}, and nothing was reconciled for {words.minutes(silent)}. " + (
                f"Its annotation {SKIP} keeps the controller away"
                if is_skipped(self._application)
                else "Is its controller running?"
            )
            return self._failed(f"Argo CD does not reconcile: {said}", Reason.EngineSuspended)
        # A refresh that was missed is asked for again: the write alone makes the controller look.
        due = silent > (grace * _BEFORE_ASKING if ask else grace / 2)
        return self._waiting(what, "normal" if due and self._may_ask("normal", grace / 2, last) else None)

    def _may_ask(self, refresh: Refresh, grace: timedelta, began: datetime) -> bool:
        """Once in a grace; soon again for a trouble that came after; a hard one may follow a normal one."""
        at, kind = last_refresh(self._application)
        if at is None or (refresh == "hard" and kind != "hard"):
            return True
        since = self._now - at
        return since > grace or (at < began + _SECOND and since > grace * _BEFORE_ASKING_AGAIN)

    def _condition(self) -> tuple[str, str, datetime | None] | None:
        for wanted in WRONG:
            for condition in self._status.get("conditions") or []:
                if condition.get("type") == wanted:
                    at = _time(condition.get("lastTransitionTime"))
                    return wanted, str(condition.get("message", wanted)), at
        return None


def _time(text: object) -> datetime | None:
    """An RFC 3339 time, or None for anything else."""
    try:
        return parse_time(str(text)) if text else None
    except ValueError:
        return None


def _latest(*times: datetime | None) -> datetime | None:
    return max((time for time in times if time is not None), default=None)
