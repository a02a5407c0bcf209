"""A folder of archives as a source, pushed to real registries and pulled by a real helm."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from aicr_pipeline.adapters.mirror import mirror_chart, mirror_folder
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from local.helm import helm_binary
from local.upstream.standins import standin_chart
from tests.functional.registry.charts import chart_name, destination, indexed, pushed, upstream
from tests.functional.registry.conftest import Registry


def refused(folder: Path, registry: Registry, chart: str, version: str = "1.2.3") -> PipelineError:
    with pytest.raises(PipelineError) as caught:
        mirror_folder(folder, chart, version, registry.destination(registry.host))
    return caught.value


def test_a_chart_goes_over_once_whatever_its_file_is_called(registry: Registry, tmp_path: Path) -> None:
    chart = chart_name()
    archive = standin_chart(chart, "1.2.3+b")
    (tmp_path / "latest.tgz").write_bytes(archive)
    (tmp_path / "a-copy.tgz").write_bytes(archive)
    (tmp_path / "other.tgz").write_bytes(standin_chart(chart, "1.2.4"))
    (tmp_path / "notes.txt").write_text("not an archive")
    target = registry.destination(registry.host)
    first = mirror_folder(tmp_path, chart, "1.2.3+b", target)
    again = mirror_folder(tmp_path, chart, "1.2.3+b", target)
    assert (first.pushed, first.requests, first.tag) == (True, 6, "1.2.3_b")
    assert (again.pushed, again.requests, again.manifest_digest) == (False, 1, first.manifest_digest)
    assert pushed(registry, first)[1] == archive
    (tmp_path / "pulled").mkdir()
    access = ["--plain-http", "--username", registry.user, "--password", registry.password]
    done = subprocess.run(
        [helm_binary(), "pull", f"oci://{registry.host}/aicr/demo/charts/{chart}", "--version", "1.2.3+b",
         "--destination", tmp_path / "pulled", *access],
        capture_output=True, text=True, timeout=60, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert next((tmp_path / "pulled").iterdir()).read_bytes() == archive


def test_a_folder_and_an_index_give_one_manifest(memory_registry: Registry, tmp_path: Path) -> None:
    source = indexed(chart_name())
    with upstream(source) as up:
        target = destination(memory_registry, up)
        first = mirror_chart(source, target)
    (tmp_path / "a.tgz").write_bytes(pushed(memory_registry, first)[1])
    again = mirror_folder(tmp_path, source.chart, source.version, target)
    assert (again.pushed, again.manifest_digest) == (False, first.manifest_digest)


def test_what_is_not_there_is_named_with_what_could_not_be_read(
    memory_registry: Registry, tmp_path: Path
) -> None:
    chart = chart_name()
    (tmp_path / "broken.tgz").write_bytes(b"\x1f\x8bnothing")
    (tmp_path / "later.tgz").write_bytes(standin_chart(chart, "2.0.0"))
    error = refused(tmp_path, memory_registry, chart)
    assert error.reason == Reason.ChartSourceUnsupported
    assert f"None of the 2 archives (*.tgz) in {tmp_path} holds chart {chart} 1.2.3" in error.message
    assert "broken.tgz" in error.message


def test_a_folder_that_is_not_there_holds_nothing(memory_registry: Registry, tmp_path: Path) -> None:
    error = refused(tmp_path / "gone", memory_registry, "app")
    assert error.reason == Reason.ChartSourceUnsupported
    assert "gone" in error.message


def test_one_version_in_two_archives_is_held(memory_registry: Registry, tmp_path: Path) -> None:
    chart = chart_name()
    (tmp_path / "one.tgz").write_bytes(standin_chart(chart, "1.2.3"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        text = f"apiVersion: v2\nname: {chart}\nversion: 1.2.3\n".encode()
        entry = tarfile.TarInfo(f"{chart}/Chart.yaml")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    (tmp_path / "two.tgz").write_bytes(buffer.getvalue())
    error = refused(tmp_path, memory_registry, chart)
    assert error.reason == Reason.Conflict
    assert "one.tgz (sha256:" in error.message and "two.tgz (sha256:" in error.message


def test_the_exact_version_wins_over_one_with_a_v(memory_registry: Registry, tmp_path: Path) -> None:
    chart = chart_name()
    (tmp_path / "one.tgz").write_bytes(standin_chart(chart, "1.2.3"))
    (tmp_path / "two.tgz").write_bytes(standin_chart(chart, "v1.2.3"))
    found = mirror_folder(tmp_path, chart, "v1.2.3", memory_registry.destination(memory_registry.host))
    assert (found.chart_version, found.tag) == ("v1.2.3", "v1.2.3")


def test_a_broken_provenance_file_is_refused(memory_registry: Registry, tmp_path: Path) -> None:
    chart = chart_name()
    (tmp_path / "one.tgz").write_bytes(standin_chart(chart, "1.2.3"))
    (tmp_path / "one.tgz.prov").write_bytes(b"<html>sign in</html>")
    error = refused(tmp_path, memory_registry, chart)
    assert (error.reason, "an HTML page" in error.message) == (Reason.ChartInvalid, True)
