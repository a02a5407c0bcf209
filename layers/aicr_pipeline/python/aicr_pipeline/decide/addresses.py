"""Addresses out of bundles, indexes and answers: made absolute, shown, refused."""

import re
from urllib.parse import urljoin, urlsplit

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def joined(base: str, target: str, doing: str) -> str:
    """An address out of somebody's answer, made absolute.

    Raises
    ------
    PipelineError
        ``ChartSourceUnsupported`` when it cannot be read as an address at all.
    """
    try:
        # What urljoin leaves out without a word is not left out by everybody.
        url = "" if _CONTROL.search(target) else urljoin(base, target)
        if url:
            _ = urlsplit(url).port  # reading it checks it
    except ValueError:
        url = ""
    if not url:
        raise _no_address(target or base, doing)
    return url


def _no_address(text: str, doing: str) -> PipelineError:
    return PipelineError(
        Reason.ChartSourceUnsupported,
        f"{doing}: {shown(text)[:200]!r} is not an address; correct it, or ask whoever serves it.",
    )


def refused(url: str, doing: str) -> PipelineError:
    """The refusal of an address that is not asked: it is none, or not an https one."""
    parts = urlsplit(joined(url, "", doing))
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme == "https" and parts.hostname and parts.username is None:
        return _no_address(url, doing)
    return PipelineError(
        Reason.ChartSourceUnsupported,
        f"{doing}: {parts.scheme}://{host} is not an https address; "
        "plain http is for hosts the configuration names.",
    )


def shown(url: str) -> str:
    """An address for messages, sound or not: signed queries and passwords stay out of them."""
    return re.sub(r"(?<=//)[^/@]*@", "", re.split(r"[?#]", url, maxsplit=1)[0])
