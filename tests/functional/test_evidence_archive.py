"""The archive of a rollout's evidence: packed, opened by an auditor with openssl alone, verified, tampered with."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.adapters.aicr_artifact import RegistryArtifacts
from aicr_pipeline.adapters.evidence_pack import collect
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.dsse import fingerprint
from aicr_pipeline.decide.verify import VALID, Verdict
from aicr_pipeline.decide.verify_archive import verify_archive
from aicr_pipeline.model.rollout import rollout_key

from local.registry import LocalRegistry, TokenIssuer
from tests.evidence_world import ROLLOUT, EvidenceWorld, Wish, artifacts_of, der_of


@pytest.fixture(scope="module")
def server() -> Iterator[LocalRegistry]:
    with LocalRegistry(TokenIssuer()) as made:
        yield made


@pytest.fixture(scope="module")
def world(server: LocalRegistry) -> EvidenceWorld:
    """A rollout with two approvers that ended well."""
    made = EvidenceWorld(server, "archive", Wish(approvers=("alex", "kim")))
    made.finish(made.bind())
    return made


@pytest.fixture(scope="module")
def files(world: EvidenceWorld) -> dict[str, bytes]:
    return collect(world.ledger, ROLLOUT, artifacts_of(world), lambda: None)


def look(world: EvidenceWorld, files: dict[str, bytes], **more: Any) -> Verdict:
    pinned = {"fingerprints": [fingerprint(der_of(world.kms.key))], "require_qualifying": True}
    return verify_archive(files, **(pinned | more))


def failed(verdict: Verdict) -> str:
    return next((check.name for check in verdict.checks if check.ok is False), "")


def test_it_holds(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    began = time.process_time()
    verdict = look(world, files)
    assert time.process_time() - began < 1
    assert verdict.code == VALID, [check for check in verdict.checks if not check.ok]
    assert [check.name for check in verdict.checks] == [
        "sums", "key", "envelope", "signature", "statement", "subjects", "split", "documents", "plan", "records",
        "validation", "aicr-evidence", "aicr-signature", "pointer", "end", "outcome", "qualifying",
    ]  # fmt: skip


def test_packed_twice_it_is_the_same_bytes(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    packed = layout.pack(files, f"evidence-{ROLLOUT}")
    again = collect(world.ledger, ROLLOUT, artifacts_of(world), lambda: None)
    assert layout.pack(dict(reversed(again.items())), f"evidence-{ROLLOUT}") == packed
    assert layout.unpack(packed) == files


def commands(readme: str) -> str:
    return "".join(re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL))


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """The README's own lines, where there is no Python."""
    script = "set -e -o pipefail\n" + commands((folder / "README.md").read_text())
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )


def test_an_auditor_checks_it_with_the_readmes_lines(
    world: EvidenceWorld, files: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "a.tar.gz").write_bytes(layout.pack(files, "evidence"))
    subprocess.run(["tar", "-xzf", "a.tar.gz"], cwd=tmp_path, check=True)
    done = run(tmp_path / "evidence")
    assert done.returncode == 0, done.stderr
    assert "Verified OK" in done.stdout
    assert fingerprint(der_of(world.kms.key)) in done.stdout
