"""HTTP/1.1 as text: which addresses are asked, and what a request begins with.

Used by the connections to registries and chart repositories. What one reader of HTTP takes for an address or
a header and another does not is how requests are smuggled, so there is one reader here, it is strict, and
what is sent is made from what it read: never from the text that was judged.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

#: RFC 1035, 2.3.4; with the underscore that some names have all the same.
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_URL: Final = re.compile(
    rf"(https?)://((\[[0-9a-f:.]+\]|{_LABEL}(?:\.{_LABEL})*\.?)(?::([0-9]{{1,5}}))?)"
    r"((?:/[^?#]*)?(?:\?[^#]*)?)(?:#.*)?",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_PORTS: Final = {"https": 443, "http": 80}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
#: RFC 3986, 3.3 and 3.4: what a path and a query may hold.
_KEPT: Final = "/!$&'()*+,;=:@-._~"
_TARGET: Final = re.compile(r"/(?:[A-Za-z0-9/!$&'()*+,;=:@._~?-]|%[0-9A-Fa-f]{2})*")
_BARE_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

#: RFC 9110, 5.6.2 and 5.5.
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
#: What is said once for every request, by ``request_head`` alone.
_OWN: Final = frozenset(
    {"host", "user-agent", "accept-encoding", "connection", "content-length", "transfer-encoding"}
)


class MalformedError(ValueError):
    """It is not HTTP/1.1 as the standard has it. Says what is wrong with it, without quoting it."""


class Address(NamedTuple):
    """An http or https address, taken apart once."""

    scheme: str
    #: As it was written: what a configuration names.
    netloc: str
    #: In lower case; of IPv6 without brackets.
    host: str
    port: int
    #: Path and query, as they are sent.
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Who answers there: what a password and a connection belong to (RFC 6454, 4)."""
        return self.scheme, self.host, self.port

    @property
    def url(self) -> str:
        """The whole address, for messages and for what is relative to it."""
        return f"{self.scheme}://{self.netloc}{self.target}"


def parse_address(url: str) -> Address | None:
    """An address of a host by name or number; None for everything else.

    A user or password in it, a name that is not ASCII (``xn--`` is), a control character: None. In path and
    query, what may not stand there is percent-encoded, and dots are resolved, as browsers do.
    """
    found = _URL.fullmatch(url)
    if found is None:
        return None
    scheme, netloc, host, port, target = found.groups()
    scheme = scheme.lower()
    number = int(port) if port else _PORTS[scheme]
    if not 0 < number < 65536 or len(host) > 253:
        return None
    if not target.startswith("/"):
        target = f"/{target}"
    if _TARGET.fullmatch(target) is None:
        if _CONTROL.search(target):
            return None
        target = _encoded(target)
    if "/." in target:
        target = _resolved(target)
    return Address(scheme, netloc, host.lower().strip("[]"), number, target)


def _encoded(target: str) -> str:
    path, mark, query = target.partition("?")
    # A percent sign that begins no code is one itself, and then they all are.
    percent = "" if _BARE_PERCENT.search(target) else "%"
    return quote(path, _KEPT + percent, errors="replace") + mark + quote(query, f"{_KEPT}?{percent}")


def _resolved(target: str) -> str:
    """Without ``.`` and ``..`` in the path (RFC 3986, 5.2.4)."""
    path, mark, query = target.partition("?")
    segments = path.split("/")[1:]
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept) + mark + query


def request_head(
    method: str, address: Address, agent: str, headers: Mapping[str, str], size: int | None
) -> bytes:
    """Everything of a request but its body.

    Parameters
    ----------
    headers:
        Beside those that every request has.
    size:
        Of the body; None: the method has none.

    Raises
    ------
    MalformedError
        For a header that would end, or begin, another one. It is named; its value may be a secret.
    """
    host = f"[{address.host}]" if ":" in address.host else address.host
    if address.port != _PORTS[address.scheme]:
        host = f"{host}:{address.port}"
    lines = [
        f"{method} {address.target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\n"
        "Accept-Encoding: identity\r\n"
    ]
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _OWN:
            raise MalformedError(f"{name[:40]!r} is no name of a header that may be added")
        if not _VALUE.fullmatch(value):
            raise MalformedError(f"the header {name} would hold a line break or a character that none may")
        lines.append(f"{name}: {value}\r\n")
    lines.append("\r\n" if size is None else f"Content-Length: {size}\r\n\r\n")
    return "".join(lines).encode("latin-1")
