"""A server that writes bytes, which need not be HTTP."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Raw:
    """Its address, what it read, and what it writes: for each connection, answers one after the other."""

    host: str
    answers: list[list[bytes]]
    #: Each request up to its body, by connection.
    seen: list[list[bytes]] = field(default_factory=list)


@contextmanager
def raw_server(*answers: list[bytes], tls: ssl.SSLContext | None = None) -> Iterator[Raw]:
    """Serve on loopback.

    Parameters
    ----------
    answers:
        For each connection what is written after each request's head; then the connection is closed.
    tls:
        A server's context; None: plain.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        raw = Raw(f"127.0.0.1:{listening.getsockname()[1]}", list(answers))

        def serve() -> None:
            for written in raw.answers:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                if tls is not None:
                    connection = tls.wrap_socket(connection, server_side=True)
                with connection, suppress(OSError):
                    seen: list[bytes] = []
                    raw.seen.append(seen)
                    for piece in written:
                        head = _head(connection)
                        if not head:
                            break
                        seen.append(head)
                        connection.sendall(piece)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield raw
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _head(connection: socket.socket) -> bytes:
    """One request's head; a body behind it is left unread."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = connection.recv(1)
        if not piece:
            return b""
        head += piece
    return head
