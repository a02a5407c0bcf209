"""Digests of documents: RFC 8785 canonical JSON under SHA-256."""

import hashlib
from typing import Any

import rfc8785

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason


def canonical(value: Any, what: str) -> bytes:
    """The RFC 8785 form of JSON values.

    Raises
    ------
    PipelineError
        ``BundleInvalid`` for a number that RFC 8785 cannot represent (an integer beyond 2^53, NaN).
    """
    try:
        return rfc8785.dumps(value)
    except ValueError as error:  # the library's own, and Python's for an integer of thousands of digits
        raise PipelineError(
            Reason.BundleInvalid,
            f"{what} cannot be written as canonical JSON (RFC 8785): {str(error)[:200]}.",
        ) from None


def equal(one: Any, other: Any) -> bool:
    """Whether JSON values are the same: ``1`` and ``1.0`` are; for Python ``1`` is ``true`` too, here not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def digest(value: Any, what: str) -> str:
    """``sha256:<hex>`` of the canonical form."""
    return sha256(canonical(value, what))


def sha256(data: bytes) -> str:
    """``sha256:<hex>`` of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()
