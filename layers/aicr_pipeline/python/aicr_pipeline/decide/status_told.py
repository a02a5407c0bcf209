"""When people are written to about the status: once per change, and never for one that comes and goes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.status import trouble
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.status import ConditionType, Status

#: A change must be seen again, so much later at least. Looks come every five minutes, and with events.
AGAIN_AFTER = timedelta(minutes=1)
#: A message whose sending began so long ago, and did not end, is sent again: rather twice than never.
SEND_AGAIN_AFTER = timedelta(minutes=2)
#: In all: one topic that takes nothing must not write to everybody else with each look.
MOST_TRIES = 3
WELL = "True"


@dataclass(frozen=True)
class Told:
    """What people know, and what was seen since that they do not.

    ``said`` and ``seen`` are ``True``, or the reason why the runtime is not ready. ``sending`` is when the
    message about ``said`` was begun, until it is out or was begun ``MOST_TRIES`` times.
    """

    said: str = WELL
    seen: str | None = None
    since: str | None = None
    sending: str | None = None
    tries: int = 0

    @classmethod
    def read(cls, fact: dict[str, Any] | None) -> "Told":
        """From the coordination table; one that was lost begins anew, and nobody is told that all is well."""
        found = fact or {}
        said, seen, since, sending = (found.get(key) for key in ("said", "seen", "since", "sending"))
        return cls(str(said or WELL), seen, since, sending, int(found.get("tries") or 0))

    def wire(self) -> dict[str, str | int | None]:
        """As the table holds it."""
        return {
            "said": self.said,
            "seen": self.seen,
            "since": self.since,
            "sending": self.sending,
            "tries": self.tries,
        }


def next_told(before: Told, status: Status, now: datetime) -> Told:
    """What to hold after a look at ``status``; when ``sending`` is ``now``, a message is due."""
    if before.sending is not None:
        if now - parse_time(before.sending) <= SEND_AGAIN_AFTER:
            return before
        if before.tries >= MOST_TRIES:
            return sent(before)
        return Told(before.said, before.seen, before.since, rfc3339(now), before.tries + 1)
    current = _current(status)
    if current is None or current == before.said:
        return Told(before.said)
    if current != before.seen or before.since is None:
        return Told(before.said, current, rfc3339(now))
    if now - parse_time(before.since) < AGAIN_AFTER:
        return before
    return Told(current, sending=rfc3339(now), tries=1)


def sent(told: Told) -> Told:
    """After the message went out."""
    return Told(told.said, told.seen, told.since)


def words(told: Told, status: Status) -> tuple[str, str]:
    """Subject and text of the message about ``told.said``."""
    cluster, ready = status.cluster, status.condition(ConditionType.Ready)
    if told.said == WELL:
        return (
            f"[aicr {cluster}] Ready again",
            f"The runtime of cluster {cluster} is ready again: {ready.message}.\n",
        )
    # What is seen now may be another trouble by now; that one has its own turn.
    said = ready.message if ready.reason == told.said else f"It was seen twice; now: {ready.message}"
    return (
        f"[aicr {cluster}] Ready=False: {told.said}",
        f"The runtime of cluster {cluster} is not ready: {told.said}.\n\n{said}\n\n"
        f"What to do: docs/runbook.md, {told.said}.\n"
        f"Now: python -m aicr_pipeline.status --cluster {cluster}\n",
    )


def _current(status: Status) -> str | None:
    """``True``, a trouble, or None for what people were told otherwise or need not know."""
    if status.condition(ConditionType.Ready).status == "True":
        return WELL
    found: Reason | None = trouble(status)
    return None if found is None else str(found)
