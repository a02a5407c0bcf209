"""Artifacts' layers from strangers: nothing leaves the folder, nothing fills the memory, nothing crashes."""

import gzip
import io
import json
import subprocess
import tarfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide import unpack as module
from aicr_pipeline.decide.unpack import unpack
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.samples import refused


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, **fields: Any) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT) + content + b"\0" * (-len(content) % 512)


def extension(**records: str) -> bytes:
    """A PAX header with whatever records."""
    body = b""
    for key, value in records.items():
        record = f" {key.replace('__', '.')}={value}\n".encode()
        size = len(record)
        while size != len(record) + len(str(size)):
            size = len(record) + len(str(size))
        body += str(size).encode() + record
    return entry("pax", body, tarfile.XHDTYPE)


def layer(*entries: bytes) -> bytes:
    return gzip.compress(b"".join(entries) + b"\0" * 1024, 1)


def test_plain_files() -> None:
    found = unpack(
        layer(
            entry("a/", kind=tarfile.DIRTYPE),
            entry("a/b.txt", b"1"),
            entry("./c", b"2"),
            entry("d//e", b""),
            extension(path="long/" + "n" * 200) + entry("x", b"3"),
            entry("l", b"also/long\0", tarfile.GNUTYPE_LONGNAME) + entry("x", b"4"),
        ),
        "it",
    )
    assert found == {"a/b.txt": b"1", "c": b"2", "d/e": b"", "long/" + "n" * 200: b"3", "also/long": b"4"}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (entry("/etc/passwd"), "points outside"),
        (entry("../x"), "points outside"),
        (entry("a/../../x"), "points outside"),
        (entry("a/.."), "points outside"),
        (entry("."), "points outside"),
        (entry("a\\..\\x"), "points outside"),
        (extension(path="../x") + entry("fine"), "points outside"),
        (entry("l", b"/abs\0", tarfile.GNUTYPE_LONGNAME) + entry("fine"), "points outside"),
        (entry("s", kind=tarfile.SYMTYPE, linkname="/etc"), "not a plain file"),
        (entry("h", kind=tarfile.LNKTYPE, linkname="a"), "not a plain file"),
        (entry("c", kind=tarfile.CHRTYPE), "not a plain file"),
        (entry("b", kind=tarfile.BLKTYPE), "not a plain file"),
        (entry("f", kind=tarfile.FIFOTYPE), "not a plain file"),
        (entry("a", b"1") + entry("a", b"2"), "stands twice"),
        (entry("a", b"1") + entry("./a", b"2"), "stands twice"),
        (entry("a/b", b"1") + entry("a//b", b"2"), "stands twice"),
        (entry("a", b"1") + extension(path="a") + entry("b", b"2"), "stands twice"),
        (extension(GNU__sparse__size="x", GNU__sparse__map="0,1") + entry("a", b"1"), "no sound"),
        (extension(GNU__sparse__size="9", GNU__sparse__map="x") + entry("a", b"1"), "no sound"),
        (b"".join(entry("l", b"n\0", tarfile.GNUTYPE_LONGNAME) for _ in range(3000)), "no sound"),
        (b"not a tar" * 100, "no sound"),
    ],
)
def test_hostile_entries(made: bytes, said: str) -> None:
    with refused(Reason.BundleInvalid, "it is refused", said):
        unpack(layer(made), "it")


def below_zero(size: int) -> bytes:
    """A header whose size is negative, in GNU's base 256."""
    made = bytearray(entry("e/a"))
    made[124:136] = b"\xff" + (size % 2**88).to_bytes(11, "big")
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made)
    return bytes(made)


@pytest.mark.parametrize("size", [-1, -511, -512, -513, -1024, -(2**87)])
def test_a_size_below_zero(size: int) -> None:
    """tarfile would read the same header again and again, or give an empty file."""
    for made in (layer(below_zero(size)), layer(extension(size=str(size)), entry("e/a"))):
        with refused(Reason.BundleInvalid, "no sound"):
            unpack(made, "it")
        with pytest.raises(ValueError, match="no sound"):
            layout.unpack(made)


def test_a_file_with_two_names() -> None:
    """In GNU's form of a header no prefix stands before the name: GNU tar unpacks ``a``, tarfile ``e/a``."""
    made = bytearray(entry("a", b"1"))
    made[345:346] = b"e"
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made[:512])
    with refused(Reason.BundleInvalid, "e/a has another name, too"):
        unpack(layer(bytes(made)), "it")
    with pytest.raises(ValueError, match="has another name"):
        layout.unpack(layer(bytes(made)))
    other = tarfile.TarInfo("e" * 90 + "/" + "a" * 90)  # where the form has a prefix, it is the name
    assert list(unpack(layer(other.tobuf(tarfile.USTAR_FORMAT)), "it")) == [other.name]


AFTER = entry("e/c", b"3")


