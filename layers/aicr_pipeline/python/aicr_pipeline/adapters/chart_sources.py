"""Where charts come from: https Helm repositories and OCI registries, one exact version at a time.

Publishers' servers are not ours: what they send is bounded, checked against every digest there is, and
believed only after the archive itself has been read.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urljoin, urlsplit

from aicr_pipeline.adapters.http import Counters, Transport
from aicr_pipeline.adapters.registry import Manifest, Repository, parse_reference
from aicr_pipeline.adapters.registry_errors import DigestMismatchError
from aicr_pipeline.decide.chart_archive import GZIP_MAGIC, MAX_TOTAL, Chart, read_chart, require_identity
from aicr_pipeline.decide.chart_package import CONFIG_TYPE, CONTENT_TYPE, tag_of
from aicr_pipeline.decide.helm_index import IndexEntry, find_version
from aicr_pipeline.decide.upstreams import rewrite
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

if TYPE_CHECKING:
    from aicr_pipeline.model.config import Registry
    from aicr_pipeline.model.plan import UpstreamSource

#: Charts are kilobytes; larger ones go to the disk of the function.
_IN_MEMORY = 4 * 1024 * 1024
_MAX_CONFIG = 1024 * 1024
_MAX_LAYERS = 8
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")


@dataclass(frozen=True)
class Blob:
    """Verified bytes in a temporary file."""

    digest: str
    size: int
    file: BinaryIO


@dataclass(frozen=True)
class IndexedChart:
    """What an https repository's index says of the version wanted."""

    source: "UpstreamSource"
    entry: IndexEntry
    #: Absolute, in the index's order.
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Descriptor:
    """A blob as a manifest names it."""

    media_type: str
    digest: str
    size: int


@dataclass(frozen=True)
class RegistryChart:
    """A chart in a publisher's registry: its manifest, and the blobs that manifest names."""

    source: "UpstreamSource"
    name: str
    tag: str
    manifest: Manifest
    config: Descriptor
    content: Descriptor
    #: Every layer, the content among them; provenance goes where the chart goes.
    layers: tuple[Descriptor, ...]
    repository: Repository


@dataclass
class ChartSources:
    """Fetches charts from where the bundle says they come from.

    Parameters
    ----------
    transport:
        Shared; made with ``plain_hosts`` of the same configuration.
    upstreams:
        ``registry.upstreams``: prefix to the address that is asked instead.
    counters:
        Counts every request made here.
    """

    transport: Transport
    upstreams: Mapping[str, str] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)

    def find_indexed(self, source: "UpstreamSource") -> IndexedChart:
        """Look one version up in an https repository: one request, redirects apart.

        Raises
        ------
        PipelineError
            ``ChartSourceUnsupported`` (no index, no such version), ``Conflict`` (the version twice),
            ``RegistryUnreachable``.
        """
        url = rewrite(source.repo, self.upstreams).rstrip("/") + "/index.yaml"
        doing = f"Reading the chart index {url}"
        answer = self.transport.send("GET", url, doing=doing, counters=self.counters, headers=_IDENTITY)
        if answer.status != 200:
            answer.discard()
            raise _refused(doing, answer.status)
        # Some servers compress whatever was asked of them.
        entry = find_version(answer.chunks(decode=True), source.chart, source.version, url)
        # Against the address that answered: the index may live elsewhere than its old name says.
        urls = tuple(urljoin(answer.url, written) for written in entry.urls)
        return IndexedChart(source, entry, urls)

    def fetch_indexed(self, found: IndexedChart) -> tuple[Blob, Chart]:
        """Fetch and judge the archive, trying its addresses in order.

        Raises
        ------
        DigestMismatchError
            When the archive is not the one the index lists: a digest that fails is never passed over.
        PipelineError
            ``ChartInvalid``, ``ContentTooLarge``, or the last address's problem when none works.
        """
        problems: list[PipelineError] = []
        for url in found.urls:
            try:
                blob = self._download(rewrite(url, self.upstreams))
            except PipelineError as error:
                problems.append(error)
                continue
            if found.entry.digest not in (None, blob.digest):
                raise DigestMismatchError(
                    Reason.ChartInvalid,
                    f"Fetching chart {found.source.chart} {found.source.version} from {_plain(url)}: "
                    f"the index lists {found.entry.digest}, the archive is {blob.digest}; ask its publisher.",
                )
            return blob, _judged(blob, found.source.chart, found.source.version, _plain(url))
        passing = [error for error in problems if isinstance(error, TransientError)]
        raise (passing or problems)[-1]

    def find_in_registry(self, source: "UpstreamSource") -> RegistryChart:
        """Look one version up in a publisher's registry: one request, a token's two apart.

        The tag is the version as asked; only where that is absent, the version with or without ``v``.

        Raises
        ------
        PipelineError
            ``ChartSourceUnsupported`` where the tag is absent or holds something else than one chart.
        """
        address = source.chart if source.chart.startswith("oci://") else f"{source.repo}/{source.chart}"
        reference = parse_reference(rewrite(address, self.upstreams))
        repository = Repository(self.transport, reference, None, self.counters)
        version = source.version
        for wanted in (version, version[1:] if version.startswith("v") else f"v{version}"):
            tag = tag_of(wanted)
            manifest = repository.get_manifest(tag)
            if manifest:
                config, layers = _chart_parts(manifest, f"{reference}:{tag}")
                content = next(layer for layer in layers if layer.media_type == CONTENT_TYPE)
                name = address.rstrip("/").rpartition("/")[2]
                return RegistryChart(source, name, tag, manifest, config, content, layers, repository)
        raise _unsupported(f"{reference} has no version {version}; check the bundle's upstream")

    def fetch_from_registry(self, found: RegistryChart) -> tuple[tuple[Blob, ...], Chart]:
        """Fetch config and layers, one request each, and judge the archive among them."""
        blobs = {part.digest: self._fetch(found.repository, part) for part in (found.config, *found.layers)}
        archive = blobs[found.content.digest]
        chart = _judged(
            archive, found.name, found.source.version, f"{found.repository.reference}:{found.tag}"
        )
        return tuple(blobs.values()), chart

    def _fetch(self, repository: Repository, part: Descriptor) -> Blob:
        file = _spool()
        repository.get_blob(part.digest, part.size, file)
        return Blob(part.digest, part.size, file)

    def _download(self, url: str) -> Blob:
        doing = f"Fetching the chart archive {_plain(url)}"
        if urlsplit(url).scheme not in ("https", "http"):
            raise _unsupported(f"{doing}: the index lists no https address; name the OCI source")
        answer = self.transport.send("GET", url, doing=doing, counters=self.counters, headers=_IDENTITY)
        if answer.status != 200:
            answer.discard()
            raise _refused(doing, answer.status)
        file, digest, size = _spool(), hashlib.sha256(), 0
        for chunk in answer.chunks():
            if size == 0 and not chunk.startswith(GZIP_MAGIC):
                what = "an HTML page" if chunk.lstrip()[:1] == b"<" else "something that is not gzip"
                raise _unsupported(f"{doing}: the server answered {what}; check the bundle's upstream")
            size += len(chunk)
            if size > MAX_TOTAL:
                raise PipelineError(
                    Reason.ContentTooLarge, f"{doing}: it is above {MAX_TOTAL:,} bytes; leave it out."
                )
            digest.update(chunk)
            file.write(chunk)
        if not size:
            raise _unsupported(f"{doing}: the answer is empty; check the bundle's upstream")
        return Blob(f"sha256:{digest.hexdigest()}", size, file)


