"""Worlds whose evidence is to be bound, and what was bound of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aicr_pipeline.decide.dsse import read_envelope
from aicr_pipeline.model.plan import plan_key
from cryptography.hazmat.primitives.asymmetric import ec

from local.registry import LocalRegistry, TokenIssuer
from tests.evidence_world import EvidenceWorld, Wish
from tests.unit.samples import sha

OTHER = ec.derive_private_key(0xB0B, ec.SECP256R1())


@pytest.fixture(scope="module")
def server() -> Iterator[LocalRegistry]:
    with LocalRegistry(TokenIssuer()) as made:
        yield made


@pytest.fixture
def make(server: LocalRegistry, request: pytest.FixtureRequest) -> Callable[..., EvidenceWorld]:
    """A world under a prefix of its own; the registry is one."""
    made = 0

    def new(**wish: Any) -> EvidenceWorld:
        nonlocal made
        made += 1
        name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())
        return EvidenceWorld(server, f"t{sha(name)[7:19]}-{made}", Wish(**wish))

    return new


def predicate_of(world: EvidenceWorld, bound: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_envelope(world.ledger.get(bound["key"]) or b"").payload)
    return dict(found["predicate"])


def evidence_keys(world: EvidenceWorld) -> list[str]:
    return [key for key in sorted(world.s3.objects) if key.startswith("evidence/")]


def plan_of(world: EvidenceWorld) -> bytes | None:
    return world.ledger.get(plan_key(world.plan.desired_state_digest))
