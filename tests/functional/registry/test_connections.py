"""Answers that are not sound HTTP, connections that must not be used again, and bodies in every framing."""

import gzip
import io
import socket
import ssl
import threading
import zlib
from pathlib import Path
from typing import Any

import h11
import pytest
from aicr_pipeline.adapters.connections import CHUNK, Connections, Response, WireError
from aicr_pipeline.adapters.http import Answer, Counters, Patience, Transport
from aicr_pipeline.decide.answer import MAX_HEAD
from aicr_pipeline.decide.http1 import parse_address
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason
from hypothesis import given, settings
from hypothesis import strategies as st

from local.kube.tls import Tls
from tests.functional.registry.fake import Fake, Reply
from tests.functional.registry.raw_server import Raw, raw_server

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
TWO = OK + b"Content-Length: 2\r\n\r\nok"


def _start(answer: bytes) -> str:
    return ascii(answer[-40:])[2:-1]


def once(host: str) -> Transport:
    return Transport(frozenset({host}), Patience(attempts=1, read=5))


def get(transport: Transport, host: str, method: str = "GET", **more: Any) -> Answer:
    return transport.send(method, f"http://{host}/x", doing="Reading", counters=Counters(), **more)


def read(answer: Answer) -> bytes:
    return b"".join(answer.chunks())


def asked(raw: Raw) -> list[int]:
    """Requests by connection."""
    return [len(seen) for seen in raw.seen]


# Framing


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (TWO, b"ok"),
        (b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + TWO, b"ok"),
        (OK + CHUNKED + b"2;x=y\r\nab\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
         b"ab0123456789"),
        (OK + CHUNKED + b"0\r\n\r\n", b""),
        (OK + b"\r\nto the end", b"to the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (OK + b"Content-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 204 None\r\n\r\n", b""),
    ],
    ids=_start,
)  # fmt: skip
def test_a_body_ends_where_it_says(answer: bytes, body: bytes) -> None:
    with raw_server([answer]) as raw:
        counters = Counters()
        transport = once(raw.host)
        found = transport.send("GET", f"http://{raw.host}/x", doing="Reading", counters=counters)
        assert (read(found), counters.received, counters.requests) == (body, len(body), 1)


_HEADS = ["Content-Length: 3", "Content-Length: 4", "Transfer-Encoding: chunked", "Connection: close", "X: y"]
_BODIES = [
    b"abc",
    b"abcd",
    b"3\r\nabc\r\n0\r\n\r\n",
    b"3\r\nabcd\r\n0\r\n\r\n",
    b"0\r\n\r\n",
    b"2\r\nab\r\n",
    b"\r\n",
    b"",
]


@settings(max_examples=60)
@given(st.sampled_from([200, 204, 304, 404]), st.lists(st.sampled_from(_HEADS), max_size=3),
       st.lists(st.sampled_from(_BODIES), max_size=2))  # fmt: skip
def test_a_body_is_what_another_reader_takes_it_for(
    status: int, lines: list[str], parts: list[bytes]
) -> None:
    """Whatever is accepted here, h11 reads the same way."""
    answer = "\r\n".join([f"HTTP/1.1 {status} x", *lines, "", ""]).encode() + b"".join(parts)
    ours = _through_a_socket(answer)
    if ours is not None:
        assert ours == _by_h11(answer)


def _through_a_socket(answer: bytes) -> bytes | None:
    connections = Connections("me", 5, 5)
    near, far = socket.socketpair()
    with near, far:
        far.sendall(answer)
        far.shutdown(socket.SHUT_WR)
        connections._open = lambda address: _connection(near)  # type: ignore[method-assign]
        address = parse_address("http://h/")
        assert address is not None
        try:
            return b"".join(connections.ask("GET", address, {}, None, 0).pieces())
        except WireError:
            return None


def _connection(connected: socket.socket) -> Any:
    from aicr_pipeline.adapters.connections import _Connection

    return _Connection(connected)


