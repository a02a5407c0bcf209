"""Answers of HTTP/1.1: what is one, where it ends, and whether its connection may be used again."""

from itertools import pairwise

import pytest
from aicr_pipeline.decide.answer import MAX_HEAD, AnswerReader
from aicr_pipeline.decide.http1 import MalformedError
from hypothesis import given
from hypothesis import strategies as st

OK = b"HTTP/1.1 200 OK\r\n"
NONE = b"Content-Length: 0\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
TWO = OK + b"Content-Length: 2\r\n\r\nok"


def fed(*pieces: bytes, method: str = "GET") -> tuple[AnswerReader, bytes]:
    """Who read them, and the body."""
    reader, body = AnswerReader(method), b""
    for piece in pieces:
        body += b"".join(reader.feed(piece))
    return reader, body


def head(*lines: bytes) -> bytes:
    return b"\r\n".join([*lines, b"", b""])


# Heads


def test_an_answer_s_head() -> None:
    reader, _ = fed(head(b"HTTP/1.1 200 OK", b"Empty:", b"Content-Type: a/b", b"x:  1 \t", b"X: 2", b"Last:"))
    assert (reader.status, reader.has_begun) == (200, True)
    assert dict(reader.headers) == {"content-type": "a/b", "x": "1, 2", "empty": "", "last": ""}
    assert (
        reader.headers.get("Content-TYPE"),
        reader.headers.get("none"),
        reader.headers.get("None", ""),
    ) == (
        "a/b",
        None,
        "",
    )
    assert fed(head(b"HTTP/1.1 404"))[0].status == 404
    assert fed(head(b"HTTP/1.1 200 OK", b"A: \xe4"))[0].headers["a"] == "\xe4"


@pytest.mark.parametrize(
    "block",
    [
        b"200 OK", b"HTTP/1.1", b"HTTP/1.1 20", b"HTTP/1.1 2000", b"HTTP/1.1 099 x", b"HTTP/2 200 OK",
        b"HTTP/2.0 200 OK", b"HTTP/0.9 200 OK", b"HTTP/1.2 200 OK", b"http/1.1 200 OK", b" HTTP/1.1 200 OK",
        b"\r\nHTTP/1.1 200 OK", b"\nHTTP/1.1 200 OK", b"ICY 200 OK", b"ICE/1.0 200 OK", b"RTSP/1.0 200 OK",
        b"<html>", b"", b"HTTP/1.1 101 Switching", b"HTTP/1.1 200 OK\nA: b", b"HTTP/1.1 200 OK\rA: b",
        b"HTTP/1.1 200 OK\r\nA: b\nC: d", b"HTTP/1.1 200 OK\r\nA: b\rC: d", b"HTTP/1.1 200 OK\r\nA: b\0",
        b"HTTP/1.1 200 OK\r\nA: b\x01", b"HTTP/1.1 200 OK\r\nA: b\x7f", b"HTTP/1.1 200 OK\r\nno header",
        b"HTTP/1.1 200 OK\r\nA : b", b"HTTP/1.1 200 OK\r\n: b", b"HTTP/1.1 200 OK\r\nA\xe4: b",
        b"HTTP/1.1 200 OK\r\n A: b", b"HTTP/1.1 200 OK\r\nA: b\r\n c", b"HTTP/1.1 200 OK\r\nA: b\r\n\tc",
        b"HTTP/1.1 103 x\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK",
    ],
)  # fmt: skip
def test_a_head_that_could_be_read_otherwise_is_none(block: bytes) -> None:
    with pytest.raises(MalformedError):
        fed(block + b"\r\n\r\n")


def test_what_comes_before_an_answer_is_not_of_it() -> None:
    early = head(b"HTTP/1.1 103 Early", b"Link: </a>", b"Transfer-Encoding: gzip")
    reader, body = fed(head(b"HTTP/1.1 100 Continue") + early + TWO)
    assert (reader.status, dict(reader.headers), body) == (200, {"content-length": "2"}, b"ok")
    with pytest.raises(MalformedError, match="too long"):
        fed(*[head(b"HTTP/1.1 100 Continue")] * MAX_HEAD)


