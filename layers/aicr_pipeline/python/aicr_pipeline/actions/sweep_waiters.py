"""The one place that answers task tokens. Runs each minute, and at once when something happened.

A lease keeps two sweeps apart. While Jobs or releases are waited for the sweep loops; a waiting person
costs no loop, since the decision's own event wakes it. What was decided stays in the row until the
token took it, so a sweep that dies in between is continued by the next.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from aicr_pipeline.actions.look_at_waiters import Answer, World, look, overdue, refused
from aicr_pipeline.adapters.aws import error_code
from aicr_pipeline.adapters.coordination import Waiter
from aicr_pipeline.clock import parse_time
from aicr_pipeline.errors import PipelineError, TransientError

#: The token is gone: answered before, timed out, or its execution is over.
_GONE = {"InvalidToken", "TaskTimedOut", "TaskDoesNotExist"}
_LEASE_SECONDS = 30.0
#: After the last answer the next wait usually comes within so many intervals; else its own event wakes us.
_LINGER_INTERVALS = 3

Report = Callable[[str, Waiter], None]


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
        self._world = world
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
        started, answered, waiting = self._now(), 0, 0
        linger = _LINGER_INTERVALS * self._interval
        while True:
            if not self._lease():
                return {"leased": False, "answered": answered, "waiting": waiting}
            last = float("-inf")
            while True:
                waiters = self._world.coordination.waiters()
                left = [waiter for waiter in waiters if not self._settle(waiter)]
                done = len(waiters) - len(left)
                answered, waiting = answered + done, len(left)
                self._note_ages(left)
                now = self._now()
                last = now if done else last
                looping = any(waiter.kind != "approval" for waiter in waiters) or now - last < linger
                if not looping or now - started > self._budget or not self._lease():
                    break
                self._sleep(self._interval)
            seen = {(waiter.id, waiter.order) for waiter in waiters}
            self._world.coordination.drop_lease(self._holder)
            # A wait that was registered while we held the lease woke nobody.
            now_there = {(waiter.id, waiter.order) for waiter in self._world.coordination.waiters()}
            if now_there <= seen or self._now() - started > self._budget:
                return {"leased": True, "answered": answered, "waiting": waiting}

    def _settle(self, waiter: Waiter) -> bool:
        answer = waiter.answer
        if answer is None:
            answer = self._look(waiter)
            if answer is None or not self._world.coordination.settle(waiter, answer):
                return False
        if not self._answer(waiter, dict(answer)):
            return False
        if waiter.kind == "approval" and not self._announced(waiter, answer):
            return False
        self._world.coordination.forget(waiter)
        return True

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

    def _look(self, waiter: Waiter) -> Answer | None:
        try:
            return look(waiter, self._world)
        except TransientError as error:
            self._report(str(error), waiter)
            return overdue(waiter, self._world.clock(), error.message)
        except PipelineError as error:
            return refused(waiter, error)
        except Exception as error:  # noqa: BLE001 - the outermost place: one waiter must not hold up all others
            words = f"looking at it failed with {type(error).__name__}"
            self._report(words, waiter)
            return overdue(waiter, self._world.clock(), words)

    def _answer(self, waiter: Waiter, answer: Answer) -> bool:
        try:
            if "error" in answer:
                self._sfn.send_task_failure(
                    taskToken=waiter.token, error=answer["error"], cause=answer["cause"]
                )
            else:
                self._sfn.send_task_success(taskToken=waiter.token, output=json.dumps(answer["output"]))
        except ClientError as error:
            if error_code(error) not in _GONE:
                self._report(
                    f"the token was not taken ({error_code(error)}); the next look tries again", waiter
                )
                return False
        return True

    def _lease(self) -> bool:
        return self._world.coordination.take_lease(self._holder, self._world.clock(), _LEASE_SECONDS)

    def _now(self) -> float:
        return self._world.clock().timestamp()
