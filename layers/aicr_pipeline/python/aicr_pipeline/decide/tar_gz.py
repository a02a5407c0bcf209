"""Reading a tar.gz without trust: AICR's layers and archives of evidence, each with its own rules for names.

Whoever unpacks it with another program has to find the same files. So nothing may stand where this reader
stops and another goes on: behind the first gzip member, behind the archive's end, behind a damaged header.
"""

import io
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """How many files, how large a file, and how much in all, unpacked."""

    files: int
    file_bytes: int
    all_bytes: int


class TooLargeError(ValueError):
    """More than the limits allow."""


class UnsoundError(ValueError):
    """It is no tar.gz archive, or not one that everybody reads alike."""


def read_tar_gz(
    data: bytes, limits: Limits, name_of: Callable[[tarfile.TarInfo], str | None]
) -> dict[str, bytes]:
    """Name -> content of every file.

    Parameters
    ----------
    name_of:
        The name under which an entry is kept, None for one that is left out. Raises ValueError for an entry
        that is refused. Whatever it lets through has to be a plain file.

    Raises
    ------
    UnsoundError, TooLargeError
        Saying why. A name that stands twice is ``UnsoundError``.
    """
    files: dict[str, bytes] = {}
    total = 0
    raw = _inflate(data, limits.all_bytes)
    with _sound(lambda: tarfile.open(fileobj=io.BytesIO(raw), mode="r:")) as archive:
        while (entry := _sound(archive.next)) is not None:
            name = name_of(entry)
            if name is None:
                continue
            _check_form(raw, entry, name[:200])
            if name in files:
                raise UnsoundError(f"entry {name[:200]} stands twice")
            total += entry.size
            if entry.size > limits.file_bytes or total > limits.all_bytes or len(files) >= limits.files:
                raise TooLargeError(f"entry {name[:200]} is too large, or one of too many")
            files[name] = _sound(partial(_content, archive, entry))
        # A damaged header ends the loop without a word, as the archive's own end does.
        rest = raw[archive.offset :]
    if rest.count(0) != len(rest):
        raise UnsoundError("it is no sound tar.gz archive: damaged, or something follows its end")
    return files


def _sound(ask: Callable[[], T]) -> T:
    """What tarfile answers. Hostile headers make it raise more than its own: bad numbers, for example."""
    try:
        return ask()
    except (tarfile.TarError, ValueError, EOFError, RecursionError, OverflowError) as error:
        raise UnsoundError(f"it is no sound tar.gz archive ({type(error).__name__})") from None


def _check_form(raw: bytes, entry: tarfile.TarInfo, name: str) -> None:
    """Forms that programs read differently: found by unpacking damaged archives with GNU tar, too."""
    at = entry.offset_data - tarfile.BLOCKSIZE
    header, extensions = raw[at : entry.offset_data], raw[entry.offset : at]
    problem = None
    if entry.size < 0:  # tarfile goes back by it, or gives an empty file
        problem = "has a size below zero"
    elif entry.issparse():  # what it expands to is not in the archive's own size, either
        problem = "is sparse"
    elif header[257:265] == tarfile.GNU_MAGIC and header[345:500].strip(b"\0"):
        # No prefix of a name is there in GNU's form; tarfile puts it before the name all the same.
        problem = "has another name, too"
    elif extensions and len(extensions) != _length(extensions):
        problem = "is described by several headers, and each may name it"
    if problem is not None:
        raise UnsoundError(f"it is no sound tar.gz archive: entry {name} {problem}")


def _length(extension: bytes) -> int:
    """Of the first header and what it holds."""
    size = tarfile.TarInfo.frombuf(extension[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape").size
    return tarfile.BLOCKSIZE * (1 + -(-size // tarfile.BLOCKSIZE))


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    handle = archive.extractfile(entry)
    return handle.read() if handle else b""


def _inflate(data: bytes, most_bytes: int) -> bytes:
    """One gzip member and nothing behind it: what is not read is not verified either."""
    inflater = zlib.decompressobj(wbits=31)
    try:
        raw = inflater.decompress(data, most_bytes + 1)
    except zlib.error:
        raise UnsoundError("it is no sound tar.gz archive: not gzip, or damaged") from None
    if len(raw) > most_bytes:
        raise TooLargeError(f"the archive unpacks to more than {most_bytes >> 20} MiB")
    if not inflater.eof:
        raise UnsoundError("it is no sound tar.gz archive: cut short")
    if inflater.unused_data:
        raise UnsoundError("it is no sound tar.gz archive: something follows it")
    if not raw:
        raise UnsoundError("the archive is empty")
    return raw
