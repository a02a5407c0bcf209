"""Times as the documents write them. The clock is passed in; this is the one place that reads it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]


def now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """UTC with whole milliseconds and ``Z``, so that text order is time order."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Raises ValueError when it is no RFC 3339 time with a zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the time has no zone")
    return moment


def after(moment: datetime, seconds: float) -> str:
    """RFC 3339 of ``moment`` plus seconds."""
    return rfc3339(moment + timedelta(seconds=seconds))
