"""Charts in a folder of archives, as ``helm package`` and ``helm pull`` leave them: for people, and for sites
without a way to the publishers.
"""

import hashlib
from pathlib import Path

from aicr_pipeline.adapters.chart_sources import Blob, FetchedChart, in_memory
from aicr_pipeline.decide.chart_archive import read_chart
from aicr_pipeline.decide.chart_package import MAX_TOTAL, Chart
from aicr_pipeline.decide.provenance import MAX_PROVENANCE
from aicr_pipeline.decide.versions import same
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason


def find_in_folder(folder: Path, name: str, version: str) -> FetchedChart:
    """Pick one chart version out of a folder by what its archives hold; file names say nothing.

    Parameters
    ----------
    folder:
        With ``*.tgz`` files, and a ``.prov`` file beside those that are signed.
    name, version:
        What is wanted. The exact version text wins; else a leading ``v`` is ignored.

    Raises
    ------
    PipelineError
        ``ChartSourceUnsupported`` when no archive holds it, naming archives that could not be read;
        ``Conflict`` when two different archives do.
    """
    found: dict[str, tuple[Path, Chart]] = {}
    unsound: list[str] = []
    try:
        archives = sorted(folder.glob("*.tgz"))
    except OSError as error:
        raise _unsupported(f"The folder {folder} cannot be read ({error.strerror})") from error
    for file in archives:
        try:
            chart, digest = _read(file)
        except (PipelineError, OSError) as error:
            unsound.append(getattr(error, "message", f"{file} cannot be read."))
            continue
        if chart.name == name and same(chart.version, version):
            found[digest] = (file, chart)
    exact = {digest: each for digest, each in found.items() if each[1].version == version} or found
    if not exact:
        also = f" Not read: {' '.join(unsound)}" if unsound else ""
        raise _unsupported(
            f"None of the {len(archives)} archives (*.tgz) in {folder} holds chart {name} {version}", also
        )
    if len(exact) > 1:
        files = " and ".join(f"{file.name} ({digest})" for digest, (file, _) in exact.items())
        raise PipelineError(
            Reason.Conflict,
            f"The folder {folder} holds chart {name} {version} more than once, as {files}; "
            "remove those that are wrong.",
        )
    ((digest, (file, chart)),) = exact.items()
    return FetchedChart(Blob(digest, file.stat().st_size, file.open("rb")), chart, _provenance(file))


def _read(file: Path) -> tuple[Chart, str]:
    if file.stat().st_size > MAX_TOTAL:
        raise PipelineError(Reason.ContentTooLarge, f"{file} is above {MAX_TOTAL:,} bytes; leave it out.")
    with file.open("rb") as archive:
        chart = read_chart(archive, str(file))
        archive.seek(0)
        return chart, f"sha256:{hashlib.file_digest(archive, 'sha256').hexdigest()}"


def _provenance(archive: Path) -> Blob | None:
    file = archive.with_name(f"{archive.name}.prov")
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        content = opened.read(MAX_PROVENANCE + 1)
    if len(content) > MAX_PROVENANCE:
        raise PipelineError(Reason.ContentTooLarge, f"{file} is above {MAX_PROVENANCE:,} bytes.")
    return in_memory(content)


def _unsupported(what: str, also: str = "") -> PipelineError:
    return PipelineError(Reason.ChartSourceUnsupported, f"{what}; check the folder.{also}")
