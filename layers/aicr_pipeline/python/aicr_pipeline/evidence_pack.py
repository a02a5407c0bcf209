"""Pack everything that verifying a rollout's evidence offline takes into one archive.

ROLLOUT is a rollout's name. Ledger and registry are read, nothing is written there. --key is for evidence of
versions that did not keep their key in the ledger. Exit status: 0 packed; 1 something is missing, or does not
hold: nothing is written; 2 the command line is not understood; 3 AWS or the registry cannot be reached.
"""

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path

from aicr_pipeline import command
from aicr_pipeline.adapters.aicr_artifact import AicrArtifacts, FolderArtifacts, RegistryArtifacts
from aicr_pipeline.adapters.evidence_pack import collect
from aicr_pipeline.adapters.ledger import LedgerReader
from aicr_pipeline.adapters.lookup import ROLLOUT_NAME
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.dsse import as_der, fingerprint, read_key
from aicr_pipeline.decide.verify import INVALID, Verdict
from aicr_pipeline.decide.verify_archive import verify_archive
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.registry_access import open_repository

PACKED, REFUSED, TRY_AGAIN = 0, 1, 3
#: What ``make demo`` leaves of the registry, beside its ledger.
BLOBS = "evidence-blobs"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. What argparse refuses is ``SystemExit(2)``."""
    parser = argparse.ArgumentParser(
        prog="python -m aicr_pipeline.evidence_pack", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("rollout", metavar="ROLLOUT")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: evidence-ROLLOUT.tar.gz")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the public key, where the ledger lacks it")
    command.add_ledger_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object, refused or not")
    options = parser.parse_args(arguments)
    if not ROLLOUT_NAME.fullmatch(options.rollout):
        parser.error("that is no name of a rollout")
    if options.key is not None and not command.is_file(options.key):
        parser.error("--key is no file")
    ledger = command.open_ledger(parser, options)
    if ledger is None:
        parser.error("name the ledger: --ledger BUCKET or --from DIR")
    return command.guarded(lambda: _pack(options, ledger), (REFUSED, TRY_AGAIN), options.json)


def write_archive(
    ledger: LedgerReader, rollout: str, artifacts: AicrArtifacts, key: bytes | None, file: Path
) -> tuple[Verdict, str]:
    """Collect, verify, write; returns what verifying said, and the fingerprint of the key that signed.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when something is missing or does not hold: nothing is written then.
    """
    files = collect(ledger, rollout, artifacts, lambda: key)
    try:
        mark = fingerprint(as_der(read_key(files[layout.PUBLIC_KEY])))
        packed = layout.pack(files, f"evidence-{rollout}")
        # What is verified is what is written: as whoever gets the file will read it.
        found = layout.unpack(packed)
    except ValueError as error:
        raise PipelineError(
            Reason.PlanUnreadable, f"The evidence of rollout {rollout} cannot be packed: {error}."
        ) from None
    verdict = verify_archive(found, require_qualifying=False, fingerprints=(mark,))
    if verdict.code == INVALID:
        wrong = next(check for check in verdict.checks if check.ok is False)
        raise PipelineError(
            Reason.PlanUnreadable,
            f"The evidence of rollout {rollout} does not hold ({wrong.name}): {wrong.detail}.",
        )
    _put(packed, file)
    return verdict, mark


def _put(packed: bytes, file: Path) -> None:
    """Whole or not at all: a file that is there is one that holds. What is no file stays what it is."""
    if file.exists() and not file.is_file():
        raise PipelineError(Reason.InvalidConfiguration, f"--out {file} is no file; name one.")
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_bytes(packed)
        part.replace(file)
    except OSError as error:
        raise PipelineError(
            Reason.InvalidConfiguration, f"--out {file} cannot be written: {error.strerror}."
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _pack(options: argparse.Namespace, ledger: LedgerReader) -> int:
    file: Path = options.out or Path(f"evidence-{options.rollout}.tar.gz")
    artifacts: AicrArtifacts = RegistryArtifacts(open_repository)
    if options.folder is not None and command.is_folder(options.folder / BLOBS):
        artifacts = FolderArtifacts(options.folder / BLOBS)
    key = options.key.read_bytes() if options.key else None
    verdict, mark = write_archive(ledger, options.rollout, artifacts, key, file)
    if options.json:
        told = {"file": str(file), "fingerprint": mark, "code": verdict.code}
        print(json.dumps(told | {"checks": [vars(check) for check in verdict.checks]}, indent=2))
        return PACKED
    print(f"packed {file} ({file.stat().st_size:,} bytes, {len(verdict.checks)} checks)")
    print(f"signed by the key with fingerprint {mark}")
    print("Tell whoever verifies it this fingerprint over another way than the archive.")
    for check in verdict.checks:
        if check.ok is not True:
            print(f"  {check.name}: {check.detail}")
    return PACKED


if __name__ == "__main__":
    sys.exit(main())
