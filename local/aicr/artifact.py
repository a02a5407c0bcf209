"""A folder as an OCI artifact, shaped as the real command shapes it, and its push.

One ``tar+gzip`` layer with every time at the epoch and every owner at zero: the same files give the
same digest, whatever the tag or the repository.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import urllib3

from local.aicr import AICR_VERSION
from local.aicr.errors import AicrError, Code, log

Files = dict[str, tuple[bytes, int]]
"""Path inside the artifact -> content and file mode."""

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = b"{}"
_TIMEOUT = urllib3.Timeout(connect=5.0, read=30.0)


@dataclass(frozen=True)
class Artifact:
    """What a push sends: the layer, and the manifest that names it."""

    layer: bytes
    manifest: bytes

    @property
    def digest(self) -> str:
        """Digest of the manifest: what a registry answers for the tag."""
        return _digest(self.manifest)


@dataclass(frozen=True)
class Reference:
    """``host/repository:tag``."""

    host: str
    repository: str
    tag: str

    @classmethod
    def parse(cls, text: str, default_tag: str) -> Reference:
        """Split a reference, with or without ``oci://``; raises AicrError INVALID_REQUEST."""
        host, _, rest = text.removeprefix("oci://").partition("/")
        repository, _, tag = rest.partition(":")
        if not host or not repository:
            raise AicrError(Code.INVALID_REQUEST, f"invalid OCI reference {text!r}")
        return cls(host, repository, tag or default_tag)

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}:{self.tag}"


def read_folder(folder: Path) -> Files:
    """The files below a folder, with the modes the command gives them, whatever the file system says."""
    found: Files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            found[name] = (path.read_bytes(), mode_of(name))
    return found


def mode_of(name: str) -> int:
    """Scripts are executable, chart files readable, all else private: as in the real command's layers."""
    if name.endswith(".sh"):
        return 0o755
    return 0o644 if name.endswith("Chart.yaml") or "/templates/" in name else 0o600


def pack(files: Files, title: str, description: str = "") -> Artifact:
    """The artifact of some files; deterministic."""
    raw = _tar(files)
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as stream:
        stream.write(raw)
    layer = buffer.getvalue()
    annotations = {"org.opencontainers.image.created": "1970-01-01T00:00:00Z"}
    if description:
        annotations["org.opencontainers.image.description"] = description
    annotations |= {
        "org.opencontainers.image.source": "https://github.com/NVIDIA/aicr",
        "org.opencontainers.image.title": title,
        "org.opencontainers.image.vendor": "NVIDIA",
        "org.opencontainers.image.version": AICR_VERSION,
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "artifactType": "application/vnd.nvidia.aicr.artifact",
        "config": {
            "mediaType": "application/vnd.oci.empty.v1+json",
            "digest": _digest(_CONFIG),
            "size": len(_CONFIG),
            "data": base64.b64encode(_CONFIG).decode(),
        },
        "layers": [
            {
                "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
                "digest": _digest(layer),
                "size": len(layer),
                "annotations": {
                    "io.deis.oras.content.digest": _digest(raw),
                    "io.deis.oras.content.unpack": "true",
                    "org.opencontainers.image.title": ".",
                },
            }
        ],
        "annotations": annotations,
    }
    return Artifact(layer, json.dumps(manifest, separators=(",", ":")).encode())


def attach(content: bytes, media_type: str, subject: Artifact, reference: Reference, *, scheme: str) -> None:
    """Attach a document to a pushed artifact, as an OCI referrer; raises as ``push``.

    Where the registry does not answer with ``OCI-Subject`` the index of referrers is kept under a tag, as the
    distribution-spec has it.
    """
    session = _Session(reference, scheme)
    session.upload(_CONFIG)
    session.upload(content)
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "artifactType": media_type,
            "config": {
                "mediaType": "application/vnd.oci.empty.v1+json",
                "digest": _digest(_CONFIG),
                "size": len(_CONFIG),
            },
            "layers": [{"mediaType": media_type, "digest": _digest(content), "size": len(content)}],
            "subject": {
                "mediaType": _MANIFEST,
                "digest": subject.digest,
                "size": len(subject.manifest),
            },
            "annotations": {"org.opencontainers.image.vendor": "NVIDIA"},
        },
        separators=(",", ":"),
    ).encode()
    path = f"manifests/{_digest(manifest)}"
    answer = session.send("PUT", path, body=manifest, headers={"Content-Type": _MANIFEST})
    if "OCI-Subject" in answer.headers:
        return
    described = {"mediaType": _MANIFEST, "digest": _digest(manifest), "size": len(manifest)}
    index = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": _INDEX,
            "manifests": [{**described, "artifactType": media_type}],
        }
    ).encode()
    tag = subject.digest.replace(":", "-")
    session.send("PUT", f"manifests/{tag}", body=index, headers={"Content-Type": _INDEX})


