"""HTTP to registries and chart repositories: attempts, waits, redirects and sizes are bounded.

How long a body may trickle in is not: each piece has 30 seconds, and the function's timeout ends the rest.

Used by the registry client and the chart sources. One ``Transport`` serves a whole function: it keeps
connections, but no identity; who asks is said with each request.

Certificates are judged by OpenSSL's own list: a site with an authority of its own names it in the environment
variable ``SSL_CERT_FILE`` (one PEM file) or ``SSL_CERT_DIR``, as for every other tool.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import BinaryIO, NamedTuple

from aicr_pipeline import __version__
from aicr_pipeline.adapters.connections import (
    CHUNK,
    Connections,
    NotTlsError,
    NotTrustedError,
    Response,
    WireError,
)
from aicr_pipeline.decide.addresses import joined, refused
from aicr_pipeline.decide.http1 import Address, MalformedError, parse_address
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

RETRYABLE = frozenset({429, 500, 502, 503, 504})
MAX_REDIRECTS = 5
MAX_ERROR_BODY = 64 * 1024
_AGAIN = "; it will be tried again later."


class UnreachableError(TransientError):
    """A host does not answer, or answers with its own failure. The message names it."""


class ThrottledError(TransientError):
    """A host asks us to slow down, for longer than one request waits."""


class Counters:
    """What an operation cost. Every request on the wire counts: retries, redirects and tokens too."""

    __slots__ = ("_lock", "received", "requests", "retries", "sent")

    def __init__(self) -> None:
        self.requests = self.sent = self.received = self.retries = 0
        self._lock = threading.Lock()

    def add(self, *, requests: int = 0, sent: int = 0, received: int = 0, retries: int = 0) -> None:
        """Count what was done; an operation may have two requests under way at once."""
        with self._lock:
            self.requests += requests
            self.sent += sent
            self.received += received
            self.retries += retries


class Patience(NamedTuple):
    """How long to go on: attempts, full jitter below ``base * 2^n``, and a limit on the waits together."""

    attempts: int = 5
    base: float = 0.3
    longest: float = 8.0
    budget: float = 45.0
    connect: float = 5.0
    read: float = 30.0


def _jitter(low: float, high: float) -> float:
    import random

    return random.uniform(low, high)  # noqa: S311 - it keeps callers apart, and no secrets


class Transport:
    """Sends requests with timeouts, retries and guarded redirects.

    Parameters
    ----------
    plain_hosts:
        ``host:port`` names that plain http may be used with: what the configuration says of a local
        registry or of ``registry.upstreams``. Everything else is https.
    patience, sleep, pick:
        How retries wait; tests pass a clock of their own.
    on_exchange:
        Told of each request on the wire: method, address without its query, status (0 without an answer).
    """

    def __init__(
        self,
        plain_hosts: frozenset[str] = frozenset(),
        patience: Patience = Patience(),  # noqa: B008 - it is immutable
        sleep: Callable[[float], None] = time.sleep,
        pick: Callable[[float, float], float] = _jitter,
        on_exchange: Callable[[str, str, int], None] | None = None,
    ) -> None:
        self.plain_hosts = plain_hosts
        self.patience = patience
        self.sleep = sleep
        self.pick = pick
        self.on_exchange = on_exchange
        self._connections = Connections(f"aicr-pipeline/{__version__}", patience.connect, patience.read)

    def scheme(self, host: str) -> str:
        """``http`` for a host the configuration names as plain, ``https`` for all others."""
        return "http" if host in self.plain_hosts else "https"

    def close(self) -> None:
        """Close the kept connections."""
        self._connections.close()

    def send(
        self,
        method: str,
        url: str,
        *,
        doing: str,
        counters: Counters,
        headers: Mapping[str, str] | None = None,
        body: bytes | BinaryIO | None = None,
        size: int = 0,
        pace: Callable[[], None] | None = None,
    ) -> "Answer":
        """Send one request until it is answered with something final.

        Parameters
        ----------
        doing:
            "Reading chart x from y": begins every message.
        headers:
            An ``Authorization`` among them goes to the url's own host only.
        body, size:
            Bytes, or a file of ``size`` bytes that is rewound for each attempt.
        pace:
            Called before each attempt; waits where the host allows so many requests a second.

        Returns
        -------
        Answer
            Any status but the retryable ones; the body is not read yet.

        Raises
        ------
        UnreachableError, ThrottledError
            ``RegistryUnreachable`` when the attempts or the time for waiting are used up.
        PipelineError
            ``ChartSourceUnsupported`` for an address or a redirect that must not be followed, or a header
            that cannot be sent; ``RegistryUnreachable`` for a certificate that is not trusted.
        """
        address = self._safe(url, doing)
        waited = 0.0
        for attempt in range(1, self.patience.attempts + 1):
            kind: type[TransientError] = UnreachableError
            if pace is not None:
                pace()
            try:
                answer = self._follow(method, address, doing, counters, headers or {}, body, size)
            except (NotTrustedError, NotTlsError) as error:
                raise _untrusted(error, doing) from error  # it will be the same the next time
            except WireError as error:
                problem, after = f"{error.host} cannot be reached ({error})", None
            else:
                if answer.status not in RETRYABLE:
                    return answer
                problem = f"{address.netloc} answered {answer.status}"
                if answer.status == 429:
                    kind = ThrottledError
                    problem = f"{address.netloc} is throttling us (429)"
                after = retry_after(answer.headers.get("Retry-After"))
                answer.discard()
            waited = self.wait(
                attempt, waited, after, kind(Reason.RegistryUnreachable, f"{doing}: {problem}"), counters
            )
        raise AssertionError("wait() raises at the last attempt")

    def wait(
        self, attempt: int, waited: float, after: float | None, problem: TransientError, counters: Counters
    ) -> float:
        """Sleep before the next attempt and return the time waited so far, or give up with the problem."""
        pause = self.pick(0, min(self.patience.longest, self.patience.base * 2**attempt))
        if after is not None:
            # The server knows; the jitter on top keeps callers apart that were told the same second.
            pause += after
        if attempt >= self.patience.attempts or waited + pause > self.patience.budget:
            raise type(problem)(
                problem.reason, f"{problem.message.removesuffix(_AGAIN)}, {attempt} times{_AGAIN}"
            )
        counters.add(retries=1)
        self.sleep(pause)
        return waited + pause

    def _follow(
        self,
        method: str,
        address: Address,
        doing: str,
        counters: Counters,
        headers: Mapping[str, str],
        body: bytes | BinaryIO | None,
        size: int,
    ) -> "Answer":
        for _ in range(MAX_REDIRECTS + 1):
            response = self._once(method, address, doing, counters, headers, body, size)
            target = _redirect(method, response)
            if target is None:
                return Answer(response, address, counters, doing)
            _drain(response)
            there = self._safe(joined(address.url, target, doing), doing)
            if address.origin != there.origin:
                # Storage behind a registry has no business with its password, and refuses it too.
                headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            address = there
        raise PipelineError(
            Reason.ChartSourceUnsupported,
            f"{doing}: more than {MAX_REDIRECTS} redirects, the last to {address.netloc}; check the address.",
        )

    def _once(
        self,
        method: str,
        address: Address,
        doing: str,
        counters: Counters,
        headers: Mapping[str, str],
        body: bytes | BinaryIO | None,
        size: int,
    ) -> Response:
        if body is None or isinstance(body, bytes):
            size = len(body or b"")
        else:
            body.seek(0)
        counters.add(requests=1)
        status = 0
        try:
            response = self._connections.ask(method, address, headers, body, size)
            status = response.status
        except WireError as error:
            error.host = address.netloc
            raise
        except MalformedError as error:
            raise PipelineError(
                Reason.ChartSourceUnsupported,
                f"{doing}: {error}; nothing was sent, ask whoever gave us that.",
            ) from error
        finally:
            if self.on_exchange is not None:
                # Queries carry upload sessions and signatures.
                self.on_exchange(method, address.url.partition("?")[0], status)
        counters.add(sent=size)
        return response

    def _safe(self, url: str, doing: str) -> Address:
        """The address, if it is one that may be asked."""
        address = parse_address(url)
        if address is None or (address.scheme != "https" and address.netloc not in self.plain_hosts):
            raise refused(url, doing)
        return address


class Answer:
    """A response whose body is read at most once, counted, and bounded."""

    __slots__ = ("_counters", "_doing", "_response", "headers", "status", "url")

    def __init__(self, response: Response, address: Address, counters: Counters, doing: str) -> None:
        self._response = response
        self._doing = doing
        self._counters = counters
        self.status = response.status
        #: ``get`` takes a name in any case.
        self.headers: Mapping[str, str] = response.headers
        #: The address that answered, after redirects.
        self.url = address.url

    def chunks(self, *, decode: bool = False) -> Iterator[bytes]:
        """The body piece by piece; ``decode`` undoes a Content-Encoding the server insisted on.

        Raises ``TransientError`` when it breaks off.
        """
        pieces = self._counted()
        if decode and self.headers.get("Content-Encoding") in ("gzip", "x-gzip", "deflate"):
            pieces = _inflated(pieces)
        try:
            yield from pieces
        except WireError as error:
            raise UnreachableError(
                Reason.RegistryUnreachable, f"{self._doing}: the answer broke off ({error}){_AGAIN}"
            ) from error
        finally:
            self._response.close()

    def _counted(self) -> Iterator[bytes]:
        for piece in self._response.pieces():
            self._counters.add(received=len(piece))
            yield piece

    def read(self, limit: int) -> bytes | None:
        """The whole body, or None when it is longer than the limit."""
        body = bytearray()
        for chunk in self.chunks():
            body += chunk
            if len(body) > limit:
                return None
        return bytes(body)

    def text(self) -> str:
        """The start of an error's body; what cannot be read is as good as empty."""
        try:
            return (self.read(MAX_ERROR_BODY) or b"").decode("utf-8", "replace")
        except TransientError:
            return ""

    def discard(self) -> None:
        """Read a small rest so that the connection can be used again."""
        self.text()


