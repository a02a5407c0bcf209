"""Ends of the stand-in: a closed set of codes, each with the exit code of the real command."""

from __future__ import annotations

import os
import sys
from enum import Enum


class Code(Enum):
    """Error codes of the command and their exit codes (2 invalid request ... 8 internal)."""

    INVALID_REQUEST = 2
    NOT_FOUND = 3
    UNAUTHORIZED = 4
    TIMEOUT = 5
    UNAVAILABLE = 6
    RATE_LIMITED = 7
    INTERNAL = 8


class AicrError(Exception):
    """A command that ends badly; ``code.value`` is the exit code."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def log(message: str, **fields: object) -> None:
    """Write one line to stderr, as the command does: ``[prefix] message: key=value``."""
    prefix = os.environ.get("AICR_LOG_PREFIX", "cli")
    tail = " ".join(f"{key}={value}" for key, value in fields.items())
    print(f"[{prefix}] {message}" + (f": {tail}" if tail else ""), file=sys.stderr, flush=True)
