"""Which addresses are this machine's. Without pydantic, for what must start fast."""

import re

_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")


def is_loopback(netloc: str) -> bool:
    """Whether ``host`` or ``host:port`` is this machine, where plain http may be used."""
    return _LOOPBACK.fullmatch(netloc) is not None


def is_plain_elsewhere(address: str) -> bool:
    """Whether an address is plain http to another machine."""
    return address.startswith("http://") and not is_loopback(
        address.removeprefix("http://").partition("/")[0]
    )
