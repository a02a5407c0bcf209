"""The one place that answers task tokens. Runs each minute, and at once when something happened.

A lease keeps two sweeps apart. While Jobs or releases are waited for the sweep loops; a waiting person
costs no loop, since the decision's own event wakes it. Whoever is woken takes the lease from a sweep that
sleeps between two looks, and asks one that works for another look: no wake-up is lost, none waits for the
interval, and a run hands over to the next minute's without a gap. What was decided stays in the row until
the token took it, so a sweep that dies in between is continued by the next.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from aicr_pipeline.actions.look_at_waiters import Answer, World, look, overdue, refused
from aicr_pipeline.adapters.aws import error_code
from aicr_pipeline.adapters.cluster import UnexpectedAnswerError
from aicr_pipeline.adapters.coordination import Waiter
from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.ending import caught
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import GENERATION
from aicr_pipeline.model.rollout import StepReady, ready_key

#: The token is gone: answered before, timed out, or its execution is over.
_GONE = {"InvalidToken", "TaskTimedOut", "TaskDoesNotExist"}
_LEASE_SECONDS = 30.0
#: While a look takes long, the lease is renewed this often.
_RENEW_SECONDS = 10.0
#: So much longer than its budget a run may look on when it was woken during its last look.
_OVERTIME_SECONDS = 15.0
#: After the last answer the next wait usually comes within so many intervals; else its own event wakes us.
_LINGER_INTERVALS = 3
#: People are waited for without a loop.
_CALM = frozenset({"approval", "hold"})
#: Waiters are settled so many at a time: each waits for the network far longer than it works.
_AT_ONCE = 8
#: From so many releases on, one list costs less than a request for each.
_LIST_FROM = 4

Report = Callable[[str, Waiter], None]
A = TypeVar("A")


class Sweep:
    """One run of the sweeper."""

    def __init__(
        self,
        world: World,
        stepfunctions: Any,
        holder: str,
        interval: float,
        budget: float,
        report: Report,
        sleep: Callable[[float], None] = time.sleep,
        decided: Report = lambda kind, waiter: None,
    ) -> None:
        """``interval`` between looks and ``budget`` for the whole run, in seconds.

        ``decided`` is told of each approval whose token was answered, with what it came to.
        """
        self._world = replace(world, cluster=_made_once(world.cluster), argocd=_made_once(world.argocd))
        self._sfn = stepfunctions
        self._holder = holder
        self._interval = interval
        self._budget = budget
        self._report = report
        self._sleep = sleep
        self._decided = decided
        #: Kind to age in seconds of the oldest that was still waited for at the last look.
        self.oldest: dict[str, float] = {}

    def run(self) -> dict[str, Any]:
        """Sweep until nothing needs a loop or the time is over.

        Returns
        -------
        dict
            ``answered`` and ``waiting``: counts; ``leased`` False when another sweep is at it.
        """
        table, holder = self._world.coordination, self._holder
        started, answered, waiting = self._now(), 0, 0
        linger, last = _LINGER_INTERVALS * self._interval, float("-inf")
        leased = self._lease()
        while leased:
            waiters = table.waiters()
            left = self._settle_all(waiters)
            if left is None:
                break
            done = len(waiters) - len(left)
            answered, waiting = answered + done, len(left)
            self._note_ages(left)
            now = self._now()
            last = now if done else last
            over = now - started > self._budget
            looping = any(waiter.kind not in _CALM for waiter in waiters) or now - last < linger
            if over or not looping:
                # Else we were woken meanwhile: whoever did left it to us, and ended.
                late = now - started > self._budget + _OVERTIME_SECONDS
                if table.drop_lease(holder) or (late and table.leave_lease(holder)):
                    return {"leased": True, "answered": answered, "waiting": waiting}
            elif table.rest_lease(holder, self._world.clock(), _LEASE_SECONDS):
                self._sleep(self._interval)
            leased = table.wake_lease(holder, self._world.clock(), _LEASE_SECONDS)
        return {"leased": False, "answered": answered, "waiting": waiting}

    def _lease(self) -> bool:
        """Take the lease, or leave word with the one that works. It may change hands while we ask."""
        table = self._world.coordination
        for _ in range(3):
            if table.take_lease(self._holder, self._world.clock(), _LEASE_SECONDS):
                return True
            if table.nudge_lease():
                return False
        return False

    def _settle_all(self, waiters: Iterable[Waiter]) -> list[Waiter] | None:
        """Who is still waited for after a look at each; None when the lease was lost meanwhile."""
        waiters = list(waiters)
        if not waiters:
            return []
        world = self._listed(waiters)
        pool = ThreadPoolExecutor(_AT_ONCE, "sweep")
        try:
            found = {pool.submit(self._try, waiter, world): waiter for waiter in waiters}
            pending: set[Future[bool]] = set(found)
            while pending:
                _, pending = wait(pending, _RENEW_SECONDS)
                now = self._world.clock()
                if pending and not self._world.coordination.renew_lease(self._holder, now, _LEASE_SECONDS):
                    return None
            return [waiter for future, waiter in found.items() if not future.result()]
        finally:
            # What is begun is finished: it may have decided an answer.
            pool.shutdown(wait=True, cancel_futures=True)

    def _listed(self, waiters: list[Waiter]) -> World:
        """The world with its Applications read in one list, where many are waited for."""
        wanted = {str(w.wanted["release"]) for w in waiters if w.kind == "application" and w.answer is None}
        if len(wanted) < _LIST_FROM:
            return self._world
        try:
            listed = self._world.argocd().listed(wanted)
        except (PipelineError, UnexpectedAnswerError) as error:
            problem = error  # each release's look says so of its own

            def unreachable() -> Any:
                raise problem

            return replace(self._world, argocd=unreachable)
        return replace(self._world, argocd=lambda: listed)

    def _try(self, waiter: Waiter, world: World) -> bool:
        """Settle one; what a store or Step Functions does not take is tried again at the next look."""
        try:
            return self._settle(waiter, world)
        except (PipelineError, ClientError, BotoCoreError) as error:
            self._report(f"its answer could not be kept or given ({type(error).__name__})", waiter)
            return False

    def _settle(self, waiter: Waiter, world: World) -> bool:
        answer = waiter.answer
        if answer is None:
            answer = self._look(waiter, world)
            if answer is None or not self._world.coordination.settle(waiter, answer):
                return False
        if waiter.kind == "application" and "output" in answer:
            self._keep(waiter)
        if not self._answer(waiter, dict(answer)):
            return False
        if waiter.kind == "approval" and not self._announced(waiter, answer):
            return False
        self._world.coordination.forget(waiter)
        return True

    def _keep(self, waiter: Waiter) -> None:
        """That a step's release became ready, before anybody hears of it: the end counts these records."""
        rollout, index = str(waiter.wanted["rollout"]), waiter.wanted.get("index")
        if index is None:
            return  # registered before this record was kept
        ready = StepReady(
            rollout=rollout,
            index=int(index),
            release=str(waiter.wanted["release"]),
            digest=str(waiter.wanted["digest"]),
            at=rfc3339(self._world.clock()),
        )
        body = json.dumps(ready.wire(), sort_keys=True).encode()
        self._world.ledger.put_once(ready_key(rollout, ready.index), body)

    def _announced(self, waiter: Waiter, answer: Mapping[str, Any]) -> bool:
        """The row stays until the bus took the event, so that it is told at least once."""
        output = answer.get("output", {})
        try:
            came_to = output.get("decision") or output.get("outcome", {}).get("reason", "")
            self._decided(str(came_to), waiter)
        except (PipelineError, ClientError, BotoCoreError) as error:
            self._report(f"its decision could not be announced ({type(error).__name__})", waiter)
            return False
        return True

    def _note_ages(self, left: list[Waiter]) -> None:
        now = self._world.clock()
        self.oldest = {}
        for waiter in left:
            age = (now - parse_time(waiter.registered_at)).total_seconds()
            self.oldest[waiter.kind] = max(age, self.oldest.get(waiter.kind, 0.0))

    def _look(self, waiter: Waiter, world: World) -> Answer | None:
        try:
            return look(waiter, world)
        except TransientError as error:
            self._report(str(error), waiter)
            return overdue(waiter, self._world.clock(), error.message)
        except PipelineError as error:
            return refused(waiter, error)
        except UnexpectedAnswerError as error:  # the cluster's own words: an admission policy's, say
            self._report(str(error), waiter)
            return overdue(waiter, self._world.clock(), str(error).rstrip("."))
        except Exception as error:  # noqa: BLE001 - the outermost place: one waiter must not hold up all others
            words = f"looking at it failed with {type(error).__name__}"
            self._report(words, waiter)
            return overdue(waiter, self._world.clock(), words)

    def _answer(self, waiter: Waiter, answer: Answer) -> bool:
        try:
            if "error" in answer:
                generation = int(waiter.wanted.get("generation", GENERATION))
                error, cause = caught(generation, answer["error"], answer["cause"])
                self._sfn.send_task_failure(taskToken=waiter.token, error=error, cause=cause)
            else:
                self._sfn.send_task_success(taskToken=waiter.token, output=json.dumps(answer["output"]))
        except ClientError as refusal:
            if error_code(refusal) not in _GONE:
                self._report(
                    f"the token was not taken ({error_code(refusal)}); the next look tries again", waiter
                )
                return False
        return True

    def _now(self) -> float:
        return self._world.clock().timestamp()


def _made_once(make: Callable[[], A]) -> Callable[[], A]:
    """``make`` by one thread, for all of them. What it raises is raised again at the next call."""
    lock = threading.Lock()
    made: list[A] = []

    def get() -> A:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return get
