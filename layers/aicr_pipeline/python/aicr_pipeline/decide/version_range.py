"""Versions in order, and ranges of them, as upgrade records write them.

Order is SemVer 2.0.0 precedence (section 11). The grammar of ranges is AICR's (ADR-021, ``pkg/upgrade``): one
group of ``<``, ``<=``, ``>``, ``>=``, ``=`` or a bare version, each a full ``X.Y.Z`` without build metadata.
Whatever is ambiguous is refused rather than approximated.
"""

import re
from dataclasses import dataclass

_NUMBER = r"(0|[1-9][0-9]{0,17})"
_SUFFIX = r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
_FULL = re.compile(rf"v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}{_SUFFIX}")
_LOOSE = re.compile(rf"v?{_NUMBER}\.{_NUMBER}(?:\.{_NUMBER})?{_SUFFIX}(?:\+[0-9A-Za-z.-]+)?")
_COMPARATOR = re.compile(r"(<=|>=|<|>|=|)(v?[0-9].*)")
_MOST_CHARACTERS = 200

#: Sorts as the version does.
Key = tuple[tuple[int, int, int], int, tuple[tuple[int, int, str], ...]]


@dataclass(frozen=True)
class Bound:
    """One end of a range."""

    text: str
    key: Key
    inclusive: bool

    def floors(self, version: Key) -> bool:
        """Whether a version is not below this lower end."""
        return version > self.key or (version == self.key and self.inclusive)

    def ceils(self, version: Key) -> bool:
        """Whether a version is not above this upper end."""
        return version < self.key or (version == self.key and self.inclusive)


@dataclass(frozen=True)
class Range:
    """Versions between two ends; an end that is None is open."""

    lower: Bound | None
    upper: Bound | None

    def holds(self, version: Key) -> bool:
        """Whether the version lies in it."""
        return (self.lower is None or self.lower.floors(version)) and (
            self.upper is None or self.upper.ceils(version)
        )


def version_key(version: str) -> Key | None:
    """What a version sorts by, None when it is none. ``1.2`` is ``1.2.0``; build metadata does not count."""
    return _key(_LOOSE, version)


def parse_range(text: str) -> Range:
    """A range.

    Raises
    ------
    ValueError
        With what is wrong, for whatever is outside the grammar or holds no version.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"a range has at most {_MOST_CHARACTERS} characters")
    lower: Bound | None = None
    upper: Bound | None = None
    parts = text.replace(",", " ").split()
    if not parts:
        raise ValueError("the range is empty")
    for part in parts:
        match = _COMPARATOR.fullmatch(part)
        key = _key(_FULL, match[2]) if match else None
        if match is None or key is None:
            raise ValueError(f"{part!r} is not <, <=, >, >= or = and a full version X.Y.Z")
        operator, bound = match[1], Bound(match[2].removeprefix("v"), key, match[1] not in ("<", ">"))
        if operator in ("=", "") and len(parts) > 1:
            raise ValueError(f"{text!r} combines an exact version with another comparator")
        if operator in (">", ">=", "=", ""):
            if lower is not None:
                raise ValueError(f"{text!r} has two lower ends")
            lower = bound
        if operator in ("<", "<=", "=", ""):
            if upper is not None:
                raise ValueError(f"{text!r} has two upper ends")
            upper = bound
    if lower and upper and not (lower.floors(upper.key) and upper.ceils(lower.key)):
        raise ValueError(f"{text!r} holds no version")
    return Range(lower, upper)


def _key(form: re.Pattern[str], version: str) -> Key | None:
    match = form.fullmatch(version)
    if match is None:
        return None
    release = (int(match[1]), int(match[2]), int(match[3] or 0))
    if match[4] is None:
        return release, 1, ()
    return release, 0, tuple(_identifier(part) for part in match[4].split("."))


def _identifier(part: str) -> tuple[int, int, str]:
    """Numbers come before words. Beyond 18 digits nothing is a number that anybody wrote."""
    return (0, int(part), "") if part.isdigit() and len(part) <= 18 else (1, 0, part)
