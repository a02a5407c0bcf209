"""What is attached to a manifest in a registry: OCI referrers, and where a registry lacks them their tag.

Source: distribution-spec 1.1, "Listing Referrers" and "Referrers Tag Schema".
"""

import io
import json
import re
from collections.abc import Iterable
from typing import Any

from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.decide.unpack import only_layer
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: Whoever may push there can attach any number; more than these are not even looked at.
_MOST = 16
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
#: The tag under which clients keep the index of referrers where a registry has no API for it.
_INDEX_TAG = re.compile(r"sha256-[0-9a-f]{64}")


def own_tags(tags: Iterable[str]) -> list[str]:
    """The tags that name an artifact: without those that only list what is attached to one."""
    return [tag for tag in tags if not _INDEX_TAG.fullmatch(tag)]


def attached(repository: Repository, digest: str, artifact_type: str, most_bytes: int) -> list[bytes]:
    """The documents of one type that are attached to a manifest, each an artifact of one layer.

    They say themselves what they are attached to, and nothing is trusted of it: whoever may push can attach.

    Raises
    ------
    PipelineError
        ``AICRArtifactUnsupported`` when the list or an artifact in it cannot be read; ``ContentTooLarge``.
    """
    what = f"what is attached to {repository.reference}@{digest}"
    index = repository.referrers(digest)
    if index is None:
        tagged = repository.get_manifest(digest.replace(":", "-"))
        if tagged is None:
            return []
        index = tagged.content
    found = [
        item for item in _list(index, "manifests", what) if _type_of(item, "artifactType") == artifact_type
    ]
    if len(found) > _MOST:
        raise PipelineError(
            Reason.ContentTooLarge, f"{what}: {len(found)} of type {artifact_type}; {_MOST} are read at most."
        )
    return [_document(repository, str(item.get("digest")), digest, most_bytes, what) for item in found]


def _document(repository: Repository, digest: str, subject: str, most_bytes: int, what: str) -> bytes:
    if not _DIGEST.fullmatch(digest):
        raise _unreadable(what, f"{digest[:80]!r} is listed, and no digest")
    manifest = repository.get_manifest(digest)
    if manifest is None:
        raise _unreadable(what, f"{digest} is listed, but missing")
    try:
        layer, size = only_layer(manifest.content)
        about = _type_of(json.loads(manifest.content).get("subject"), "digest")
    except ValueError:
        about = ""
    if about != subject:
        raise _unreadable(what, f"{digest} is no document about it")
    if size > most_bytes:
        raise PipelineError(
            Reason.ContentTooLarge,
            f"{what}: {digest} has {size:,} bytes; {most_bytes:,} are read at most.",
        )
    sink = io.BytesIO()
    repository.get_blob(layer, size, sink)
    return sink.getvalue()


def _list(content: bytes, name: str, what: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(content)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise _unreadable(what, f"there is no list of {name}")
    return found


def _type_of(item: Any, name: str) -> str:
    return str(item.get(name, "")) if isinstance(item, dict) else ""


def _unreadable(what: str, problem: str) -> PipelineError:
    return PipelineError(
        Reason.AICRArtifactUnsupported, f"{what}: {problem}; the registry may be damaged or somebody pushed."
    )
