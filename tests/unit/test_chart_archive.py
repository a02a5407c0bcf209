"""Archives from strangers: what is refused, by name, before anything is believed; and packing our own."""

import gzip
import io
import json
import tarfile
import zlib
from typing import Literal

import pytest
from aicr_pipeline.decide import chart_archive
from aicr_pipeline.decide.chart_archive import MAX_FILE, read_chart, require_identity
from aicr_pipeline.decide.chart_package import (
    digest_of,
    helm_config,
    helm_manifest,
    pack,
    repository_name,
    tag_of,
    wrapper_tag,
)
from aicr_pipeline.decide.chart_yaml import parse_chart_yaml
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from hypothesis import example, given, settings
from hypothesis import strategies as st

CHART = b"apiVersion: v2\nname: app\nversion: 1.2.3\n"


class Entry:
    """A tar entry, written as hostile as wanted."""

    def __init__(
        self, name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, **fields: object
    ) -> None:
        self.info = tarfile.TarInfo(name)
        self.info.type = kind
        self.info.size = len(content)
        for key, value in fields.items():
            setattr(self.info, key, value)
        self.content = content


GOOD = Entry("app/Chart.yaml", CHART)


def tar(*entries: Entry, form: Literal[1, 2] = 1) -> bytes:
    buffer = io.BytesIO()
    for entry in entries:
        buffer.write(entry.info.tobuf(form, "utf-8", "surrogateescape"))
        buffer.write(entry.content + b"\0" * (-len(entry.content) % 512))
    return buffer.getvalue() + b"\0" * 1024


def packed_again(content: bytes, level: int = 1) -> bytes:
    return gzip.compress(content, level, mtime=0)


def archive(*entries: Entry, form: Literal[1, 2] = 1) -> bytes:
    return packed_again(tar(*entries, form=form))


def read(content: bytes) -> chart_archive.Chart:
    return read_chart(io.BytesIO(content), "https://charts.example.com/app.tgz")


