"""A rollout's evidence packed into an archive, and what the tests of archives ask of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aicr_pipeline.adapters.evidence_pack import collect
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.dsse import fingerprint
from aicr_pipeline.decide.verify import Verdict
from aicr_pipeline.decide.verify_archive import verify_archive

from local.registry import LocalRegistry, TokenIssuer
from tests.evidence_world import ROLLOUT, EvidenceWorld, Wish, artifacts_of, der_of

ROLLOUTS = f"{layout.LEDGER}rollouts/{ROLLOUT}/"


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


def pack(world: EvidenceWorld) -> dict[str, bytes]:
    return collect(world.ledger, ROLLOUT, artifacts_of(world), lambda: None)


@pytest.fixture(scope="module")
def files(world: EvidenceWorld) -> dict[str, bytes]:
    return pack(world)


def look(world: EvidenceWorld, files: dict[str, bytes], **more: Any) -> Verdict:
    pinned = {"fingerprints": [fingerprint(der_of(world.kms.key))], "require_qualifying": True}
    return verify_archive(files, **(pinned | more))


def failed(verdict: Verdict) -> str:
    return next((check.name for check in verdict.checks if check.ok is False), "")


def summed(files: dict[str, bytes]) -> dict[str, bytes]:
    """With sums that fit, as whoever tampers would leave them."""
    return {**files, layout.SUMS: layout.sums(files)}


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
