"""An answer of HTTP/1.1, read by llhttp, Node's parser, in its strict mode; without I/O.

What is checked here beside it is what it cannot know, or forgives that two readers might take differently.
"""

from typing import Final

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from aicr_pipeline.decide.http1 import MalformedError

#: Of an answer's head with all that goes before it, and of what stands between two pieces of its body.
#: The largest head seen of a registry or a content network is a tenth.
MAX_HEAD: Final = 64 * 1024


class Headers(dict[str, str]):
    """Headers by their names in lower case; asked for in any."""

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        return super().get(name.lower(), default)


class AnswerReader:
    """Reads one answer from the bytes of a connection.

    Parameters
    ----------
    method:
        What was asked: an answer to HEAD ends with its head, whatever it says of its length.
    """

    __slots__ = (
        "_asked_for_head",
        "_parser",
        "_pieces",
        "_problem",
        "_since",
        "ends_with_connection",
        "headers",
        "is_whole",
        "keep",
        "status",
    )

    def __init__(self, method: str) -> None:
        #: 0 until the head is read.
        self.status = 0
        self.headers = Headers()
        self.is_whole = False
        #: Whether nothing but the connection's end ends the body.
        self.ends_with_connection = False
        #: Whether the connection may carry another request after the answer.
        self.keep = True
        self._asked_for_head = method == "HEAD"
        self._pieces: list[bytes] = []
        self._problem: MalformedError | None = None
        #: Bytes since the last that was told: of a head, or between two pieces.
        self._since = 0
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    @property
    def has_begun(self) -> bool:
        """Whether anything came."""
        return self._since > 0 or self.status > 0

    @property
    def room(self) -> int:
        """How much of a head may still come."""
        return MAX_HEAD - self._since

    def feed(self, data: bytes | memoryview) -> list[bytes]:
        """Read on, and return the pieces of the body that came.

        Raises
        ------
        MalformedError
            For what is no answer's head, or may be read in two ways.
        """
        if not self.has_begun and data[0] != 0x48:  # H. The parser takes empty lines, RTSP and ICE as well.
            raise MalformedError("it does not begin as an answer of HTTP/1.1 does")
        self._since += len(data)
        if self._parser is not None:
            self._read(self._parser, data)
        pieces, self._pieces = self._pieces, []
        if pieces or self.is_whole:
            self._since = 0
        elif self._since >= MAX_HEAD and self._problem is None:
            self._problem = MalformedError("a line or a head in it is too long")
        if self._problem is not None and not self.status:
            raise self._problem
        return pieces

    def goes_on(self) -> bool:
        """Whether some of the answer is still to come.

        Raises
        ------
        MalformedError
            When what came of the body is broken.
        """
        if self._problem is not None:
            raise self._problem
        return not self.is_whole

    def _read(self, parser: HttpResponseParser, data: bytes | memoryview) -> None:
        try:
            parser.feed_data(data)
        except HttpParserCallbackError as error:
            found = error.__context__
            if not isinstance(found, MalformedError):
                raise (found or error) from None  # an interruption, which is no fault of the answer
            self._break_off(found)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._break_off(MalformedError(str(error)))
        if self.is_whole:
            self._parser = None  # which holds this object

    def _break_off(self, problem: MalformedError) -> None:
        self.keep = False
        if not self.is_whole:  # else it is in what came after the answer
            self._problem = problem

    # What the parser calls. An error raised in one of these ends its reading.

    def on_message_begin(self) -> None:
        if self.is_whole:
            raise MalformedError("more comes than an answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return  # of a trailer, which nothing here asks for
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        status, headers = parser.get_status_code(), self.headers
        if status < 100 or status == 101 or parser.get_http_version() not in ("1.1", "1.0"):
            raise MalformedError("it is no answer of HTTP/1.1 to what was asked")
        if status < 200:
            headers.clear()  # one before the answer
            return
        coding = headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise MalformedError("its body has a Transfer-Encoding that nobody asked for")
        self.status = status
        self.ends_with_connection = coding is None and "content-length" not in headers
        # "close" beside "keep-alive" it takes for keep-alive in HTTP/1.0.
        self.keep = parser.should_keep_alive() and "close" not in (headers.get("connection") or "").lower()
        if self._asked_for_head:
            self.is_whole = True
            # It goes on to read the body, and of chunks would take a stray digit without a word.
            self.keep = self.keep and coding is None

    def on_body(self, piece: bytes) -> None:
        if self.is_whole:
            raise MalformedError("a body comes that HEAD did not ask for")
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        if self.status:
            self.is_whole = True
