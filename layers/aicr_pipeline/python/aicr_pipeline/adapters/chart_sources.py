"""Where charts come from: https Helm repositories and OCI registries, one exact version at a time.

Publishers' servers are not ours: what they send is bounded, checked against every digest there is, and
believed only after the archive itself has been read.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast
from urllib.parse import urlsplit

from aicr_pipeline.adapters.at_once import both
from aicr_pipeline.adapters.chart_manifest import Descriptor, chart_parts
from aicr_pipeline.adapters.http import Answer, Counters, Transport
from aicr_pipeline.adapters.registry import Manifest, Repository, parse_reference
from aicr_pipeline.adapters.registry_auth import Credentials, basic
from aicr_pipeline.adapters.registry_errors import DigestMismatchError
from aicr_pipeline.decide.addresses import joined, shown
from aicr_pipeline.decide.chart_package import (
    CONTENT_TYPE,
    GZIP_MAGIC,
    MAX_TOTAL,
    Chart,
    digest_of,
    tag_of,
)
from aicr_pipeline.decide.upstreams import rewrite
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.addresses import is_loopback
from aicr_pipeline.model.reasons import Reason

if TYPE_CHECKING:
    from aicr_pipeline.decide.helm_index import IndexEntry
    from aicr_pipeline.model.config import Registry
    from aicr_pipeline.model.plan import UpstreamSource

#: Charts are kilobytes; larger ones go to the disk of the function.
_IN_MEMORY = 4 * 1024 * 1024
#: Above what a provenance file is judged by (``decide.provenance``).
_MAX_PROVENANCE = 1024 * 1024
_SIGNED = b"-----BEGIN PGP SIGNED MESSAGE-----"


def anonymous(host: str) -> Credentials | None:
    """The credentials for a publisher's host: none. What a bundle names is public."""
    return None


class Blob(NamedTuple):
    """Verified bytes in a temporary file."""

    digest: str
    size: int
    file: BinaryIO


class FetchedChart(NamedTuple):
    """An archive that is in hand and judged, and its provenance file where there is one."""

    archive: Blob
    chart: Chart
    provenance: Blob | None
    #: Where the archive was, of the addresses that an index lists.
    url: str = ""


class IndexedChart(NamedTuple):
    """What an https repository's index says of the version wanted."""

    source: "UpstreamSource"
    entry: "IndexEntry"
    #: Absolute, in the index's order.
    urls: tuple[str, ...]


