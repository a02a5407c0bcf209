"""Kinds of fields that several documents have."""

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

_DURATION = re.compile(r"^([0-9]{1,9})(ms|s|m|h|d)$")
_UNIT = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(duration: str) -> float:
    """``10m`` as 600.0. Raises ValueError when it is no duration of ms, s, m, h or d."""
    match = _DURATION.match(duration)
    if match is None:
        raise ValueError("expected a duration such as 90s, 10m, 6h or 2d")
    return int(match[1]) * _UNIT[match[2]]


def _duration(value: str) -> str:
    seconds(value)
    return value


Duration = Annotated[str, AfterValidator(_duration)]
DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
ClusterName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")]
ImageByDigest = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9.:/_-]+@sha256:[0-9a-f]{64}$", max_length=512)
]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)]
SecretArn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:secretsmanager:\S+$")]
