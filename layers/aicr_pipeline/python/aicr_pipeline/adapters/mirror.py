"""Brings one release's chart into the cluster's own registry: look first, put the tag last, never overwrite.

Called by ``mirror_chart``. What goes over is the publisher's own bytes; what is already there is compared by
digest, so a second run moves nothing:

- from a registry: the source's manifest and the digest under our tag (2 requests);
- from an https repository: the digest its index lists and the content digest in the manifest under our tag
  (2 requests). An index without a digest proves nothing, so there the archive is fetched and compared (3);
- from a folder: the digest of the archive and the manifest under our tag (1);
- a wrapper: packed here, so its manifest is known before anything is asked (1).

A token service takes 2 more, a redirect 1 more, and a source whose keys are configured 1 more:
what was mirrored before the keys were named is verified too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from aicr_pipeline.adapters.at_once import both
from aicr_pipeline.adapters.chart_manifest import Descriptor, chart_parts, layer_of
from aicr_pipeline.adapters.chart_sources import (
    Blob,
    ChartSources,
    FetchedChart,
    anonymous,
    fetch_blob,
    in_memory,
    name_of,
)
from aicr_pipeline.adapters.http import Counters, Transport
from aicr_pipeline.adapters.pace import Pace
from aicr_pipeline.adapters.registry import MANIFEST_TYPES, Manifest, Reference, Repository
from aicr_pipeline.adapters.registry_auth import Credentials
from aicr_pipeline.adapters.registry_errors import RepositoryMissingError, TagImmutableError
from aicr_pipeline.decide.chart_package import (
    CONTENT_TYPE,
    MANIFEST_TYPE,
    PROVENANCE_TYPE,
    Chart,
    digest_of,
    helm_config,
    helm_manifest,
    pack,
    repository_name,
    tag_of,
    wrapper_tag,
)
from aicr_pipeline.decide.ecr_host import parse_ecr_host
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

if TYPE_CHECKING:
    from pathlib import Path

    from aicr_pipeline.model.config import ProvenanceSource
    from aicr_pipeline.model.plan import UpstreamSource


class Destination(NamedTuple):
    """The cluster's prefix in its registry.

    Parameters
    ----------
    host, prefix:
        ``registry.repository`` of the configuration, taken apart.
    transport, credentials:
        How to get there and who we are there.
    upstreams:
        ``registry.upstreams``.
    publishers:
        Who we are to a publisher's host.
    provenance:
        ``registry.provenance``: whose signature the charts of a source must bear.
    """

    host: str
    prefix: str
    transport: Transport
    credentials: Credentials | None
    upstreams: Mapping[str, str] = MappingProxyType({})
    publishers: Callable[[str], Credentials | None] = anonymous
    provenance: Sequence["ProvenanceSource"] = ()

    def repository(self, folder: str, name: str, counters: Counters) -> Repository:
        """``<prefix>/<folder>/<name>``; the name is checked."""
        reference = Reference(self.host, repository_name(self.prefix, folder, name))
        pace = Pace(self.transport.sleep) if parse_ecr_host(self.host) else None
        return Repository(self.transport, reference, self.credentials, counters, pace)

    def keys(self, address: str) -> str | None:
        """The keys that charts of this source must be signed with, or None."""
        if not self.provenance:
            return None
        from aicr_pipeline.decide.provenance import keys_for

        return keys_for(address, self.provenance)


class MirrorResult(NamedTuple):
    """Where a chart is now. ``pushed`` is False when it was there already."""

    repository: str
    tag: str
    manifest_digest: str
    content_digest: str
    media_type: str
    chart_name: str
    chart_version: str
    pushed: bool
    requests: int
    bytes: int


def mirror_chart(source: "UpstreamSource", destination: Destination) -> MirrorResult:
    """Copy a publisher's chart to ``<prefix>/charts/<chart>``.

    Parameters
    ----------
    source:
        As the bundle's ``upstream.env`` names it; ``chart`` holds the whole address for OCI sources.

    Returns
    -------
    MirrorResult
        With the chart's own name and version, as its ``Chart.yaml`` says them.

    Raises
    ------
    PipelineError
        ``Conflict`` naming both digests when our tag holds something else: it is never overwritten. Else
        what the source, the archive or the registry is refused for.
    """
    sources = ChartSources(destination.transport, destination.upstreams, Counters(), destination.publishers)
    if source.chart.startswith("oci://") or source.repo.startswith("oci://"):
        return _from_registry(source, sources, destination)
    # Whether plain http may be used is the transport's to say, once the address is rewritten.
    if source.repo.startswith(("https://", "http://")):
        return _from_index(source, sources, destination)
    raise PipelineError(
        Reason.ChartSourceUnsupported,
        f"Chart {source.chart} comes from {source.repo or 'nowhere'!r}; "
        "only https:// and oci:// sources are mirrored.",
    )


def mirror_folder(folder: "Path", chart: str, version: str, destination: Destination) -> MirrorResult:
    """Push a chart that lies in a folder of archives to ``<prefix>/charts/<chart>``.

    Raises
    ------
    PipelineError
        As ``mirror_chart``.
    """
    from aicr_pipeline.adapters.chart_folder import find_in_folder

    counters = Counters()
    fetched = find_in_folder(folder, chart, version)
    _judge_provenance(fetched, folder.absolute().as_uri(), destination)
    target = destination.repository("charts", chart, counters)
    there = _held(target, tag_of(fetched.chart.version))
    return _place_fetched(fetched, target, there)


def mirror_wrapper(release: str, files: Mapping[str, bytes], destination: Destination) -> MirrorResult:
    """Pack a release's local chart and push it to ``<prefix>/wrappers/<release>``.

    Parameters
    ----------
    release:
        The release's name.
    files:
        The chart: path below its folder to content.

    Raises
    ------
    PipelineError
        ``ChartInvalid`` without a sound ``Chart.yaml``; ``Conflict`` as for charts.
    """
    from aicr_pipeline.decide.chart_yaml import parse_chart_yaml

    counters = Counters()
    chart = parse_chart_yaml(files.get("Chart.yaml", b""), f"release {release} of the bundle")
    archive = in_memory(pack(chart.name, files))
    package = _packaged(FetchedChart(archive, chart, None))
    target = destination.repository("wrappers", release, counters)
    tag = wrapper_tag(chart.version, archive.digest)
    return _place(package, target, tag, target.head_manifest(tag), chart.version)


def _from_registry(source: "UpstreamSource", sources: ChartSources, destination: Destination) -> MirrorResult:
    target = destination.repository("charts", name_of(source), sources.counters)
    asked = tag_of(source.version)
    found, there = both(lambda: sources.find_in_registry(source), lambda: target.head_manifest(asked))
    if found.tag != asked:
        there = target.head_manifest(found.tag)
    manifest, tag, version = found.manifest, found.tag, found.tag.replace("_", "+")
    blobs: tuple[Blob, ...] = ()
    if there is None:
        blobs, chart = sources.fetch_from_registry(found)
        if destination.keys(found.address):
            # Without keys every layer goes over as it is, whatever it says.
            part = layer_of(found.layers, PROVENANCE_TYPE)
            provenance = next((blob for blob in blobs if part and blob.digest == part.digest), None)
            _judge_held(chart, found.content.digest, provenance, found.address, destination)
        tag, version = tag_of(chart.version), chart.version
        if tag != found.tag:
            there = target.head_manifest(tag)
    elif there == manifest.digest and destination.keys(found.address):
        _judge_held(
            Chart(found.name, version, {}),
            found.content.digest,
            _held_provenance(found.layers, target),
            found.address,
            destination,
        )
    # The registry serves manifests under the type they were pushed with; helm writes none inside.
    media_type = manifest.media_type if manifest.media_type in MANIFEST_TYPES else MANIFEST_TYPE
    package = _Package(found.name, manifest.content, media_type, manifest.digest, found.content.digest, blobs)
    return _place(package, target, tag, there, version)


def _from_index(source: "UpstreamSource", sources: ChartSources, destination: Destination) -> MirrorResult:
    target = destination.repository("charts", source.chart, sources.counters)
    asked = tag_of(source.version)
    found, there = both(lambda: sources.find_indexed(source), lambda: _held(target, asked))
    version, content = found.entry.version, found.entry.digest
    if version != source.version:
        there = _held(target, tag_of(version))
    if there is None or content is None:
        fetched = sources.fetch_indexed(found) if there else sources.fetch_with_provenance(found)
        if fetched.chart.version != version:
            there = _held(target, tag_of(fetched.chart.version))
        if there is None:
            _judge_provenance(fetched, source.repo, destination)
            return _place_fetched(fetched, target, None)
        version, content = fetched.chart.version, fetched.archive.digest
    result = _unchanged(source.chart, version, content, there, target)
    if destination.keys(source.repo):
        _, layers = chart_parts(there, f"{target.reference}:{result.tag}")
        provenance = _held_provenance(layers, target) or sources.fetch_provenance(found, found.urls)
        _judge_held(Chart(source.chart, version, {}), content, provenance, source.repo, destination)
        counters = target.counters  # what provenance took counts, too
        result = result._replace(requests=counters.requests, bytes=counters.sent + counters.received)
    return result


def _place_fetched(fetched: FetchedChart, target: Repository, there: Manifest | None) -> MirrorResult:
    chart = fetched.chart
    if there is not None:
        return _unchanged(chart.name, chart.version, fetched.archive.digest, there, target)
    return _place(_packaged(fetched), target, tag_of(chart.version), None, chart.version)


def _unchanged(name: str, version: str, content: str, there: Manifest, target: Repository) -> MirrorResult:
    """What our tag holds is right when the archive it names is the source's."""
    tag = tag_of(version)
    _, layers = chart_parts(there, f"{target.reference}:{tag}")
    held = next(layer.digest for layer in layers if layer.media_type == CONTENT_TYPE)
    if held != content:
        raise _conflict(target, tag, held, content)
    package = _Package(name, there.content, there.media_type, there.digest, held, ())
    return _place(package, target, tag, there.digest, version)


