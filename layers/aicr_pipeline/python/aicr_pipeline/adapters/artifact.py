"""AICR's artifacts in the registry: bundles and evidence, one tar+gzip layer each; and ours beside them."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass

from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.unpack import MOST_LAYER_BYTES, only_layer, unpack
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_EMPTY = b"{}"
_EMPTY_TYPE = "application/vnd.oci.empty.v1+json"


@dataclass(frozen=True)
class Artifact:
    """An artifact of one layer: its manifest and the layer, as they are in the registry."""

    manifest: bytes
    layer: bytes


def pull(repository: Repository, reference: str, what: str) -> Artifact | None:
    """An artifact, by its digest or its tag; None when there is none. Every byte is checked on the way.

    Raises
    ------
    PipelineError
        ``BundleInvalid`` when it is not of one layer; ``ContentTooLarge``.
    """
    manifest = repository.get_manifest(reference)
    if manifest is None:
        return None
    digest, size = layer_of(manifest.content, f"{what} {reference}")
    sink = io.BytesIO()
    repository.get_blob(digest, size, sink)
    return Artifact(manifest.content, sink.getvalue())


def pull_files(repository: Repository, digest: str, what: str) -> dict[str, bytes]:
    """The files of an artifact's only layer, fetched by digest and checked against it.

    Raises
    ------
    PipelineError
        ``BundleInvalid`` when it is missing or not such an artifact; ``ContentTooLarge``.
    """
    found = pull(repository, digest, what)
    if found is None:
        raise PipelineError(Reason.BundleInvalid, f"{what} {digest} is not in {repository.reference}.")
    return unpack(found.layer, what)


def layer_of(manifest: bytes, what: str) -> tuple[str, int]:
    """Digest and size of an artifact's only layer.

    Raises
    ------
    PipelineError
        ``BundleInvalid`` when it has not one; ``ContentTooLarge``.
    """
    try:
        digest, size = only_layer(manifest)
    except ValueError:
        raise PipelineError(Reason.BundleInvalid, f"{what} is not an artifact of one layer.") from None
    if size > MOST_LAYER_BYTES:
        raise PipelineError(Reason.ContentTooLarge, f"{what} has {size:,} bytes.")
    return digest, size


def push_document(
    repository: Repository,
    content: bytes,
    media_type: str,
    artifact_type: str,
    annotations: Mapping[str, str],
    tag: str,
) -> str:
    """Push one document as an OCI artifact (image-spec 1.1, empty config) and return its digest.

    The same document gives the same digest, so that a second push finds the first.
    """
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "artifactType": artifact_type,
            "config": {
                "mediaType": _EMPTY_TYPE,
                "digest": sha256(_EMPTY),
                "size": len(_EMPTY),
                "data": "e30=",
            },
            "layers": [{"mediaType": media_type, "digest": sha256(content), "size": len(content)}],
            "annotations": dict(sorted(annotations.items())),
        },
        separators=(",", ":"),
    ).encode()
    if repository.head_manifest(tag) == sha256(manifest):
        return sha256(manifest)
    for blob in (_EMPTY, content):
        if not repository.blob_exists(sha256(blob)):
            repository.push_blob(sha256(blob), len(blob), blob)
    return repository.push_manifest(manifest, _MANIFEST, tag)
