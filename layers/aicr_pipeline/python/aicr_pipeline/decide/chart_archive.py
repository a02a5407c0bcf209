"""Judges chart archives, which come from strangers, before anything of them is trusted.

Called by the mirror for every chart it moves. An archive is read once, front to back, and nothing is
ever unpacked to a disk. The tar headers are parsed here rather than by ``tarfile``: that module reads
extended headers of any declared size into memory, and follows GNU extensions no chart needs.
"""

import hashlib
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from typing import BinaryIO, Final, NamedTuple

from aicr_pipeline.decide.chart_package import MAX_TOTAL, Chart
from aicr_pipeline.decide.chart_yaml import MAX_CHART_YAML, first_line, invalid, parse_chart_yaml
from aicr_pipeline.decide.versions import same
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: POSIX.1-2017, "pax", "ustar Interchange Format". Not from ``tarfile``, which takes as long to import as a
#: chart to read, and is needed for headers alone that few tools write.
BLOCKSIZE: Final = 512
NUL: Final = b"\0"
REGTYPE, AREGTYPE, DIRTYPE, XHDTYPE, XGLTYPE = b"0", NUL, b"5", b"x", b"g"
GNUTYPE_LONGNAME: Final = b"L"

MAX_FILE = 5 * 1024 * 1024
#: Extended headers carry one path; Chart.yaml a page of metadata. Both are held in memory.
MAX_EXTENDED_HEADER = 64 * 1024

_CHUNK = 256 * 1024
_HIDING: Final = frozenset({"", ".", ".."})
#: A plain file's mode, owner, group, size, time, checksum and type as nearly every tool writes them: a chart
#: has hundreds, and ``TarInfo`` takes longer over one than zlib over its file. All else is left to it.
_USUAL = re.compile(rb"(?:[0-7]{7}\0){3}([0-7]{11})\0[0-7]{11}\0([0-7]{6})\0 0")
_NO_DEVICE = (b"\0" * 16, b"0000000\0" * 2)
#: Only this kind of header has a prefix to its name (POSIX.1-1988, "ustar"). ``TarInfo`` takes what stands
#: there from any; Go (Helm, Argo CD) from this one, and from star's, where it is shorter.
_USTAR, _STAR = b"ustar\x0000", b"tar\0"
#: A size that all read alike: ``TarInfo`` ends a number at the first NUL, Go skips the NULs before it.
_SIZE = re.compile(rb" *[0-7]*[ \0]*|[\x80\xff].{11}", re.DOTALL)


def read_chart(archive: BinaryIO, source: str) -> Chart:
    """Validate a chart archive while streaming through it; a second time where a path stands twice.

    Parameters
    ----------
    archive:
        A gzipped tar, positioned at its start.
    source:
        Where it came from, for messages.

    Returns
    -------
    Chart
        Name, version and metadata of the ``Chart.yaml`` in the single top folder.

    Raises
    ------
    PipelineError
        ``ContentTooLarge`` above 5 MiB a file or 100 MiB in all (headers included);
        ``ChartInvalid`` for links, devices, absolute paths, ``..``, a second top folder, two different
        files of one path, broken compression, a missing or unreadable ``Chart.yaml``. The entry is named.
    """
    start, chart_yaml, top = archive.tell(), bytearray(), None
    seen: set[str] = set()
    twice: set[str] = set()
    for entry in _entries(archive, source):
        parts = _safe_parts(entry.name, source)
        top = top or parts[0]
        if parts[0] != top:
            raise invalid(source, f"has a second top folder at {entry.name!r} beside {top!r}")
        if entry.is_folder:
            continue
        if len(parts) < 2:
            raise invalid(source, f"has the file {entry.name!r} outside of a top folder")
        path = "/".join(parts)
        if path in seen:
            twice.add(path)
        seen.add(path)
        if len(parts) == 2 and parts[1] == "Chart.yaml":
            if entry.size > MAX_CHART_YAML:
                raise _too_large(source, f"{entry.name!r} is above {MAX_CHART_YAML:,} bytes")
            chart_yaml.clear()
            entry.read(chart_yaml.extend)
        else:
            entry.skip()
    if f"{top}/Chart.yaml" not in seen:
        raise invalid(source, "has no Chart.yaml in its top folder")
    if twice:
        archive.seek(start)
        _require_alike(archive, twice, source)
    return parse_chart_yaml(bytes(chart_yaml), source)


def _require_alike(archive: BinaryIO, twice: Collection[str], source: str) -> None:
    """Tools disagree on which of two entries of one path counts, so what was judged might not be what the
    cluster renders. Identical copies are harmless and occur in published charts.
    """
    found: dict[str, bytes] = {}
    for entry in _entries(archive, source):
        if entry.name not in twice:
            entry.skip()
            continue
        digest = hashlib.sha256()
        entry.read(digest.update)
        if found.setdefault(entry.name, digest.digest()) != digest.digest():
            raise invalid(source, f"holds {entry.name!r} twice with different content")


