"""Brings one release's chart into the cluster's own registry: look first, put the tag last, never overwrite.

Called by ``mirror_chart``. What goes over is the publisher's own bytes; what is already there is compared by
digest, so a second run moves nothing:

- from a registry: the source's manifest and the digest under our tag (2 requests);
- from an https repository: the digest its index lists and the content digest in the manifest under our tag
  (2 requests). An index without a digest proves nothing, so there the archive is fetched and compared (3);
- a wrapper: packed here, so its manifest is known before anything is asked (1).

A registry with a token service takes 2 more, a redirect 1 more.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aicr_pipeline.adapters.chart_sources import Blob, ChartSources, content_digest
from aicr_pipeline.adapters.http import Counters, Transport
from aicr_pipeline.adapters.registry import MANIFEST_TYPES, Manifest, Reference, Repository
from aicr_pipeline.adapters.registry_auth import Credentials
from aicr_pipeline.adapters.registry_errors import RepositoryMissingError, TagImmutableError
from aicr_pipeline.decide.chart_archive import Chart, parse_chart_yaml
from aicr_pipeline.decide.chart_package import (
    MANIFEST_TYPE,
    digest_of,
    helm_config,
    helm_manifest,
    pack,
    repository_name,
    tag_of,
    wrapper_tag,
)
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

if TYPE_CHECKING:
    from aicr_pipeline.model.plan import UpstreamSource


@dataclass(frozen=True)
class Destination:
    """The cluster's prefix in its registry.

    Parameters
    ----------
    host, prefix:
        ``registry.repository`` of the configuration, taken apart.
    transport, credentials:
        How to get there and who we are there.
    upstreams:
        ``registry.upstreams``.
    """

    host: str
    prefix: str
    transport: Transport
    credentials: Credentials | None
    upstreams: Mapping[str, str] = field(default_factory=dict)

    def repository(self, folder: str, name: str, counters: Counters) -> Repository:
        """``<prefix>/<folder>/<name>``; the name is checked."""
        reference = Reference(self.host, repository_name(self.prefix, folder, name))
        return Repository(self.transport, reference, self.credentials, counters)


@dataclass(frozen=True)
class MirrorResult:
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
    counters = Counters()
    sources = ChartSources(destination.transport, destination.upstreams, counters)
    if source.chart.startswith("oci://") or source.repo.startswith("oci://"):
        return _from_registry(source, sources, destination, counters)
    # Whether plain http may be used is the transport's to say, once the address is rewritten.
    if source.repo.startswith(("https://", "http://")):
        return _from_index(source, sources, destination, counters)
    raise PipelineError(
        Reason.ChartSourceUnsupported,
        f"Chart {source.chart} comes from {source.repo or 'nowhere'!r}; "
        "only https:// and oci:// sources are mirrored.",
    )


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
    counters = Counters()
    chart = parse_chart_yaml(files.get("Chart.yaml", b""), f"release {release} of the bundle")
    archive = _in_memory(pack(chart.name, files))
    package = _packaged(chart, archive)
    target = destination.repository("wrappers", release, counters)
    tag = wrapper_tag(chart.version, archive.digest)
    return _place(package, target, tag, target.head_manifest(tag), chart.version)


def _from_registry(
    source: "UpstreamSource", sources: ChartSources, destination: Destination, counters: Counters
) -> MirrorResult:
    found = sources.find_in_registry(source)
    target = destination.repository("charts", found.name, counters)
    there = target.head_manifest(found.tag)
    manifest, tag, version = found.manifest, found.tag, found.tag.replace("_", "+")
    blobs: tuple[Blob, ...] = ()
    if there is None:
        blobs, chart = sources.fetch_from_registry(found)
        tag, version = tag_of(chart.version), chart.version
        if tag != found.tag:
            there = target.head_manifest(tag)
    # The registry serves manifests under the type they were pushed with; helm writes none inside.
    media_type = manifest.media_type if manifest.media_type in MANIFEST_TYPES else MANIFEST_TYPE
    package = _Package(found.name, manifest.content, media_type, manifest.digest, found.content.digest, blobs)
    return _place(package, target, tag, there, version)


def _from_index(
    source: "UpstreamSource", sources: ChartSources, destination: Destination, counters: Counters
) -> MirrorResult:
    found = sources.find_indexed(source)
    target = destination.repository("charts", source.chart, counters)
    version = found.entry.version
    there = _held(target, tag_of(version))
    content = found.entry.digest
    if there is None or content is None:
        archive, chart = sources.fetch_indexed(found)
        content = archive.digest
        if chart.version != version:
            version = chart.version
            there = _held(target, tag_of(version))
        if there is None:
            return _place(_packaged(chart, archive), target, tag_of(version), None, version)
    # The manifest under our tag is right when the archive it names is the one the publisher lists.
    tag = tag_of(version)
    held = content_digest(there, f"{target.reference}:{tag}")
    if held != content:
        raise _conflict(target, tag, held, content)
    package = _Package(source.chart, there.content, there.media_type, there.digest, held, ())
    return _place(package, target, tag, there.digest, version)


def _held(target: Repository, tag: str) -> Manifest | None:
    """What our tag holds. Our repositories appear with their first push, so a missing one holds nothing."""
    try:
        return target.get_manifest(tag)
    except RepositoryMissingError:
        return None


@dataclass(frozen=True)
class _Package:
    """A chart ready to be pushed; without blobs where it must be there already."""

    name: str
    manifest: bytes
    media_type: str
    digest: str
    content: str
    blobs: tuple[Blob, ...]


def _packaged(chart: Chart, archive: Blob) -> _Package:
    """A chart that no registry has packed yet, with a config and manifest that depend on it alone."""
    config = _in_memory(helm_config(chart.metadata))
    manifest = helm_manifest((config.digest, config.size), (archive.digest, archive.size))
    return _Package(
        chart.name, manifest, MANIFEST_TYPE, digest_of(manifest), archive.digest, (config, archive)
    )


def _in_memory(content: bytes) -> Blob:
    return Blob(digest_of(content), len(content), io.BytesIO(content))


def _place(package: _Package, target: Repository, tag: str, there: str | None, version: str) -> MirrorResult:
    """Push unless it is there: blobs, then the manifest, whose tag makes the chart visible."""
    if there is None:
        for blob in package.blobs:
            target.push_blob(blob.digest, blob.size, blob.file)
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


def _conflict(target: Repository, tag: str, held: str | None, wanted: str) -> PipelineError:
    return PipelineError(
        Reason.Conflict,
        f"{target.reference}:{tag} holds {held}, but the source has {wanted} under that version; nothing was "
        "overwritten, ask the chart's publisher which one is right.",
    )
