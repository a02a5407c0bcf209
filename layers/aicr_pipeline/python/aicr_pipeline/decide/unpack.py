"""Unpacking AICR's artifacts: one tar+gzip layer, read with limits and without trust."""

import io
import json
import tarfile
import zlib
from pathlib import PurePosixPath

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: Of a layer as it is in the registry.
MOST_LAYER_BYTES = 32 << 20
MOST_FILES = 5_000
MOST_FILE_BYTES = 8 << 20
MOST_BYTES = 64 << 20


def unpack(layer: bytes, what: str) -> dict[str, bytes]:
    """Files of a tar+gzip layer: path -> bytes.

    Raises
    ------
    PipelineError
        ``BundleInvalid`` for links, devices, absolute paths, ``..`` or a file that stands twice, with
        the entry named; ``ContentTooLarge`` over 5,000 files, 8 MiB a file or 64 MiB in all.
    """
    files: dict[str, bytes] = {}
    total = 0
    try:
        raw = _inflate(layer, what)
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
            for entry in archive:
                if entry.isdir():
                    continue
                name = _safe(entry, what)
                if name in files:
                    raise _invalid(what, f"entry {name} stands twice")
                total += entry.size  # what a sparse entry expands to is not in the archive's own size
                if entry.size > MOST_FILE_BYTES or total > MOST_BYTES or len(files) >= MOST_FILES:
                    raise PipelineError(
                        Reason.ContentTooLarge, f"{what}: entry {name} is too large, or one of too many."
                    )
                handle = archive.extractfile(entry)
                files[name] = handle.read() if handle else b""
    except (tarfile.TarError, zlib.error, EOFError, ValueError, RecursionError) as error:
        # tarfile raises the last two for hostile extension headers: bad numbers, headers upon headers.
        raise _invalid(what, f"it is not a sound tar+gzip archive ({error})") from None
    return files


def _inflate(layer: bytes, what: str) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    raw = inflater.decompress(layer, MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise PipelineError(Reason.ContentTooLarge, f"{what} unpacks to more than {MOST_BYTES >> 20} MiB.")
    if not inflater.eof:
        raise EOFError("the archive is cut short")
    return raw


def _safe(entry: tarfile.TarInfo, what: str) -> str:
    if not entry.isreg():
        raise _invalid(what, f"entry {entry.name!r} is not a plain file")
    path = PurePosixPath(entry.name)
    parts = [part for part in path.parts if part != "."]
    if path.is_absolute() or ".." in parts or not parts or "\\" in entry.name:
        raise _invalid(what, f"entry {entry.name!r} points outside")
    return "/".join(parts)


def _invalid(what: str, problem: str) -> PipelineError:
    return PipelineError(Reason.BundleInvalid, f"{what} is refused: {problem}.")


def only_layer(manifest: bytes) -> tuple[str, int]:
    """Digest and size of the one layer that an artifact of AICR's has.

    Raises
    ------
    ValueError
        When it has not one.
    """
    try:
        (layer,) = json.loads(manifest)["layers"]
        return str(layer["digest"]), int(layer["size"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("not a manifest of one layer") from None
