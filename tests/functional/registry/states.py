"""What a registry holds in the end: everything under a prefix, in a form that compares."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from local.registry import MemoryStore


@dataclass(frozen=True)
class State:
    """Names are below the prefix. ``blobs`` holds every blob, whether a manifest names it or not."""

    tags: dict[tuple[str, str], str] = field(default_factory=dict)
    #: Content and media type.
    manifests: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)
    blobs: frozenset[tuple[str, str]] = frozenset()


def in_memory(store: MemoryStore, prefix: str) -> State:
    """All there is in the registry of one machine."""

    def below(name: str) -> str | None:
        return name.removeprefix(f"{prefix}/") if name.startswith(f"{prefix}/") else None

    for (_, digest), content in store._blobs.items():
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
    return State(
        {(name, tag): digest for (at, tag), digest in store._tags.items() if (name := below(at))},
        {(name, digest): held for (at, digest), held in store._manifests.items() if (name := below(at))},
        frozenset((name, digest) for at, digest in store._blobs if (name := below(at))),
    )


def in_docker_registry(data: Path, prefix: str) -> State:
    """All there is in docker-registry's folder; uploads that nobody finished are not content."""
    root = data / "docker" / "registry" / "v2"
    tags, manifests, blobs = {}, {}, set()
    for link in (root / "repositories" / prefix).rglob("link"):
        parts = link.relative_to(root / "repositories" / prefix).parts
        at = next(place for place, part in enumerate(parts) if part.startswith("_"))
        name, kind, digest = "/".join(parts[:at]), parts[at : at + 2], link.read_text()
        if kind == ("_manifests", "tags") and parts[at + 3] == "current":
            tags[name, parts[at + 2]] = digest
        elif kind == ("_manifests", "revisions"):
            content = _content(root, digest)
            manifests[name, digest] = (content, str(json.loads(content).get("mediaType", "")))
        elif kind[0] == "_layers":
            _content(root, digest)
            blobs.add((name, digest))
    return State(tags, manifests, frozenset(blobs))


def _content(root: Path, digest: str) -> bytes:
    content = (root / "blobs" / "sha256" / digest[7:9] / digest[7:] / "data").read_bytes()
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
    return content
