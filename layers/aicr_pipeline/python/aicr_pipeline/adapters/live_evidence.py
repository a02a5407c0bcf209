"""Verifying evidence against what stands today: the ledger that wrote it once, and the registry."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.aicr_artifact import AicrArtifact, RegistryArtifacts, valid_signature
from aicr_pipeline.adapters.artifact import pull
from aicr_pipeline.adapters.ledger import LedgerReader
from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.adapters.registry_errors import DeniedError, TokenExpiredError
from aicr_pipeline.adapters.rollouts import load_plan
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.dsse import fingerprint, public_der
from aicr_pipeline.decide.evidence_archive import aicr_key_in_ledger
from aicr_pipeline.decide.verify import Looks
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.evidence import Binding
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Outcome, RolloutOutcome, rollout_key

#: Of the repositories' addresses: the cluster's prefix is what stands before the last of it.
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


def look_live(
    looks: Looks,
    sealed: bytes,
    binding: Binding,
    mark: str,
    live: Live,
    copies: Mapping[str, bytes] | None = None,
) -> None:
    """Add the checks against ledger and registry to those that were made offline.

    What cannot be reached is unseen, so the verdict is incomplete; what is gone or another fails; a rollout
    that did not succeed is not enough.

    Parameters
    ----------
    copies:
        What an archive says stands under a ledger's key. Nothing of what came after the statement is signed,
        so it is held against the ledger.

    Raises
    ------
    Stop
        At the first that fails.
    """
    found = _Live(sealed, binding, mark, live, copies or {})
    for name, look in (
        ("ledger-statement", found.statement),
        ("ledger-pointer", found.pointer),
        ("ledger-documents", found.documents),
        ("ledger-revocation", found.revocation),
        ("ledger-end", found.end),
        ("registry-binding", found.binding_artifact),
        ("registry-evidence", found.evidence),
        ("registry-charts", found.charts),
    ):
        _at(looks, name, look)


class _Unseen(Exception):  # noqa: N818 - a finding, caught in this module
    """It could not be looked at; says why."""


class _Lacking(Exception):  # noqa: N818 - a finding, caught in this module
    """Authentic, but not enough; says why."""


def _at(looks: Looks, name: str, look: Callable[[], str]) -> None:
    try:
        detail = look()
    except _Unseen as why:
        looks.unseen(name, str(why))
    except _Lacking as why:
        looks.lacking(name, str(why))
    except TransientError as error:
        looks.unseen(name, error.message)
    except (TokenExpiredError, DeniedError, aws.AwsSettingsError) as error:
        # Who we are says nothing about what is there.
        looks.unseen(name, error.message)
    except (BotoCoreError, ClientError) as error:
        unread = aws.unread(error)
        looks.unseen(name, unread.message if unread else type(error).__name__)
    except (PipelineError, ValueError, RecursionError) as error:
        if getattr(error, "reason", None) is Reason.RegistryCredentialsUnavailable:
            looks.unseen(name, str(error))
            return
        problem = getattr(error, "message", str(error))
        looks.at(name, lambda: _fail(problem))
    else:
        looks.at(name, lambda: (None, detail))


def _fail(problem: str) -> tuple[None, str]:
    raise ValueError(problem)


class _Live:
    def __init__(
        self, sealed: bytes, binding: Binding, mark: str, live: Live, copies: Mapping[str, bytes]
    ) -> None:
        self.sealed, self.binding, self.mark, self.live = sealed, binding, mark, live
        self.copies = copies
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
        text = self._as_archived(key)
        if text is None:
            raise ValueError(f"{key} is not in the ledger")
        pointer = json.loads(text)
        if not isinstance(pointer, dict) or pointer.get("key") != self.key:
            raise ValueError(f"{key} names another statement: this one is not the rollout's binding")
        if pointer.get("fingerprint") != self.mark:
            raise ValueError(f"{key} names another key than the one that signed")
        return f"{key} names it, and the key"

    def documents(self) -> str:
        documents = self.binding.documents
        if documents is None:
            raise _Unseen("evidence of an earlier version, which names no records")
        for key, want in documents.items():
            found = self.live.ledger.get(key)
            if found is None:
                raise ValueError(f"{key} is not in the ledger; the statement names it")
            if sha256(found) != want:
                raise ValueError(f"{key} is not what it was when the statement was signed")
        return f"{len(documents)} records are what they were"

    def revocation(self) -> str:
        """Somebody who stopped the rollout is not in the statement: it may have been signed before."""
        key = rollout_key(self.name, "revocation")
        if self._as_archived(key) is not None:
            raise _Lacking(f"{key} is in the ledger: somebody stopped the rollout")
        return "nobody stopped the rollout"

    def end(self) -> str:
        """A statement is signed before the outcome is written: only the ledger knows how it ended."""
        key = rollout_key(self.name, "outcome")
        text = self._as_archived(key)
        if text is None:
            raise _Unseen(f"{key} is not in the ledger: the rollout has not ended")
        outcome = parse(RolloutOutcome, json.loads(text), Reason.PlanUnreadable, key)
        if outcome.rollout != self.name:
            raise ValueError(f"{key} is of rollout {outcome.rollout}")
        if outcome.outcome is not Outcome.Succeeded:
            raise _Lacking(f"the rollout ended as {outcome.outcome}: {outcome.reason}")
        if outcome.evidence != self.key:
            raise ValueError(f"{key} names other evidence")
        return f"{outcome.outcome} at {outcome.finished_at}, with this evidence"

    def _as_archived(self, key: str) -> bytes | None:
        """What the ledger holds, which is written once: a copy in an archive is the same or not a copy."""
        found, copy = self.live.ledger.get(key), self.copies.get(key)
        if copy is not None and copy != found:
            raise ValueError(f"{key} in the archive is not what the ledger holds")
        return found

    def binding_artifact(self) -> str:
        prefix = self._prefix()
        address = f"{prefix}{_EVIDENCE}{self.name.lower()}-binding"
        found = pull(self.live.repository(address), "binding", "The copy of the envelope")
        if found is None:
            raise ValueError(f"{address}:binding is not in the registry")
        if found.layer != self.sealed:
            raise ValueError(f"{address}:binding is another statement")
        return f"{address}:binding is this very envelope"

    def evidence(self) -> str:
        bound = self.binding.aicr_evidence
        if bound is None:
            return "there is none: validation was Disabled"
        artifact = RegistryArtifacts(self.live.repository).get(bound.reference, signed=bound.signed)
        if artifact is None:
            raise ValueError(f"AICR's evidence {bound.reference} is not in the registry")
        if sha256(artifact.manifest) != bound.digest:
            raise ValueError(f"AICR's evidence {bound.reference} is another artifact")
        if not bound.signed:
            return f"AICR's evidence {bound.digest} is there"
        return f"AICR's evidence {bound.digest} is there, and so is its signature by {self._signer(artifact)}"

    def _signer(self, artifact: AicrArtifact) -> str:
        """The key that AICR's signature, as it is attached today, is by."""
        bound = self.binding.aicr_evidence
        mark = str(bound.key_fingerprint) if bound else ""
        kept = aicr_key_in_ledger(self.binding.cluster, mark)
        key = self.live.ledger.get(kept)
        if key is None:
            raise ValueError(f"the key that AICR signed with, {kept}, is not in the ledger")
        der = public_der(key)
        if bound is None or fingerprint(der) != mark:
            raise ValueError(f"{kept} is another key than the one that AICR signed with")
        if valid_signature(artifact, bound.digest, der) is None:
            raise ValueError(f"the signature of AICR's evidence {bound.reference} is not in the registry")
        return mark

    def charts(self) -> str:
        prefix = self._prefix()
        plan = load_plan(self.live.ledger, self.binding.plan.digest)
        for release in plan.desired_state.releases:
            address = f"{prefix}/{release.repository}"
            digest = release.chart.manifest_digest
            repository = self.live.repository(address)
            # Its bytes are hashed on the way: what a registry says of a digest proves nothing.
            manifest = repository.get_manifest(digest)
            if manifest is None:
                raise ValueError(f"chart {address}@{digest} is not in the registry")
            for blob in _blobs(manifest.content):
                if not repository.blob_exists(blob):
                    raise ValueError(f"chart {address}@{digest} lacks its blob {blob} in the registry")
        return f"{len(plan.desired_state.releases)} charts are there, each by its digest"

    def _prefix(self) -> str:
        if self.live.registry is not None:
            return self.live.registry.rstrip("/")
        bound = self.binding.aicr_evidence
        if bound is None:
            raise _Unseen("the statement does not say where the registry is: pass --registry")
        return bound.reference.rpartition(_EVIDENCE)[0]


def _blobs(manifest: bytes) -> list[str]:
    """The digests that a manifest names: its configuration and its layers."""
    try:
        document = json.loads(manifest)
        return [str(one["digest"]) for one in (document["config"], *document["layers"])]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("a chart's manifest is none") from None
