"""What evidence takes: binding and signing without the network, packing, and verifying an archive.

The ledger is in memory and the registry on loopback, so what is measured is the program's own time: the
processor's, which other work on the machine disturbs less.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aicr_pipeline.adapters.evidence_pack import collect
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.dsse import fingerprint, read_envelope
from aicr_pipeline.decide.verify import VALID
from aicr_pipeline.decide.verify_archive import verify_archive

from local.registry import LocalRegistry, TokenIssuer
from tests.evidence_world import ROLLOUT, EvidenceWorld, Wish, artifacts_of, der_of
from tests.unit.samples import ASSETS, sha

#: Releases, and the seconds that binding and signing, and that verifying may take. Of 200 releases the recipe
#: has 1.4 MB, and reading it twice as YAML is most of both.
SIZES = ((17, 1.0, 1.0), (200, 3.0, 3.0))
STATEMENT_BYTES, ROUNDS = 64 * 1024, 5
#: As many as the pipeline has, so that the statement is as large as a deployed one.
_FUNCTIONS = {f"function_number_{number}": sha(number) for number in range(45)}


def evidence() -> bool:
    """All of it; whether all are within their budgets."""
    print("\nevidence")
    with LocalRegistry(TokenIssuer()) as server:
        within = [_one(server, *size) for size in SIZES]
    return all(within)


def _one(server: LocalRegistry, releases: int, binding: float, verifying_in: float) -> bool:
    taken = []
    for number in range(ROUNDS):
        pipeline = ASSETS.model_copy(update={"functions": _FUNCTIONS})
        people = ("alex", "kim")
        wish = Wish(releases=releases, approvers=people, large_recipe=True, pipeline=pipeline)
        world = EvidenceWorld(server, f"bench-{releases}-{number}", wish)
        taken.append(_seconds(world.bind))
    world.finish(world.bind())
    files = collect(world.ledger, ROLLOUT, artifacts_of(world), lambda: None)
    mark = fingerprint(der_of(world.kms.key))
    verdict = verify_archive(files, require_qualifying=True, fingerprints=[mark])
    assert verdict.code == VALID, verdict.checks
    packed = layout.pack(files, "evidence")
    statement = len(read_envelope(files[layout.ENVELOPE]).payload)
    recipe = len(files[f"{layout.AICR_FILES}recipe.yaml"])
    print(f"  {releases} releases, a recipe of {recipe:,} bytes")
    within = [_said("binding and signing, median of 5", statistics.median(taken), binding)]

    def verify() -> None:
        verify_archive(layout.unpack(packed), require_qualifying=True, fingerprints=[mark])

    verifying = [_seconds(verify) for _ in range(ROUNDS)]
    within.append(_said("verifying the archive, median of 5", statistics.median(verifying), verifying_in))
    within.append(_said("the command, with Python's start", _command(packed, mark), verifying_in))
    fits = releases > SIZES[0][0] or statement < STATEMENT_BYTES
    over = "" if fits else "  over"
    print(f"    {'statement':40} {statement:,} bytes (budget {STATEMENT_BYTES:,} for 17){over}")
    print(f"    {'archive':40} {len(packed):,} bytes, {len(files)} files")
    return all([*within, fits])


def _command(packed: bytes, mark: str) -> float:
    """On the wall clock: what a person waits."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "evidence.tar.gz"
        file.write_bytes(packed)
        command = [sys.executable, "-m", "aicr_pipeline.verify", str(file), "--fingerprint", mark]
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        return time.monotonic() - began


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _said(what: str, seconds: float, budget: float) -> bool:
    fits = seconds <= budget
    print(f"    {what:40} {seconds:.3f} s (budget {budget:g} s){'' if fits else '  over'}")
    return fits