def _held_provenance(layers: Iterable[Descriptor], target: Repository) -> Blob | None:
    part = layer_of(layers, PROVENANCE_TYPE)
    return fetch_blob(target, part) if part else None


def _judge_provenance(fetched: FetchedChart, address: str, destination: Destination) -> None:
    _judge_held(fetched.chart, fetched.archive.digest, fetched.provenance, address, destination)


def _judge_held(
    chart: Chart, content: str, provenance: Blob | None, address: str, destination: Destination
) -> None:
    """Judge what is said of a chart by the keys its source is configured with."""
    keys, text = destination.keys(address), None
    if provenance is not None:
        provenance.file.seek(0)
        text = provenance.file.read()
    if keys is None and text is None:
        return
    from aicr_pipeline.clock import now
    from aicr_pipeline.decide.provenance import judge

    judge(text, keys, chart, content, address, now())


def _held(target: Repository, tag: str) -> Manifest | None:
    """What our tag holds. Our repositories appear with their first push, so a missing one holds nothing."""
    try:
        return target.get_manifest(tag)
    except RepositoryMissingError:
        return None


class _Package(NamedTuple):
    """A chart ready to be pushed; without blobs where it must be there already."""

    name: str
    manifest: bytes
    media_type: str
    digest: str
    content: str
    blobs: tuple[Blob, ...]


