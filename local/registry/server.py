"""Runs the registry on a free loopback port, in a thread of this process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import uvicorn

from local.registry.app import RegistryApp
from local.registry.store import MemoryStore, Store
from local.registry.tokens import TokenIssuer


@contextmanager
def serving(app: Any, port: int = 0) -> Iterator[int]:
    """Serve an ASGI application on 127.0.0.1 while the block runs.

    Yields
    ------
    int
        The port. With 0 the kernel picks a free one, and no other process can take it in between.
    """
    # The protocol is named because asyncio turns Nagle's delay off only where it is: 40 ms an answer else.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=60,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="registry", daemon=True)
    thread.start()
    try:
        # The socket listens already: connections made before the loop runs wait in its queue.
        yield listener.getsockname()[1]
    finally:
        # At once: kept connections would hold it for their timeout, and nothing here is worth waiting for.
        server.should_exit = server.force_exit = True
        thread.join(timeout=10)
        listener.close()


class LocalRegistry:
    """The registry of one machine.

    Parameters
    ----------
    issuer:
        Makes and checks its passwords.
    store:
        In memory by default.
    port:
        0: any free one.

    Example
    -------
    >>> issuer = TokenIssuer()
    >>> with LocalRegistry(issuer) as registry:
    ...     user, password, _ = issuer.issue()
    ...     registry.host
    '127.0.0.1:…'
    """

    def __init__(self, issuer: TokenIssuer, store: Store | None = None, port: int = 0) -> None:
        self.issuer = issuer
        self.store = store or MemoryStore()
        self._wanted_port = port
        self._port = 0
        self._serving = serving(RegistryApp(self.store, issuer).asgi(), port)

    @property
    def host(self) -> str:
        """``127.0.0.1:<port>``, once entered."""
        return f"127.0.0.1:{self._port}"

    def repository(self, prefix: str) -> str:
        """``oci://127.0.0.1:<port>/<prefix>``: what ``registry.repository`` becomes."""
        return f"oci://{self.host}/{prefix.strip('/')}"

    def __enter__(self) -> Self:
        self._port = self._serving.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.__exit__(kind, error, trace)
