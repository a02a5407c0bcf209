"""Archives in which Go's reader (Helm, Argo CD) sees another chart than Python's: none may pass as sound.

Each holds a ``Chart.yaml`` that both see, and a second one that only Go does. Helm renders the second.
"""

import subprocess
import tarfile
from pathlib import Path

import pytest
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from local.helm import helm_binary
from tests.unit.test_chart_archive import CHART, GOOD, Entry, packed_again, read, tar

OTHER = b"apiVersion: v2\nname: other\nversion: 6.6.6\n"


def blocks(*entries: Entry) -> bytes:
    return tar(*entries)[:-1024]


def summed(block: bytes) -> bytes:
    """The header with its right sum."""
    return block[:148] + b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:])) + block[156:]


def changed(block: bytes, at: int, value: bytes) -> bytes:
    return summed(block[:at] + value + block[at + len(value) :])


def record(key: str, value: str) -> bytes:
    return b"%d %s=%s\n" % (len(key) + len(value) + 5, key.encode(), value.encode())


HIDDEN = blocks(Entry("app/Chart.yaml", OTHER))
PATH = Entry("x", record("path", "app/harmless"), tarfile.XHDTYPE)
#: Without a magic there is no prefix to Go; star's is shorter, and a time follows it.
NO_MAGIC = changed(changed(HIDDEN[:512], 257, bytes(88)), 345, b"app/sub")
STAR = changed(changed(HIDDEN[:512], 508, b"tar\0"), 476, b"00000000000 ")
STAR_PREFIX = changed(STAR, 345, b"app/" + b"s" * 127)
TRICKS = {
    "a prefix without a magic": NO_MAGIC + HIDDEN[512:],
    "a prefix that is star's": STAR_PREFIX + HIDDEN[512:],
    "a second extended header": blocks(PATH, Entry("x", record("mtime", "1"), tarfile.XHDTYPE)) + HIDDEN,
    "a global header in between": blocks(PATH, Entry("x", record("comment", "1"), tarfile.XGLTYPE)) + HIDDEN,
    # To Python the first is empty, and the header that follows belongs to a file that holds the rest.
    "a size behind a NUL": changed(blocks(Entry("app/README"))[:512], 124, b"\0%010o\0" % 512)
    + blocks(Entry("app/blob", HIDDEN)),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_what_go_reads_in_another_way_is_refused(trick: str) -> None:
    content = packed_again(blocks(GOOD) + TRICKS[trick] + bytes(1024))
    with pytest.raises(PipelineError) as refused:
        read(content)
    assert refused.value.reason == Reason.ChartInvalid


@pytest.mark.parametrize("trick", [one for one in TRICKS if "star" not in one])
def test_helm_does_see_the_other_chart(trick: str, tmp_path: Path) -> None:
    """Otherwise the refusals above would be of nothing."""
    file = tmp_path / "app.tgz"
    file.write_bytes(packed_again(blocks(GOOD) + TRICKS[trick] + bytes(1024)))
    shown = subprocess.run(
        [helm_binary(), "show", "chart", file], capture_output=True, text=True, check=True
    ).stdout
    assert "name: other" in shown


@pytest.mark.parametrize("line", ["<<: {version: 6.6.6}\n", "verſion: 6.6.6\n"])
def test_a_chart_yaml_that_go_reads_in_another_way_is_refused(line: str, tmp_path: Path) -> None:
    content = packed_again(tar(Entry("app/Chart.yaml", CHART + line.encode())))
    with pytest.raises(PipelineError, match="says a field in two ways"):
        read(content)
    file = tmp_path / "app.tgz"
    file.write_bytes(content)
    shown = subprocess.run(
        [helm_binary(), "show", "chart", file], capture_output=True, text=True, check=True
    ).stdout
    assert "version: 6.6.6" in shown


def test_extended_headers_that_belong_together_are_read() -> None:
    comment = Entry("g", record("comment", "1"), tarfile.XGLTYPE)
    path = Entry("x", record("path", "app/Chart.yaml"), tarfile.XHDTYPE)
    assert read(packed_again(blocks(comment, path, Entry("other", CHART)) + bytes(1024))).name == "app"


def test_a_record_ends_with_its_line() -> None:
    text = record("path", "app/Chart.yaml")[:-1] + b"x"
    with pytest.raises(PipelineError, match="broken extended header"):
        read(packed_again(blocks(Entry("x", text, tarfile.XHDTYPE), Entry("o", CHART)) + bytes(1024)))
