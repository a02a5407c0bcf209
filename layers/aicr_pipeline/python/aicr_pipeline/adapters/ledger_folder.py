"""A folder that holds the ledger's objects, as ``aws s3 sync`` and ``make demo`` leave them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: The largest document people read here is a snapshot of a large cluster.
MOST_BYTES = 64 << 20


class LedgerFolder:
    """Reads what ``Ledger`` reads.

    A statement names records by their keys, and whoever left the folder may have written it: what would lead
    out of the folder is no key that a ledger has.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> bytes | None:
        """The content, or None when there is no such file.

        Raises
        ------
        PipelineError
            ``PlanUnreadable`` for a file that is there and cannot be read, or is far too large.
        """
        if any(part in ("", ".", "..") for part in key.split("/")):
            return None
        file = self.folder / key
        try:
            if not file.is_file():
                return None
            if file.stat().st_size > MOST_BYTES:
                raise PipelineError(Reason.ContentTooLarge, f"{file} is above {MOST_BYTES >> 20} MiB.")
            return file.read_bytes()
        except OSError as error:
            raise PipelineError(
                Reason.PlanUnreadable, f"{file} cannot be read ({error.strerror})."
            ) from error

    def keys(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Pairs of key and time under a prefix. The time may be the copy's: it orders no rollouts."""
        top = self.folder / prefix.rpartition("/")[0]
        for file in sorted(top.rglob("*")):
            key = file.relative_to(self.folder).as_posix()
            if file.is_file() and key.startswith(prefix):
                yield key, datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat()

    def first_key(self, prefix: str) -> str | None:
        """The first key under a prefix; None when there is none."""
        return min((key for key, _ in self.keys(prefix)), default=None)

    def level(self, prefix: str) -> list[str]:
        """What stands one level under a prefix, in order: keys, and folders, which end in a slash."""
        cut = len(prefix)
        return sorted({key[:cut] + "".join(key[cut:].partition("/")[:2]) for key, _ in self.keys(prefix)})