def require_identity(chart: Chart, name: str, version: str, source: str) -> None:
    """Refuse an archive that is not the chart asked for.

    Raises
    ------
    PipelineError
        ``ChartInvalid`` naming both identities. The ``Chart.yaml`` inside is the only name Helm and
        Argo CD go by; an index or a tag may say anything.
    """
    if chart.name != name or not same(chart.version, version):
        raise PipelineError(
            Reason.ChartInvalid,
            f"Asked {source} for chart {name} {version}, but the archive holds {chart.name} "
            f"{chart.version}; compare the release's upstream with what the publisher serves there.",
        )


class _Entry:
    """One file or folder of the archive; a file must be read or skipped before the next is asked for."""

    def __init__(self, name: str, size: int, is_folder: bool, stream: "_Bounded") -> None:
        self.name = name
        self.size = size
        self.is_folder = is_folder
        self._stream = stream

    def read(self, sink: Callable[[bytes], object]) -> None:
        """Read the content through, piece by piece."""
        left = self.size
        while left:
            chunk = self._stream.exactly(min(left, _CHUNK))
            sink(chunk)
            left -= len(chunk)
        self._stream.exactly(-self.size % BLOCKSIZE)

    def skip(self) -> None:
        """Pass the content by; it is inflated and counted all the same."""
        self._stream.skip(self.size + -self.size % BLOCKSIZE)


class _Bounded:
    """Decompresses as it is read, and stops at the limit whatever the archive claims.

    ``gzip.GzipFile`` does the same through three layers of buffers, which costs as much as the inflating.
    """

    def __init__(self, archive: BinaryIO, source: str) -> None:
        self.source = source
        self._archive = archive
        self._member = _gzip_member()
        self._compressed = b""
        self._begun = False
        self._plain = b""
        self._at = 0
        self._total = 0

    def exactly(self, size: int) -> bytes:
        data = self.some(size)
        while len(data) < size:
            more = self.some(size - len(data))
            if not more:
                raise invalid(self.source, "ends in the middle of an entry")
            data += more
        return data

    def some(self, size: int) -> bytes:
        """Up to that many bytes; none at the end."""
        if self._at == len(self._plain):
            self._fill()
        data = self._plain[self._at : self._at + size]
        self._at += len(data)
        return data

    def skip(self, size: int) -> None:
        """As ``exactly``, for what nobody looks at: most of an archive need not be copied."""
        while size > (left := len(self._plain) - self._at):
            size -= left
            self._fill()
            if not self._plain:
                raise invalid(self.source, "ends in the middle of an entry")
        self._at += size

    def _fill(self) -> None:
        try:
            self._plain = self._decompress()
        except zlib.error as error:
            raise invalid(self.source, f"is not sound gzip ({first_line(error)})") from error
        self._at = 0
        self._total += len(self._plain)
        if self._total > MAX_TOTAL:
            raise _too_large(self.source, f"unpacks to more than {MAX_TOTAL:,} bytes")

    def _decompress(self) -> bytes:
        """The next piece. Members follow one another (RFC 1952, 2.2), and some tools pad with zeros."""
        while piece := self._compressed or self._archive.read(_CHUNK):
            self._compressed = b""
            if self._member.eof:
                piece = piece.lstrip(NUL)
                if not piece:
                    continue
                self._member = _gzip_member()
            self._begun = True
            plain = self._member.decompress(piece, _CHUNK)
            self._compressed = self._member.unused_data or self._member.unconsumed_tail
            if plain:
                return plain
        if self._begun and not self._member.eof:
            raise zlib.error("it ends too early")
        return b""


def _gzip_member() -> "zlib._Decompress":
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


class _Header(NamedTuple):
    """What counts of a tar header."""

    name: str
    size: int
    type: bytes


def _entries(archive: BinaryIO, source: str) -> Iterator[_Entry]:
    stream = _Bounded(archive, source)
    extended: dict[str, str] = {}
    before: list[bytes] = []
    while True:
        block = stream.some(BLOCKSIZE)
        if not block:
            break
        block += stream.exactly(BLOCKSIZE - len(block))
        if not block[0] and block.count(NUL) == BLOCKSIZE:
            break
        info = _header(block, source)
        if info.type in (XHDTYPE, XGLTYPE, GNUTYPE_LONGNAME):
            more = _extended_header(info, stream)
            # Of two names Go takes the last, others the first. A second header of a kind, or a global one,
            # makes Go forget all that the first said.
            forgets = info.type in before or (before and info.type == XGLTYPE)
            if forgets or more.keys() & extended.keys():
                raise invalid(source, f"gives an entry two names or sizes, at the header {info.name!r}")
            extended |= more
            before.append(info.type)
            continue
        name = extended.get("path", info.name)
        size = _size(extended.get("size"), info.size, name, source)
        extended, before = {}, []
        if info.type == DIRTYPE:
            if size:
                raise invalid(source, f"has the folder {name!r} with content")
            yield _Entry(name, 0, True, stream)
        elif info.type in (REGTYPE, AREGTYPE):
            if size > MAX_FILE:
                raise _too_large(source, f"{name!r} is above {MAX_FILE:,} bytes")
            entry = _Entry(name, size, name.endswith("/"), stream)
            if entry.is_folder and size:
                raise invalid(source, f"has the folder {name!r} with content")
            yield entry
        else:
            raise invalid(source, f"holds {name!r}, which is {_KINDS.get(info.type, 'not a plain file')}")
    if before:
        raise invalid(source, "ends with an extended header that no entry follows")
    while stream.some(_CHUNK):  # to the end: only there does gzip check its sum
        pass