@pytest.mark.parametrize(
    "content",
    [
        archive(GOOD),
        archive(Entry("app", kind=tarfile.DIRTYPE), GOOD, Entry("app/templates/", kind=tarfile.DIRTYPE)),
        archive(GOOD, Entry("app/charts/sub/Chart.yaml", b"name: sub\nversion: 9.9.9\n")),
        archive(GOOD, Entry("app/" + "long/" * 40 + "name.yaml", b"x")),
        archive(GOOD, Entry("app/" + "long/" * 40 + "name.yaml", b"x"), form=2),
        archive(GOOD, Entry("app/ümlaut.yaml", b"x"), form=2),
        archive(GOOD, Entry("app/empty")),
        archive(GOOD, Entry("app/same", b"1"), Entry("app/same", b"1")),
        archive(GOOD, Entry("app/largest", bytes(MAX_FILE))),
        archive(GOOD) + packed_again(b"\0" * 512),
        packed_again(tar(GOOD).rstrip(b"\0") + b"\0" * (-len(tar(GOOD).rstrip(b"\0")) % 512)),
    ],
    ids=lambda content: digest_of(content)[7:15],
)
def test_sound_archives_say_who_they_are(content: bytes) -> None:
    chart = read(content)
    assert (chart.name, chart.version) == ("app", "1.2.3")


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (
            Entry("app/link", kind=tarfile.SYMTYPE, linkname="/etc/passwd"),
            "'app/link', which is a symbolic link",
        ),
        (
            Entry("app/link", kind=tarfile.LNKTYPE, linkname="app/Chart.yaml"),
            "'app/link', which is a hard link",
        ),
        (Entry("app/dev", kind=tarfile.CHRTYPE), "'app/dev', which is a device"),
        (Entry("app/fifo", kind=tarfile.FIFOTYPE), "'app/fifo', which is a FIFO"),
        (Entry("app/sparse", kind=tarfile.GNUTYPE_SPARSE), "'app/sparse', which is not a plain file"),
        (Entry("app/../../etc/x", b"x"), "'app/../../etc/x'"),
        (Entry("../app/x", b"x"), "'../app/x'"),
        (Entry("app/..", kind=tarfile.DIRTYPE), "'app/..'"),
        (Entry("/app/x", b"x"), "'/app/x'"),
        (Entry("./app/x", b"x"), "'./app/x'"),
        (Entry("app//x", b"x"), "'app//x'"),
        (Entry("app\\..\\x", b"x"), "not a relative path"),
        (Entry("C:/app/x", b"x"), "'C:/app/x'"),
        (Entry("other/x", b"x"), "second top folder at 'other/x'"),
        (Entry("app", b"x"), "outside of a top folder"),
        (Entry("app/Chart.yaml", CHART + b"#"), "'app/Chart.yaml' twice"),
        (Entry("app/folder/", b"x", tarfile.DIRTYPE), "the folder 'app/folder' with content"),
        (Entry("", b"x"), "leaves or hides"),
    ],
)
def test_hostile_entries_are_refused_by_name(entry: Entry, named: str) -> None:
    for content in (archive(GOOD, entry), archive(GOOD, entry, GOOD)):
        with pytest.raises(PipelineError) as caught:
            read(content)
        assert caught.value.reason == Reason.ChartInvalid
        assert named in caught.value.message


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html></html>",
        b"\x1f\x8b",
        archive(GOOD)[:-4],
        archive(GOOD)[:-8] + b"\0" * 8,
        archive(GOOD)[:40],
        archive(),
        archive(Entry("app/values.yaml", b"a: 1")),
        archive(Entry("app/sub/Chart.yaml", CHART)),
        packed_again(b"\x01" * 1024),
        packed_again(tar(GOOD)[:700]),
        archive(Entry("app/Chart.yaml", b"name: app\n")),
        archive(Entry("app/Chart.yaml", b"- list")),
        archive(Entry("app/Chart.yaml", b"name: [\n")),
        archive(Entry("app/Chart.yaml", b"name: \xff\xfe\nversion: 1\n")),
        archive(Entry("app/Chart.yaml", b"[" * 5000)),
        archive(Entry("app/Chart.yaml", b"name: &a app\nversion: *a\n")),
        archive(Entry("app/Chart.yaml", b"name: {a: b}\nversion: 1\n")),
        archive(Entry("pax", b"12 path=../x\n", tarfile.XGLTYPE), GOOD),
        archive(Entry("pax", b"13 path=app/x\n", tarfile.XHDTYPE), GOOD),
        archive(Entry("pax", b"99 path=app/x\n", tarfile.XHDTYPE), GOOD),
        archive(Entry("pax", b"no length\n", tarfile.XHDTYPE), GOOD),
        archive(Entry("pax", b"13 size=-100\n", tarfile.XHDTYPE), GOOD),
        archive(Entry("pax", b"22 GNU.sparse.major=1\n", tarfile.XHDTYPE), GOOD),
    ],
    ids=lambda content: digest_of(content)[7:15],
)
def test_what_is_no_chart_is_refused(content: bytes) -> None:
    with pytest.raises(PipelineError) as caught:
        read(content)
    assert caught.value.reason == Reason.ChartInvalid
    assert "https://charts.example.com/app.tgz" in caught.value.message


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (archive(GOOD, Entry("app/big", bytes(MAX_FILE + 1))), "'app/big'"),
        (archive(GOOD, Entry("app/claims", b"x", size=10**10)), "'app/claims'"),
        (archive(Entry("app/Chart.yaml", CHART + b"#" * 300_000)), "'app/Chart.yaml'"),
        (archive(Entry("pax", b"x", tarfile.XHDTYPE, size=10**9), GOOD), "'pax'"),
        (archive(Entry("long", b"x", tarfile.GNUTYPE_LONGNAME, size=10**9), GOOD), "'long'"),
        (archive(Entry("pax", b"20 size=10000000000\n", tarfile.XHDTYPE), Entry("app/x")), "'app/x'"),
    ],
    ids=lambda value: value if isinstance(value, str) else digest_of(value)[7:15],
)
def test_large_entries_are_refused_before_they_are_read(content: bytes, named: str) -> None:
    with pytest.raises(PipelineError) as caught:
        read(content)
    assert caught.value.reason == Reason.ContentTooLarge
    assert named in caught.value.message


def bomb(*parts: bytes) -> bytes:
    """Gzip whose content is repeated without being held."""
    compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join(compressor.compress(part) for part in parts) + compressor.flush()


def test_many_files_end_at_the_total_and_are_not_held() -> None:
    import tracemalloc

    part = tar(Entry("app/x", bytes(4_000_000)))[:-1024]
    content = bomb(tar(GOOD)[:-1024], *[part] * 40)
    tracemalloc.start()
    with pytest.raises(PipelineError) as caught:
        read(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.reason == Reason.ContentTooLarge
    assert peak < 8_000_000, peak


def test_what_follows_the_end_counts_too() -> None:
    with pytest.raises(PipelineError) as caught:
        read(bomb(tar(GOOD), *[bytes(10_000_000)] * 11))
    assert caught.value.reason == Reason.ContentTooLarge


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=512, max_size=512))
@example(b"\xff" * 512)
@example(bytes(512))
def test_a_header_s_sum_is_the_one_other_readers_take(block: bytes) -> None:
    assert chart_archive._checksum(block) == tarfile.calc_chksums(block)[0]  # type: ignore[attr-defined]


