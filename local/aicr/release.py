"""What changed with AICR 1.1.0: who its validators run as, and that a key can sign evidence."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-.*)?")


def names_its_account(version: str) -> bool:
    """Whether validators run as a ServiceAccount that is there, and not as one that each run makes.

    ``-next`` is stamped on what comes after a release, every other suffix on what comes before it.
    """
    match = _NUMBERS.fullmatch(version)
    if match is None:
        return False
    found = tuple(map(int, match.groups()[:3]))
    return found > (1, 1, 0) or (found == (1, 1, 0) and match[4] in (None, "-next"))
