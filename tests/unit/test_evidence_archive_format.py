"""Archives that somebody else packed: each is refused, whatever it holds, before any of it is believed."""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide import unpack as layers
from aicr_pipeline.verify import main
from hypothesis import given
from hypothesis import strategies as st

Entry = tuple[tarfile.TarInfo, bytes]
FILES = {"README.md": b"hello", "ledger/plans/a.json": b"{}"}


def entry(name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = "") -> Entry:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname = kind, len(content) if kind == tarfile.REGTYPE else 0, link
    return made, content


def archive(*entries: Entry, form: int = tarfile.USTAR_FORMAT) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as made:
        for info, content in entries:
            made.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return gzip.compress(raw.getvalue(), mtime=0)


PLAIN = re.compile(r"\w[\w.-]*(/[\w-][\w.-]*)*")
GOOD = layout.pack(FILES, "evidence")


def bomb() -> bytes:
    return gzip.compress(b"\0" * (layout.MOST_BYTES + 1024), compresslevel=1, mtime=0)


def sparse() -> bytes:
    """An entry that says it has more than it brings."""
    made = tarfile.TarInfo("e/a")
    made.size = layout.MOST_FILE_BYTES + 1
    raw = made.tobuf(tarfile.USTAR_FORMAT) + b"\0" * 1024
    return gzip.compress(raw, mtime=0)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "sound tar.gz|cut short"),
    "not gzip": (lambda: b"x" * 100, "no sound tar.gz"),
    "gzip of no tar": (lambda: gzip.compress(b"x" * 2048), "no sound tar.gz"),
    "cut short": (lambda: GOOD[:-20], "cut short"),
    "something behind it": (lambda: GOOD + b"x", "something follows"),
    "a second member": (lambda: GOOD + GOOD, "something follows"),
    "an empty archive": (archive, "empty"),
    "a path outside": (lambda: archive(entry("e/../../etc/passwd")), "a name that is refused"),
    "a path with dots": (lambda: archive(entry("e/a/../b")), "a name that is refused"),
    "an absolute path": (lambda: archive(entry("/etc/passwd")), "refused|one folder"),
    "a backslash": (lambda: archive(entry("e/a\\b")), "a name that is refused"),
    "a line break": (lambda: archive(entry("e/a\nb")), "a name that is refused"),
    "an option": (lambda: archive(entry("e/-rf")), "a name that is refused"),
    "a hidden file": (lambda: archive(entry("e/.bashrc")), "a name that is refused"),
    "no folder": (lambda: archive(entry("a")), "a name that is refused"),
    "two folders": (lambda: archive(entry("e/a"), entry("f/b")), "not one folder"),
    "a name twice": (lambda: archive(entry("e/a"), entry("e/a", b"y")), "stands twice"),
    "a link": (lambda: archive(entry("e/a", kind=tarfile.SYMTYPE, link="/etc/passwd")), "no plain file"),
    "a hard link": (
        lambda: archive(entry("e/b"), entry("e/a", kind=tarfile.LNKTYPE, link="e/b")),
        "no plain file",
    ),
    "a device": (lambda: archive(entry("e/a", kind=tarfile.CHRTYPE)), "no plain file"),
    "a pipe": (lambda: archive(entry("e/a", kind=tarfile.FIFOTYPE)), "no plain file"),
    "a folder entry": (lambda: archive(entry("e/a", kind=tarfile.DIRTYPE)), "no plain file"),
    "a bomb": (bomb, "unpacks to more than"),
    "an entry that is too large": (sparse, "too large"),
    "too many": (
        lambda: archive(*(entry(f"e/{n}", b"") for n in range(layout.MOST_FILES + 1))),
        "one of too many",
    ),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_it_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The limits themselves are large, and making too much takes seconds.
    monkeypatch.setattr(layout, "MOST_FILES", 50)
    monkeypatch.setattr(layout, "MOST_BYTES", 1 << 20)
    make, words = HOSTILE[name]
    data = make()
    with pytest.raises(ValueError, match=words):
        layout.unpack(data)
    (tmp_path / "a.tar.gz").write_bytes(data)
    assert main([str(tmp_path / "a.tar.gz"), "--fingerprint", "0" * 64]) in (2, 3)
    printed = capsys.readouterr()
    assert "VALID\n" not in printed.out.replace("INVALID", "") + printed.err.replace("INVALID", "")


def test_an_archive_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(layout, "MOST_ARCHIVE_BYTES", len(GOOD) - 1)
    with pytest.raises(ValueError, match="more than"):
        layout.unpack(GOOD)
    (tmp_path / "a").write_bytes(GOOD)
    assert main([str(tmp_path / "a"), "--fingerprint", "0" * 64]) == 2
    assert "FAIL archive" in capsys.readouterr().out


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5})?", fullmatch=True), st.binary(max_size=99), min_size=1
    )
)
def test_what_is_packed_is_what_comes_out(files: dict[str, bytes]) -> None:
    assert layout.unpack(layout.pack(files, "evidence")) == files


