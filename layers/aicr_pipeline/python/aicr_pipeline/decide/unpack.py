"""Unpacking AICR's artifacts: one tar+gzip layer, read with limits and without trust."""

import json
import re
import tarfile
from pathlib import PurePosixPath

from aicr_pipeline.decide.tar_gz import Limits, TooLargeError, read_tar_gz
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: Of a layer as it is in the registry.
MOST_LAYER_BYTES = 32 << 20
MOST_FILES = 5_000
MOST_FILE_BYTES = 8 << 20
MOST_BYTES = 64 << 20

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def unpack(layer: bytes, what: str) -> dict[str, bytes]:
    """Files of a tar+gzip layer: path -> bytes.

    Raises
    ------
    PipelineError
        ``BundleInvalid`` for links, devices, absolute paths, ``..`` or a file that stands twice, with
        the entry named, and for what follows the archive's end; ``ContentTooLarge`` over 5,000 files,
        8 MiB a file or 64 MiB in all.
    """
    try:
        return read_tar_gz(layer, Limits(MOST_FILES, MOST_FILE_BYTES, MOST_BYTES), _name)
    except ValueError as error:
        raise _refused(what, error) from None


def _refused(what: str, error: ValueError) -> PipelineError:
    if isinstance(error, TooLargeError):
        return PipelineError(Reason.ContentTooLarge, f"{what}: {error}.")
    return PipelineError(Reason.BundleInvalid, f"{what} is refused: {str(error)[:300]}.")


def _name(entry: tarfile.TarInfo) -> str | None:
    """The path, however it is written; None for a folder."""
    if entry.isdir():
        return None
    if not entry.isreg():
        raise ValueError(f"entry {entry.name!r} is not a plain file")
    path = PurePosixPath(entry.name)
    parts = [part for part in path.parts if part != "."]
    if path.is_absolute() or ".." in parts or not parts or "\\" in entry.name:
        raise ValueError(f"entry {entry.name!r} points outside")
    return "/".join(parts)


def only_layer(manifest: bytes) -> tuple[str, int]:
    """Digest and size of the one layer that an artifact of AICR's has.

    Raises
    ------
    ValueError
        When it has not one, or what it says of it is neither digest nor size.
    """
    try:
        (layer,) = json.loads(manifest)["layers"]
        digest, size = layer["digest"], layer["size"]
    except (ValueError, KeyError, TypeError, RecursionError):
        digest = size = None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or type(size) is not int or size < 0:
        raise ValueError("not a manifest of one layer")
    return digest, size
