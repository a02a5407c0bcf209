"""A rendered bundle in a folder, read with the limits of one from the registry."""

from pathlib import Path

from aicr_pipeline.decide.unpack import MOST_BYTES, MOST_FILE_BYTES, MOST_FILES
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason


def read_folder(folder: Path) -> dict[str, bytes]:
    """Every file: path under the folder, with ``/`` -> bytes.

    Raises
    ------
    PipelineError
        ``BundleInvalid`` for links and what cannot be read; ``ContentTooLarge`` over the limits.
    """
    files: dict[str, bytes] = {}
    total = 0
    try:
        for file in sorted(folder.rglob("*")):
            name = file.relative_to(folder).as_posix()
            if file.is_symlink() or not (file.is_file() or file.is_dir()):
                raise PipelineError(Reason.BundleInvalid, f"{file} is no plain file; AICR writes no others.")
            if file.is_dir():
                continue
            size = file.stat().st_size
            total += size
            if size > MOST_FILE_BYTES or total > MOST_BYTES or len(files) >= MOST_FILES:
                raise PipelineError(Reason.ContentTooLarge, f"{file} is too large, or one of too many.")
            files[name] = file.read_bytes()
    except OSError as error:
        raise PipelineError(
            Reason.BundleInvalid, f"{folder} cannot be read ({error.strerror}: {error.filename})."
        ) from error
    return files