def test_a_head_has_bounds() -> None:
    reader = AnswerReader("GET")
    with pytest.raises(MalformedError, match="too long"):
        for data in (OK, *[b"X: " + b"x" * 1000 + b"\r\n"] * 70):
            assert reader.room > 0
            reader.feed(data[: reader.room])
    assert fed(OK, *[b"X: " + b"x" * 1000 + b"\r\n"] * 60, NONE)[0].is_whole


@pytest.mark.parametrize(
    ("answer", "keep"),
    [
        (OK + NONE, True),
        (OK + b"Connection: Close\r\n" + NONE, False),
        (OK + b"Connection: upgrade, close\r\n" + NONE, False),
        (OK + b"Connection: upgrade\r\nUpgrade: h2\r\n" + NONE, True),
        (OK + b"\r\n", False),
        (b"HTTP/1.0 200 \r\n" + NONE, False),
        (b"HTTP/1.0 200 \r\nConnection: Keep-Alive\r\n" + NONE, True),
        (b"HTTP/1.0 200 \r\nConnection: close, keep-alive\r\n" + NONE, False),
        (b"HTTP/1.1 204 x\r\n\r\n", True),
        (b"HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", True),
        (OK + NONE + b"e", False),
        (TWO + TWO, False),
        (CHUNKED + b"0\r\n\r\n", True),
        (CHUNKED + b"0\r\n\r\n" + TWO, False),
    ],
)
def test_whether_a_connection_is_kept(answer: bytes, keep: bool) -> None:
    reader, _ = fed(answer)
    assert (reader.status in (200, 204, 304), reader.keep) == (True, keep)
    assert "evil" not in fed(answer + b"HTTP/1.1 200 OK\r\nevil: 1\r\n\r\n")[0].headers


# Bodies


def test_where_a_body_ends() -> None:
    for answer in (
        TWO,
        CHUNKED + b"2;x=y\r\nok\r\n0\r\nTrailer: x\r\n\r\n",
        CHUNKED + b"002\r\nok\r\n0\r\n\r\n",
    ):
        reader, body = fed(answer + b"\r\n")
        assert (body, reader.is_whole, reader.ends_with_connection) == (b"ok", True, False)
        assert "trailer" not in reader.headers
        assert not fed(answer[:-1])[0].is_whole
    assert fed(OK + b"Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n")[0].is_whole
    reader, body = fed(OK + b"\r\nok")
    assert (body, reader.is_whole, reader.ends_with_connection) == (b"ok", False, True)
    for status in (b"204", b"304"):
        for more in (b"", b"Content-Length: 12\r\n", b"Transfer-Encoding: chunked\r\n"):
            assert fed(b"HTTP/1.1 " + status + b" x\r\n" + more + b"\r\n")[0].is_whole


@pytest.mark.parametrize(
    "lines", [[], [b"Content-Length: 0"], [b"Content-Length: 12"], [b"Transfer-Encoding: chunked"]]
)
@pytest.mark.parametrize("stray", [b"4", b"evil", b"HTTP/1.1 200 OK\r\n\r\n", b"0\r\n\r\n"])
def test_an_answer_to_head_has_no_body(lines: list[bytes], stray: bytes) -> None:
    reader, body = fed(head(b"HTTP/1.1 200 OK", *lines), method="HEAD")
    assert (reader.is_whole, reader.goes_on(), body) == (True, False, b"")
    reader, body = fed(head(b"HTTP/1.1 200 OK", *lines) + stray, method="HEAD")
    assert (reader.is_whole, reader.goes_on(), body, reader.keep) == (True, False, b"", False)


