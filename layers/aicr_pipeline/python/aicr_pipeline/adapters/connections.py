"""Connections to registries and chart repositories: opened, kept, and read no further than an answer goes.

Plain sockets and OpenSSL through Python's own modules; answers are read by llhttp (``decide/answer.py``).
``docs/decisions/0015-connections-of-our-own.md`` says why no client library stands here.

No proxy, no cookie, no redirect, no retry, no decompression: what is asked for goes over, and nothing else.
"""

import select
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

from aicr_pipeline.decide.answer import AnswerReader
from aicr_pipeline.decide.http1 import Address, MalformedError, request_head

if TYPE_CHECKING:  # with it come 8 ms that a registry on loopback does not need
    from ssl import SSLContext

CHUNK = 256 * 1024
#: Up to here one system call is cheaper than not copying.
_TOGETHER = 64 * 1024
_HEAD_PIECE = 16 * 1024
#: OpenSSL's words for an answer in plain text.
_PLAIN = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


class WireError(Exception):
    """A connection that is not there, or says nothing sound. In words, without addresses or tokens."""

    #: Who was asked: ``host:port`` as it was written.
    host = ""


class NotTrustedError(WireError):
    """The certificate is not trusted; OpenSSL's word for why."""


class NotTlsError(WireError):
    """Who answers does not speak TLS."""