def _tar(files: Files) -> bytes:
    # A walk in lexical order, folder by folder: an entry's key is its path split at the slashes.
    folders = {parent.as_posix() for name in files for parent in Path(name).parents if parent.name}
    entries = sorted([*files, *folders], key=lambda name: name.split("/"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in entries:
            member = tarfile.TarInfo(name)
            if name in folders:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
            else:
                content, member.mode = files[name]
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def push(artifact: Artifact, reference: Reference, *, scheme: str) -> None:
    """Push an artifact under a tag.

    Raises
    ------
    AicrError
        UNAUTHORIZED when the registry refuses the credentials of ``DOCKER_CONFIG``, INTERNAL when it asks
        for some and there are none or refuses otherwise, UNAVAILABLE when it does not answer or answers
        5xx, RATE_LIMITED on 429.
    """
    session = _Session(reference, scheme)
    session.upload(_CONFIG)
    session.upload(artifact.layer)
    session.send(
        "PUT", f"manifests/{reference.tag}", body=artifact.manifest, headers={"Content-Type": _MANIFEST}
    )
    log("OCI artifact pushed", reference=reference, digest=artifact.digest)


class _Session:
    """Requests to one repository, with the credentials of the docker config."""

    def __init__(self, reference: Reference, scheme: str) -> None:
        self._reference = reference
        self._base = f"{scheme}://{reference.host}/v2/{reference.repository}/"
        self._auth = _credentials(reference.host)
        # A push is not repeated blindly: a second PUT of an immutable tag would answer otherwise.
        self._pool = urllib3.PoolManager(timeout=_TIMEOUT, retries=False)

    def upload(self, content: bytes) -> None:
        """Store a blob unless the repository has it: one POST, one monolithic PUT."""
        digest = _digest(content)
        if self.send("HEAD", f"blobs/{digest}", allowed=(404,)).status == 200:
            return
        location = self.send("POST", "blobs/uploads/").headers["Location"]
        separator = "&" if "?" in location else "?"
        self.send(
            "PUT",
            f"{location}{separator}digest={digest}",
            body=content,
            headers={"Content-Type": "application/octet-stream"},
        )

    def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        allowed: tuple[int, ...] = (),
    ) -> urllib3.BaseHTTPResponse:
        url = urljoin(self._base, path)
        sent = {**(headers or {}), **({"Authorization": self._auth} if self._auth else {})}
        try:
            answer = self._pool.request(method, url, body=body, headers=sent)
        except urllib3.exceptions.HTTPError as error:
            raise AicrError(
                Code.UNAVAILABLE, f"registry {self._reference.host} did not answer: {error}"
            ) from error
        if answer.status < 400 or answer.status in allowed:
            return answer
        raise AicrError(
            self._code(answer.status),
            f"push {self._reference}: {method} answered {answer.status} "
            + answer.data.decode(errors="replace")[:300],
        )

    def _code(self, status: int) -> Code:
        if status in (401, 403):
            return Code.UNAUTHORIZED if self._auth else Code.INTERNAL
        if status == 429:
            return Code.RATE_LIMITED
        return Code.UNAVAILABLE if status >= 500 else Code.INTERNAL


def _credentials(host: str) -> str:
    """The Basic header for a host from the docker config, or nothing."""
    path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    if not path.is_file():
        return ""
    try:
        auths = json.loads(path.read_text()).get("auths") or {}
    except ValueError as error:
        raise AicrError(Code.INTERNAL, f"{path} is not JSON: {error}") from error
    entry = auths.get(host) or auths.get(f"https://{host}") or auths.get(f"http://{host}") or {}
    if entry.get("auth"):
        return f"Basic {entry['auth']}"
    if entry.get("username"):
        pair = f"{entry['username']}:{entry.get('password', '')}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    return ""


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
