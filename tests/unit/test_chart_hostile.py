"""Real archives and indexes, damaged in every way: a refusal, or what an independent reader sees too."""

import gzip
import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide import chart_archive
from aicr_pipeline.decide.chart_archive import read_chart
from aicr_pipeline.decide.chart_package import is_repository, repository_name, tag_of
from aicr_pipeline.decide.helm_index import IndexEntry, find_version
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from hypothesis import example, given, settings
from hypothesis import strategies as st

MANY = settings(max_examples=150, deadline=None)
CHART = b"apiVersion: v2\nname: app\nversion: 1.2.3\n"
FILES = {
    "app/Chart.yaml": CHART,
    "app/values.yaml": b"a: 1\n" * 200,
    "app/templates/" + "deep/" * 30 + "x.yaml": b"kind: ConfigMap\n",
    "app/templates/ümlaut.yaml": b"x",
    "app/empty": b"",
}


def real(form: int) -> bytes:
    """A tar as tools write it; the long and the odd name need the extensions of each form."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("app")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uname = len(content), 1_760_000_000, "builder"
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


FORMS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
TARS = {name: real(form) for name, form in FORMS.items()}
FORM = st.sampled_from(sorted(TARS))


def checked(content: bytes) -> bytes:
    """The same with right sums in all that looks like a header, so that no damage is refused for that."""
    found = bytearray(content)
    for start in range(0, len(found) - 511, 512):
        block = found[start : start + 512]
        if block[257:262] == b"ustar":
            total = sum(block[:148]) + 8 * 32 + sum(block[156:])
            found[start + 148 : start + 156] = b"%06o\0 " % total
    return bytes(found)


def ours(content: bytes) -> list[tuple[str, bytes]]:
    """What the judge saw of each file: its name and the digest of its content."""
    found = []
    for entry in chart_archive._entries(io.BytesIO(content), "there"):
        if not entry.is_folder:
            digest = hashlib.sha256()
            entry.read(digest.update)
            found.append((entry.name, digest.digest()))
    return found


def theirs(content: bytes) -> list[tuple[str, bytes]]:
    """The same by the standard library."""
    import hashlib

    found = []
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        for member in archive:
            assert member.isreg() or member.isdir(), member.name
            # A file whose name ends in a slash is a folder to Go's reader, and so to helm and to us.
            if member.isreg() and not member.name.endswith("/"):
                stream = archive.extractfile(member)
                assert stream is not None
                found.append((member.name, hashlib.sha256(stream.read()).digest()))
    return found


def judge(content: bytes) -> None:
    """Refused for a reason, or seen alike by both and harmless."""
    try:
        chart = read_chart(io.BytesIO(content), "there")
    except PipelineError as error:
        assert error.reason in (Reason.ChartInvalid, Reason.ContentTooLarge)
        assert error.message.startswith("The chart archive from there ")
        return
    seen = ours(content)
    assert seen == theirs(content)
    for name, _ in seen:
        assert name.startswith(f"{seen[0][0].split('/')[0]}/") and ".." not in name.split("/")
        assert not name.startswith("/") and "\\" not in name and "\0" not in name
    assert chart.name and chart.version


@pytest.mark.parametrize("form", TARS)
def test_what_tools_write_is_read(form: str) -> None:
    packed = gzip.compress(TARS[form])
    assert read_chart(io.BytesIO(packed), "there").name == "app"
    judge(packed)
    assert [name for name, _ in ours(packed)] == list(FILES)


WHERE = st.tuples(st.integers(0, 20_000), st.integers(0, 255))


@MANY
@given(FORM, st.lists(WHERE, min_size=1, max_size=4))
def test_bytes_changed_anywhere(form: str, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(TARS[form])
    for at, value in changes:
        damaged[at % len(damaged)] = value
    judge(gzip.compress(checked(bytes(damaged)), 1))


#: (offset, length) of what a header says: name, mode, size, type, link, magic, prefix.
FIELDS = [(0, 100), (100, 8), (124, 12), (156, 1), (157, 100), (257, 8), (345, 155)]
HOSTILE = st.sampled_from(
    [b"..", b"/etc/x", b"app/../x", b"app/./x", b"\\x", b"C:x", b"\0", b"app/", b"app//x", b"other/x",
     b"\xff/x", b"00000000777\0", b"-0000000001\0", b"77777777777\0", b"\x80" + b"\0" * 10 + b"\x05",
     b"\xff" * 12, b"\x80" + b"\xff" * 11, b"0", b"1", b"2", b"3", b"5", b"6", b"7", b"L", b"K", b"x", b"g",
     b"S", b"ustar  \0", b"app/Chart.yaml", b"app/values.yaml", b"       5\0"]
) | st.binary(max_size=12)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(FORM, st.integers(0, 30), st.sampled_from(FIELDS), HOSTILE)
@example("ustar", 5, (156, 1), b"x")  # an extended header that nothing follows
@example("gnu", 2, (156, 1), b"L")  # two names for one entry
@example("gnu", 3, (124, 12), b"\x80" + b"\0" * 10 + b"\x05")  # a name longer than its size
def test_fields_of_headers_replaced(form: str, which: int, field: tuple[int, int], value: bytes) -> None:
    content = TARS[form]
    headers = [at for at in range(0, len(content) - 511, 512) if content[at + 257 : at + 262] == b"ustar"]
    start, (offset, length) = headers[which % len(headers)], field
    damaged = bytearray(content)
    damaged[start + offset : start + offset + length] = value[:length].ljust(length, b"\0")
    # Marked as a header still, so that its sum is made right.
    total_at = start + 148
    block = damaged[start : start + 512]
    damaged[total_at : total_at + 8] = b"%06o\0 " % (sum(block[:148]) + 8 * 32 + sum(block[156:]))
    judge(gzip.compress(bytes(damaged), 1))


RECORD = st.tuples(
    st.sampled_from(["path", "size", "linkpath", "mtime", "comment", "GNU.sparse.name", "hdrcharset", "uid"]),
    st.sampled_from(
        ["app/z", "../z", "/z", "", "5", "05", "-5", "+5", " 5", "5 ", "0x5", "9" * 30, "1e3", "app/ü",
         "x" * 300]
    ),
)  # fmt: skip


def records(found: list[tuple[str, str]]) -> bytes:
    text = b""
    for key, value in found:
        body = f" {key}={value}\n".encode()
        size = len(body) + 1
        while len(str(size)) + len(body) != size:
            size = len(str(size)) + len(body)
        text += str(size).encode() + body
    return text


@MANY
@given(
    st.lists(RECORD, max_size=4),
    st.sampled_from([tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME]),
)
@example([("path", "")], tarfile.XHDTYPE)
@example([("size", "05")], tarfile.XHDTYPE)
def test_extended_headers_of_all_kinds(found: list[tuple[str, str]], kind: bytes) -> None:
    text = records(found)
    header = tarfile.TarInfo("extended")
    header.type, header.size = kind, len(text)
    body, plain = b"12345", tarfile.TarInfo("app/after")
    plain.size = len(body)
    blocks = [header.tobuf(), text + bytes(-len(text) % 512), plain.tobuf(), body + bytes(507)]
    judge(gzip.compress(b"".join(blocks) + TARS["ustar"], 1))


@MANY
@given(
    FORM,
    FORM,
    st.sampled_from(["cut", "concatenate", "append", "tail", "header", "flip", "zeros"]),
    st.integers(0, 2**16),
    st.integers(1, 255),
)
def test_gzip_of_all_kinds(form: str, after: str, how: str, at: int, value: int) -> None:
    one, other = TARS[form], TARS[after]
    packed = gzip.compress(one, 1)
    damaged = bytearray(packed)
    damaged[at % len(packed)] ^= value
    head = bytearray(packed)
    head[at % 10] ^= value
    content = {
        "cut": packed[: at % len(packed)],
        # One tar in two members, as parallel compressors write it.
        "concatenate": gzip.compress(one[: at % len(one)], 1) + gzip.compress(one[at % len(one) :], 1),
        # What follows the end of the tar is not seen by anybody.
        "append": packed + gzip.compress(other, 1),
        "tail": packed + bytes([value]) * 9,
        "header": bytes(head),
        "flip": bytes(damaged),
        "zeros": packed + bytes(at % 1024),
    }[how]
    judge(content)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.integers(0, 8_000_000), st.booleans())
def test_bombs_end_at_a_limit(files: int, size: int, tail: bool) -> None:
    compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
    found = [compressor.compress(TARS["ustar"][:-10240].rstrip(b"\0").ljust(1024, b"\0"))]
    entry = tarfile.TarInfo("app/zeros")
    entry.size = size
    for _ in range(files if not tail else 0):
        found.append(compressor.compress(entry.tobuf() + bytes(size + -size % 512)))
    found.append(compressor.compress(bytes(1024 + (size * files if tail else 0) % 150_000_000)))
    content = b"".join(found) + compressor.flush()
    try:
        read_chart(io.BytesIO(content), "there")
    except PipelineError as error:
        assert error.reason in (Reason.ContentTooLarge, Reason.ChartInvalid)
    else:
        assert size <= chart_archive.MAX_FILE and size * files <= chart_archive.MAX_TOTAL


# Indexes.

INDEX = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "entries": {
            "a": [{"version": "1.0.0", "urls": ["a.tgz"]}],
            "app": [
                {
                    "version": version,
                    "urls": [f"app-{version}.tgz"],
                    "digest": digit * 64,
                    "description": "x: y\n- z",
                }
                for version, digit in (("1.0.0", "a"), ("v1.0.0", "b"), ("1.0.1", "c"), ("2.0.0+x", "d"))
            ],
            "b": [{"version": "1.0.0", "urls": ["b.tgz"]}],
        },
        "generated": "2030-01-01T00:00:00Z",
    }
).encode()
INDEXES = {
    "yaml": INDEX,
    "crlf": INDEX.replace(b"\n", b"\r\n"),
    "json": json.dumps(yaml.safe_load(INDEX)).encode(),
}
Found = tuple[type[BaseException], Reason, str] | IndexEntry


def outcome(pieces: list[bytes], chart: str, version: str) -> Found:
    try:
        return find_version(iter(pieces), chart, version, "there")
    except PipelineError as error:
        return type(error), error.reason, error.message


def split(content: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(content) + 1) for cut in cuts), len(content)]
    return [content[one:other] for one, other in pairwise(places)]


def changed(content: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    for at, value in changes:
        place = at % len(content)
        content = content[:place] + value + content[place + len(value) :]
    return content


PIECE = st.sampled_from(
    [b"\n", b"\r", b" ", b"-", b":", b"'", b'"', b"#", b"{", b"[", b"&a", b"*a", b"|", b"\t", b"entries:",
     b"  app:\n", b"\xff", b"\0", b"\xef\xbb\xbf", b"<html>", b"---\n", b"...\n", b"version: 1.0.0"]
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(sorted(INDEXES)),
    st.lists(st.tuples(st.integers(0, 2000), PIECE), max_size=3),
    st.lists(st.integers(0, 5000), max_size=12),
    st.sampled_from(["app", "a", "b", "none"]),
    st.sampled_from(["1.0.0", "v1.0.0", "1.0.1", "2.0.0+x", "3"]),
)
def test_where_an_index_is_cut_makes_no_difference(
    form: str, changes: list[tuple[int, bytes]], cuts: list[int], chart: str, version: str
) -> None:
    damaged = changed(INDEXES[form], changes)
    whole = outcome([damaged], chart, version)
    assert outcome(split(damaged, cuts), chart, version) == whole
    if not isinstance(whole, IndexEntry):
        assert whole[1] in (Reason.ChartSourceUnsupported, Reason.ContentTooLarge, Reason.Conflict)
        return
    assert whole.version.removeprefix("v") == version.removeprefix("v")
    parsed = listed(damaged, chart)
    if parsed is not None:
        assert (whole.version, list(whole.urls)) in [
            (item.get("version"), item.get("urls")) for item in parsed
        ]


def listed(content: bytes, chart: str) -> list[dict[str, Any]] | None:
    """What a parser of the whole makes of it; None where it is no YAML, or a key is written twice."""
    loader = type("Text", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})
    try:
        node = yaml.compose(content, Loader=loader)
        parsed = yaml.load(content, Loader=loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        return None
    if node is None or twice(node) or not isinstance(parsed, dict):
        return None
    items = (parsed.get("entries") or {}).get(chart)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def twice(node: yaml.Node) -> bool:
    if isinstance(node, yaml.MappingNode):
        keys = [str(key.value) for key, _ in node.value]
        return len(set(keys)) < len(keys) or any(twice(value) for _, value in node.value)
    return isinstance(node, yaml.SequenceNode) and any(twice(value) for value in node.value)


# Names.

TEXT = (
    st.text(st.characters(codec="utf-8"), max_size=20)
    | st.from_regex(r"[a-z0-9]{1,4}([._-]{0,2}[a-z0-9]{1,4}){0,3}", fullmatch=True)
    | st.from_regex(r"[A-Za-z0-9./+_ -]{0,24}", fullmatch=True)
)
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)


def accepted(call: Callable[[], str]) -> str | None:
    try:
        return call()
    except PipelineError as error:
        assert error.reason == Reason.ChartSourceUnsupported
        return None


@MANY
@given(TEXT)
def test_a_tag_is_the_version_and_no_path(version: str) -> None:
    tag = accepted(lambda: tag_of(version))
    if tag is None:
        return
    assert _SAFE.fullmatch(tag)
    assert len(tag) == len(version)
    assert tag.replace("_", "+") == version


@MANY
@given(TEXT, st.sampled_from(["charts", "wrappers"]), st.sampled_from(["aicr/demo", "a", "/a/b/"]))
def test_a_repository_stays_below_its_prefix(name: str, folder: str, prefix: str) -> None:
    repository = accepted(lambda: repository_name(prefix, folder, name))
    if repository is None:
        return
    assert repository == f"{prefix.strip('/')}/{folder}/{name}"
    assert is_repository(repository) and repository == repository.lower()
    assert not {"", ".", ".."} & set(repository.split("/"))
