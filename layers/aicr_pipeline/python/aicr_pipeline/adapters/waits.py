"""Registering a wait: the row first, then the event that wakes the sweeper."""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination, Waiter
from aicr_pipeline.clock import Clock
from aicr_pipeline.model.reasons import GENERATION
from aicr_pipeline.model.step import StepEvent

#: An event of this type is only a wake-up.
REGISTERED = "Waiter Registered"


class Waits:
    """What functions behind ``.waitForTaskToken`` states use. None of them may answer a token."""

    def __init__(self, coordination: Coordination, bus: Bus, clock: Clock) -> None:
        self._coordination = coordination
        self._bus = bus
        self._clock = clock

    def register(
        self, step: StepEvent, kind: str, wanted: Mapping[str, Any], deadline: str
    ) -> dict[str, Any]:
        """Wait for something; the sweeper looks at it and answers the token."""
        older = {"generation": step.generation} if step.item and step.generation < GENERATION else {}
        return self._put(step, kind, {**wanted, **older}, deadline, None)

    def end(self, step: StepEvent, answer: Mapping[str, Any], deadline: str) -> dict[str, Any]:
        """End the state at once: the sweeper only delivers ``answer``, as ``look_at_waiters`` has it."""
        return self._put(step, "ended", {}, deadline, answer)

    def _put(
        self,
        step: StepEvent,
        kind: str,
        wanted: Mapping[str, Any],
        deadline: str,
        answer: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        if step.token is None:
            raise ValueError(f"state {step.state} has no task token to wait with")
        waiter = Waiter(step.waiter_id, kind, step.token, step.order, deadline, wanted, answer=answer)
        self._coordination.register(waiter, self._clock())
        self._bus.announce(REGISTERED, {"waiter": waiter.id})
        return {"waiter": waiter.id, "deadline": deadline}
