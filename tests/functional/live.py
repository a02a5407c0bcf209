"""A rollout that ended well and still stands in ledger and registry, and what changes how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from aicr_pipeline.decide.verify import INCOMPLETE, NOT_ENOUGH
from aicr_pipeline.model.rollout import rollout_key

from local.registry import LocalRegistry, TokenIssuer
from local.registry.store import MemoryStore
from tests.evidence_world import ROLLOUT, EvidenceWorld, Wish
from tests.unit.samples import sha

STORE = MemoryStore()


@pytest.fixture(scope="module")
def server() -> Iterator[LocalRegistry]:
    with LocalRegistry(TokenIssuer(), STORE) as made:
        yield made


@pytest.fixture
def world(server: LocalRegistry, request: pytest.FixtureRequest) -> EvidenceWorld:
    """A rollout that ended well, with its charts in the registry."""
    made = EvidenceWorld(server, f"live-{sha(request.node.name)[7:17]}", Wish(charts=True))
    made.finish(made.bind())
    return made


def envelope(world: EvidenceWorld) -> bytes:
    pointer = json.loads(world.s3.objects[rollout_key(ROLLOUT, "binding")])
    return world.s3.objects[pointer["key"]]


def gone(prefix: str) -> Callable[[EvidenceWorld], None]:
    def act(world: EvidenceWorld) -> None:
        for key in [key for key in world.s3.objects if key.startswith(prefix)]:
            del world.s3.objects[key]

    return act


def stopped(world: EvidenceWorld) -> None:
    who = {"by": "kim", "identity": "link", "issuer": "i", "reason": "no", "at": "2026-01-01T13:00:00.000Z"}
    world.put(rollout_key(ROLLOUT, "revocation"), {"rollout": ROLLOUT, **who})


def ended(outcome: str, reason: str) -> Callable[[EvidenceWorld], None]:
    def act(world: EvidenceWorld) -> None:
        world.change(rollout_key(ROLLOUT, "outcome"), outcome=outcome, reason=reason, evidence=None)

    return act


#: A rollout that did not succeed, whatever its statement says; which check says so, and the verdict.
NOT_A_SUCCESS = [
    pytest.param(stopped, "ledger-revocation", NOT_ENOUGH, id="stopped"),
    pytest.param(ended("Failed", "RolloutFailed"), "ledger-end", NOT_ENOUGH, id="failed"),
    pytest.param(ended("Revoked", "RolloutRevoked"), "ledger-end", NOT_ENOUGH, id="revoked"),
    pytest.param(gone(rollout_key(ROLLOUT, "outcome")), "ledger-end", INCOMPLETE, id="not ended"),
]
