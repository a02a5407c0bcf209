"""Text for a terminal, or for a pipe: nothing in it can move a cursor."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

#: No column is cut below this.
_LEAST = 8
_GAP = "  "


def plain(text: str) -> str:
    """The text with what is not printable written as escapes."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def shown(value: Any) -> str:
    """A JSON value in one line, typed: ``"1"`` is text, ``1`` a number."""
    return plain(json.dumps(value, ensure_ascii=False, sort_keys=True))


def cut(text: str, width: int | None) -> str:
    """At most ``width`` characters; None cuts nothing."""
    return text if width is None or len(text) <= width else text[: max(width - 1, 0)] + "…"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int | None, key: int = 0) -> list[str]:
    """Aligned columns. Where they are wider than ``width`` the widest are cut, column ``key`` last."""
    lines = [list(heads), *[[plain(cell) for cell in row] for row in rows]]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    spare = width - len(_GAP) * (len(widths) - 1) if width is not None else sum(widths)
    columns = [at for at in range(len(widths)) if at != key]
    while sum(widths) > spare and max(widths) > _LEAST:
        widest = max(columns, key=lambda at: widths[at])
        widths[widest if widths[widest] > _LEAST else key] -= 1
    return [
        _GAP.join(cut(cell, most).ljust(most) for cell, most in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
