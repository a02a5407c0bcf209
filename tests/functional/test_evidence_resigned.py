"""Statements that the right key signed, and that say something else than their records: a defect, or a thief.

Whatever a record in the archive repeats is held against it, so that a signature alone makes nothing true.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aicr_pipeline.adapters.evidence_pack import collect
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.canonical import canonical, sha256
from aicr_pipeline.decide.deployed import deployed_digest
from aicr_pipeline.decide.dsse import envelope, fingerprint, pae, pae_digest
from aicr_pipeline.decide.verify import INVALID, VALID, Verdict
from aicr_pipeline.decide.verify_archive import verify_archive
from aicr_pipeline.model.evidence import PAYLOAD_TYPE
from aicr_pipeline.model.rollout import rollout_key

from local.registry import LocalRegistry, TokenIssuer
from tests.evidence_world import ROLLOUT, EvidenceWorld, Wish, artifacts_of, der_of
from tests.unit.samples import changed, sha

#: What no record in an archive repeats: the pipeline's word alone, as docs/evidence.md says. The tuple is the
#: snapshot's, which is left out.
ITS_WORD_ALONE = ("rollout.execution", "rollout.machineVersion", "boundAt", "tuple.", "fourEyes.")
#: The only value that a field may have, so that no other is a statement.
CLOSED = ("outcome", "tuple.gpuMode", "validation.mode")


@pytest.fixture(scope="module")
def world() -> Iterator[EvidenceWorld]:
    """A rollout with two approvers that ended well."""
    with LocalRegistry(TokenIssuer()) as server:
        made = EvidenceWorld(server, "resigned", Wish(approvers=("alex", "kim")))
        made.finish(made.bind())
        yield made


@pytest.fixture(scope="module")
def files(world: EvidenceWorld) -> dict[str, bytes]:
    return collect(world.ledger, ROLLOUT, artifacts_of(world), lambda: None)


@pytest.fixture(scope="module")
def predicate(files: dict[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files[layout.PAYLOAD])["predicate"]
    return found


def look(world: EvidenceWorld, files: dict[str, bytes], predicate: dict[str, Any]) -> Verdict:
    """The archive with this statement, signed by the pipeline's key, and all else made to fit it."""
    text = canonical(json.loads(files[layout.PAYLOAD]) | {"predicate": predicate}, "the statement")
    digest = pae_digest(PAYLOAD_TYPE, text)
    signature = world.kms.sign(Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256")
    sealed = envelope(PAYLOAD_TYPE, text, fingerprint(der_of(world.kms.key)), signature["Signature"])
    made = files | {
        layout.ENVELOPE: sealed,
        layout.PAYLOAD: text,
        layout.SIGNATURE: signature["Signature"],
        layout.PAE: pae(PAYLOAD_TYPE, text),
    }
    was, now = (sha256(one).removeprefix("sha256:").encode() for one in (files[layout.ENVELOPE], sealed))
    for name in ("binding", "outcome"):
        path = layout.LEDGER + rollout_key(ROLLOUT, name)
        made[path] = files[path].replace(was, now)
    made[layout.SUMS] = layout.sums(made)
    marks = [fingerprint(der_of(world.kms.key))]
    return verify_archive(made, require_qualifying=False, fingerprints=marks)


def failed(verdict: Verdict) -> str:
    return next((f"{check.name}: {check.detail}" for check in verdict.checks if check.ok is False), "")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field that is no object; of a list the first two, and of documents none: each has its file."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if path != "documents":
                yield from leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value[:2]):
            yield from leaves(inner, f"{path}.{number}")
    else:
        yield path, value


