"""Evidence of earlier versions, which lacks what was recorded later: still read, and it never qualifies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aicr_pipeline.adapters.evidence_pack import collect
from aicr_pipeline.adapters.evidence_reader import read_evidence
from aicr_pipeline.adapters.live_evidence import Live, look_live
from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.canonical import canonical, sha256
from aicr_pipeline.decide.dsse import envelope, fingerprint, pae_digest, read_envelope
from aicr_pipeline.decide.qualification import never_counts
from aicr_pipeline.decide.verify import INCOMPLETE, INVALID, NOT_ENOUGH, VALID, Looks, Verdict, verify
from aicr_pipeline.decide.verify_archive import verify_archive
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.evidence import PAYLOAD_TYPE, Statement
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256

from local.registry import LocalRegistry, TokenIssuer
from tests.evidence_world import ROLLOUT, EvidenceWorld, Wish, artifacts_of, der_of

#: What each form lacked, the newest first; each also lacks what those before it do. Paths in the predicate.
FORMS = {
    "without records": (
        "documents", "runtimeDigest", "approval.digest", "approval.decisions", "aicrEvidence.statementDigest",
        "aicrEvidence.manifestDigest", "aicrEvidence.attestedAt",
    ),
    "without assets": (
        "validators", "tuple", "pipeline.functions", "pipeline.layers", "pipeline.manifests",
        "pipeline.configuration",
    ),
    "without acknowledgements": ("acknowledgements", "approval.identityReason"),
    "without four eyes": ("fourEyes", "approval.principals"),
    "without resolve": ("plan.resolvedBy",),
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[LocalRegistry]:
    with LocalRegistry(TokenIssuer()) as made:
        yield made


def lacking(form: str) -> list[str]:
    names = list(FORMS)
    return [path for name in names[: names.index(form) + 1] for path in FORMS[name]]


@pytest.fixture(scope="module", params=list(FORMS))
def earlier(server: LocalRegistry, request: pytest.FixtureRequest) -> EvidenceWorld:
    """A rollout whose evidence has an earlier form, signed as it was then."""
    form = str(request.param)
    made = EvidenceWorld(server, f"earlier-{form.replace(' ', '-')}", Wish(charts=True))
    bound = made.bind()
    document = json.loads(read_envelope(made.s3.objects.pop(bound["key"])).payload)
    for path in lacking(form):
        *before, last = path.split(".")
        inner: dict[str, Any] = document["predicate"]
        for part in before:
            inner = inner[part]
        inner.pop(last, None)
    text = canonical(document, "the statement")
    mark = fingerprint(der_of(made.kms.key))
    digest = pae_digest(PAYLOAD_TYPE, text)
    sealed = envelope(
        PAYLOAD_TYPE, text, mark, made.kms.key.sign(digest, ec.ECDSA(utils.Prehashed(SHA256())))
    )
    key = f"evidence/demo/{ROLLOUT}/{sha256(sealed)[7:]}.intoto.json"
    made.s3.objects[key] = sealed
    pointer = {"key": key, "fingerprint": mark, "qualifying": True}
    made.s3.objects[rollout_key(ROLLOUT, "binding")] = json.dumps(pointer).encode()
    made.finish({"key": key})
    return made


def pack(world: EvidenceWorld) -> dict[str, bytes]:
    return collect(world.ledger, ROLLOUT, artifacts_of(world), lambda: None)


def look(world: EvidenceWorld, files: dict[str, bytes]) -> Verdict:
    files = {**files, layout.SUMS: layout.sums(files)}
    marks = [fingerprint(der_of(world.kms.key))]
    return verify_archive(files, require_qualifying=False, fingerprints=marks)


def test_the_envelope_verifies_and_qualifies_nothing(earlier: EvidenceWorld) -> None:
    sealed = pack(earlier)[layout.ENVELOPE]
    plan = earlier.s3.objects[plan_key(earlier.plan.desired_state_digest)]
    key = der_of(earlier.kms.key)
    assert verify(sealed, key, plan, require_qualifying=False).code == VALID
    verdict = verify(sealed, key, plan, require_qualifying=True)
    assert verdict.code == NOT_ENOUGH
    assert "the records that it was made from are not named" in verdict.checks[-1].detail


def test_the_archive_is_incomplete_and_its_plan_is_looked_at(earlier: EvidenceWorld) -> None:
    files = pack(earlier)
    verdict = look(earlier, files)
    assert verdict.code == INCOMPLETE, verdict.checks
    assert [check.name for check in verdict.checks if not check.ok] == ["documents"]
    assert "plan" in [check.name for check in verdict.checks if check.ok]
    plan = layout.LEDGER + plan_key(earlier.plan.desired_state_digest)
    changed = files[plan].replace(b"gpu-operator", b"gpu-operatos")
    for other in ({**files, plan: changed}, {name: files[name] for name in files if name != plan}):
        seen = look(earlier, other)
        failed = next(check.name for check in seen.checks if check.ok is False)
        assert (seen.code, failed) == (INVALID, "plan")
    stranger = look(earlier, {**files, f"{layout.LEDGER}rollouts/{ROLLOUT}/more.json": b"{}"})
    assert (stranger.code, stranger.checks[-1].name) == (INVALID, "files")


def test_the_ledger_does_not_say_more_than_it_can(earlier: EvidenceWorld) -> None:
    sealed = pack(earlier)[layout.ENVELOPE]
    binding = Statement.model_validate_json(read_envelope(sealed).payload).predicate

    def unreachable(address: str) -> Repository:
        raise TransientError(Reason.RegistryUnreachable, f"Reading {address}: no answer.")

    looks, live = Looks(), Live(earlier.ledger, unreachable)
    look_live(looks, sealed, binding, fingerprint(der_of(earlier.kms.key)), live)
    assert all(check.ok is not False for check in looks.checks)
    ledgers = [check.name for check in looks.checks if check.name.startswith("ledger-")]
    unseen = [check.name for check in looks.checks if check.ok is None]
    assert unseen == ["ledger-documents", "registry-binding", "registry-evidence", "registry-charts"]
    assert ledgers[-1] == "ledger-end"


def test_a_statement_without_its_resolve_never_counts(earlier: EvidenceWorld) -> None:
    (found,) = read_evidence(earlier.ledger, [der_of(earlier.kms.key)], lambda _: False).proven
    why = list(never_counts(found.binding, "demo"))
    assert ("the resolve that wrote the plan is not recorded" in why) == (
        found.binding.plan.resolved_by is None
    )