@given(st.binary(max_size=2000))
def test_any_bytes_end_in_a_refusal(content: bytes) -> None:
    for hostile in (content, packed_again(content), packed_again(tar(GOOD)[:1024] + content)):
        try:
            chart = read(hostile)
        except PipelineError as error:
            assert error.reason in (Reason.ChartInvalid, Reason.ContentTooLarge)
        else:
            assert chart.name == "app"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1023), st.integers(0, 255), st.integers(0, 1023), st.integers(0, 255))
def test_damaged_headers_end_in_a_refusal_or_the_same_chart(
    at: int, value: int, more: int, other: int
) -> None:
    damaged = bytearray(tar(GOOD, Entry("app/templates/x.yaml", b"a: 1\n")))
    damaged[at], damaged[more + 1024] = value, other
    for start in (0, 1024):  # a valid sum, so that the damage is not refused for the sum alone
        header = bytes(damaged[start : start + 512])
        total = sum(header[:148]) + 8 * 32 + sum(header[156:])
        damaged[start + 148 : start + 156] = b"%06o\0 " % total
    try:
        read(packed_again(bytes(damaged)))
    except PipelineError as error:
        assert error.reason in (Reason.ChartInvalid, Reason.ContentTooLarge)


PATH = st.from_regex(r"[a-z]{1,8}(/[a-z.-]{1,12}){0,3}", fullmatch=True).filter(
    lambda path: not any(part in (".", "..") for part in path.split("/"))
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(PATH, st.binary(max_size=300), max_size=6))
def test_what_is_packed_is_read_back_and_depends_on_content_alone(files: dict[str, bytes]) -> None:
    files["Chart.yaml"] = CHART
    packed = pack("app", files)
    assert packed == pack("app", dict(reversed(files.items())))
    assert read(packed).name == "app"
    with tarfile.open(fileobj=io.BytesIO(packed)) as opened:
        members = opened.getmembers()
        assert [member.name for member in members] == sorted(f"app/{path}" for path in files)
        assert {(m.mtime, m.uid, m.gid, m.mode, m.uname) for m in members} == {(0, 0, 0, 0o644, "")}
        for member in members:
            stream = opened.extractfile(member)
            assert stream is not None
            assert stream.read() == files[member.name.removeprefix("app/")]


def test_packing_is_fixed_for_all_machines() -> None:
    packed = pack("app", {"Chart.yaml": CHART, "templates/x.yaml": b"x" * 70_000})
    assert digest_of(packed) == "sha256:369c1bd32de8b6c5ec27d7553383df4c5893beaedd1f1bbb90f8df84a3f666a2"
    assert gzip.decompress(packed)[:14] == b"app/Chart.yaml"


@pytest.mark.parametrize(
    ("name", "version", "accepted"),
    [
        ("app", "1.2.3", True),
        ("app", "v1.2.3", True),
        ("app", "1.2.03", False),
        ("app", "1.2.3+x", False),
        ("App", "1.2.3", False),
        ("other", "1.2.3", False),
    ],
)
def test_identity_is_what_the_archive_says(name: str, version: str, accepted: bool) -> None:
    chart = read(archive(GOOD))
    if accepted:
        require_identity(chart, name, version, "there")
        return
    with pytest.raises(PipelineError) as caught:
        require_identity(chart, name, version, "there")
    assert f"{name} {version}" in caught.value.message and "app 1.2.3" in caught.value.message


def test_scalars_stay_what_is_written() -> None:
    text = (
        b"name: app\nversion: 1.10\nappVersion: 2024-01-01\ndeprecated: true\nhome: null\nkeywords: [1e3]\n"
    )
    chart = parse_chart_yaml(text, "there")
    assert chart.version == "1.10"
    assert json.loads(helm_config(chart.metadata)) == {
        "name": "app", "version": "1.10", "appVersion": "2024-01-01", "deprecated": True, "keywords": ["1e3"]
    }  # fmt: skip


def test_keys_that_are_no_text_to_yaml_are_text_in_the_config() -> None:
    text = b"name: app\nversion: 1.2.3\n~: x\nannotations: {on: a, b: c}\n"
    config = json.loads(helm_config(parse_chart_yaml(text, "there").metadata))
    assert config["annotations"] == {"true": "a", "b": "c"} and config["null"] == "x"


