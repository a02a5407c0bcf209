"""HTTP/1.1 as text, beside other readers of it: urllib's, urllib3's and h11's."""

from urllib.parse import urlsplit

import h11
import pytest
from aicr_pipeline.decide.http1 import (
    Address,
    MalformedError,
    parse_address,
    request_head,
)
from hypothesis import example, given
from hypothesis import strategies as st
from urllib3.util import parse_url

HOME = Address("https", "registry.example", "registry.example", 443, "/v2/")

# Addresses


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://h/a", Address("https", "h", "h", 443, "/a")),
        ("HTTPS://H.Example/A?b=C#d", Address("https", "H.Example", "h.example", 443, "/A?b=C")),
        ("http://127.0.0.1:5000", Address("http", "127.0.0.1:5000", "127.0.0.1", 5000, "/")),
        ("https://[::1]:5000/v2/", Address("https", "[::1]:5000", "::1", 5000, "/v2/")),
        ("https://h?q", Address("https", "h", "h", 443, "/?q")),
        ("https://h./a", Address("https", "h.", "h.", 443, "/a")),
        ("https://h/a b/ü.tgz?x=y z", Address("https", "h", "h", 443, "/a%20b/%C3%BC.tgz?x=y%20z")),
        ("https://h/a%2Fb%20c", Address("https", "h", "h", 443, "/a%2Fb%20c")),
        ("https://h/100%.tgz", Address("https", "h", "h", 443, "/100%25.tgz")),
        ("https://h/a\\b|c[d]", Address("https", "h", "h", 443, "/a%5Cb%7Cc%5Bd%5D")),
        ("https://h/a/./b/../c", Address("https", "h", "h", 443, "/a/c")),
        ("https://h/../../a/..", Address("https", "h", "h", 443, "/")),
        ("https://h//evil/../x?y=/../z", Address("https", "h", "h", 443, "//x?y=/../z")),
        ("https://h/.well-known", Address("https", "h", "h", 443, "/.well-known")),
    ],
)  # fmt: skip
def test_an_address_is_taken_apart(url: str, found: Address) -> None:
    assert parse_address(url) == found


@pytest.mark.parametrize(
    "url",
    [
        "", "h", "//h/a", "https:h", "https:/h", "https://", "https:///a", "https://?a", "ftp://h/", "oci://h/a",
        "https://user@h/", "https://user:word@h/", "https://good.example\\@evil.example/", "https://a b/",
        "https://good.example%2f@evil.example/", "https://h:/", "https://h:0/", "https://h:65536/",
        "https://h:4 43/", "https://h:443x/", "https://h:-1/", "https://..", "https://a..b/", "https://.a/",
        "https://-a/", "https://a-/", "https://" + "a" * 64 + "/", "https://" + "a." * 127 + "aa/",
        "https://ex\u00e4mple/", "https://exa\u2100mple/", "https://\uff48/", "https://[::1", "https://::1/",
        "https://[::1]x/", "https://[v1.x]/", "https://[fe80::1%25eth0]/", "https://h%00/", "https://%68/",
        "https://h\n/", "https://h/\r\nX: y", "https://h/\x00", "https://h/a\tb", "https://h/a?\x7f",
        " https://h/", "https://h /", "\nhttps://h/", "https://h;x/", "https://h'/", "https://*/", "https://$/",
    ],
)  # fmt: skip
def test_what_another_reader_might_take_otherwise_is_no_address(url: str) -> None:
    assert parse_address(url) is None


_PIECES = st.sampled_from(
    ["https://", "http://", "HTTPS://", "//", "/", "\\", "@", ":", "?", "#", "%", "%2e", "%40", "..", ".",
     "-", "_", "h", "evil.example", "good.example", "127.0.0.1", "[::1]", "[", "]", "443", "80", "65536",
     " ", "\t", "\r\n", "\0", "\x7f", "\u00e9", "\u2100", "\uff0e", "\ud800", ";", "&", "=", "+"]
)  # fmt: skip
_URLS = st.builds(
    lambda scheme, rest: scheme + "".join(rest),
    st.sampled_from(["https://", "http://", ""]),
    st.lists(_PIECES, max_size=8),
)


@given(_URLS | st.text())
@example("https://h/%2e%2e/\ud800")
def test_what_is_sent_is_what_others_would_read(url: str) -> None:
    found = parse_address(url)
    if found is None:
        return
    wanted = (found.scheme, found.host, found.port)
    for text in (url, found.url):
        theirs = urlsplit(text)
        assert (theirs.scheme, theirs.hostname, theirs.port or found.port) == wanted
        assert (theirs.netloc, theirs.username) == (found.netloc, None)
    other = parse_url(found.url)
    assert (other.scheme, (other.host or "").strip("[]"), other.port or found.port) == wanted
    assert other.request_uri.lower() == found.target.lower()  # it writes %2e as %2E
    assert all("!" <= character <= "~" for character in found.target)
    assert parse_address(found.url) == found  # and nothing changes the second time


# Requests


def test_a_request_begins_with_what_every_request_has() -> None:
    address = Address("http", "[::1]:5000", "::1", 5000, "/v2/?a")
    assert request_head("PUT", address, "me/1", {"Accept": "a/b"}, 3) == (
        b"PUT /v2/?a HTTP/1.1\r\nHost: [::1]:5000\r\nUser-Agent: me/1\r\nAccept-Encoding: identity\r\n"
        b"Accept: a/b\r\nContent-Length: 3\r\n\r\n"
    )
    assert b"Content-Length" not in request_head("GET", HOME, "me/1", {}, None)
    assert b"\r\nHost: registry.example\r\n" in request_head("GET", HOME, "me/1", {}, None)


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\n", "\rb", "a\0b", "\x7f", "\u0100", "\x0bx"])
def test_a_value_that_would_be_a_header_of_its_own_is_not_sent(value: str) -> None:
    with pytest.raises(MalformedError, match="Authorization") as caught:
        request_head("GET", HOME, "me", {"Authorization": f"secret{value}"}, None)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", "a b", "a:", "a\r\nb", "\u00e4", "Host", "content-length", "Transfer-Encoding"]
)
def test_a_name_that_is_none_or_taken_is_not_sent(name: str) -> None:
    with pytest.raises(MalformedError):
        request_head("GET", HOME, "me", {name: "1"}, None)


@given(
    st.dictionaries(
        st.text(max_size=6) | st.sampled_from(["A", "Host", "X-Y"]), st.text(max_size=12), max_size=3
    )
)
def test_headers_arrive_as_they_were_meant_or_not_at_all(headers: dict[str, str]) -> None:
    try:
        head = request_head("GET", HOME, "me", headers, None)
    except MalformedError:
        return
    server = h11.Connection(h11.SERVER)
    server.receive_data(head)
    request = server.next_event()
    assert isinstance(request, h11.Request)
    assert isinstance(server.next_event(), h11.EndOfMessage)
    own = [(b"host", b"registry.example"), (b"user-agent", b"me"), (b"accept-encoding", b"identity")]
    theirs = [
        (name.lower().encode(), value.encode("latin-1").strip(b" \t")) for name, value in headers.items()
    ]
    assert list(request.headers) == own + theirs
