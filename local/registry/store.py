"""Where the registry keeps things: one interface, in memory or in a folder that survives a restart."""

import hashlib
import json
import threading
from pathlib import Path
from typing import Protocol


class Store(Protocol):
    """Blobs are shared by all repositories but visible only where they were pushed."""

    def has_blob(self, repository: str, digest: str) -> bool: ...
    def blob(self, repository: str, digest: str) -> bytes | None: ...
    def put_blob(self, repository: str, content: bytes) -> str: ...
    def manifest(self, repository: str, reference: str) -> tuple[bytes, str, str] | None: ...
    def put_manifest(self, repository: str, reference: str, content: bytes, media_type: str) -> str: ...
    def tags(self, repository: str) -> list[str]: ...
    def digests(self, repository: str) -> list[str]: ...
    def exists(self, repository: str) -> bool: ...


def digest_of(content: bytes) -> str:
    """``sha256:…``."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


class MemoryStore:
    """Gone with the process."""

    def __init__(self) -> None:
        self._blobs: dict[tuple[str, str], bytes] = {}
        self._manifests: dict[tuple[str, str], tuple[bytes, str]] = {}
        self._tags: dict[tuple[str, str], str] = {}

    def has_blob(self, repository: str, digest: str) -> bool:
        return (repository, digest) in self._blobs

    def blob(self, repository: str, digest: str) -> bytes | None:
        return self._blobs.get((repository, digest))

    def put_blob(self, repository: str, content: bytes) -> str:
        digest = digest_of(content)
        self._blobs[repository, digest] = content
        return digest

    def manifest(self, repository: str, reference: str) -> tuple[bytes, str, str] | None:
        digest = self._tags.get((repository, reference), reference)
        found = self._manifests.get((repository, digest))
        return (*found, digest) if found else None

    def put_manifest(self, repository: str, reference: str, content: bytes, media_type: str) -> str:
        digest = digest_of(content)
        self._manifests[repository, digest] = (content, media_type)
        if reference != digest:
            self._tags[repository, reference] = digest
        return digest

    def tags(self, repository: str) -> list[str]:
        return sorted(tag for name, tag in self._tags if name == repository)

    def digests(self, repository: str) -> list[str]:
        return sorted(digest for name, digest in self._manifests if name == repository)

    def exists(self, repository: str) -> bool:
        return any(name == repository for name, _ in [*self._manifests, *self._blobs])


class FileStore:
    """A folder: ``blobs/<hex>`` once for all, and per repository small files that point into it.

    Every file is written beside its place and renamed into it, so a killed process leaves nothing half.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._count = 0

    def has_blob(self, repository: str, digest: str) -> bool:
        return self._link(repository, "blobs", digest).exists()

    def blob(self, repository: str, digest: str) -> bytes | None:
        return self._content(digest) if self.has_blob(repository, digest) else None

    def put_blob(self, repository: str, content: bytes) -> str:
        digest = digest_of(content)
        self._write(self._root / "blobs" / digest[7:], content)
        self._write(self._link(repository, "blobs", digest), b"")
        return digest

    def manifest(self, repository: str, reference: str) -> tuple[bytes, str, str] | None:
        tag = self._link(repository, "tags", reference)
        digest = tag.read_text() if tag.exists() else reference
        link = self._link(repository, "manifests", digest)
        content = self._content(digest) if link.exists() else None
        return (content, json.loads(link.read_text())["mediaType"], digest) if content is not None else None

    def put_manifest(self, repository: str, reference: str, content: bytes, media_type: str) -> str:
        digest = digest_of(content)
        self._write(self._root / "blobs" / digest[7:], content)
        self._write(
            self._link(repository, "manifests", digest), json.dumps({"mediaType": media_type}).encode()
        )
        if reference != digest:
            self._write(self._link(repository, "tags", reference), digest.encode())
        return digest

    def tags(self, repository: str) -> list[str]:
        folder = self._root / "repositories" / repository / "_tags"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def digests(self, repository: str) -> list[str]:
        folder = self._root / "repositories" / repository / "_manifests"
        return sorted(f"sha256:{path.name}" for path in folder.iterdir()) if folder.is_dir() else []

    def exists(self, repository: str) -> bool:
        folder = self._root / "repositories" / repository
        return (folder / "_manifests").is_dir() or (folder / "_blobs").is_dir()

    def _link(self, repository: str, kind: str, name: str) -> Path:
        # Repository names hold no underscore at the start of a segment, so the folders cannot clash.
        return self._root / "repositories" / repository / f"_{kind}" / name.removeprefix("sha256:")

    def _content(self, digest: str) -> bytes | None:
        path = self._root / "blobs" / digest.removeprefix("sha256:")
        return path.read_bytes() if path.exists() else None

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._count += 1
            beside = path.parent.parent / f".{path.name}.{self._count}"
        beside.write_bytes(content)
        beside.replace(path)