def _by_h11(answer: bytes) -> bytes:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    client.send(h11.EndOfMessage())
    client.receive_data(answer)
    client.receive_data(b"")
    body = b""
    while not isinstance(event := client.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Data):
            body += event.data
    return body


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("gzip", gzip.compress(b"plain" * 1000)),
        ("x-gzip", gzip.compress(b"plain" * 500) + gzip.compress(b"plain" * 500)),
        ("deflate", zlib.compress(b"plain" * 1000)),
        ("identity", b"plain" * 1000),
    ],
    ids=["gzip", "two members", "deflate", "identity"],
)
def test_an_encoding_is_undone_where_that_is_wanted(fake: Fake, encoding: str, sent: bytes) -> None:
    fake.on(".", Reply(200, sent, {"Content-Encoding": encoding}))
    transport = once(fake.host)
    assert read(get(transport, fake.host)) == sent
    pieces = list(get(transport, fake.host).chunks(decode=True))
    assert b"".join(pieces) == b"plain" * 1000


def test_a_small_body_that_unpacks_to_much_comes_in_pieces(fake: Fake) -> None:
    fake.on(".", Reply(200, gzip.compress(bytes(40 * CHUNK)), {"Content-Encoding": "gzip"}))
    sizes = [len(piece) for piece in get(once(fake.host), fake.host).chunks(decode=True)]
    assert (sum(sizes), max(sizes)) == (40 * CHUNK, CHUNK)


@pytest.mark.parametrize(
    "sent",
    [gzip.compress(b"plain" * 100)[:-5], b"no gzip", gzip.compress(b"a") + b"garbage"],
    ids=["cut off", "none", "garbage behind"],
)
def test_a_broken_encoding_is_said(fake: Fake, sent: bytes) -> None:
    fake.on(".", Reply(200, sent, {"Content-Encoding": "gzip"}))
    with pytest.raises(TransientError, match=r"broke off \(its Content-Encoding"):
        list(get(once(fake.host), fake.host).chunks(decode=True))


# What is no answer


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\n\nbody", OK + b"A: b\nC: d\r\n\r\n",
        OK + b"Content-Length: 1, 2\r\n\r\n",
        OK + b"Content-Length: 2\r\n" + CHUNKED + b"2\r\nok\r\n0\r\n\r\n",
        OK + b"X: " + b"x" * MAX_HEAD + b"\r\n\r\n", OK + b"X: " + b"x" * 2 * MAX_HEAD,
        OK + b"Location: /a\x7f\r\n\r\n", b"HTTP/1.1 100 x\r\n\r\n" * 20,
        b"HTTP/1.1 101 Switching\r\n\r\n", b"HTTP/1.1 200", b"",
    ],
    ids=_start,
)  # fmt: skip
def test_what_is_no_answer_is_named_and_may_pass(answer: bytes) -> None:
    with (
        raw_server([answer]) as raw,
        pytest.raises(TransientError, match=f"{raw.host} cannot be reached") as caught,
    ):
        get(once(raw.host), raw.host)
    assert caught.value.reason == Reason.RegistryUnreachable


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 5\r\n\r\nok", OK + CHUNKED + b"2\r\nok\r\n",
        OK + CHUNKED + b"1\r\nok\r\n0\r\n\r\n", OK + CHUNKED + b"x\r\n",
        OK + CHUNKED + b"0" * 5000,
        OK + CHUNKED + b"2\r\nok\r\n0\r\n" + b"a: b\r\n" * MAX_HEAD,
        OK + CHUNKED + b"2\r\nok\r\n0\r\na: " + b"b" * 8 * MAX_HEAD,
    ],
    ids=_start,
)  # fmt: skip
def test_a_body_that_breaks_off_is_not_taken_for_a_whole_one(answer: bytes) -> None:
    with raw_server([answer]) as raw, pytest.raises(TransientError, match="the answer broke off"):
        read(get(once(raw.host), raw.host))


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "\u20ac"])
def test_a_header_that_would_be_two_is_refused_before_anything_is_sent(fake: Fake, value: str) -> None:
    with pytest.raises(PipelineError, match="the header Authorization") as caught:
        get(once(fake.host), fake.host, headers={"Authorization": f"Bearer {value}"})
    assert (caught.value.reason, caught.value.retry, fake.seen) == (Reason.ChartSourceUnsupported, False, [])
    assert "Bearer" not in caught.value.message