def test_half_a_character_is_refused() -> None:
    with pytest.raises(PipelineError, match="a value that JSON cannot hold"):
        parse_chart_yaml(rb'name: app\nversion: 1.2.3\ndescription: "\ud800"'.replace(rb"\n", b"\n"), "there")


def test_the_manifest_depends_on_the_content_alone() -> None:
    one = helm_manifest(("sha256:" + "a" * 64, 2), ("sha256:" + "b" * 64, 3))
    assert one == (
        b'{"config":{"digest":"sha256:%b","mediaType":"application/vnd.cncf.helm.config.v1+json","size":2},'
        b'"layers":[{"digest":"sha256:%b","mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","size":3}],'
        b'"mediaType":"application/vnd.oci.image.manifest.v1+json","schemaVersion":2}'
        % (b"a" * 64, b"b" * 64)
    )


@pytest.mark.parametrize(
    ("version", "tag"),
    [("1.2.3", "1.2.3"), ("v1.2", "v1.2"), ("01.2.3+b.4", "01.2.3_b.4"), ("1.0.0-rc.1", "1.0.0-rc.1")],
)
def test_tags_change_the_plus_and_nothing_else(version: str, tag: str) -> None:
    assert tag_of(version) == tag


@pytest.mark.parametrize("version", ["", "a/b", "1 0", "-1", "x" * 129, "1.0\n", "1.0.0_x"])
def test_what_is_no_tag_is_refused(version: str) -> None:
    with pytest.raises(PipelineError):
        tag_of(version)


def test_wrappers_are_told_apart_by_content() -> None:
    assert wrapper_tag("0.1.0", "sha256:0123456789abcdef") == "0.1.0-0123456789ab"


@pytest.mark.parametrize("name", ["Upper", "a b", "../x", "", "a/", "a\n"])
def test_repository_names_are_checked(name: str) -> None:
    with pytest.raises(PipelineError) as caught:
        repository_name("aicr/demo", "charts", name)
    assert caught.value.reason == Reason.ChartSourceUnsupported


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["app/a", "app/" + "d" * 90 + "/f" * 20, "app/ü", "app/"]),
    st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT]),
    st.integers(0, 511),
    st.binary(min_size=1, max_size=12),
    st.booleans(),
)
def test_the_short_way_through_a_header_ends_where_tarfile_does(
    name: str, form: Literal[0, 1], at: int, change: bytes, mended: bool
) -> None:
    block = bytearray(Entry(name, b"content").info.tobuf(form, "utf-8", "surrogateescape")[:512])
    block[at : at + len(change)] = change[: 512 - at]
    if mended:
        total = sum(block[:148]) + 256 + sum(block[156:])
        block[148:156] = b"%06o\0 " % total
    try:
        info = tarfile.TarInfo.frombuf(bytes(block), "utf-8", "surrogateescape")
    except tarfile.TarError:
        with pytest.raises(PipelineError, match="broken tar header"):
            chart_archive._header(bytes(block), "x")
        return
    try:
        found = chart_archive._header(bytes(block), "x")
    except PipelineError as error:  # what tarfile reads, and Go in another way
        assert ("a prefix" in error.message and any(block[345:500])) or "a size" in error.message
    else:
        assert found == (info.name, info.size, info.type)


@pytest.mark.parametrize("cut", [1, 9, 600])
def test_gzip_that_ends_early_is_refused(cut: int) -> None:
    text = packed_again(tar(GOOD, Entry("app/a", bytes(range(256)) * 9)), level=0)
    with pytest.raises(PipelineError, match="not sound gzip"):
        read_chart(io.BytesIO(text[:-cut]), "x")


def test_members_and_padding_of_gzip_are_read_to_their_end() -> None:
    text = tar(GOOD, Entry("app/a", b"x" * 200_000))
    two = packed_again(text[:700]) + packed_again(text[700:]) + b"\0" * 100_000
    assert read_chart(io.BytesIO(two), "x").name == "app"
    with pytest.raises(PipelineError, match="not sound gzip"):
        read_chart(io.BytesIO(two + b"more"), "x")


@pytest.mark.parametrize("chunk", [1, 511, 700, 1300])
def test_pieces_of_any_size_make_the_same_archive(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(chart_archive, "_CHUNK", chunk)
    found = read_chart(io.BytesIO(archive(GOOD, Entry("app/a", b"x" * 3000), Entry("app/b", b"y"))), "x")
    assert (found.name, found.version) == ("app", "1.2.3")
