"""Builds chart packages whose bytes depend on their content alone: same input, same digest.

The plan's digest holds the digests made here, so nothing that varies between two runs (times, owners,
file modes, order, annotations) may enter.
"""

import hashlib
import io
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

CONFIG_TYPE = "application/vnd.cncf.helm.config.v1+json"
CONTENT_TYPE = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
PROVENANCE_TYPE = "application/vnd.cncf.helm.chart.provenance.v1.prov"
#: What Helm and Argo CD would take for a chart as well.
OTHER_CONTENT_TYPES = (
    "application/tar+gzip",
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
)
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"

#: Of an archive, packed or unpacked.
MAX_TOTAL = 100 * 1024 * 1024
GZIP_MAGIC = b"\x1f\x8b"

_STORED_BLOCK = 65_535

# OCI distribution specification, "Pulling manifests".
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")


class Chart(NamedTuple):
    """What an archive says it is: the fields of the ``Chart.yaml`` inside."""

    name: str
    version: str
    metadata: dict[str, Any]


def pack(top: str, files: Mapping[str, bytes]) -> bytes:
    """Pack a chart deterministically.

    Parameters
    ----------
    top:
        Name of the top folder: the chart's name.
    files:
        Path below the top folder to content. Sub-charts are files of ``charts/``.

    Returns
    -------
    bytes
        A gzipped tar: sorted, epoch times, owner 0, mode 0644. The gzip is stored, not compressed:
        compressors differ between machines, and the digest must not.
    """
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files):
            entry = tarfile.TarInfo(f"{top}/{path}")
            entry.size = len(files[path])
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(files[path]))
    return _stored_gzip(buffer.getvalue())


def _stored_gzip(raw: bytes) -> bytes:
    """RFC 1952 and 1951 with stored blocks only: no name, no time, unknown system."""
    import struct
    import zlib

    blocks = []
    for start in range(0, len(raw), _STORED_BLOCK):
        block = raw[start : start + _STORED_BLOCK]
        last = start + _STORED_BLOCK >= len(raw)
        blocks.append(struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF) + block)
    return (
        b"\x1f\x8b\x08"
        + b"\0" * 6
        + b"\xff"
        + b"".join(blocks)
        + struct.pack("<II", zlib.crc32(raw), len(raw) & 0xFFFFFFFF)
    )


def helm_config(metadata: Mapping[str, Any]) -> bytes:
    """The config blob of a chart in a registry: the ``Chart.yaml`` as JSON, keys sorted."""
    return _json({key: value for key, value in metadata.items() if value is not None})


def helm_manifest(
    config: tuple[str, int], content: tuple[str, int], provenance: tuple[str, int] | None = None
) -> bytes:
    """The OCI manifest of a chart that came from elsewhere than a registry; takes digests and sizes.

    ``helm push`` writes file times into annotations; this writes none, so one archive has one manifest.
    """
    layers = [(CONTENT_TYPE, content)] + ([(PROVENANCE_TYPE, provenance)] if provenance else [])
    return _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": config[0], "size": config[1]},
            "layers": [
                {"mediaType": media_type, "digest": digest, "size": size}
                for media_type, (digest, size) in layers
            ],
        }
    )


def tag_of(version: str) -> str:
    """The tag of a chart version: ``+`` is written ``_`` (Helm's rule), nothing else is changed.

    Raises
    ------
    PipelineError
        ``ChartSourceUnsupported`` when no registry would take the result.
    """
    tag = version.replace("+", "_")
    # No semantic version has an underscore; taken as it is, two versions would share a tag.
    if "_" in version or not _TAG.fullmatch(tag):
        raise PipelineError(
            Reason.ChartSourceUnsupported,
            f"Version {version!r} cannot be a registry tag; ask the chart's publisher for another version.",
        )
    return tag


def wrapper_tag(version: str, content_digest: str) -> str:
    """The tag of a wrapper: AICR may give all of them one version, so the content tells them apart."""
    return tag_of(f"{version}-{content_digest.removeprefix('sha256:')[:12]}")


def repository_name(prefix: str, folder: str, name: str) -> str:
    """``<prefix>/<folder>/<name>``, checked.

    Raises
    ------
    PipelineError
        ``ChartSourceUnsupported`` when it is no repository name; registries take lower case only.
    """
    repository = f"{prefix.strip('/')}/{folder}/{name}".lstrip("/")
    if not _REPOSITORY.fullmatch(repository):
        raise PipelineError(
            Reason.ChartSourceUnsupported,
            f"{repository!r} cannot be a repository name (lower case letters, digits and single separators "
            "only); a chart keeps its own name, so it cannot be mirrored.",
        )
    return repository


def is_repository(path: str) -> bool:
    """Whether a registry's API takes this path for a repository: nothing in it means more to a URL."""
    return bool(_REPOSITORY.fullmatch(path))


def digest_of(content: bytes) -> str:
    """``sha256:…`` of some bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