_KINDS = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a FIFO"}


def _header(block: bytes, source: str) -> _Header:
    if (block[257:265] != _USTAR or block[508:] == _STAR) and block.count(NUL, 345, 500) < 155:
        raise invalid(source, "has a broken tar header (a prefix where its kind has none)")
    usual = _USUAL.match(block, 100)
    if usual and block[329:345] in _NO_DEVICE and int(usual[2], 8) == _checksum(block):
        prefix, name = (
            field.partition(NUL)[0].decode("utf-8", "surrogateescape")
            for field in (block[345:500], block[:100])
        )
        return _Header(f"{prefix}/{name}" if prefix else name, int(usual[1], 8), REGTYPE)
    from tarfile import TarError, TarInfo

    try:
        info = TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except TarError as error:
        raise invalid(source, f"has a broken tar header ({first_line(error)})") from error
    if not _SIZE.fullmatch(block, 124, 136):
        raise invalid(source, "has a broken tar header (a size that readers take differently)")
    return _Header(info.name, info.size, info.type)


def _checksum(block: bytes) -> int:
    """The sum of a header's bytes, those of the sum itself taken for spaces.

    Adler's sum begins with the same, plus one, and is far quicker; half a block does not make it wrap.
    """
    return (
        (zlib.adler32(block[:256]) & 0xFFFF)
        + (zlib.adler32(block[256:]) & 0xFFFF)
        - 2
        - sum(block[148:156])
        + 8 * ord(" ")
    )


def _extended_header(info: _Header, stream: _Bounded) -> dict[str, str]:
    """The overrides for the entry that follows. Only path and size matter to a chart."""
    if not 0 <= info.size <= MAX_EXTENDED_HEADER:
        raise _too_large(
            stream.source, f"the extended header {info.name!r} is above {MAX_EXTENDED_HEADER:,} bytes"
        )
    data = stream.exactly(info.size)
    filling = stream.exactly(-info.size % BLOCKSIZE)
    if info.type == GNUTYPE_LONGNAME:
        if filling.strip(NUL):
            # Some read on to the end of the block, where the name would have another end.
            raise invalid(stream.source, f"has a broken extended header {info.name!r}")
        return {"path": data.rstrip(NUL).decode("utf-8", "surrogateescape")}
    found = {}
    while data.strip(NUL):
        head, _, _ = data.partition(b" ")
        if not head.isdigit() or len(head) > 9 or not len(head) + 1 < int(head) <= len(data):
            raise invalid(stream.source, f"has a broken extended header {info.name!r}")
        record, data = data[len(head) + 1 : int(head)], data[int(head) :]
        if not record.endswith(b"\n"):
            raise invalid(stream.source, f"has a broken extended header {info.name!r}")
        key, _, value = record[:-1].partition(b"=")
        if key in (b"path", b"size") or key.startswith(b"GNU.sparse"):
            # A global path or a sparse map would make tools see different entries.
            if info.type == XGLTYPE or key.startswith(b"GNU.sparse"):
                raise invalid(
                    stream.source, f"uses {key.decode(errors='replace')!r} in the header {info.name!r}"
                )
            found[key.decode()] = value.decode("utf-8", "surrogateescape")
    return found


def _size(override: str | None, size: int, name: str, source: str) -> int:
    if override is not None:
        if not (override.isascii() and override.isdigit()):
            raise invalid(source, f"has {name!r} with a size that is not a number")
        size = int(override[:20])
    if size < 0:
        raise invalid(source, f"has {name!r} with a negative size")
    return size


def _safe_parts(name: str, source: str) -> list[str]:
    # Helm takes a backslash for a separator, so what is one name to tar is a path to Helm.
    if name.startswith("/") or "\\" in name or "\0" in name or name[1:2] == ":":
        raise invalid(source, f"holds {name!r}, which is not a relative path")
    parts = name.rstrip("/").split("/")
    if not _HIDING.isdisjoint(parts):
        raise invalid(source, f"holds {name!r}, which leaves or hides its folder")
    return parts


def _too_large(source: str, what: str) -> PipelineError:
    return PipelineError(
        Reason.ContentTooLarge,
        f"The chart archive from {source} is too large: {what}; leave it out or ask its publisher.",
    )
