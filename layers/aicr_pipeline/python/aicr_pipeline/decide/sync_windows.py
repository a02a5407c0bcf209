"""Whether the AppProject's sync windows let Argo CD sync an Application now.

Source: pkg/apis/application/v1alpha1/types.go (SyncWindows) at v3.4, and the five fields of robfig/cron.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)([hms])")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}
#: No window is looked further back than this.
_LONGEST = timedelta(days=31)
_DESCRIPTORS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class Denial:
    """What denies syncs. ``manual_too``: also those that somebody asks for, as our steps do."""

    words: str
    manual_too: bool


def denial(project: Mapping[str, Any], application: Mapping[str, Any], now: datetime) -> Denial | None:
    """What denies syncs of ``application`` now, if anything.

    An active ``deny`` window does. Where there are ``allow`` windows, the time outside of all of them does.
    A window that cannot be read denies nothing here, of either kind: Argo CD says so itself when it syncs.
    """
    windows, active = [], []
    for window in (project.get("spec") or {}).get("syncWindows") or []:
        is_active = _is_active(window, now) if _applies(window, application) else None
        if is_active is not None:
            windows.append(window)
        if is_active:
            active.append(window)
    denying = [window for window in active if window.get("kind") == "deny"]
    if denying:
        return Denial(_words(denying[0]), not all(window.get("manualSync") for window in denying))
    allowing = [window for window in windows if window.get("kind") == "allow"]
    if not allowing or any(window in allowing for window in active):
        return None
    return Denial(
        f"outside of {_words(allowing[0])}", not all(window.get("manualSync") for window in allowing)
    )


def _words(window: Mapping[str, Any]) -> str:
    zone = window.get("timeZone") or "UTC"
    return f"{window.get('kind')} {window.get('schedule')} for {window.get('duration')} ({zone})"


def _applies(window: Mapping[str, Any], application: Mapping[str, Any]) -> bool:
    destination = (application.get("spec") or {}).get("destination") or {}
    wanted = (
        ("applications", (application["metadata"]["name"],)),
        ("namespaces", (str(destination.get("namespace", "")),)),
        ("clusters", (str(destination.get("server", "")), str(destination.get("name", "")))),
    )
    matches = [
        any(fnmatchcase(value, str(pattern)) for pattern in window[field] for value in values if value)
        for field, values in wanted
        if window.get(field)
    ]
    return bool(matches) and (all(matches) if window.get("andOperator") else any(matches))


def _is_active(window: Mapping[str, Any], now: datetime) -> bool | None:
    """None when it cannot be read."""
    try:
        zone = _zone(str(window.get("timeZone") or "UTC"))
        length = _duration(str(window.get("duration", "")))
        fires = _schedule(str(window.get("schedule", "")))
    except (ValueError, ZoneInfoNotFoundError, OSError):
        return None
    here = now.astimezone(zone).replace(tzinfo=None)
    at = here.replace(second=0, microsecond=0)
    while at > here - min(length, _LONGEST):
        if fires.matches(at):
            return True
        at -= timedelta(minutes=1)
    return False


def _zone(name: str) -> tzinfo:
    """UTC needs no database of zones, which a small system may lack."""
    return UTC if name == "UTC" else ZoneInfo(name)


def _duration(text: str) -> timedelta:
    found = _DURATION.findall(text)
    if not found or "".join(number + unit for number, unit in found) != text:
        raise ValueError(f"{text!r} is no duration")
    return timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in found))


@dataclass(frozen=True)
class _Schedule:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    #: A day must be in both sets; where both are restricted, in one of them.
    both_days: bool

    def matches(self, at: datetime) -> bool:
        if at.minute not in self.minutes or at.hour not in self.hours or at.month not in self.months:
            return False
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.both_days else (day or weekday)


def _schedule(text: str) -> _Schedule:
    fields = _DESCRIPTORS.get(text.strip(), text).split()
    if len(fields) != 5:
        raise ValueError(f"{text!r} has not five fields")
    minute, hour, day, month, weekday = fields
    return _Schedule(
        frozenset(_field(minute, 0, 59)),
        frozenset(_field(hour, 0, 23)),
        frozenset(_field(day, 1, 31)),
        frozenset(_field(month, 1, 12, _MONTHS)),
        frozenset(_field(weekday, 0, 6, _DAYS)),
        _is_open(day) or _is_open(weekday),
    )


def _is_open(field: str) -> bool:
    """Whether a field restricts nothing. One with a step (``*/2``) does."""
    parts = (part.partition("/") for part in field.split(","))
    return any(span in ("*", "?") and (not slash or int(step) == 1) for span, slash, step in parts)


def _field(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> Iterable[int]:
    for part in text.lower().split(","):
        span, slash, step = part.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        else:
            start, dash, end = span.partition("-")
            first = _number(start, low, names)
            last = _number(end, low, names) if dash else (high if slash else first)
        if not low <= first <= last <= high:
            raise ValueError(f"{part!r} is out of range")
        yield from range(first, last + 1, int(step) if slash else 1)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(text) + low if text in names else int(text)