def _packaged(fetched: FetchedChart) -> _Package:
    """A chart that no registry has packed yet, whose manifest depends on what is packed alone."""
    config = in_memory(helm_config(fetched.chart.metadata))
    archive, provenance = fetched.archive, fetched.provenance
    signed = (provenance.digest, provenance.size) if provenance else None
    manifest = helm_manifest((config.digest, config.size), (archive.digest, archive.size), signed)
    blobs = (config, archive) + ((provenance,) if provenance else ())
    return _Package(fetched.chart.name, manifest, MANIFEST_TYPE, digest_of(manifest), archive.digest, blobs)


def _place(package: _Package, target: Repository, tag: str, there: str | None, version: str) -> MirrorResult:
    """Push unless it is there: blobs, then the manifest, whose tag makes the chart visible."""
    if there is None:
        config, *layers = package.blobs
        both(lambda: _push(target, layers), lambda: _push(target, [config]))
        try:
            target.push_manifest(package.manifest, package.media_type, tag)
        except TagImmutableError:
            # Somebody was faster, or our first attempt succeeded and its answer was lost.
            there = target.head_manifest(tag)
            if there is None:
                raise
    if there not in (None, package.digest):
        raise _conflict(target, tag, there, package.digest)
    counters = target.counters
    return MirrorResult(
        repository=target.reference.repository,
        tag=tag,
        manifest_digest=package.digest,
        content_digest=package.content,
        media_type=package.media_type,
        chart_name=package.name,
        chart_version=version,
        pushed=there is None,
        requests=counters.requests,
        bytes=counters.sent + counters.received,
    )


def _push(target: Repository, blobs: Iterable[Blob]) -> None:
    for blob in blobs:
        target.push_blob(blob.digest, blob.size, blob.file)


def _conflict(target: Repository, tag: str, held: str | None, wanted: str) -> PipelineError:
    return PipelineError(
        Reason.Conflict,
        f"{target.reference}:{tag} holds {held}, but the source has {wanted} under that version; nothing was "
        "overwritten, ask the chart's publisher which one is right.",
    )
