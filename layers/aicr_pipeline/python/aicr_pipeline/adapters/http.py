"""HTTP to registries and chart repositories: attempts, waits, redirects and sizes are bounded.

How long a body may trickle in is not: each piece has 30 seconds, and the function's timeout ends the rest.

Used by the registry client and the chart sources. One ``Transport`` serves a whole function: it keeps
connections, but no identity; who asks is said with each request.

urllib3 rather than ``requests``: bodies stream both ways, nothing is decoded or retried behind our
back, and it is what boto3 has already imported.

Certificates are judged by OpenSSL's own list: a site with an authority of its own names it in the environment
variable ``SSL_CERT_FILE`` (one PEM file) or ``SSL_CERT_DIR``, as for every other tool.
"""

import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import BinaryIO
from urllib.parse import SplitResult, urljoin, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, LocationValueError

from aicr_pipeline import __version__
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

RETRYABLE = frozenset({429, 500, 502, 503, 504})
MAX_REDIRECTS = 5
MAX_ERROR_BODY = 64 * 1024
CHUNK = 256 * 1024
_AGAIN = "; it will be tried again later."


class UnreachableError(TransientError):
    """A host does not answer, or answers with its own failure. The message names it."""


class ThrottledError(TransientError):
    """A host asks us to slow down, for longer than one request waits."""


@dataclass
class Counters:
    """What an operation cost. Every request on the wire counts: retries, redirects and tokens too."""

    requests: int = 0
    sent: int = 0
    received: int = 0
    retries: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def add(self, *, requests: int = 0, sent: int = 0, received: int = 0, retries: int = 0) -> None:
        """Count what was done; an operation may have two requests under way at once."""
        with self._lock:
            self.requests += requests
            self.sent += sent
            self.received += received
            self.retries += retries


@dataclass(frozen=True)
class Patience:
    """How long to go on: attempts, full jitter below ``base * 2^n``, and a limit on the waits together."""

    attempts: int = 5
    base: float = 0.3
    longest: float = 8.0
    budget: float = 45.0
    connect: float = 5.0
    read: float = 30.0


