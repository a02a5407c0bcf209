"""How old Argo CD's registry token is."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from aicr_pipeline.clock import parse_time

#: A sync must not start with less than this left.
MARGIN = timedelta(minutes=15)


def is_fresh(fact: Mapping[str, Any] | None, now: datetime) -> bool:
    """Whether the token outlives the margin. ``fact`` has ``mintedAt`` and ``expiresAt``."""
    return fact is not None and parse_time(fact["expiresAt"]) - now > MARGIN


def half_life_passed(fact: Mapping[str, Any] | None, now: datetime) -> bool:
    """Whether less than half of the token's life is left, or there is none."""
    if fact is None:
        return True
    minted, expires = parse_time(fact["mintedAt"]), parse_time(fact["expiresAt"])
    return expires - now < (expires - minted) / 2
