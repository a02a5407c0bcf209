"""Artifacts' layers from strangers: nothing leaves the folder, nothing fills the memory, nothing crashes."""

import gzip
import io
import json
import tarfile
import zlib
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


def test_sparse_files_count_as_what_they_expand_to() -> None:
    one = str(module.MOST_FILE_BYTES)
    sparse = b"".join(
        extension(GNU__sparse__size=one, GNU__sparse__map="0,1") + entry(f"f{n}", b"1") for n in range(9)
    )
    with refused(Reason.ContentTooLarge, "entry f8"):
        unpack(layer(sparse), "it")
    with refused(Reason.ContentTooLarge, "entry f0"):
        more = str(module.MOST_FILE_BYTES + 1)
        unpack(layer(extension(GNU__sparse__size=more, GNU__sparse__map="0,1"), entry("f0", b"1")), "it")


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