@dataclass
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

    plain_hosts: frozenset[str] = frozenset()
    patience: Patience = Patience()
    sleep: Callable[[float], None] = time.sleep
    pick: Callable[[float, float], float] = random.uniform
    on_exchange: Callable[[str, str, int], None] = lambda method, address, status: None
    _pool: urllib3.PoolManager = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pool = urllib3.PoolManager(
            num_pools=32,
            maxsize=16,  # eight charts at once, two requests each
            blocksize=CHUNK,
            retries=False,
            timeout=urllib3.Timeout(connect=self.patience.connect, read=self.patience.read),
            headers={"User-Agent": f"aicr-pipeline/{__version__}"},
        )

    def scheme(self, host: str) -> str:
        """``http`` for a host the configuration names as plain, ``https`` for all others."""
        return "http" if host in self.plain_hosts else "https"

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.clear()

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
            ``ChartSourceUnsupported`` for a redirect that must not be followed; ``RegistryUnreachable`` for
            a certificate that is not trusted.
        """
        waited = 0.0
        for attempt in range(1, self.patience.attempts + 1):
            kind: type[TransientError] = UnreachableError
            if pace is not None:
                pace()
            try:
                answer = self._follow(method, url, doing, counters, dict(headers or {}), body, size)
            except LocationValueError as error:
                raise _no_address(url, doing) from error
            except HTTPError as error:
                if isinstance(error.args[0] if error.args else None, ssl.SSLCertVerificationError):
                    # It will be the same the next time.
                    raise PipelineError(
                        Reason.RegistryUnreachable,
                        f"{doing}: {_host(url)} shows a certificate that is not trusted "
                        f"({error.args[0].verify_message}); name its authority in SSL_CERT_FILE.",
                    ) from error
                if "WRONG_VERSION_NUMBER" in str(error):
                    raise PipelineError(
                        Reason.RegistryUnreachable,
                        f"{doing}: {_host(url)} does not speak https; use its https port, or for a registry "
                        "on loopback plain http.",
                    ) from error
                problem, after = f"{_host(url)} cannot be reached ({_kind(error)})", None
            else:
                if answer.status not in RETRYABLE:
                    return answer
                problem = f"{_host(url)} answered {answer.status}"
                if answer.status == 429:
                    kind = ThrottledError
                    problem = f"{_host(url)} is throttling us (429)"
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
        url: str,
        doing: str,
        counters: Counters,
        headers: dict[str, str],
        body: bytes | BinaryIO | None,
        size: int,
    ) -> "Answer":
        self._require_safe(urlsplit(joined(url, "", doing)), doing)
        for _ in range(MAX_REDIRECTS + 1):
            response = self._once(method, url, counters, headers, body, size)
            target = _redirect(method, response)
            if target is None:
                return Answer(response, url, counters, doing)
            response.drain_conn()
            response.release_conn()
            here, there = urlsplit(url), urlsplit(joined(url, target, doing))
            self._require_safe(there, doing)
            if (here.scheme, here.netloc) != (there.scheme, there.netloc):
                # Storage behind a registry has no business with its password, and refuses it too.
                headers.pop("Authorization", None)
            url = there.geturl()
        raise PipelineError(
            Reason.ChartSourceUnsupported,
            f"{doing}: more than {MAX_REDIRECTS} redirects, the last to {_host(url)}; check the address.",
        )

    def _once(
        self,
        method: str,
        url: str,
        counters: Counters,
        headers: dict[str, str],
        body: bytes | BinaryIO | None,
        size: int,
    ) -> urllib3.BaseHTTPResponse:
        sent = dict(headers)
        if body is None or isinstance(body, bytes):
            size = len(body or b"")
        else:
            body.seek(0)
            sent["Content-Length"] = str(size)
        counters.add(requests=1)
        status = 0
        try:
            response = self._pool.request(
                method,
                url,
                headers={**self._pool.headers, **sent},
                body=body,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            status = response.status
        finally:
            # Queries carry upload sessions and signatures.
            self.on_exchange(method, urlsplit(url)._replace(query="", fragment="").geturl(), status)
        counters.add(sent=size)
        return response

    def _require_safe(self, url: SplitResult, doing: str) -> None:
        allowed = url.scheme == "https" or (url.scheme == "http" and url.netloc in self.plain_hosts)
        if not allowed or not url.hostname or url.username is not None:
            raise PipelineError(
                Reason.ChartSourceUnsupported,
                f"{doing}: {url.scheme}://{url.netloc.rpartition('@')[2]} is not an https address; "
                "plain http is for hosts the configuration names.",
            )


class Answer:
    """A response whose body is read at most once, counted, and bounded."""

    def __init__(self, response: urllib3.BaseHTTPResponse, url: str, counters: Counters, doing: str) -> None:
        self._response = response
        self._doing = doing
        self._counters = counters
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        #: The address that answered, after redirects.
        self.url = url

    def chunks(self, *, decode: bool = False) -> Iterator[bytes]:
        """The body piece by piece; ``decode`` undoes a Content-Encoding the server insisted on.

        Raises ``TransientError`` when it breaks off.
        """
        try:
            for chunk in self._response.stream(CHUNK, decode_content=decode):
                self._counters.add(received=len(chunk))
                yield chunk
        except HTTPError as error:
            raise UnreachableError(
                Reason.RegistryUnreachable,
                f"{self._doing}: the answer broke off ({_kind(error)}){_AGAIN}",
            ) from error
        finally:
            # A body that was not read to its end leaves a connection nobody can use again.
            if not getattr(self._response, "closed", True):
                self._response.close()
            self._response.release_conn()

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


def joined(base: str, target: str, doing: str) -> str:
    """An address out of somebody's answer, made absolute.

    Raises
    ------
    PipelineError
        ``ChartSourceUnsupported`` when it cannot be read as an address at all.
    """
    try:
        url = urljoin(base, target)
        _ = urlsplit(url).port  # reading it checks it
    except ValueError:
        raise _no_address(target or base, doing) from None
    return url


def _no_address(text: str, doing: str) -> PipelineError:
    return PipelineError(
        Reason.ChartSourceUnsupported,
        f"{doing}: {shown(text)[:200]!r} is not an address; correct it, or ask whoever serves it.",
    )


def shown(url: str) -> str:
    """An address for messages, sound or not: signed queries and passwords stay out of them."""
    return re.sub(r"(?<=//)[^/@]*@", "", re.split(r"[?#]", url, maxsplit=1)[0])


def retry_after(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Seconds of a ``Retry-After`` header, which holds a number or a date (RFC 9110, 10.2.3)."""
    if not value:
        return None
    try:
        if value.strip().isdigit():  # of which float() takes fewer: not "²"
            return float(value)
        return max(0.0, parsedate_to_datetime(value).timestamp() - now())
    except (ValueError, OverflowError):
        return None


def _redirect(method: str, response: urllib3.BaseHTTPResponse) -> str | None:
    # A write is repeated elsewhere only where the standard keeps method and body (307, 308).
    followed = (301, 302, 303, 307, 308) if method in ("GET", "HEAD") else (307, 308)
    return response.headers.get("Location") if response.status in followed else None


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _kind(error: Exception) -> str:
    """What went wrong, in words without addresses or tokens."""
    inner = getattr(error, "reason", None)
    return type(inner if isinstance(inner, Exception) else error).__name__