class RegistryChart(NamedTuple):
    """A chart in a publisher's registry: its manifest, and the blobs that manifest names."""

    source: "UpstreamSource"
    #: As the bundle names it, before any rewriting.
    address: str
    name: str
    tag: str
    manifest: Manifest
    config: Descriptor
    content: Descriptor
    #: Every layer, the content among them; provenance goes where the chart goes.
    layers: tuple[Descriptor, ...]
    repository: Repository


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
    credentials:
        Who we are to a publisher's host; to nobody anything by default.
    """

    def __init__(
        self,
        transport: Transport,
        upstreams: Mapping[str, str] | None = None,
        counters: Counters | None = None,
        credentials: Callable[[str], Credentials | None] = anonymous,
    ) -> None:
        self.transport = transport
        self.upstreams = upstreams or {}
        self.counters = counters or Counters()
        self.credentials = credentials

    def find_indexed(self, source: "UpstreamSource") -> IndexedChart:
        """Look one version up in an https repository: one request, redirects apart.

        Raises
        ------
        PipelineError
            ``ChartSourceUnsupported`` (no index, no such version), ``Conflict`` (the version twice),
            ``RegistryUnreachable``.
        """
        url = rewrite(source.repo, self.upstreams).rstrip("/") + "/index.yaml"
        doing = f"Reading the chart index {shown(url)}"
        joined(url, "", doing)
        answer = self.transport.send(
            "GET", url, doing=doing, counters=self.counters, headers=self._headers(url)
        )
        if answer.status != 200:
            answer.discard()
            raise _refused(doing, answer.status)
        from aicr_pipeline.decide.helm_index import find_version  # with it comes a YAML reader

        # Some servers compress whatever was asked of them.
        entry = find_version(answer.chunks(decode=True), source.chart, source.version, shown(url))
        # Against the address that answered: the index may live elsewhere than its old name says.
        urls, problem = [], None
        for written in entry.urls:
            try:
                urls.append(joined(answer.url, written, doing))
            except PipelineError as error:
                problem = error
        if problem and not urls:
            raise problem
        return IndexedChart(source, entry, tuple(urls))

    def fetch_indexed(self, found: IndexedChart) -> FetchedChart:
        """Fetch and judge the archive, trying its addresses in order.

        Raises
        ------
        DigestMismatchError
            When the archive is not the one the index lists: a digest that fails is never passed over.
        PipelineError
            ``ChartInvalid``, ``ContentTooLarge``, or the last address's problem when none works.
        """
        problems: list[PipelineError] = []
        index = rewrite(found.source.repo, self.upstreams)
        for url in found.urls:
            try:
                blob = self._download(rewrite(url, self.upstreams), index)
            except PipelineError as error:
                problems.append(error)
                continue
            if found.entry.digest not in (None, blob.digest):
                raise DigestMismatchError(
                    Reason.ChartInvalid,
                    f"Fetching chart {found.source.chart} {found.source.version} from {shown(url)}: "
                    f"the index lists {found.entry.digest}, the archive is {blob.digest}; ask its publisher.",
                )
            chart = judged(blob, found.source.chart, found.source.version, shown(url))
            return FetchedChart(blob, chart, None, url)
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
        address = address_of(source)
        reference = parse_reference(rewrite(address, self.upstreams))
        credentials = self.credentials(reference.host)
        repository = Repository(self.transport, reference, credentials, self.counters)
        version = source.version
        for wanted in (version, version[1:] if version.startswith("v") else f"v{version}"):
            tag = tag_of(wanted)
            manifest = repository.get_manifest(tag)
            if manifest:
                config, layers = chart_parts(manifest, f"{reference}:{tag}")
                content = next(layer for layer in layers if layer.media_type == CONTENT_TYPE)
                name = name_of(source)
                return RegistryChart(
                    source, address, name, tag, manifest, config, content, layers, repository
                )
        raise _unsupported(f"{reference} has no version {version}; check the bundle's upstream")

    def fetch_from_registry(self, found: RegistryChart) -> tuple[tuple[Blob, ...], Chart]:
        """Fetch config and layers, one request each, and judge the archive among them."""

        def fetched(parts: Iterable[Descriptor]) -> list[Blob]:
            return [fetch_blob(found.repository, part) for part in parts]

        layers, config = both(lambda: fetched(found.layers), lambda: fetched([found.config]))
        blobs = {blob.digest: blob for blob in (*config, *layers)}
        archive = blobs[found.content.digest]
        chart = judged(archive, found.name, found.source.version, f"{found.repository.reference}:{found.tag}")
        return tuple(blobs.values()), chart

    def fetch_with_provenance(self, found: IndexedChart) -> FetchedChart:
        """As ``fetch_indexed``, and at the same time the provenance file beside the archive.

        That is looked for at the first address, and again where the archive turns out to be at another.
        """

        def beside() -> Blob | TransientError | None:
            try:
                return self.fetch_provenance(found, found.urls[:1])
            except TransientError as error:
                return error

        fetched, provenance = both(lambda: self.fetch_indexed(found), beside)
        if fetched.url != found.urls[0]:
            provenance = self.fetch_provenance(found, [fetched.url])
        if isinstance(provenance, TransientError):
            raise provenance
        return fetched._replace(provenance=provenance)

    def fetch_provenance(self, found: IndexedChart, urls: Iterable[str]) -> Blob | None:
        """The provenance file beside the archive, at the first of its addresses that has one, or None."""
        index = rewrite(found.source.repo, self.upstreams)
        fetched = (self._provenance(rewrite(url, self.upstreams), index) for url in urls)
        return next((blob for blob in fetched if blob is not None), None)

    def _provenance(self, url: str, index: str) -> Blob | None:
        """``<archive>.prov`` (Helm's rule). Most charts have none, and servers say that in many ways."""
        address = urlsplit(url)
        if address.scheme not in ("https", "http"):
            return None
        url = address._replace(path=f"{address.path}.prov").geturl()
        doing = f"Fetching the provenance file {shown(url)}"
        try:
            answer = self._get(url, index, doing)
        except TransientError:
            raise
        except PipelineError:  # a redirect that is not followed, for one
            return None
        if answer.status != 200:
            answer.discard()
            return None
        content = answer.read(_MAX_PROVENANCE)
        # Pages in place of a 404 are common; what begins as a signed message is judged later.
        return in_memory(content) if content and content.lstrip().startswith(_SIGNED) else None

    def _get(self, url: str, index: str, doing: str) -> Answer:
        # An index may name any host; only its own learns who we are.
        headers = self._headers(url) if _same_origin(url, index) else None
        return self.transport.send("GET", url, doing=doing, counters=self.counters, headers=headers)

    def _headers(self, url: str) -> dict[str, str]:
        credentials = self.credentials(urlsplit(url).netloc)
        return {"Authorization": basic(*credentials.get())} if credentials else {}

    def _download(self, url: str, index: str) -> Blob:
        doing = f"Fetching the chart archive {shown(url)}"
        if urlsplit(url).scheme not in ("https", "http"):
            raise _unsupported(f"{doing}: the index lists no https address; name the OCI source")
        answer = self._get(url, index, doing)
        if answer.status != 200:
            answer.discard()
            raise _refused(doing, answer.status)
        file, digest, size, start = spool(0), hashlib.sha256(), 0, b""
        for chunk in answer.chunks():
            start = (start + chunk[:2])[:2]  # a first piece may be one byte
            if not GZIP_MAGIC.startswith(start):
                what = "an HTML page" if start.lstrip()[:1] == b"<" else "something that is not gzip"
                raise _unsupported(f"{doing}: the server answered {what}; check the bundle's upstream")
            size += len(chunk)
            if size > MAX_TOTAL:
                raise PipelineError(
                    Reason.ContentTooLarge, f"{doing}: it is above {MAX_TOTAL:,} bytes; leave it out."
                )
            if size > _IN_MEMORY and isinstance(file, io.BytesIO):
                held, file = file, spool(size)
                file.write(held.getbuffer())
            digest.update(chunk)
            file.write(chunk)
        if not size:
            raise _unsupported(f"{doing}: the answer is empty; check the bundle's upstream")
        return Blob(f"sha256:{digest.hexdigest()}", size, file)


def address_of(source: "UpstreamSource") -> str:
    """The whole ``oci://`` address of a chart in a publisher's registry, as the bundle names it."""
    return source.chart if source.chart.startswith("oci://") else f"{source.repo}/{source.chart}"


def name_of(source: "UpstreamSource") -> str:
    """The chart's name there: its repository's last part."""
    return address_of(source).rstrip("/").rpartition("/")[2]


def plain_hosts(registry: "Registry") -> frozenset[str]:
    """The hosts that plain http may be used with, which is what the configuration says and no more.

    They are the registry itself with ``plainHttp``, ``http://`` addresses of ``upstreams``, and with
    ``plainHttp`` also ``oci://`` ones on loopback.
    """
    hosts = {registry.host} if registry.plain_http else set()
    for address in registry.upstreams.values():
        url = urlsplit(address)
        if url.scheme == "http" or (registry.plain_http and url.scheme == "oci" and is_loopback(url.netloc)):
            hosts.add(url.netloc)
    return frozenset(hosts)


def fetch_blob(repository: Repository, part: Descriptor) -> Blob:
    """Fetch what a manifest names, checked against it; one request, a token's two apart."""
    file = spool(part.size)
    repository.get_blob(part.digest, part.size, file)
    return Blob(part.digest, part.size, file)


def judged(blob: Blob, name: str, version: str, source: str) -> Chart:
    """Read an archive through; it must be sound, and the chart that was asked for."""
    from aicr_pipeline.decide.chart_archive import read_chart, require_identity  # with it comes a YAML reader

    blob.file.seek(0)
    chart = read_chart(blob.file, source)
    require_identity(chart, name, version, source)
    return chart


def in_memory(content: bytes) -> Blob:
    """Bytes as a blob."""
    return Blob(digest_of(content), len(content), io.BytesIO(content))


def spool(size: int) -> BinaryIO:
    """A file of nobody else for so many bytes: in memory where they are few, else on the disk."""
    if size <= _IN_MEMORY:
        return io.BytesIO()
    import tempfile

    return cast(BinaryIO, tempfile.TemporaryFile())


def _same_origin(one: str, other: str) -> bool:
    return urlsplit(one)[:2] == urlsplit(other)[:2]


def _refused(doing: str, status: int) -> PipelineError:
    if status in (401, 403):  # a refusal is not an absence
        return PipelineError(
            Reason.Unauthorized, f"{doing}: the server refuses us ({status}); open the source to us."
        )
    return _unsupported(f"{doing}: the server answered {status}; check the bundle's upstream")


def _unsupported(what: str) -> PipelineError:
    return PipelineError(Reason.ChartSourceUnsupported, f"{what}.")
