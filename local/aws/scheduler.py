"""EventBridge Scheduler and scheduled rules: moto stores them, this ticker fires them in real time.

Rate schedules fire at once and then at their interval, as AWS does without a StartDate; `scale` shortens the
interval. Cron expressions follow the wall clock whatever the scale. At scale zero time stands still for all
of them: they fire only when told to.
"""

from __future__ import annotations

import calendar
import json
import math
import re
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from local.aws.events import timestamp
from local.aws.model import EngineError
from local.aws.pending import Pending
from local.aws.targets import DeliveryError, Targets

_UNITS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0, "second": 1.0}
_MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {"SUN": 1, "MON": 2, "TUE": 3, "WED": 4, "THU": 5, "FRI": 6, "SAT": 7}


@dataclass
class Entry:
    """One schedule; `payload` makes the target's input for a scheduled time and an execution id."""

    name: str
    arn: str
    expression: str
    zone: str
    target: dict[str, Any]
    principal: str | None
    payload: Callable[[str, str], str]
    due: float = 0.0


class Ticker:
    """Fires due entries; `fire` does so at once. Ends with `stop`."""

    def __init__(self, targets: Targets, pending: Pending, problems: list[str], scale: float) -> None:
        if scale < 0:
            raise EngineError(f"schedule_scale must not be negative, as {scale} is.")
        self.entries: dict[str, Entry] = {}
        self._targets = targets
        self._pending = pending
        self._problems = problems
        self._scale = scale
        self._condition = threading.Condition()
        self._running = False
        self._thread: threading.Thread | None = None

    def add(self, entry: Entry) -> None:
        seconds = rate_seconds(entry.expression)
        now = time.time()
        entry.due = now if seconds is not None and self._scale else self._next(entry, now)
        with self._condition:
            self.entries[entry.name] = entry
            self._condition.notify_all()

    def start(self) -> None:
        self._running = True
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._condition:
            self._running = False
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def fire(self, name: str) -> None:
        """Fires the schedule whose name is or ends with `name`. Raises KeyError."""
        matches = [e for n, e in self.entries.items() if n == name or n.rpartition("/")[2] == name]
        if len(matches) != 1:
            raise KeyError(f"{len(matches)} schedules named {name!r}; there are {sorted(self.entries)}")
        self._send(matches[0], time.time())

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._running:
                    return
                now = time.time()
                ready = [e for e in self.entries.values() if e.due <= now]
                if not ready:
                    soonest = min((e.due for e in self.entries.values()), default=now + 60)
                    self._condition.wait(min(60.0, max(0.01, soonest - now)))
                    continue
                times = [(e, e.due) for e in ready]
                for entry in ready:
                    entry.due = self._next(entry, now)
            for entry, due in times:
                self._send(entry, due)

    def _next(self, entry: Entry, now: float) -> float:
        if not self._scale:
            return math.inf
        seconds = rate_seconds(entry.expression)
        if seconds is not None:
            return now + seconds / self._scale
        if entry.expression.startswith("at("):
            zone = ZoneInfo(entry.zone)
            when = datetime.fromisoformat(entry.expression[3:-1]).replace(tzinfo=zone).timestamp()
            return when if when > now else math.inf
        return next_cron(entry.expression, datetime.fromtimestamp(now, ZoneInfo(entry.zone))).timestamp()

    def _send(self, entry: Entry, due: float) -> None:
        self._pending.add()
        try:
            self._targets.send(
                entry.target["Arn"],
                entry.payload(timestamp(due), str(uuid.uuid4())),
                principal=entry.principal,
                source_arn=entry.arn,
                parameters=entry.target.get("EventBridgeParameters"),
            )
        except DeliveryError as error:
            self._problems.append(f"schedule {entry.name} to {entry.target['Arn']}: {error}")
            queue = entry.target.get("DeadLetterConfig", {}).get("Arn")
            if queue:
                self._targets.queue(
                    queue,
                    entry.payload(timestamp(due), ""),
                    {"ERROR_CODE": error.code, "ERROR_MESSAGE": error.message, "SCHEDULE_ARN": entry.arn},
                )
        finally:
            self._pending.done()


def scheduler_payload(schedule_arn: str, template: str | None, *, source: str) -> Callable[[str, str], str]:
    """Input of a target: its Input with Scheduler's attributes filled in, else the service's own event."""

    def payload(due: str, execution: str) -> str:
        if template is None:
            region, account = schedule_arn.split(":")[3:5]
            default = {
                "version": "0",
                "id": execution,
                "detail-type": "Scheduled Event",
                "source": source,
                "account": account,
                "time": due,
                "region": region,
                "resources": [schedule_arn],
                "detail": "{}" if source == "aws.scheduler" else {},
            }
            return json.dumps(default)
        known = {
            "<aws.scheduler.schedule-arn>": schedule_arn,
            "<aws.scheduler.scheduled-time>": due,
            "<aws.scheduler.execution-id>": execution,
            "<aws.scheduler.attempt-number>": "1",
        }
        text = template
        for placeholder, value in known.items():
            text = text.replace(placeholder, value)
        return text

    return payload


def rate_seconds(expression: str) -> float | None:
    """Seconds of a rate() expression, None for others."""
    match = re.fullmatch(r"rate\((\d+) (minute|hour|day|second)s?\)", expression)
    return int(match[1]) * _UNITS[match[2]] if match else None


def next_cron(expression: str, after: datetime) -> datetime:
    """The first whole minute after `after` that an AWS cron(min hour dom month dow year) names.

    Supports `*`, `?`, lists, ranges, steps and names; L, W and # are refused. Raises EngineError.
    """
    match = re.fullmatch(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)", expression)
    if match is None or re.search(r"[LW#]", re.sub(r"[A-Z]{3}", "", expression)):
        raise EngineError(f"Schedule expression {expression!r} is not supported by the local scheduler.")
    minute, hour, day, month, weekday, year = match.groups()
    minutes, hours = _field(minute, 0, 59, {}), _field(hour, 0, 23, {})
    days, months = _field(day, 1, 31, {}), _field(month, 1, 12, _MONTHS)
    weekdays, years = _field(weekday, 1, 7, _DAYS), _field(year, 1970, 2199, {})
    moment = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
    end = after + timedelta(days=366 * 5)
    while moment < end:
        good_day = moment.month in months and moment.day in days and moment.year in years
        if not good_day or moment.isoweekday() % 7 + 1 not in weekdays:
            moment = moment.replace(hour=0, minute=0) + timedelta(days=1)
        elif moment.hour not in hours:
            moment = moment.replace(minute=0) + timedelta(hours=1)
        elif moment.minute not in minutes:
            moment += timedelta(minutes=1)
        else:
            return moment
    return datetime.max.replace(tzinfo=UTC, year=9000)


def _field(text: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    allowed: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        else:
            start, _, stop = span.partition("-")
            first = names.get(start) or int(start)
            last = (names.get(stop) or int(stop)) if stop else (high if step else first)
        allowed.update(range(first, last + 1, int(step or 1)))
    return allowed