@pytest.mark.parametrize(
    "lines",
    [
        [b"Content-Length: 1", b"Content-Length: 2"], [b"Content-Length: 1", b"Content-Length: 1"],
        [b"Content-Length: 1, 2"], [b"Content-Length: 1, 1"], [b"Content-Length: -1"],
        [b"Content-Length: +1"], [b"Content-Length: 1_0"], [b"Content-Length: 0x1"],
        [b"Content-Length: \xb2"], [b"Content-Length: "], [b"Content-Length:"], [b"Content-Length: 1 1"],
        [b"Content-Length: " + b"9" * 20], [b"Content-Length: 18446744073709551616"],
        [b"Content-Length: 1", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked", b"Content-Length: 1"],
        [b"Transfer-Encoding: gzip", b"Content-Length: 1"],
        [b"Transfer-Encoding: gzip"], [b"Transfer-Encoding: gzip, chunked"],
        [b"Transfer-Encoding: chunked, identity"], [b"Transfer-Encoding: identity"],
        [b"Transfer-Encoding: chunked"] * 2, [b"Transfer-Encoding: "], [b"Transfer-Encoding: xchunked"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_body_that_ends_in_two_places_is_none(lines: list[bytes], method: str) -> None:
    with pytest.raises(MalformedError):
        fed(head(b"HTTP/1.1 200 OK", *lines), method=method)


@pytest.mark.parametrize(
    "body",
    [
        b"\r\n", b" 1\r\n", b"1 \r\na", b"0x1\r\n", b"-1\r\n", b"+1\r\n", b"1_0\r\n", b"g\r\n", b";x\r\n",
        b"1\na",
        b"1;\nx\r\na", b"1;\0\r\na", b"f" * 17, "\uff11\r\n".encode(), b"1\r\nok", b"2\r\nok0\r\n",
        b"2\r\nok\n", b"0\r\n\n", b"0\r\nno header\r\n", b"0\r\nA: b\n",
    ],
)  # fmt: skip
def test_a_chunk_that_is_none(body: bytes) -> None:
    reader, _ = fed(CHUNKED + body)
    assert not reader.is_whole
    with pytest.raises(MalformedError):
        reader.goes_on()


def test_what_stands_between_two_pieces_has_bounds() -> None:
    for endless in (
        b"0" * 1000,
        b"1;" + b"x" * 1000,
        b"0\r\nA: " + b"x" * 1000,
        b"0\r\n" + b"A: b\r\n" * 170,
    ):
        reader, _ = fed(CHUNKED + endless, *[endless[-6:] * 170] * 70)
        with pytest.raises(MalformedError, match="too long"):
            reader.goes_on()


def test_what_came_before_a_break_is_not_lost() -> None:
    reader, body = fed(CHUNKED + b"2\r\nok\r\nx")
    assert body == b"ok"
    with pytest.raises(MalformedError, match="chunk size"):
        reader.goes_on()


class Interrupted(AnswerReader):
    def on_header(self, name: bytes, value: bytes) -> None:
        raise KeyboardInterrupt


def test_an_interruption_is_not_taken_for_a_broken_answer() -> None:
    with pytest.raises(KeyboardInterrupt):
        Interrupted("GET").feed(TWO)


@given(
    st.sampled_from(
        [
            TWO,
            TWO + TWO,
            CHUNKED + b"1\r\no\r\n1;a=b\r\nk\r\n0\r\nA: b\r\n\r\n",
            head(b"HTTP/1.1 100 x") + OK + b"A:\r\nB: c\r\n\r\nto the end",
            CHUNKED + b"2\r\nokk\r\n",
        ]
    ),
    st.lists(st.integers(1, 90), max_size=6),
)
def test_it_does_not_matter_how_an_answer_is_cut_up(answer: bytes, cuts: list[int]) -> None:
    ends = sorted({0, *(cut for cut in cuts if cut < len(answer)), len(answer)})
    reader, body = fed(*(answer[a:b] for a, b in pairwise(ends)))
    whole, wanted = fed(answer)
    assert (reader.status, dict(reader.headers), body) == (whole.status, dict(whole.headers), wanted)
    assert (reader.is_whole, reader._problem is None) == (whole.is_whole, whole._problem is None)
