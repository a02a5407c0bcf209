"""Verifying evidence against what stands today: the ledger that wrote it once, and the registry."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from aicr_pipeline.adapters.ledger import LedgerReader
from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.adapters.rollouts import load_plan
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.verify import Looks
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.evidence import Binding
from aicr_pipeline.model.rollout import rollout_key

#: Of the repositories' addresses: the cluster's prefix is what stands before it.
_EVIDENCE = "/evidence/"


@dataclass(frozen=True)
class Live:
    """Where to look.

    ``repository`` opens one by its address; ``registry`` is ``oci://host/prefix``, None where the statement
    has to say it.
    """

    ledger: LedgerReader
    repository: Callable[[str], Repository]
    registry: str | None = None


def look_live(looks: Looks, sealed: bytes, binding: Binding, fingerprint: str, live: Live) -> None:
    """Add the checks against ledger and registry to those that were made offline.

    What cannot be reached is unseen, so the verdict is incomplete; what is gone or another fails.

    Raises
    ------
    Stop
        At the first that fails.
    """
    found = _Live(sealed, binding, fingerprint, live)
    for name, look in (
        ("ledger-statement", found.statement),
        ("ledger-pointer", found.pointer),
        ("ledger-documents", found.documents),
        ("registry-binding", found.binding_artifact),
        ("registry-evidence", found.evidence),
        ("registry-charts", found.charts),
    ):
        _at(looks, name, look)


def _at(looks: Looks, name: str, look: Callable[[], str | None]) -> None:
    try:
        detail = look()
    except TransientError as error:
        looks.unseen(name, error.message)
        return
    except (PipelineError, ValueError) as error:
        problem = getattr(error, "message", str(error))
        looks.at(name, lambda: _fail(problem))
        return
    if detail is None:
        looks.unseen(name, "the statement does not say where the registry is: pass --registry")
    else:
        looks.at(name, lambda: (None, detail))


def _fail(problem: str) -> tuple[None, str]:
    raise ValueError(problem)


class _Live:
    def __init__(self, sealed: bytes, binding: Binding, fingerprint: str, live: Live) -> None:
        self.sealed, self.binding, self.fingerprint, self.live = sealed, binding, fingerprint, live
        self.name = binding.rollout.name
        hexes = sha256(sealed).removeprefix("sha256:")
        self.key = f"evidence/{binding.cluster}/{self.name}/{hexes}.intoto.json"

    def statement(self) -> str:
        found = self.live.ledger.get(self.key)
        if found is None:
            raise ValueError(f"{self.key} is not in the ledger")
        if found != self.sealed:
            raise ValueError(f"{self.key} holds something else")
        return f"{self.key} is this very envelope"

    def pointer(self) -> str:
        key = rollout_key(self.name, "binding")
        text = self.live.ledger.get(key)
        if text is None:
            raise ValueError(f"{key} is not in the ledger")
        pointer = json.loads(text)
        if not isinstance(pointer, dict) or pointer.get("key") != self.key:
            raise ValueError(f"{key} names another statement: this one is not the rollout's binding")
        if pointer.get("fingerprint") != self.fingerprint:
            raise ValueError(f"{key} names another key than the one that signed")
        return f"{key} names it, and the key"

    def documents(self) -> str:
        documents = self.binding.documents or {}
        for key, want in documents.items():
            found = self.live.ledger.get(key)
            if found is None:
                raise ValueError(f"{key} is not in the ledger; the statement names it")
            if sha256(found) != want:
                raise ValueError(f"{key} is not what it was when the statement was signed")
        return f"{len(documents)} records are what they were"

    def binding_artifact(self) -> str | None:
        prefix = self._prefix()
        if prefix is None:
            return None
        address = f"{prefix}{_EVIDENCE}{self.name.lower()}-binding"
        manifest = self.live.repository(address).get_manifest("binding")
        if manifest is None:
            raise ValueError(f"{address}:binding is not in the registry")
        layers = json.loads(manifest.content).get("layers") or [{}]
        if layers[0].get("digest") != sha256(self.sealed):
            raise ValueError(f"{address}:binding is another statement")
        return f"{address}:binding is this very envelope"

    def evidence(self) -> str:
        bound = self.binding.aicr_evidence
        if bound is None:
            return "there is none: validation was Disabled"
        address, _, digest = bound.reference.partition("@")
        if self.live.repository(address).head_manifest(digest) != bound.digest:
            raise ValueError(f"AICR's evidence {bound.reference} is not in the registry")
        return f"AICR's evidence {bound.digest} is there"

    def charts(self) -> str | None:
        prefix = self._prefix()
        if prefix is None:
            return None
        plan = load_plan(self.live.ledger, self.binding.plan.digest)
        for release in plan.desired_state.releases:
            address = f"{prefix}/{release.repository}"
            digest = release.chart.manifest_digest
            if self.live.repository(address).head_manifest(digest) != digest:
                raise ValueError(f"chart {address}@{digest} is not in the registry")
        return f"{len(plan.desired_state.releases)} charts are there, each by its digest"

    def _prefix(self) -> str | None:
        if self.live.registry is not None:
            return self.live.registry.rstrip("/")
        bound = self.binding.aicr_evidence
        return bound.reference.partition(_EVIDENCE)[0] if bound is not None else None