def plain_hosts(registry: "Registry") -> frozenset[str]:
    """The hosts that plain http may be used with, which is what the configuration says and no more.

    They are the registry itself with ``plainHttp``, ``http://`` addresses of ``upstreams``, and with
    ``plainHttp`` also ``oci://`` ones on loopback.
    """
    hosts = {registry.host} if registry.plain_http else set()
    for address in registry.upstreams.values():
        url = urlsplit(address)
        if url.scheme == "http" or (
            registry.plain_http and url.scheme == "oci" and _LOOPBACK.fullmatch(url.netloc)
        ):
            hosts.add(url.netloc)
    return frozenset(hosts)


def content_digest(manifest: Manifest, source: str) -> str:
    """The digest of the chart archive that a manifest names."""
    return next(part.digest for part in _chart_parts(manifest, source)[1] if part.media_type == CONTENT_TYPE)


def _judged(blob: Blob, name: str, version: str, source: str) -> Chart:
    blob.file.seek(0)
    chart = read_chart(blob.file, source)
    require_identity(chart, name, version, source)
    return chart


def _chart_parts(manifest: Manifest, source: str) -> tuple[Descriptor, tuple[Descriptor, ...]]:
    """Config and layers of a manifest that holds exactly one chart (Helm's OCI media types)."""
    try:
        document = json.loads(manifest.content)
        config = _descriptor(document["config"])
        layers = tuple(_descriptor(layer) for layer in document["layers"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _unsupported(f"{source} is a {manifest.media_type}, not the manifest of one chart") from error
    if config.media_type != CONFIG_TYPE or [part.media_type for part in layers].count(CONTENT_TYPE) != 1:
        raise _unsupported(
            f"{source} holds {config.media_type}, not one Helm chart; check the bundle's upstream"
        )
    if (
        len(layers) > _MAX_LAYERS
        or config.size > _MAX_CONFIG
        or sum(part.size for part in layers) > MAX_TOTAL
    ):
        raise PipelineError(
            Reason.ContentTooLarge, f"{source} names more than {MAX_TOTAL:,} bytes or {_MAX_LAYERS} layers."
        )
    return config, layers


def _descriptor(value: Any) -> Descriptor:
    media_type, digest, size = value["mediaType"], value["digest"], value["size"]
    if not _DIGEST.fullmatch(digest) or not isinstance(size, int) or size < 0:
        raise ValueError("descriptor")
    return Descriptor(str(media_type), digest, size)


def _spool() -> BinaryIO:
    return cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))


def _plain(url: str) -> str:
    """An address for messages: signed queries are secrets."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def _refused(doing: str, status: int) -> PipelineError:
    if status in (401, 403):  # a refusal is not an absence
        return PipelineError(
            Reason.Unauthorized, f"{doing}: the server refuses us ({status}); open the source to us."
        )
    return _unsupported(f"{doing}: the server answered {status}; check the bundle's upstream")


def _unsupported(what: str) -> PipelineError:
    return PipelineError(Reason.ChartSourceUnsupported, f"{what}.")


_IDENTITY = {"Accept-Encoding": "identity"}