def _untrusted(error: NotTrustedError | NotTlsError, doing: str) -> PipelineError:
    if isinstance(error, NotTlsError):
        what = "does not speak https; use its https port, or for a registry on loopback plain http."
    else:
        what = f"shows a certificate that is not trusted ({error}); name its authority in SSL_CERT_FILE."
    return PipelineError(Reason.RegistryUnreachable, f"{doing}: {error.host} {what}")


def retry_after(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Seconds of a ``Retry-After`` header, which holds a number or a date (RFC 9110, 10.2.3)."""
    if not value:
        return None
    try:
        if value.strip().isdigit():  # of which float() takes fewer: not "²"
            return float(value)
        from email.utils import parsedate_to_datetime

        return max(0.0, parsedate_to_datetime(value).timestamp() - now())
    except (ValueError, OverflowError):
        return None


def _redirect(method: str, response: Response) -> str | None:
    # A write is repeated elsewhere only where the standard keeps method and body (307, 308).
    if not 301 <= response.status <= 308:
        return None
    followed = (301, 302, 303, 307, 308) if method in ("GET", "HEAD") else (307, 308)
    return response.headers.get("Location") if response.status in followed else None


def _drain(response: Response) -> None:
    """Read a small rest, so that the connection can be used again."""
    left = MAX_ERROR_BODY
    with suppress(WireError):
        for piece in response.pieces():
            left -= len(piece)
            if left < 0:
                return


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Undo gzip (of several members: RFC 1952, 2.2) or zlib's deflate, in pieces of bounded size."""
    import zlib

    member = zlib.decompressobj(zlib.MAX_WBITS | 32)
    begun = False
    try:
        for piece in pieces:
            while piece:
                if member.eof:
                    member = zlib.decompressobj(zlib.MAX_WBITS | 32)
                begun = True
                plain = member.decompress(piece, CHUNK)
                piece = member.unused_data or member.unconsumed_tail
                if plain:
                    yield plain
    except zlib.error as error:
        raise WireError("its Content-Encoding is broken") from error
    if begun and not member.eof:
        raise WireError("its Content-Encoding ends too early")
