"""Which files an archive of evidence has: those that a check looks at, and nothing else."""

from collections.abc import Mapping

from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.model.evidence import Binding
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.rollout import rollout_key

Files = Mapping[str, bytes]

#: Of evidence of earlier versions, which names no records: what there may be.
EARLIER_RECORDS = ("rollout", "report", "request", "decision", "bypass", "validation")
#: Written after the statement was signed.
LATER_RECORDS = ("binding", "outcome", "revocation")
#: Named by the statement, and not in the archive: they hold the names of nodes.
_LEFT_OUT = "/snapshot.yaml"


def check_documents(files: Files, binding: Binding) -> int:
    """How many records are there and are what the statement says; those that are left out do not count.

    Raises
    ------
    ValueError
        Naming one that is missing or another, or one that the statement does not name.
    """
    documents = binding.documents or {}
    packed = {key: want for key, want in documents.items() if not key.endswith(_LEFT_OUT)}
    for key, want in packed.items():
        found = files.get(layout.LEDGER + key)
        if found is None:
            raise ValueError(f"{layout.LEDGER}{key} is missing; the statement names it")
        if sha256(found) != want:
            raise ValueError(f"{layout.LEDGER}{key} is not the record that the statement names")
    name = binding.rollout.name
    free = {layout.LEDGER + rollout_key(name, part) for part in LATER_RECORDS}
    strangers = sorted(
        path
        for path in files
        if path.startswith(layout.LEDGER) and path not in free and path[len(layout.LEDGER) :] not in packed
    )
    if strangers:
        raise ValueError(f"{strangers[0]} is there, but the statement does not name it, or it is left out")
    return len(packed)


def check_known(files: Files, binding: Binding) -> str:
    """Every file is one that a check looks at: what nobody looks at says nothing, and may say anything.

    The records are held against the statement by ``check_documents``.

    Raises
    ------
    ValueError
        Naming a file that no archive of such a statement has.
    """
    known = {layout.README, layout.SUMS, layout.ENVELOPE, layout.PAYLOAD, layout.SIGNATURE, layout.PAE}
    known.add(layout.PUBLIC_KEY)
    folders: tuple[str, ...] = (layout.LEDGER,)
    aicr = binding.aicr_evidence
    if aicr is not None and binding.validation.mode == "Required":
        known |= {layout.AICR_MANIFEST, layout.AICR_LAYER}
        known |= {layout.AICR_SIGNATURE, layout.AICR_KEY} if aicr.signed else set()
        folders = (layout.LEDGER, layout.AICR_FILES)
    if binding.documents is None:
        parts = (*EARLIER_RECORDS, *LATER_RECORDS)
        keys = [rollout_key(binding.rollout.name, part) for part in parts]
        known |= {layout.LEDGER + key for key in (plan_key(binding.plan.digest), *keys)}
        folders = folders[1:]
    strangers = sorted(path for path in files if path not in known and not path.startswith(folders))
    if strangers:
        raise ValueError(f"{strangers[0]} is no file of an archive of this statement")
    return f"{len(files)} files, each of a known place"