@pytest.mark.parametrize(
    "target", ["http://ok.example\\@{host}/", "http://{host}@{host}/", "//[", "http://h:x/"]
)
def test_an_odd_location_is_not_followed(fake: Fake, target: str) -> None:
    fake.on(".", Reply(302, headers={"Location": target.format(host=fake.host)}))
    with pytest.raises(PipelineError, match="is not an") as caught:
        get(once(fake.host), fake.host)
    assert (caught.value.reason, len(fake.seen)) == (Reason.ChartSourceUnsupported, 1)


# Which connection is used again


@pytest.mark.parametrize(
    "first",
    [
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        # An answer to no question would be taken for the next one's.
        TWO + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        OK + CHUNKED + b"2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.1 204 x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.1 204 x\r\nContent-Length: 4\r\n\r\nevil",
        TWO + b"e",
    ],
    ids=_start,
)
def test_a_connection_that_says_more_or_ends_is_not_used_again(first: bytes) -> None:
    with raw_server([first, TWO], [TWO]) as raw:
        transport = once(raw.host)
        assert read(get(transport, raw.host)) in (b"ok", b"")
        assert read(get(transport, raw.host)) == b"ok"
        assert asked(raw) == [1, 1]


def test_what_tls_holds_back_is_more_than_an_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both answers come in one record, of which as much is read as the first says it is long."""
    made = Tls.self_signed()
    for name, text in (("crt", made.certificate), ("key", made.key), ("ca", made.ca)):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    size = 2 * CHUNK
    long = OK + f"Content-Length: {size}\r\n\r\n".encode() + bytes(size)
    stray = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    with raw_server([long + stray, TWO], [TWO], tls=tls) as raw:
        transport = Transport(patience=Patience(attempts=1, read=5))
        url = f"https://{raw.host}/x"
        answers = [read(transport.send("GET", url, doing="Reading", counters=Counters())) for _ in range(2)]
        assert answers == [bytes(size), b"ok"]
        assert asked(raw) == [1, 1]


def test_a_connection_is_used_for_one_answer_after_the_other() -> None:
    chunked = OK + CHUNKED + b"2\r\nok\r\n0\r\n\r\n"
    with raw_server([TWO, chunked, b"HTTP/1.1 204 x\r\n\r\n", TWO]) as raw:
        transport = once(raw.host)
        assert [read(get(transport, raw.host)) for _ in range(4)] == [b"ok", b"ok", b"", b"ok"]
        assert asked(raw) == [4]


@pytest.mark.parametrize(
    ("head", "connections"),
    [
        (OK + b"Content-Length: 4\r\n\r\n", [2]),
        (OK + b"Content-Length: 4\r\n\r\nevil", [1, 1]),
        (OK + b"Content-Length: 0\r\n\r\nevil", [1, 1]),
        (OK + CHUNKED + b"4", [1, 1]),
        (OK + b"\r\nevil", [1, 1]),
    ],
    ids=_start,
)
def test_an_answer_to_head_ends_with_its_head(head: bytes, connections: list[int]) -> None:
    with raw_server([head, TWO], [TWO]) as raw:
        transport = once(raw.host)
        assert read(get(transport, raw.host, "HEAD")) == b""
        assert read(get(transport, raw.host)) == b"ok"
        assert asked(raw) == connections


def test_an_answer_that_is_not_read_to_its_end_takes_its_connection_along() -> None:
    with raw_server([OK + b"Content-Length: 9999999\r\n\r\n" + b"x" * 70_000], [TWO]) as raw:
        transport = once(raw.host)
        assert get(transport, raw.host).read(10) is None
        assert read(get(transport, raw.host)) == b"ok"


def test_an_answer_that_is_given_up_is_not_taken_for_a_whole_one() -> None:
    with raw_server([OK + b"Content-Length: 9\r\n\r\nbegun", TWO]) as raw:
        address = parse_address(f"http://{raw.host}/")
        assert address is not None
        response = Connections("me", 5, 5).ask("GET", address, {}, None, 0)
        pieces = response.pieces()
        begun = next(pieces)
        response.close()
        with pytest.raises(WireError):
            list(pieces)
        assert (begun[:1], list(response.pieces())) == (b"b", [])


def test_a_connection_that_ended_while_it_was_kept_is_not_used_again(fake: Fake) -> None:
    with raw_server([TWO], [TWO]) as raw:  # each closes after one
        transport = once(raw.host)
        assert read(get(transport, raw.host)) == b"ok"
        _gone(transport)
        assert read(get(transport, raw.host)) == b"ok"
        assert asked(raw) == [1, 1]


def _gone(transport: Transport) -> None:
    """Wait until the other side's end has arrived."""
    ((connection,),) = transport._connections._kept.values()
    for _ in range(1000):
        if not connection.is_quiet():
            return
        threading.Event().wait(0.005)
    raise AssertionError("the server kept the connection")


