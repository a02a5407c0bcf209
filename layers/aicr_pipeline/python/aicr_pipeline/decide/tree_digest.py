"""One digest of a folder of files: what an asset of the pipeline is known by.

``sha256sum`` gives the same: docs/evidence.md has the line.
"""

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath

#: Neither source nor shipped meaning: what Python compiles differs between two machines.
COMPILED_FOLDER, COMPILED_SUFFIX = "__pycache__", ".pyc"


def counts(path: str) -> bool:
    """Whether a file of that relative path is part of the digest."""
    place = PurePosixPath(path)
    return COMPILED_FOLDER not in place.parts and place.suffix != COMPILED_SUFFIX


def tree_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over the lines ``<hex>  <path>``, sorted by path as bytes.

    Modes, times and the folder's own place say nothing about what runs, so they are left out.

    Parameters
    ----------
    files:
        Relative path, with ``/``, to the lower-case hex SHA-256 of the file's bytes.

    Raises
    ------
    ValueError
        For a path that would make two trees give the same lines.
    """
    lines = []
    for path, hexes in sorted(files.items(), key=lambda item: item[0].encode()):
        if any(mark in path for mark in "\n\r\\"):
            raise ValueError(f"{path!r} holds a line's end or a backslash; rename the file")
        if counts(path):
            lines.append(f"{hexes}  {path}\n")
    return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()
