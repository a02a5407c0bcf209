"""The embedded cluster as a server of this process: one thread, one port of the loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import uvicorn

from local.kube import rbac
from local.kube.api import Api, Authenticate
from local.kube.store import Store
from local.kube.tls import Tls
from local.kube.tokens import TokenIssuer

_START = 10  # seconds until the thread must serve
_KEEP_ALIVE = 3600  # seconds; clients keep their connections, and a closed one is an error to them


class KubeServer:
    """A Kubernetes API server on 127.0.0.1; a context manager.

    `authenticate` gets the bearer token of each request (None: there was none) and returns who that is, or
    None for 401; rights are then those of the stored roles. Without `authenticate` everybody is in
    `system:masters`. Tokens of service accounts, from `service_account_token` or the TokenRequest API, are
    known without asking it. With `tls` the server speaks https. Objects outlive `stop`; a stopped server
    does not start again.
    """

    def __init__(
        self,
        authenticate: Authenticate | None = None,
        kubernetes_version: str = "v1.34.2-eks-local",
        tls: Tls | None = None,
    ) -> None:
        self.store = Store()
        rbac.bootstrap(self.store)
        self._tokens = TokenIssuer(self.store, lambda: datetime.now(UTC))
        self._api = Api(self.store, self._tokens, authenticate, kubernetes_version)
        self._tls = tls
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where clients reach it. Raises RuntimeError before `start`."""
        if self._socket is None:
            raise RuntimeError("the embedded cluster is not started")
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def ca_pem(self) -> str | None:
        """The authority that clients trust; None without TLS."""
        return self._tls.ca if self._tls else None

    def service_account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """A token as a Pod gets it. Raises ApiError 404 when there is no such ServiceAccount."""
        return str(self._tokens.issue(namespace, name, seconds)["token"])

    def access_review(self, identity: rbac.Identity, action: rbac.Action) -> bool:
        """Whether the stored roles allow something, without a request."""
        with self.store.storage.lock:
            return rbac.allowed(self.store, identity, action)

    def start(self) -> None:
        """Serve. Raises RuntimeError when the server does not come up."""
        # With the protocol named, asyncio switches off Nagle's delay (40 ms a request).
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(512)
        self._socket = listener
        tls = self._tls
        config = uvicorn.Config(
            self._api.app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=2,
            ssl_context_factory=None if tls is None else (lambda config, default: tls.context()),
        )
        self._server = _Server(config, self._api)
        self._thread = threading.Thread(target=self._run, args=(listener,), name="kube-api", daemon=True)
        self._thread.start()
        if not self._server.ready.wait(_START):
            self.stop()
            raise RuntimeError(
                "the embedded cluster did not start; is another event loop blocking this process?"
            )

    def _run(self, listener: socket.socket) -> None:
        assert self._server is not None
        asyncio.run(self._server.serve(sockets=[listener]))

    def stop(self) -> None:
        """End the watches, the thread and the port. Stopping twice is no error."""
        self.store.close_watches()
        if self._server is None or self._thread is None or self._socket is None:
            return
        self._server.should_exit = True
        self._thread.join(_START)
        self._socket.close()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Server(uvicorn.Server):
    """Tells when it serves, and ends the open watches before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, api: Api) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._api = api

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._api.streams.close_all()
        await super().shutdown(sockets)