class Connections:
    """Keeps connections after an answer, for whoever asks the same host next.

    Parameters
    ----------
    agent:
        Who we say we are.
    connect, read:
        Seconds that a connection and its handshake, and each piece that is read or sent, may take.
    """

    #: Eight charts at once, two requests each; more hosts than a release has sources.
    MOST_OF_A_HOST, MOST_HOSTS = 16, 32

    def __init__(self, agent: str, connect: float, read: float) -> None:
        self._agent = agent
        self._connect = connect
        self._read = read
        self._kept: dict[tuple[str, str, int], list[_Connection]] = {}
        self._lock = threading.Lock()
        self._context: SSLContext | None = None

    def ask(
        self,
        method: str,
        address: Address,
        headers: Mapping[str, str],
        body: bytes | BinaryIO | None,
        size: int,
    ) -> "Response":
        """Send one request and read the head of its answer.

        Parameters
        ----------
        body, size:
            None, bytes, or a file that is read on from where it stands.

        Raises
        ------
        WireError
            When there is no answer. Whether the request was carried out is then unknown.
        MalformedError
            For a header of ours that cannot be sent.
        """
        sized = size if body is not None or method in ("POST", "PUT", "PATCH") else None
        head = request_head(method, address, self._agent, headers, sized)
        connection = self._take(address)
        try:
            connection.send(head, body, size)
            reader = AnswerReader(method)
            begun = connection.head(reader)
        except MalformedError as error:
            connection.close()
            raise WireError(f"the answer is not sound HTTP: {error}") from error
        except OSError as error:
            connection.close()
            raise WireError(_words(error)) from error
        except BaseException:
            connection.close()
            raise
        return Response(self, address.origin, connection, reader, begun)

    def close(self) -> None:
        """Close what is kept."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for connections in kept.values():
            for connection in connections:
                connection.close()

    def keep(self, origin: tuple[str, str, int], connection: "_Connection") -> None:
        """Take a connection back whose answer is read to its end."""
        superfluous = [connection]
        with self._lock:
            connections = self._kept.get(origin)
            if connections is None:
                if len(self._kept) >= self.MOST_HOSTS:
                    superfluous += self._kept.pop(next(iter(self._kept)))
                connections = self._kept[origin] = []
            if len(connections) < self.MOST_OF_A_HOST:
                connections.append(connection)
                superfluous.remove(connection)
        for one in superfluous:
            one.close()

    def _take(self, address: Address) -> "_Connection":
        while True:
            with self._lock:
                connections = self._kept.get(address.origin)
                connection = connections.pop() if connections else None
            if connection is None:
                return self._open(address)
            if connection.is_quiet():
                return connection
            connection.close()

    def _open(self, address: Address) -> "_Connection":
        try:
            # As bytes, which are not looked at for letters that are not ASCII; there are none.
            host: str = address.host.encode()  # type: ignore[assignment]
            plain = socket.create_connection((host, address.port), self._connect)
        except TimeoutError as error:
            raise WireError(f"no connection within {self._connect:g} seconds") from error
        except OSError as error:
            raise WireError(_words(error)) from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            used = self._secured(plain, address.host) if address.scheme == "https" else plain
            used.settimeout(self._read)
        except BaseException:
            plain.close()
            raise
        return _Connection(used)

    def _secured(self, plain: socket.socket, host: str) -> socket.socket:
        import ssl

        if self._context is None:
            # OpenSSL's own list of authorities, or what SSL_CERT_FILE and SSL_CERT_DIR name.
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            context.hostname_checks_common_name = False  # RFC 9525, 6.3: names stand in one place
            self._context = context
        try:
            return self._context.wrap_socket(plain, server_hostname=host.rstrip("."))
        except ssl.SSLCertVerificationError as error:
            raise NotTrustedError(error.verify_message) from error
        except ssl.SSLError as error:
            kind = NotTlsError if error.reason in _PLAIN else WireError
            raise kind(f"TLS failed: {error.reason or type(error).__name__}") from error
        except TimeoutError as error:
            raise WireError(f"no handshake within {self._connect:g} seconds") from error
        except OSError as error:
            raise WireError(_words(error)) from error


class Response:
    """An answer whose head is read. Its body is read at most once."""

    __slots__ = ("_begun", "_connection", "_connections", "_origin", "_reader", "headers", "status")

    def __init__(
        self,
        connections: Connections,
        origin: tuple[str, str, int],
        connection: "_Connection",
        reader: AnswerReader,
        begun: list[bytes],
    ) -> None:
        self.status = reader.status
        self.headers = reader.headers
        self._connections = connections
        self._origin = origin
        self._connection: _Connection | None = connection
        self._reader = reader
        self._begun = begun
        if reader.is_whole:
            self._done()

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives.

        Raises
        ------
        WireError
            When it breaks off.
        """
        begun, self._begun = self._begun, []
        connection = self._connection
        try:
            yield from begun
            if connection is not None:
                yield from connection.body(self._reader)
        except MalformedError as error:
            raise WireError(str(error)) from error
        except OSError as error:
            raise WireError(_words(error)) from error
        else:
            self._done()
        finally:
            self.close()

    def close(self) -> None:
        """Give up the rest. A body that is not read to its end leaves a connection nobody can use again."""
        self._begun = []
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _done(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.keep and self._reader.keep:
            self._connections.keep(self._origin, connection)
        else:
            connection.close()


class _Connection:
    """One socket."""

    __slots__ = ("_socket", "keep")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.keep = True

    def close(self) -> None:
        self._socket.close()

    def is_quiet(self) -> bool:
        """Whether nothing came while nobody asked: neither an end nor an answer to no question."""
        pending = getattr(self._socket, "pending", None)  # what OpenSSL has read and nobody else
        if pending is not None and pending():
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def send(self, head: bytes, body: bytes | BinaryIO | None, size: int) -> None:
        try:
            if body is None:
                self._socket.sendall(head)
            elif isinstance(body, bytes):
                self._send_bytes(head, body)
            else:
                self._send_file(head, body, size)
        except TimeoutError:
            raise
        except OSError:
            # Who refuses a body may answer and hang up before it is over. Else reading says what is wrong.
            self.keep = False

    def _send_bytes(self, head: bytes, body: bytes) -> None:
        if len(body) <= _TOGETHER:
            self._socket.sendall(head + body)
        else:
            self._socket.sendall(head)
            self._socket.sendall(body)

    def _send_file(self, head: bytes, body: BinaryIO, size: int) -> None:
        left = size
        while head or left:
            piece = body.read(min(left, CHUNK)) if left else b""
            if left and not piece:
                raise WireError("the file to be sent is shorter than it was said to be")
            self._send_bytes(head, piece)
            head, left = b"", left - len(piece)

    def head(self, reader: AnswerReader) -> list[bytes]:
        """Read until the head is there, and return what of the body came with it."""
        begun: list[bytes] = []
        while not reader.status:
            data = self._socket.recv(min(_HEAD_PIECE, reader.room))
            if not data:
                raise WireError("it breaks off" if reader.has_begun else "it hung up without an answer")
            begun = reader.feed(data)
        return begun

    def body(self, reader: AnswerReader) -> Iterator[bytes]:
        while reader.goes_on():
            data = self._socket.recv(CHUNK)
            if data:
                yield from reader.feed(data)
            elif reader.ends_with_connection:
                return
            else:
                raise WireError("its end is missing")


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "its name does not resolve"
    return str(getattr(error, "reason", None) or error.strerror or type(error).__name__).lower()
