"""Finds one chart version in a Helm repository's index without parsing the index.

Indexes reach tens of megabytes and list every version ever published; a YAML parser turns 15 MB into
383 MB and ten seconds. Here the bytes stream past, the block of the one chart is cut out, of that only
the items that mention the version are kept, and only those are parsed.
"""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import yaml

from aicr_pipeline.decide.versions import same
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.yaml import PARSE_ERRORS

MAX_INDEX = 256 * 1024 * 1024
#: JSON has no lines to cut at, so it is parsed whole and must be smaller.
MAX_JSON_INDEX = 32 * 1024 * 1024
MAX_BLOCK = 32 * 1024 * 1024

_HEX = re.compile(r"[0-9a-f]{64}")


class IndexEntry(NamedTuple):
    """One version of one chart as its index lists it."""

    name: str
    version: str
    urls: tuple[str, ...]
    digest: str | None


def find_version(chunks: Iterable[bytes], chart: str, version: str, source: str) -> IndexEntry:
    """Pick exactly one version of a chart out of an index.

    Parameters
    ----------
    chunks:
        The index's bytes as they arrive.
    chart, version:
        What is wanted. The exact version text wins; else a leading ``v`` is ignored.
    source:
        The index's address, for messages.

    Returns
    -------
    IndexEntry
        With urls as written (relative ones too) and the digest as ``sha256:…`` or None.

    Raises
    ------
    PipelineError
        ``ChartSourceUnsupported`` when the answer is no index, or has no such chart or version;
        ``Conflict`` when it lists the version twice with different digests: nobody can say which is meant.
    """
    items = [
        item
        for item in _items(chunks, chart, version, source)
        if isinstance(item.get("version"), str) and same(item["version"], version)
    ]
    matching = [item for item in items if item["version"] == version] or items
    if not matching:
        raise _unsupported(
            f"{source} lists no version {version} of chart {chart}; check the bundle's upstream"
        )
    entries = [_entry(item, chart, source) for item in matching]
    digests = sorted({entry.digest for entry in entries if entry.digest})
    if len(digests) > 1 or len({entry.version for entry in entries}) > 1:
        raise PipelineError(
            Reason.Conflict,
            f"{source} lists chart {chart} {version} more than once, as {' and '.join(digests)}; "
            "it is held until the publisher says which one is meant.",
        )
    return max(entries, key=lambda entry: entry.digest is not None)


def _items(chunks: Iterable[bytes], chart: str, version: str, source: str) -> list[dict[str, Any]]:
    stream = _limited(chunks, source)
    head = b""
    for chunk in stream:
        head += chunk
        if head.strip(b"\xef\xbb\xbf \t\r\n"):
            break
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<"):
        raise _unsupported(f"{source} answered an HTML page where an index was expected; check the address")
    if start.startswith(b"{"):
        return _json_items(head, stream, chart, source)
    wanted = re.compile(
        rb"\bversion['\"]?[ \t]*:[ \t]*['\"]?v?" + re.escape(version.removeprefix("v").encode())
    )
    block = b"".join(item for item in _yaml_items(_chain(head, stream), chart, source) if wanted.search(item))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        parsed = yaml.load(block, Loader=_text_only(loader)) if block else []  # noqa: S506 - safe loaders
    except (*PARSE_ERRORS, RecursionError) as error:
        what = str(error).partition("\n")[0]
        raise _unsupported(f"{source} lists chart {chart} in a form that does not parse ({what})") from error
    return _mappings(parsed)


def _json_items(head: bytes, rest: Iterator[bytes], chart: str, source: str) -> list[dict[str, Any]]:
    text = bytearray(head)
    for chunk in rest:
        text += chunk
        if len(text) > MAX_JSON_INDEX:
            raise _too_large(source, MAX_JSON_INDEX)
    try:
        index = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unsupported(f"{source} is not an index of charts (broken JSON)") from error
    entries = index.get("entries")
    return _mappings(entries.get(chart)) if isinstance(entries, dict) else []


