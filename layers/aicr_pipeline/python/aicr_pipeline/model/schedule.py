"""Schedule expressions as EventBridge Scheduler takes them, hourly at most."""

import re

_RATE = re.compile(r"^rate\(([1-9][0-9]{0,3}) (hours?|days?)\)$")
_CRON = re.compile(r"^cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)$")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_ANY = ("*", "?")


def schedule_expression(text: str) -> str:
    """Check ``rate(12 hours)``, ``rate(1 day)`` or ``cron(0 6 * * ? *)`` and return it.

    Found here and not at deployment: AWS's own answer names no field. One of the two days of a cron
    expression is ``?``, and ``L``, ``W`` and ``#`` are not taken.

    Raises
    ------
    ValueError
        When it is none, or may come more often than once an hour.
    """
    rate = _RATE.fullmatch(text)
    if rate is not None:
        if (rate[1] == "1") == rate[2].endswith("s"):
            raise ValueError("a rate of 1 has a singular unit, any other a plural")
        return text
    cron = _CRON.fullmatch(text)
    if cron is None:
        raise ValueError("expected rate(<n> hours), rate(<n> days) or cron(<six fields>), at most hourly")
    minute, hour, day, month, weekday, year = cron.groups()
    if not re.fullmatch(r"[0-9]|[1-5][0-9]", minute):
        raise ValueError("the minute of a cron expression is one number from 0 to 59: hourly is the most")
    if (day == "?") == (weekday == "?"):
        raise ValueError("exactly one of day of month and day of week is ?")
    _field("hour", hour, 0, 23)
    _field("day of month", day, 1, 31)
    _field("month", month, 1, 12, _MONTHS)
    _field("day of week", weekday, 1, 7, _DAYS)
    _field("year", year, 1970, 2199)
    return text


def _field(what: str, text: str, low: int, high: int, names: tuple[str, ...] = ()) -> None:
    for part in text.split(","):
        span, slash, step = part.partition("/")
        good = not slash or (step.isdecimal() and step.isascii() and 1 <= int(step) <= high)
        if span in _ANY:
            if span == "?" and (what not in ("day of month", "day of week") or text != "?"):
                good = False
        else:
            ends = [_number(end, low, high, names) for end in span.split("-")]
            good = good and len(ends) <= 2 and None not in ends
        if not good:
            raise ValueError(f"{what}: {text[:40]!r} is nothing that cron takes there")


def _number(text: str, low: int, high: int, names: tuple[str, ...]) -> int | None:
    if text in names:
        return names.index(text) + low
    if not re.fullmatch(r"[0-9]{1,4}", text) or not low <= int(text) <= high:
        return None
    return int(text)
