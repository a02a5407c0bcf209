"""Collecting the archive of a rollout's evidence: ledger, registry and key, each read and nothing written."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from aicr_pipeline.adapters.aicr_artifact import AicrArtifact, AicrArtifacts, valid_signature
from aicr_pipeline.adapters.ledger import LedgerReader
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.archive_files import EARLIER_RECORDS, LATER_RECORDS
from aicr_pipeline.decide.archive_readme import readme
from aicr_pipeline.decide.dsse import as_der, fingerprint, pae, public_der, read_envelope, read_key
from aicr_pipeline.decide.verify import pem
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.evidence import Binding, BoundAicrEvidence, Statement
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key


def collect(
    ledger: LedgerReader, name: str, artifacts: AicrArtifacts, current_key: Callable[[], bytes | None]
) -> dict[str, bytes]:
    """The files of a rollout's archive. Whether they hold, ``verify_archive`` tells.

    Parameters
    ----------
    artifacts:
        Where AICR's evidence is.
    current_key:
        The key that the alias names now, for evidence of versions that did not keep theirs in the ledger.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` naming what is missing; ``BundleInvalid`` for an artifact that is none of AICR's.
    """
    pointer = _pointer(ledger, name)
    sealed = _get(ledger, str(pointer["key"]), "the statement")
    try:
        envelope = read_envelope(sealed)
        binding = Statement.model_validate_json(envelope.payload).predicate
    except ValueError as error:
        raise _missing(f"{pointer['key']} is no statement ({type(error).__name__})") from None
    files = {
        layout.ENVELOPE: sealed,
        layout.PAYLOAD: envelope.payload,
        layout.SIGNATURE: envelope.signatures[0][1],
        layout.PAE: pae(envelope.payload_type, envelope.payload),
        layout.PUBLIC_KEY: _key(ledger, binding.cluster, str(pointer["fingerprint"]), current_key),
        **{f"{layout.LEDGER}{key}": text for key, text in _records(ledger, binding)},
    }
    if binding.aicr_evidence is not None:
        files |= dict(_aicr(ledger, binding.cluster, binding.aicr_evidence, artifacts))
    files[layout.README] = readme(binding, str(pointer["fingerprint"]), list(files))
    files[layout.SUMS] = layout.sums(files)
    return files


def _pointer(ledger: LedgerReader, name: str) -> dict[str, Any]:
    key = rollout_key(name, "binding")
    text = ledger.get(key)
    if text is None:
        raise _missing(f"rollout {name} has no evidence: {key} is not in the ledger")
    try:
        found = json.loads(text)
        named = re.fullmatch(
            rf"evidence/[a-z0-9-]+/{re.escape(name)}/[0-9a-f]{{64}}\.intoto\.json", found["key"]
        )
        marked = re.fullmatch(r"[0-9a-f]{64}", found["fingerprint"])
    except (ValueError, KeyError, TypeError, RecursionError):
        named = marked = None
    if named is None or marked is None:
        raise _missing(f"{key} names no evidence of this rollout")
    return dict(found)


def _records(ledger: LedgerReader, binding: Binding) -> Iterable[tuple[str, bytes]]:
    """What the statement was made from, but for snapshots: they hold the names of nodes."""
    name = binding.rollout.name
    if binding.documents is not None:
        for key in binding.documents:
            if not key.endswith("/snapshot.yaml"):
                yield key, _get(ledger, key, "a record that the statement names")
    else:
        yield (key := plan_key(binding.plan.digest)), _get(ledger, key, "the plan")
    found = LATER_RECORDS if binding.documents is not None else (*EARLIER_RECORDS, *LATER_RECORDS)
    for key in (rollout_key(name, part) for part in found):
        text = ledger.get(key)
        if text is not None:
            yield key, text


def _key(ledger: LedgerReader, cluster: str, mark: str, current: Callable[[], bytes | None]) -> bytes:
    kept = ledger.get(layout.key_in_ledger(cluster, mark))
    if kept is not None:
        return kept
    given = current()
    try:
        der = as_der(read_key(given)) if given is not None else None
    except ValueError as error:
        raise _missing(f"the file that --key names: {error}") from None
    if der is None or fingerprint(der) != mark:
        raise _missing(
            f"the public key with fingerprint {mark} is not in the ledger; name the file that holds it: --key"
        )
    return pem(der)


def _aicr(
    ledger: LedgerReader, cluster: str, bound: BoundAicrEvidence, artifacts: AicrArtifacts
) -> Iterable[tuple[str, bytes]]:
    artifact = artifacts.get(bound.reference, signed=bound.signed)
    if artifact is None:
        raise _missing(f"AICR's evidence {bound.reference} is not in the registry")
    yield layout.AICR_MANIFEST, artifact.manifest
    yield layout.AICR_LAYER, artifact.layer
    for path, content in artifact.files().items():
        yield layout.AICR_FILES + path, content
    if bound.signed and bound.key_fingerprint is not None:
        kept = layout.aicr_key_in_ledger(cluster, bound.key_fingerprint)
        key = _get(ledger, kept, "the key that AICR signed with")
        yield layout.AICR_KEY, key
        yield layout.AICR_SIGNATURE, _bundle(artifact, bound, key)


def _bundle(artifact: AicrArtifact, bound: BoundAicrEvidence, key: bytes) -> bytes:
    """The one that is by the key: whoever may push can attach others beside it."""
    try:
        found = valid_signature(artifact, bound.digest, public_der(key))
    except (PipelineError, ValueError):
        found = None
    if found is not None:
        return found[1]
    raise _missing(f"the signature of AICR's evidence {bound.reference} is not in the registry any more")


def _get(ledger: LedgerReader, key: str, what: str) -> bytes:
    found = ledger.get(key)
    if found is None:
        raise _missing(f"{what}, {key}, is not in the ledger")
    return found


def _missing(problem: str) -> PipelineError:
    return PipelineError(Reason.PlanUnreadable, f"The archive cannot be made: {problem}.")