def _mappings(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _yaml_items(chunks: Iterator[bytes], chart: str, source: str) -> Iterator[bytes]:
    """The items of ``entries.<chart>``, each as its own lines."""
    buffer = b"\n"
    entries = re.compile(rb"\nentries[ \t]*:[ \t]*(?:#[^\n]*)?\r?(?=\n)")
    while not (found := entries.search(buffer)):
        chunk = next(chunks, b"")
        if not chunk:
            raise _unsupported(f"{source} is not an index of charts: it has no entries")
        buffer = buffer[buffer.rfind(b"\n") :] + chunk
        if len(buffer) > MAX_BLOCK:
            raise _too_large(source, MAX_BLOCK)
    buffer = buffer[found.end() :]
    first = re.compile(rb"\n( *)(?=[^ \r\n#])")
    while not (indent := first.search(buffer)):
        chunk = next(chunks, b"")
        if not chunk:
            return
        # Empty lines and comments so far: the last one may go on.
        buffer = buffer[buffer.rfind(b"\n") :] + chunk
        if len(buffer) > MAX_BLOCK:
            raise _too_large(source, MAX_BLOCK)
    spaces = len(indent[1])
    name = re.escape(chart.encode())
    key = re.compile(
        rb"\n {%d}(?:%b|'%b'|\"%b\")[ \t]*:[ \t]*(?:#[^\n]*)?\r?(?=\n)" % (spaces, name, name, name)
    )
    while not (found := key.search(buffer)):
        chunk = next(chunks, b"")
        if not chunk:
            return
        buffer = buffer[max(buffer.rfind(b"\n"), 0) :] + chunk
        if len(buffer) > MAX_BLOCK:
            raise _too_large(source, MAX_BLOCK)
    yield from _split(buffer[found.end() :], chunks, spaces, source)


def _split(buffer: bytes, chunks: Iterator[bytes], spaces: int, source: str) -> Iterator[bytes]:
    """Cut a block sequence at its dashes; it ends at the next key of the same depth or above."""
    end = re.compile(rb"\n {0,%d}(?=[^ \-#\r\n])" % spaces)
    dash: re.Pattern[bytes] | None = None
    while True:
        finished = end.search(buffer)
        if finished:
            buffer = buffer[: finished.start() + 1]
        if dash is None and (item := re.search(rb"\n( *)-(?=[ \r\n])", buffer)):
            dash = re.compile(rb"\n {%d}-(?=[ \r\n])" % len(item[1]))
        if dash:
            starts = [match.start() for match in dash.finditer(buffer)]
            for begin, stop in pairwise(starts):
                yield buffer[begin:stop]
            buffer = buffer[starts[-1] :] if starts else buffer
        chunk = b"" if finished else next(chunks, b"")
        if not chunk:
            if dash:
                yield buffer
            return
        buffer += chunk
        if len(buffer) > MAX_BLOCK:
            raise _too_large(source, MAX_BLOCK)


def _entry(item: dict[str, Any], chart: str, source: str) -> IndexEntry:
    urls = item.get("urls")
    texts = tuple(url for url in urls if isinstance(url, str) and url) if isinstance(urls, list) else ()
    if not texts:
        raise _unsupported(f"{source} lists chart {chart} {item['version']} without an address")
    digest = item.get("digest")
    if digest:
        digest = str(digest).strip().lower().removeprefix("sha256:")
        if not _HEX.fullmatch(digest):
            raise _unsupported(
                f"{source} lists chart {chart} {item['version']} with a digest that is no SHA-256"
            )
        digest = f"sha256:{digest}"
    return IndexEntry(chart, str(item["version"]), texts, digest or None)


def _text_only(base: type[Any]) -> type[Any]:
    """A loader that leaves every plain scalar the text it is, so that version 1.10 is not 1.1."""
    return type("IndexLoader", (base,), {"yaml_implicit_resolvers": {}})


def _limited(chunks: Iterable[bytes], source: str) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_INDEX:
            raise _too_large(source, MAX_INDEX)
        if chunk:  # an empty piece is not the end
            yield chunk


def _chain(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head.removeprefix(b"\xef\xbb\xbf")
    yield from rest


def _too_large(source: str, limit: int) -> PipelineError:
    return PipelineError(
        Reason.ContentTooLarge,
        f"The index {source} is above {limit:,} bytes; name an OCI source or a mirror.",
    )


def _unsupported(what: str) -> PipelineError:
    return PipelineError(Reason.ChartSourceUnsupported, f"{what}.")