@given(st.binary(max_size=300))
def test_any_bytes_are_an_archive_or_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        layout.unpack(data)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_another_archive_or_none(at: int, bit: int) -> None:
    data = GOOD[:at] + bytes([GOOD[at] ^ (1 << bit)]) + GOOD[at + 1 :]
    try:
        found = layout.unpack(data)
    except ValueError:
        return
    assert all(PLAIN.fullmatch(name) for name in found)


def test_an_archive_takes_everything_that_may_be_bound() -> None:
    """AICR's layer, as it is in the registry, and once more its files."""
    assert layout.MOST_FILES > layers.MOST_FILES + 100
    assert max(layers.MOST_FILE_BYTES, layers.MOST_LAYER_BYTES) <= layout.MOST_FILE_BYTES
    assert layout.MOST_BYTES > layers.MOST_BYTES + layers.MOST_LAYER_BYTES


@pytest.mark.parametrize(
    "name",
    [
        f"ledger/rollouts/{'r' * 80}/decisions/{'a' * 64}.json",
        f"aicr/files/phases/deployment/logs/{'a' * 200}.log",
        "aicr/files/phases/deployment/logs/-v.log",
    ],
    ids=["long rollout", "long name", "dash"],
)
def test_names_that_a_rollout_may_bring(name: str, tmp_path: Path) -> None:
    folder = f"evidence-{'r' * 80}"
    packed = layout.pack({name: b"x"}, folder)
    assert layout.unpack(packed) == {name: b"x"}
    assert layout.pack({name: b"x"}, folder) == packed
    (tmp_path / "a.tar.gz").write_bytes(packed)
    subprocess.run(["tar", "-xzf", "a.tar.gz"], cwd=tmp_path, check=True)
    assert (tmp_path / folder / name).read_bytes() == b"x"


# Unpacked


def test_a_folder_is_read_under_the_same_limits(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text)
    assert layout.read_folder(tmp_path) == FILES
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match="no plain file"):
        layout.read_folder(tmp_path)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "ledger", target_is_directory=True)
    with pytest.raises(ValueError, match="no plain file"):
        layout.read_folder(tmp_path)
    (tmp_path / "link").unlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no plain file"):
        layout.read_folder(tmp_path)


def test_a_folder_of_something_else_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MOST_ENTRIES", 10)
    for number in range(11):
        (tmp_path / f"folder{number}").mkdir()
    with pytest.raises(ValueError, match="it is no unpacked archive"):
        layout.read_folder(tmp_path)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="empty"):
        layout.read_folder(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x",
        b"0" * 64,
        b"0" * 64 + b"  README.md",
        (b"0" * 64 + b"  a\n") * 2,
        b"\xff\n",
        b"0" * 63 + b"g  a\n",
    ],
)
def test_sums_that_are_none(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        layout.check_sums({**FILES, layout.SUMS: text})


SUMS = layout.sums(FILES).decode()


@pytest.mark.parametrize(
    "text",
    [
        SUMS.replace("\n", "\r\n"),
        SUMS.replace("\n", "\r"),
        SUMS.replace("\n", "\x1c"),
        SUMS.replace("\n", "\u2028"),
        SUMS[:-1],
        SUMS + "\n",
        "\n" + SUMS,
        "\ufeff" + SUMS,
        "".join(reversed(SUMS.splitlines(keepends=True))),
        SUMS.replace("  ", " *"),
        SUMS.upper(),
        SUMS + "0" * 64 + "  SHA256SUMS\n",
    ],
    ids=[
        "crlf", "cr", "file separator", "line separator", "no end", "a blank line", "a blank line first",
        "a mark", "another order", "binary", "upper case", "itself",
    ],
)  # fmt: skip
def test_sums_are_the_very_bytes_that_sha256sum_writes(text: str) -> None:
    """Their lines are right, and other tools might read them otherwise."""
    assert layout.check_sums({**FILES, layout.SUMS: SUMS.encode()}) == len(FILES)
    with pytest.raises(ValueError, match="SHA256SUMS"):
        layout.check_sums({**FILES, layout.SUMS: text.encode()})


@pytest.mark.parametrize(
    "name", [".DS_Store", "ledger/.DS_Store", "._README.md", "Thumbs.db", "notes.txt~", "a b"]
)
def test_a_strange_file_in_a_folder_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    for path, text in {**FILES, layout.SUMS: SUMS.encode(), name: b"x"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text)
    with pytest.raises(ValueError, match=re.escape(name) + ".*if it came here later, delete it"):
        layout.check_sums(layout.read_folder(tmp_path))
    (tmp_path / name).unlink()
    assert layout.check_sums(layout.read_folder(tmp_path)) == len(FILES)