@pytest.mark.parametrize(
    "made",
    [
        layer(entry("e/a", b"1")) + layer(entry("e/a", b"2")),
        layer(entry("e/a", b"1")) + b"\0",
        layer(entry("e/a", b"1")) + b"x",
        gzip.compress(entry("e/a", b"1")) + gzip.compress(entry("e/b", b"2") + b"\0" * 1024),
        layer(entry("e/a", b"1"), b"\0" * 512, AFTER),
        layer(entry("e/a", b"1"), b"\0" * 1024, AFTER),
        layer(entry("e/a", b"1"), b"x" * 512, AFTER),
        layer(entry("e/a", b"1"), b"x" * 512, entry("e/a", b"2")),
        layer(entry("e/a", b"1"), AFTER.replace(b"ustar", b"ustaR", 1)),
        layer(entry("e/a", b"1"), b"x"),
        gzip.compress(entry("e/a", b"1") + b"x" * 100),
    ],
    ids=[
        "a second member", "a zero", "a byte", "a member that goes on", "behind a zero block",
        "behind the end", "behind a damaged header", "the same name once more", "a wrong sum", "an odd byte",
        "half a header",
    ],
)  # fmt: skip
def test_what_another_program_might_read_on(made: bytes) -> None:
    """GNU tar skips a damaged header and unpacks what comes then, over what came before."""
    with refused(Reason.BundleInvalid, "no sound", "follows"):
        unpack(made, "it")
    with pytest.raises(ValueError, match="follows"):
        layout.unpack(made)


def test_zeros_alone_end_an_archive() -> None:
    for zeros in (0, 512, 1024, 10240):
        assert unpack(gzip.compress(entry("e/a", b"1") + b"\0" * zeros), "it") == {"e/a": b"1"}
    with refused(Reason.BundleInvalid, "the archive is empty"):
        unpack(gzip.compress(b""), "it")


@pytest.mark.parametrize("cut", [0, 1, 10, 20, -1, -8, -9])
def test_cut_short(cut: int) -> None:
    whole = layer(entry("a", b"1" * 600))
    with refused(Reason.BundleInvalid, "no sound"):
        unpack(whole[:cut], "it")


@pytest.mark.parametrize("data", [b"", b"x", b"\x1f\x8b", zlib.compress(b"x"), b"PK\x03\x04" + b"\0" * 99])
def test_not_gzip(data: bytes) -> None:
    with refused(Reason.BundleInvalid, "no sound"):
        unpack(data, "it")


def test_a_bomb_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    with refused(Reason.ContentTooLarge, "unpacks to more than 1 MiB"):
        unpack(gzip.compress(b"\0" * (64 << 20), 1), "it")


def test_too_large_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILE_BYTES", 1000)
    assert unpack(layer(entry("a", b"1" * 1000)), "it")
    with refused(Reason.ContentTooLarge, "entry a"):
        unpack(layer(entry("a", b"1" * 1001)), "it")


def test_too_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 3)
    assert len(unpack(layer(*(entry(f"f{n}") for n in range(3))), "it")) == 3
    with refused(Reason.ContentTooLarge, "entry f3"):
        unpack(layer(*(entry(f"f{n}") for n in range(4))), "it")


@pytest.mark.parametrize(
    "made",
    [
        extension(GNU__sparse__size="600", GNU__sparse__map="0,1") + entry("f", b"1"),
        extension(GNU__sparse__size=str(1 << 40), GNU__sparse__map="0,1") + entry("f", b"1"),
        extension(GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__realsize="100")
        + entry("f", b"1\n0\n0\n".ljust(512, b"\0")),
        entry("f", b"1" * 600, tarfile.GNUTYPE_SPARSE),
        extension(size="600") + entry("f", b"1" * 600, tarfile.GNUTYPE_SPARSE),
    ],
)  # fmt: skip
def test_sparse_files(made: bytes) -> None:
    """What one expands to is not in the archive, and not every program expands it to the same."""
    with refused(Reason.BundleInvalid, "is sparse"):
        unpack(layer(made), "it")


