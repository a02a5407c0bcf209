"""AICR's evidence as bytes: the manifest, its layer, and the signature, from the registry or a folder."""

import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aicr_pipeline.adapters.referrers import attached
from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.decide.aicr_signature import BUNDLE_TYPE, MOST_BUNDLE_BYTES, verify_key_signature
from aicr_pipeline.decide.unpack import MOST_LAYER_BYTES, only_layer
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

#: Where AICR puts the signature when it writes it into the bundle itself.
SIGNATURE_FILE = "attestation.intoto.jsonl"


@dataclass(frozen=True)
class AicrArtifact:
    """What the registry holds under a digest. ``bundles`` are the signatures that are attached to it."""

    manifest: bytes
    layer: bytes
    bundles: tuple[bytes, ...]


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
        repository = self._repository(address)
        manifest = repository.get_manifest(digest)
        if manifest is None:
            return None
        layer, size = layer_of(manifest.content, reference)
        sink = io.BytesIO()
        repository.get_blob(layer, size, sink)
        bundles = attached(repository, digest, BUNDLE_TYPE, MOST_BUNDLE_BYTES) if signed else []
        return AicrArtifact(manifest.content, sink.getvalue(), tuple(bundles))


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
        layer = self._read(layer_of(manifest, reference)[0])
        return None if layer is None else AicrArtifact(manifest, layer, tuple(self._bundles(digest)))

    def keep(self, reference: str, artifact: AicrArtifact) -> None:
        """Write an artifact down."""
        self.folder.mkdir(parents=True, exist_ok=True)
        digest = reference.partition("@")[2]
        layer = layer_of(artifact.manifest, reference)[0]
        for name, content in ((digest, artifact.manifest), (layer, artifact.layer)):
            (self.folder / _hex(name)).write_bytes(content)
        for number, bundle in enumerate(artifact.bundles):
            (self.folder / f"{_hex(digest)}.signature-{number}").write_bytes(bundle)

    def _read(self, digest: str) -> bytes | None:
        file = self.folder / _hex(digest)
        return file.read_bytes() if file.is_file() else None

    def _bundles(self, digest: str) -> Iterable[bytes]:
        for file in sorted(self.folder.glob(f"{_hex(digest)}.signature-*")):
            yield file.read_bytes()


def valid_signature(
    bundles: Iterable[bytes], files: Mapping[str, bytes], digest: str, public_key: bytes
) -> tuple[str, bytes] | None:
    """The key's fingerprint and the first bundle that holds, of those attached and the one inside.

    One that holds is enough: whoever may push can attach others beside it, and there may be those of an older
    key. None where there is no bundle at all.

    Parameters
    ----------
    bundles, files, digest:
        What is attached to the artifact, what is in its layer, and the digest of its manifest.
    public_key:
        DER.

    Raises
    ------
    PipelineError
        As ``verify_key_signature``, of the first that does not hold, when none does.
    """
    # Signed before it was pushed, its subject cannot be the artifact's digest: it is the recipe's.
    inside = [(files[SIGNATURE_FILE], None)] if SIGNATURE_FILE in files else []
    statement = files.get("statement.intoto.json", b"")
    problem: PipelineError | None = None
    for bundle, about in [*((bundle, digest) for bundle in bundles), *inside]:
        try:
            return verify_key_signature(bundle, statement, public_key, about), bundle
        except PipelineError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return None


def layer_of(manifest: bytes, reference: str) -> tuple[str, int]:
    """Digest and size of an artifact's only layer.

    Raises
    ------
    PipelineError
        ``AICRArtifactUnsupported`` when it has not one; ``ContentTooLarge``.
    """
    try:
        digest, size = only_layer(manifest)
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            raise ValueError("no digest")
    except ValueError:
        raise PipelineError(
            Reason.AICRArtifactUnsupported, f"AICR's evidence {reference} is not an artifact of one layer."
        ) from None
    if size > MOST_LAYER_BYTES:
        raise PipelineError(Reason.ContentTooLarge, f"AICR's evidence {reference} has {size:,} bytes.")
    return digest, size


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