def another(value: Any) -> Any:
    """Another value of the same form."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if value.startswith("sha256:"):
        return sha(value)
    return "2026-01-01T12:30:00.000Z" if value.startswith("2026") else "another"


def test_every_field_that_a_record_repeats_is_held_against_it(
    world: EvidenceWorld, files: dict[str, bytes], predicate: dict[str, Any]
) -> None:
    assert look(world, files, predicate).code == VALID, "signed anew it is as good as before"
    seen = 0
    for path, value in leaves(predicate):
        if path in CLOSED or path.startswith(ITS_WORD_ALONE):
            continue
        verdict = look(world, files, changed(predicate, path, another(value)))
        assert verdict.code == INVALID, path
        seen += 1
    assert seen > 70


#: Evidence of earlier versions lacks them, or none of it is nothing: left out, they say nothing.
MAY_LACK = (
    "fourEyes", "notQualifyingBecause", "plan.resolvedBy", "runtimeDigest", "tuple", "tuple.drivers",
    "tuple.fabrics", "tuple.instanceTypes", "tuple.kernels", "tuple.nodeImages", "tuple.workloadImages",
    "validation.failed", "validation.other", "validation.skipped",
)  # fmt: skip


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Every field, objects included; of a list those of its first."""
    if isinstance(value, dict) and path != "documents":
        for name, inner in value.items():
            own = f"{path}.{name}" if path else name
            yield own
            yield from fields(inner, own)
    elif isinstance(value, list):
        for inner in value[:1]:
            yield from fields(inner, f"{path}.0")


def test_no_field_that_a_record_has_may_be_left_out(
    world: EvidenceWorld, files: dict[str, bytes], predicate: dict[str, Any]
) -> None:
    names = list(fields(predicate))
    assert len(names) > 80
    left_out = {path for path in names if look(world, files, changed(predicate, path)).code != INVALID}
    assert left_out == set(MAY_LACK)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("approval.identityReason", "hardware tokens", "records: request.json does not say why a link"),
        ("approval.inheritedFrom", "demo-12345678-0", "records: the record of alex's approval is missing"),
        ("plan.fromDigest", sha("x"), "records: rollout.json does not say"),
        ("aicrEvidence.keyFingerprint", "0" * 64, "subjects: AICR's evidence is signed without a key"),
    ],
)
def test_a_field_that_no_record_has(
    world: EvidenceWorld, files: dict[str, bytes], predicate: dict[str, Any], path: str, value: Any, says: str
) -> None:
    assert failed(look(world, files, changed(predicate, path, value))).startswith(says)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fourEyes": {"enforced": True, "because": "x"}}, "four eyes"),
        ({"fourEyes": {"enforced": False}}, "four eyes"),
        ({"qualifying": True, "notQualifyingBecause": ["x"]}, "it qualifies and says why it does not"),
        ({"qualifying": False, "notQualifyingBecause": []}, "it qualifies and says why it does not"),
        ({"approval": None}, "four eyes"),
    ],
)
def test_a_statement_that_contradicts_itself(
    world: EvidenceWorld, files: dict[str, bytes], predicate: dict[str, Any], changes: Any, says: str
) -> None:
    made = {name: value for name, value in (predicate | changes).items() if value is not None}
    assert says in failed(look(world, files, made))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("pipeline", "records: it qualifies, but the pipeline was deployed anew during the rollout"),
        ("development", "records: it qualifies, but the cluster was marked development: true"),
    ],
)
def test_a_statement_that_qualifies_against_what_was_deployed(
    world: EvidenceWorld, files: dict[str, bytes], predicate: dict[str, Any], what: str, says: str
) -> None:
    """The records of a rollout that was deployed anew, under a statement that does not say so."""
    key = rollout_key(ROLLOUT, "deployed")
    record = json.loads(files[layout.LEDGER + key])
    assert record["pipeline"] == deployed_digest(world.wish.pipeline)
    record[what] = sha("another") if what == "pipeline" else True
    text = json.dumps(record).encode()
    documents = predicate["documents"] | {key: sha256(text)}
    verdict = look(world, files | {layout.LEDGER + key: text}, predicate | {"documents": documents})
    assert failed(verdict) == says