def test_an_answer_that_comes_before_the_body_is_over_is_heard() -> None:
    """Registries refuse a large body by its head, and hang up."""
    refusal = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"
    with raw_server([refusal]) as raw:
        try:
            answer = get(once(raw.host), raw.host, "PUT", body=io.BytesIO(bytes(CHUNK)), size=CHUNK)
        except TransientError as error:  # a reset may overtake the answer
            assert "reset" in error.message
        else:
            assert (answer.status, answer.text()) == (413, "big")


def test_a_file_shorter_than_its_size_is_not_sent_as_whole(fake: Fake) -> None:
    fake.on(".", Reply(201))
    with pytest.raises(TransientError, match="shorter than it was said"):
        get(once(fake.host), fake.host, "PUT", body=io.BytesIO(b"abc"), size=5)
    assert fake.seen == [] or fake.seen[0].body != b"abc\0\0"


def test_a_file_is_sent_up_to_its_size(fake: Fake) -> None:
    fake.on(".", Reply(201))
    content = bytes(range(256)) * (2 * CHUNK // 256) + b"end"
    transport = once(fake.host)
    get(transport, fake.host, "PUT", body=io.BytesIO(content + b"more"), size=len(content)).discard()
    get(transport, fake.host, "POST").discard()
    assert [one.body for one in fake.seen] == [content, b""]
    assert [one.headers["Content-Length"] for one in fake.seen] == [str(len(content)), "0"]


def test_few_connections_are_kept() -> None:
    connections = Connections("me", 1, 1)
    pairs = [socket.socketpair() for _ in range(60)]
    for number, (near, _) in enumerate(pairs):
        origin = ("http", f"h{number % 2 if number < 40 else number}", 80)
        connections.keep(origin, _connection(near))
    kept = [len(found) for found in connections._kept.values()]
    assert kept[:2] == [Connections.MOST_OF_A_HOST] * 2
    for number in range(40):
        connections.keep(("http", f"more{number}", 80), _connection(socket.socketpair()[0]))
    assert len(connections._kept) == Connections.MOST_HOSTS
    connections.close()
    for near, far in pairs:
        near.close()
        far.close()


def test_no_proxy_is_asked_whatever_the_environment_says(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.on(".", Reply(200, b"direct"))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert read(get(once(fake.host), fake.host)) == b"direct"
    assert fake.seen[0].path == "/x"


def test_a_name_that_is_nobody_s_is_unreachable() -> None:
    with pytest.raises(TransientError, match=r"nobody\.invalid cannot be reached"):
        Transport(patience=Patience(attempts=1)).send(
            "GET", "https://nobody.invalid/", doing="Reading", counters=Counters()
        )


def test_the_head_of_an_answer_may_arrive_byte_by_byte() -> None:
    near, far = socket.socketpair()
    with near, far:
        connections = Connections("me", 5, 5)
        connections._open = lambda address: _connection(near)  # type: ignore[method-assign]

        def drip() -> None:
            for byte in TWO:
                far.sendall(bytes([byte]))

        thread = threading.Thread(target=drip)
        thread.start()
        address = parse_address("http://h/")
        assert address is not None
        response: Response = connections.ask("GET", address, {}, None, 0)
        assert b"".join(response.pieces()) == b"ok"
        thread.join()
