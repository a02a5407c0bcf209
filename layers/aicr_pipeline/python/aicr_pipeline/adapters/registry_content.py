"""What a registry sends, held against its digest while it comes."""

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

from aicr_pipeline.adapters.registry_errors import DigestMismatchError
from aicr_pipeline.model.reasons import Reason


def receive(
    chunks: Iterator[bytes], digest: str, size: int, sink: BinaryIO, doing: str
) -> DigestMismatchError | None:
    """Write what comes into ``sink`` and hold it against digest and size; returns what is wrong, or None."""
    sink.seek(0)
    sink.truncate()
    found, received = hashlib.sha256(), 0
    for chunk in chunks:
        received += len(chunk)
        if received > size:
            return mismatch(doing, f"{size:,} bytes", "more")
        found.update(chunk)
        sink.write(chunk)
    if received != size:
        return mismatch(doing, f"{size:,} bytes", f"{received:,}")
    if f"sha256:{found.hexdigest()}" != digest:
        return mismatch(doing, digest, f"sha256:{found.hexdigest()}")
    return None


def mismatch(doing: str, wanted: str, found: str) -> DigestMismatchError:
    """That content is not what was asked for."""
    return DigestMismatchError(
        Reason.ChartInvalid,
        f"{doing}: wanted {wanted}, got {found}; nothing was kept, ask the registry's owner.",
    )
