"""The archive of a rollout's evidence: its layout, how it is packed, and how it is read without trust.

Packed twice it is the same bytes: names sorted, one time, no owners. Read with limits: names, kinds and sizes
first, contents afterwards.
"""

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Mapping
from itertools import islice
from pathlib import Path, PurePosixPath

from aicr_pipeline.decide import unpack as layers
from aicr_pipeline.decide.tar_gz import Limits, read_tar_gz

README, SUMS = "README.md", "SHA256SUMS"
ENVELOPE, PAYLOAD, SIGNATURE, PAE = "envelope.intoto.json", "payload.json", "signature.der", "pae.bin"
PUBLIC_KEY = "public-key.pem"
#: Below it the ledger's objects under their own keys.
LEDGER = "ledger/"
#: The manifest and the one layer as they are in the registry, and what is in the layer.
AICR_MANIFEST, AICR_LAYER, AICR_FILES = "aicr/manifest.json", "aicr/evidence.tar.gz", "aicr/files/"
AICR_SIGNATURE, AICR_KEY = "aicr/signature.sigstore.json", "aicr/public-key.pem"

#: Of our own: records, statement, README.
_OURS_FILES, _OURS_BYTES = 1_000, 16 << 20
# Everything that may be bound fits: AICR's layer, as it is and once more as the files in it.
MOST_FILES = layers.MOST_FILES + _OURS_FILES
#: Of an unpacked one, each file at most in a folder of its own: another folder is not read to its end.
MOST_ENTRIES = 2 * MOST_FILES
MOST_FILE_BYTES = layers.MOST_LAYER_BYTES
MOST_BYTES = layers.MOST_BYTES + layers.MOST_LAYER_BYTES + _OURS_BYTES
MOST_ARCHIVE_BYTES = 2 * layers.MOST_LAYER_BYTES + _OURS_BYTES
#: What begins with a dash may pass for an option, so the first part of a path does not.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_SUM = re.compile(r"([0-9a-f]{64})  (\S+)")


def key_in_ledger(cluster: str, mark: str) -> str:
    """Where the ledger keeps a public key that signed, by its fingerprint, whatever becomes of the key."""
    return f"evidence/{cluster}/keys/{mark}.pem"


def aicr_key_in_ledger(cluster: str, mark: str) -> str:
    """Where the ledger keeps a public key of AICR's: apart from the pipeline's, which alone may be pinned."""
    return f"evidence/{cluster}/aicr-keys/{mark}.pem"


def sums(files: Mapping[str, bytes]) -> bytes:
    """``SHA256SUMS`` of all other files, as ``sha256sum`` writes it."""
    lines = (f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files) if name != SUMS)
    return "".join(lines).encode()


def check_sums(files: Mapping[str, bytes]) -> int:
    """How many files ``SHA256SUMS`` names. It names every other file, and nothing that is not there.

    Raises
    ------
    ValueError
        Naming a file that differs, is missing or is not listed.
    """
    listed: dict[str, str] = {}
    if not files.get(SUMS):
        raise ValueError(f"{SUMS} is missing or empty")
    for line in files[SUMS].decode("utf-8", "replace").removesuffix("\n").split("\n"):
        found = _SUM.fullmatch(line)
        if found is None or found[2] in listed:
            raise ValueError(f"{SUMS} has a line that is no sum, or one twice: {line[:80]!r}")
        listed[found[2]] = found[1]
    for name in sorted({*listed, *files} - {SUMS}):
        if name not in files:
            raise ValueError(f"{name} is missing; {SUMS} names it")
        if name not in listed:
            raise ValueError(f"{name} is not named by {SUMS}: if it came here later, delete it")
        if hashlib.sha256(files[name]).hexdigest() != listed[name]:
            raise ValueError(f"{name} is not what {SUMS} says")
    if files[SUMS] != sums(files):
        raise ValueError(f"{SUMS} is not as sha256sum writes it, sorted by name")
    return len(listed)


def pack(files: Mapping[str, bytes], folder: str) -> bytes:
    """A tar.gz with everything below ``folder``. The same files give the same bytes."""
    raw = io.BytesIO()
    # POSIX.1-2001: ustar has no room for the longest names of rollouts.
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(files[name]), 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    return gzip.compress(raw.getvalue(), mtime=0)


def unpack(data: bytes) -> dict[str, bytes]:
    """Path below the archive's one folder -> content.

    Raises
    ------
    ValueError
        For what is no such archive: links, devices, paths that point outside, a name twice, too much.
    """
    if len(data) > MOST_ARCHIVE_BYTES:
        raise ValueError(f"the archive has more than {MOST_ARCHIVE_BYTES >> 20} MiB")
    folders: set[str] = set()

    def name_of(entry: tarfile.TarInfo) -> str:
        folder, _, name = entry.name.partition("/")
        if not entry.isreg():
            raise ValueError(f"entry {entry.name[:80]!r} is no plain file")
        folders.add(folder)
        if not is_name(name):
            raise ValueError(f"entry {entry.name[:80]!r} has a name that is refused")
        if not _NAME.fullmatch(folder) or len(folders) > 1:
            raise ValueError("it is not one folder")
        return name

    files = read_tar_gz(data, Limits(MOST_FILES, MOST_FILE_BYTES, MOST_BYTES), name_of)
    if not files:
        raise ValueError("the archive is empty")
    return files


def read_folder(folder: Path) -> dict[str, bytes]:
    """The files of an archive that was unpacked, under the same limits.

    Raises
    ------
    ValueError
        For links and other things that are no plain files, names that no archive has, and too much.
    """
    files: dict[str, bytes] = {}
    total = 0
    found = list(islice(folder.rglob("*"), MOST_ENTRIES + 1))
    if len(found) > MOST_ENTRIES:
        raise ValueError(f"there are more than {MOST_ENTRIES:,} files and folders: it is no unpacked archive")
    for path in sorted(found):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise ValueError(f"{name[:80]!r} is no plain file")
        if not path.is_file():
            continue
        if not is_name(name):
            # What a file manager leaves behind is of nobody's making, but nobody can say so of it either.
            raise ValueError(f"{name[:80]!r} is no file of an archive: if it came here later, delete it")
        size = path.stat().st_size
        total += size
        if size > MOST_FILE_BYTES or total > MOST_BYTES or len(files) >= MOST_FILES:
            raise ValueError(f"{name[:80]!r} is too large, or one of too many")
        files[name] = path.read_bytes()
    if not files:
        raise ValueError("the folder is empty")
    return files


def is_name(name: str) -> bool:
    """Whether a file of an archive may be called so."""
    return bool(_NAME.fullmatch(name)) and ".." not in PurePosixPath(name).parts
