"""AICR's evidence in the registry: fetched by digest, read, and its signature checked where a key is set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aicr_pipeline.adapters.aicr_artifact import AicrArtifact, fetch, valid_signature
from aicr_pipeline.adapters.referrers import own_tags
from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.decide.aicr_evidence import AicrEvidence, read_aicr_evidence
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason


@dataclass(frozen=True)
class KeySignature:
    """A signature that holds: the key's fingerprint and public key (DER), and the Sigstore bundle."""

    fingerprint: str
    public_key: bytes
    bundle: bytes


@dataclass(frozen=True)
class FetchedEvidence:
    """What an attempt's repository holds.

    ``signature`` is None where no signing key is set: nobody looked for one.
    """

    reference: str
    digest: str
    files: Mapping[str, bytes]
    evidence: AicrEvidence
    signature: KeySignature | None


def fetch_aicr_evidence(
    repository: Repository, signing_key: str | None, public_key_of: Callable[[str], bytes]
) -> FetchedEvidence:
    """The one evidence of an attempt's repository, with every digest checked.

    Parameters
    ----------
    signing_key
        ``validation.signingKey``. With it, a signature of that key is required.
    public_key_of
        Its public key, DER. Asked only with a signing key.

    Raises
    ------
    PipelineError
        ``RolloutFailed`` when there is not exactly one evidence, when a digest does not hold, and when the
        signature is missing or not the key's. As ``read_aicr_evidence`` and ``verify_key_signature``.
    """
    tags = own_tags(repository.tags())
    if len(tags) != 1:
        raise PipelineError(
            Reason.RolloutFailed,
            f"{repository.reference} should hold the one evidence of this attempt, but has {len(tags)} tags.",
        )
    digest = repository.head_manifest(tags[0])
    if digest is None:
        raise PipelineError(
            Reason.RolloutFailed, f"AICR's evidence {repository.reference}:{tags[0]} is gone."
        )
    artifact = fetch(repository, digest, signed=signing_key is not None)
    if artifact is None:
        raise PipelineError(Reason.RolloutFailed, f"AICR's evidence {repository.reference}@{digest} is gone.")
    files = artifact.files()
    evidence = read_aicr_evidence(files)
    signature = None
    if signing_key is not None:
        signature = _signature(repository, artifact, digest, public_key_of(signing_key))
    return FetchedEvidence(f"{repository.reference}@{digest}", digest, files, evidence, signature)


def _signature(
    repository: Repository, artifact: AicrArtifact, digest: str, public_key: bytes
) -> KeySignature:
    found = valid_signature(artifact, digest, public_key)
    if found is None:
        raise PipelineError(
            Reason.RolloutFailed,
            f"AICR's evidence {repository.reference}@{digest} is not signed, but validation.signingKey is "
            "set. Look at the Job's log and at the rights of aicr-validation on the key, then start a fresh "
            "rollout.",
        )
    mark, bundle = found
    return KeySignature(mark, public_key, bundle)