@pytest.mark.parametrize(
    "made",
    [
        entry("l", b"e/b\0", tarfile.GNUTYPE_LONGNAME) + extension(path="e/c"),
        extension(path="e/c") + entry("l", b"e/b\0", tarfile.GNUTYPE_LONGNAME),
        entry("l", b"e/b\0", tarfile.GNUTYPE_LONGNAME) + entry("l", b"e/c\0", tarfile.GNUTYPE_LONGNAME),
        entry("l", b"e/b\0", tarfile.GNUTYPE_LONGLINK) + extension(path="e/c"),
        extension(path="e/b") + extension(path="e/c"),
        extension(comment="x" * 2000) + extension(path="e/c"),
    ],
    ids=["long, pax", "pax, long", "long, long", "link, pax", "pax, pax", "large"],
)
def test_several_headers_of_one_file(made: bytes) -> None:
    """GNU tar and tarfile take different ones for its name."""
    with refused(Reason.BundleInvalid, "described by several headers"):
        unpack(layer(entry("e/z", b"1"), made, entry("e/a", b"1")), "it")
    with pytest.raises(ValueError, match="described by several headers"):
        layout.unpack(layer(entry("e/z", b"1"), made, entry("e/a", b"1")))


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,3}", fullmatch=True), st.binary(max_size=700), max_size=6
    )
)
def test_what_was_packed_comes_out(files: dict[str, bytes]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert unpack(buffer.getvalue(), "it") == files


BASE = b"".join([
    entry("a/b", b"1" * 600),
    extension(path="q", size="600"), entry("c", b"2" * 600),
    entry("l", b"abc\0", tarfile.GNUTYPE_LONGNAME), entry("d", b"3"),
])  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(BASE) - 1), st.integers(0, 255)), min_size=1, max_size=5))
def test_any_damage_is_a_refusal_or_stays_inside(damage: list[tuple[int, int]]) -> None:
    raw = bytearray(BASE)
    for at, byte in damage:
        raw[at] = byte
    for at in range(0, len(raw), 512):  # checksums that fit, so that the damage is looked at
        if raw[at + 257 : at + 262] == b"ustar":
            total = 256 + sum(raw[at : at + 148]) + sum(raw[at + 156 : at + 512])
            raw[at + 148 : at + 156] = b"%06o\0 " % total
    try:
        found = unpack(layer(bytes(raw)), "it")
    except PipelineError as error:
        assert error.reason in (Reason.BundleInvalid, Reason.ContentTooLarge)
        return
    for name in found:
        assert not name.startswith("/")
        assert ".." not in name.split("/")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_refusal_or_nothing(data: bytes) -> None:
    for given_bytes in (data, gzip.compress(data, 1)):
        try:
            assert isinstance(unpack(given_bytes, "it"), dict)
        except PipelineError as error:
            assert error.reason is Reason.BundleInvalid


DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    "layers",
    [
        [], [{}], [1], {}, None, "x",
        [{"digest": DIGEST, "size": 1}] * 2,
        [{"digest": "sha256:../../../v2/other", "size": 1}],
        [{"digest": DIGEST.upper(), "size": 1}],
        [{"digest": DIGEST + "\n", "size": 1}],
        [{"digest": [DIGEST], "size": 1}],
        [{"digest": DIGEST, "size": -1}],
        [{"digest": DIGEST, "size": "1"}],
        [{"digest": DIGEST, "size": True}],
        [{"digest": DIGEST, "size": 1.5}],
        [{"digest": DIGEST}],
    ],
    ids=str,
)  # fmt: skip
def test_a_layer_is_named_by_digest_and_size(layers: Any) -> None:
    """What stands there becomes an address, and how much is read from it."""
    assert module.only_layer(json.dumps({"layers": [{"digest": DIGEST, "size": 0}]}).encode()) == (DIGEST, 0)
    with pytest.raises(ValueError, match="one layer"):
        module.only_layer(json.dumps({"layers": layers}).encode())


PARTS = [
    entry("e/a/b", b"1" * 600),
    extension(path="e/q", size="600") + entry("e/c", b"2" * 600),
    entry("l", b"e/abc\0", tarfile.GNUTYPE_LONGNAME) + entry("e/d", b"3"),
    entry("e/z", b"zz"),
    extension(comment="x" * 30, mtime="1.5") + entry("e/y", b"yy"),
]
#: Of a header: name, mode, size, type, link, magic, prefix, and where GNU's form has something else.
PLACES = [0, 1, 2, 99, 100, 124, 130, 134, 135, 136, 156, 157, 257, 263, 265, 345, 346, 482, 483]
BYTES = [0, 0x20, 0x80, 0xFF, *b"0157/.xgLKSA"]


def damaged(random: Random) -> bytes:
    """An archive with a few bytes changed, where they matter, and sums of headers that fit."""
    raw = bytearray(b"".join(random.sample(PARTS, random.randint(1, 5))))
    raw += bytes(random.choice([0, 512, 1024]))
    for _ in range(random.randint(1, 3)):
        raw[random.randrange(len(raw) // 512) * 512 + random.choice(PLACES)] = random.choice(BYTES)
    for at in range(0, len(raw), 512):
        if raw[at + 257 : at + 262] == b"ustar":
            raw[at + 148 : at + 156] = b" " * 8
            raw[at + 148 : at + 156] = b"%06o\0 " % sum(raw[at : at + 512])
    return gzip.compress(bytes(raw), 1)


def test_gnu_tar_unpacks_the_same_files_or_complains(tmp_path: Path) -> None:
    random, seen = Random(7), 0
    for number in range(150):
        data = damaged(random)
        try:
            found = layout.unpack(data)
        except ValueError:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        done = subprocess.run(
            ["tar", "-xzf", "-", "-C", str(folder)], input=data, capture_output=True, check=False
        )
        if done.returncode == 0:
            seen += 1
            inside = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
            names = {path.relative_to(folder).as_posix().partition("/")[2]: path for path in inside}
            assert {name: path.read_bytes() for name, path in names.items()} == found, number
    assert seen > 40
