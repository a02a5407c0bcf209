"""AICR's evidence as bytes: the manifest, its layer, and the signature, from the registry or a folder."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aicr_pipeline.adapters.artifact import Artifact, layer_of, pull
from aicr_pipeline.adapters.referrers import attached
from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.decide.aicr_signature import BUNDLE_TYPE, MOST_BUNDLE_BYTES, verify_key_signature
from aicr_pipeline.decide.unpack import unpack
from aicr_pipeline.errors import PipelineError

EVIDENCE = "AICR's evidence"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
#: Where AICR puts the signature when it writes it into the bundle itself.
SIGNATURE_FILE = "attestation.intoto.jsonl"


@dataclass(frozen=True)
class AicrArtifact(Artifact):
    """What the registry holds under a digest. ``bundles`` are the signatures that are attached to it."""

    bundles: tuple[bytes, ...] = ()

    def files(self) -> dict[str, bytes]:
        """What is in its layer. Raises PipelineError as ``unpack``."""
        return unpack(self.layer, EVIDENCE)


class AicrArtifacts(Protocol):
    """Where AICR's evidence can be had by its reference."""

    def get(self, reference: str, *, signed: bool) -> AicrArtifact | None:
        """The artifact of ``host/repository@sha256:…``, None when it is not there."""
        ...


class RegistryArtifacts:
    """The registry itself. ``repository`` opens one by its address."""

    def __init__(self, repository: Callable[[str], Repository]) -> None:
        self._repository = repository

    def get(self, reference: str, *, signed: bool) -> AicrArtifact | None:
        """Fetched by digest, and checked against it on the way."""
        address, _, digest = reference.partition("@")
        return fetch(self._repository(address), digest, signed=signed)


def fetch(repository: Repository, digest: str, *, signed: bool) -> AicrArtifact | None:
    """AICR's evidence by its digest, with what is attached to it where somebody signed; None without it.

    Raises
    ------
    PipelineError
        As ``pull`` and ``attached``.
    """
    found = pull(repository, digest, EVIDENCE)
    if found is None:
        return None
    bundles = attached(repository, digest, BUNDLE_TYPE, MOST_BUNDLE_BYTES) if signed else []
    return AicrArtifact(found.manifest, found.layer, tuple(bundles))


class FolderArtifacts:
    """A folder of blobs by digest, as ``make demo`` leaves it: ``<hex>``, and ``<hex>.signature-<n>``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, reference: str, *, signed: bool) -> AicrArtifact | None:
        """What was kept; verifying says whether it is what its name says."""
        digest = reference.partition("@")[2]
        manifest = self._read(digest)
        if manifest is None:
            return None
        layer = self._read(layer_of(manifest, f"{EVIDENCE} {reference}")[0])
        return None if layer is None else AicrArtifact(manifest, layer, tuple(self._bundles(digest)))

    def keep(self, reference: str, artifact: AicrArtifact) -> None:
        """Write an artifact down."""
        self.folder.mkdir(parents=True, exist_ok=True)
        digest = reference.partition("@")[2]
        layer = layer_of(artifact.manifest, f"{EVIDENCE} {reference}")[0]
        for name, content in ((digest, artifact.manifest), (layer, artifact.layer)):
            (self.folder / _hex(name)).write_bytes(content)
        for number, bundle in enumerate(artifact.bundles):
            (self.folder / f"{_hex(digest)}.signature-{number}").write_bytes(bundle)

    def _read(self, digest: str) -> bytes | None:
        if not _DIGEST.fullmatch(digest):
            return None  # of a statement that nobody has verified yet
        file = self.folder / _hex(digest)
        return file.read_bytes() if file.is_file() else None

    def _bundles(self, digest: str) -> Iterable[bytes]:
        for file in sorted(self.folder.glob(f"{_hex(digest)}.signature-*")):
            yield file.read_bytes()


def valid_signature(artifact: AicrArtifact, digest: str, public_key: bytes) -> tuple[str, bytes] | None:
    """The key's fingerprint and the first bundle that holds, of those attached and the one inside.

    One that holds is enough: whoever may push can attach others beside it, and there may be those of an older
    key. None where there is no bundle at all.

    Parameters
    ----------
    digest:
        Of the artifact's manifest.
    public_key:
        DER.

    Raises
    ------
    PipelineError
        As ``verify_key_signature``, of the first that does not hold, when none does.
    """
    # Signed before it was pushed, its subject cannot be the artifact's digest: it is the recipe's.
    files = artifact.files()
    inside = [(files[SIGNATURE_FILE], None)] if SIGNATURE_FILE in files else []
    statement = files.get("statement.intoto.json", b"")
    problem: PipelineError | None = None
    for bundle, about in [*((bundle, digest) for bundle in artifact.bundles), *inside]:
        try:
            return verify_key_signature(bundle, statement, public_key, about), bundle
        except PipelineError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return None


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
