"""Evidence: what is bound, what qualifies, and that no changed byte verifies."""

from __future__ import annotations

import base64
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.deployed import deployed_digest
from aicr_pipeline.decide.dsse import envelope, fingerprint, pae_digest, read_envelope
from aicr_pipeline.decide.evidence import Bound, not_qualifying, statement
from aicr_pipeline.decide.verify import (
    INCOMPLETE,
    INVALID,
    NOT_ENOUGH,
    VALID,
    Verdict,
    as_json,
    pem,
    verify,
)
from aicr_pipeline.model.evidence import (
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    BoundAicrEvidence,
    BoundDecision,
    BoundPipeline,
    BoundTuple,
    BoundValidation,
    Statement,
)
from aicr_pipeline.model.rollout import Acknowledgement, Deployed, Rollout
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tests.unit.samples import (
    ASSETS,
    DEPLOYED,
    TUPLE,
    VALIDATOR,
    VALIDATORS,
    config,
    decision,
    plan,
    release,
    request,
    sha,
)
from tests.unit.test_dsse import DER, PEM, sign

PINNED = {"validatorImages": [f"{VALIDATOR}@{sha('validator')}"]}
PLAN = plan(release("gpu-operator"), release("gpu-operator-readiness", kind="wrapper"), **PINNED)
BEGAN = Deployed(
    rollout="demo-12345678-1", pipeline=DEPLOYED, development=False, at="2026-01-01T00:00:00.000Z"
)
PLAN_TEXT = json.dumps(PLAN.wire(), sort_keys=True, separators=(",", ":")).encode()
DOCUMENTS = {f"rollouts/demo-12345678-1/{name}.json": sha(name) for name in ("deployed", "report")}
REFERENCE = "oci://registry.example.com/demo/evidence/demo-12345678-1-1@"
BOUND = Bound(
    config=config(),
    rollout=Rollout(
        name="demo-12345678-1",
        cluster="demo",
        to_plan=PLAN.desired_state_digest,
        number=1,
        created_at="2026-01-01T00:00:00.000Z",
        deadline="2026-01-02T00:00:00.000Z",
        runtime_version="v1",
    ),
    plan=PLAN,
    decision=decision(),
    request=request(identity_reason="hardware-tokens-guard-the-mailbox"),
    validation=BoundValidation(mode="Required", tests=2, passed=2, report_digest=sha("report")),
    aicr_evidence=BoundAicrEvidence(reference=REFERENCE + sha("e"), digest=sha("e"), signed=False),
    post_install_snapshot_digest=sha("post"),
    execution="demo-12345678-1",
    machine_version="7",
    pipeline=ASSETS,
    local_engine=False,
    bound_at="2026-01-01T10:00:00.000Z",
    validators=VALIDATORS,
    tuple_=TUPLE,
    decision_digest=sha("decision"),
    deployed=BEGAN,
    steps=(DEPLOYED, DEPLOYED),
    documents=DOCUMENTS,
)


DISABLED = BoundValidation(mode="Disabled")
UNVALIDATED = plan(*PLAN.desired_state.releases, **PINNED, **{"validation": "Disabled"})


def seal(text: bytes, kind: str = PAYLOAD_TYPE) -> bytes:
    return envelope(kind, text, fingerprint(DER), sign(pae_digest(kind, text)))


TEXT = statement(BOUND)
SEALED = seal(TEXT)


def look(sealed: bytes = SEALED, key: bytes = DER, text: bytes | None = PLAN_TEXT, **more: Any) -> Verdict:
    return verify(sealed, key, text, require_qualifying=more.get("require_qualifying", False))


@pytest.mark.parametrize(("identity", "said"), [("link", True), ("signed-in", False), ("aws-iam", False)])
def test_why_a_link_was_proof_enough_is_bound(identity: str, said: bool) -> None:
    approval = json.loads(statement(replace(BOUND, decision=decision(identity=identity))))["predicate"][
        "approval"
    ]
    assert approval.get("identityReason") == ("hardware-tokens-guard-the-mailbox" if said else None)


def failed(verdict: Verdict) -> str:
    return next((check.name for check in verdict.checks if check.ok is False), "")


# The statement


def test_the_same_facts_give_the_same_bytes() -> None:
    assert statement(BOUND) == TEXT
    assert b" " not in TEXT.split(b'"reason"')[0], "canonical JSON"
    assert Statement.model_validate_json(TEXT).wire() == json.loads(TEXT)


def test_what_is_bound() -> None:
    found = json.loads(TEXT)
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == PREDICATE_TYPE
    assert found["subject"] == [
        {"name": "aicr-evidence", "digest": {"sha256": sha("e")[7:]}},
        *(
            {"name": f"chart/{r.name}", "digest": {"sha256": r.chart.manifest_digest[7:]}}
            for r in PLAN.desired_state.releases
        ),
        {"name": "plan", "digest": {"sha256": PLAN.desired_state_digest[7:]}},
    ]
    predicate = found["predicate"]
    assert predicate["plan"] == {
        "digest": PLAN.desired_state_digest,
        "recipe": PLAN.desired_state.recipe,
        "resolvedBy": PLAN.recorded.run,
    }
    assert predicate["approval"]["by"] == ["alex"]
    assert predicate["approval"]["digest"] == sha("decision")
    assert predicate["pipeline"] == ASSETS.wire()
    assert predicate["validators"] == [VALIDATORS[0].wire()]
    assert predicate["tuple"] == TUPLE.wire()
    assert predicate["documents"] == DOCUMENTS
    assert predicate["snapshotDigest"] == PLAN.recorded.snapshot_digest
    assert predicate["postInstallSnapshotDigest"] == sha("post")
    assert predicate["aicrImageDigest"] == PLAN.desired_state.aicr.image_digest
    assert "keyFingerprint" not in predicate["aicrEvidence"]
    assert predicate["qualifying"] is True
    assert len(TEXT) > 1000


def test_whether_four_eyes_was_enforced_is_bound() -> None:
    assert json.loads(TEXT)["predicate"]["fourEyes"] == {
        "enforced": False,
        "because": "the submitter is unknown",
    }
    user = "arn:aws:iam::111122223333:user/"
    approvers = {"approvals.approvers": [{"name": "alex", "iam": f"{user}alex"}]}
    for submitter, told in (
        (f"{user}kim", {"enforced": True}),
        (f"{user}alex", {"enforced": False, "because": "alex submitted the runtime"}),
    ):
        rollout = BOUND.rollout.model_copy(update={"submitter": submitter})
        bound = replace(BOUND, config=config(**approvers), rollout=rollout)
        predicate = json.loads(statement(bound))["predicate"]
        assert (predicate["submitter"], predicate["fourEyes"]) == (submitter, told)
        assert look(seal(statement(bound))).code == VALID


BYPASSED = BOUND.decision.model_copy(update={"identity": "bypass"}) if BOUND.decision else None


def _of(change: dict[str, Any]) -> Bound:
    """What is deployed is so from the start, unless the change is about that."""
    bound = replace(BOUND, **change)
    if "pipeline" not in change:
        return bound
    ran = deployed_digest(bound.pipeline)
    return replace(bound, deployed=BEGAN.model_copy(update={"pipeline": ran}), steps=(ran, ran))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"local_engine": True}, "local engine"),
        ({"config": config(development=True)}, "development: true"),
        ({"deployed": BEGAN.model_copy(update={"development": True})}, "development: true"),
        (
            {"deployed": BEGAN.model_copy(update={"pipeline": sha("x")})},
            "was deployed anew during the rollout",
        ),
        ({"steps": (DEPLOYED, sha("x"))}, "was deployed anew during the rollout"),
        ({"steps": (None, sha("x"))}, "was deployed anew during the rollout"),
        ({"deployed": None}, "what was deployed during the rollout is not recorded"),
        ({"steps": (DEPLOYED, None)}, "what was deployed during the rollout is not recorded"),
        ({"decision": BYPASSED}, "approval was bypassed: nobody was asked"),
        ({"config": config(**{"aicr.developmentVersions": ["1.1.2"]})}, "v1.1.2 is a development version"),
        ({"validation": DISABLED, "aicr_evidence": None, "plan": UNVALIDATED}, "Disabled"),
        (
            {"pipeline": BoundPipeline(version="1")},
            "pipeline's functions, layers, manifests, configuration are",
        ),
        ({"pipeline": ASSETS.model_copy(update={"functions": {}})}, "pipeline's functions are not recorded"),
        (
            {"pipeline": ASSETS.model_copy(update={"layers": {"program": sha("p")}})},
            "pipeline's layers are not",
        ),
        ({"pipeline": ASSETS.model_copy(update={"manifests": None})}, "pipeline's manifests are not"),
        ({"pipeline": ASSETS.model_copy(update={"configuration": None})}, "pipeline's configuration are not"),
        ({"validators": None}, "which validators ran is not recorded"),
        ({"validators": ()}, "which validators ran is not recorded"),
        (
            {"validators": (VALIDATORS[0].model_copy(update={"digest": sha("other")}),)},
            "a validator ran with an image that the plan does not pin",
        ),
        ({"tuple_": None}, "the hardware and software tuple is not recorded"),
        (
            {"tuple_": BoundTuple(gpu_mode="dra")},
            "tuple lacks: instance type, node image, kernel, driver, fabric, workload image",
        ),
        ({"tuple_": TUPLE.model_copy(update={"drivers": ()})}, "tuple lacks: driver"),
    ],
)
def test_what_never_qualifies(change: dict[str, Any], why: str) -> None:
    assert list(not_qualifying(BOUND)) == []
    bound = _of(change)
    predicate = json.loads(statement(bound))["predicate"]
    assert predicate["qualifying"] is False
    assert [why in reason for reason in predicate["notQualifyingBecause"]] == [True]
    text = json.dumps(bound.plan.wire()).encode()
    verdict = look(seal(statement(bound)), text=text)
    assert verdict.code == VALID, "valid as a record"
    assert look(seal(statement(bound)), text=text, require_qualifying=True).code == NOT_ENOUGH


KIM = BoundDecision(
    by="kim", identity="link", issuer="i", reason="r", at="t", expires_at="e", digest=sha("kim")
)
#: Each way in which a bypass shows, and each thing that may be otherwise beside it.
BYPASSES = [
    {"decision": BYPASSED},
    {"request": request(identity="bypass")},
    {"decisions": (KIM.model_copy(update={"identity": "bypass"}),)},
]
BESIDE: list[list[dict[str, Any]]] = [
    [
        {},
        {"config": config(development=True)},
        {"config": config(**{"approvals.bypass": True}, development=True)},
    ],
    [{}, {"local_engine": True}],
    [{}, {"validation": DISABLED, "aicr_evidence": None, "plan": UNVALIDATED}],
    [{}, {"tuple_": None}, {"validators": None}, {"pipeline": BoundPipeline(version="1")}],
    [{}, {"rollout": BOUND.rollout.model_copy(update={"submitter": "arn:aws:iam::111122223333:user/kim"})}],
]


@pytest.mark.parametrize("bypass", BYPASSES, ids=["decision", "request", "own record"])
def test_no_combination_with_a_bypass_qualifies(bypass: dict[str, Any]) -> None:
    seen = 0
    for beside in itertools.product(*BESIDE):
        bound = BOUND
        for change in (*beside, bypass):
            bound = replace(bound, **change)
        predicate = json.loads(statement(bound))["predicate"]
        assert predicate["qualifying"] is False
        assert "approval was bypassed: nobody was asked" in predicate["notQualifyingBecause"]
        seen += 1
    assert seen == 3 * 2 * 2 * 4 * 2


def test_a_signed_statement_that_qualifies_a_bypass_is_refused() -> None:
    for path in ("predicate.approval.identity", "predicate.approval.decisions"):
        value: Any = "bypass"
        if path.endswith("decisions"):
            value = [KIM.model_copy(update={"by": "alex", "identity": "bypass"}).wire()]
        verdict = look(changed(path, value))
        assert (verdict.code, failed(verdict)) == (INVALID, "subjects")


def test_each_of_two_approvers_is_bound() -> None:
    two = decision(by=("alex", "kim"))
    each = (KIM.model_copy(update={"by": "alex", "at": "u", "digest": sha("alex")}), KIM)
    text = statement(replace(BOUND, decision=two, decisions=each))
    approval = json.loads(text)["predicate"]["approval"]
    assert approval["decisions"] == [one.wire() for one in each]
    assert look(seal(text)).code == VALID
    verdict = look(seal(statement(replace(BOUND, decision=two, decisions=each[:1]))))
    assert (verdict.code, failed(verdict)) == (INVALID, "subjects"), "kim's is missing"


def test_an_inherited_approval_says_whose_it_was() -> None:
    text = statement(replace(BOUND, decision=decision(rollout="demo-12345678-0")))
    assert json.loads(text)["predicate"]["approval"]["inheritedFrom"] == "demo-12345678-0"
    assert "inheritedFrom" not in json.loads(TEXT)["predicate"]["approval"]


LATER = ("runtimeDigest", "validators", "tuple", "documents")


def test_evidence_of_earlier_versions_verifies_but_qualifies_nothing_now() -> None:
    document = json.loads(TEXT)
    predicate = document["predicate"]
    for name in LATER:
        predicate.pop(name, None)
    predicate["pipeline"] = {"version": "0.1.0", "functions": {}}
    predicate["approval"].pop("digest")
    old = seal(json.dumps(document).encode())
    assert look(old).code == VALID
    verdict = look(old, require_qualifying=True)
    assert verdict.code == NOT_ENOUGH
    (why,) = (check.detail for check in verdict.checks if check.name == "qualifying")
    assert "which validators ran is not recorded" in why


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("documents", None, "the records that it was made from are not named"),
        (
            "documents",
            {"rollouts/demo-12345678-1/report.json": sha("r")},
            "what was deployed during the rollout",
        ),
        (
            "validatorImages",
            [f"validator@{sha('other')}"],
            "a validator ran with an image that the plan does not",
        ),
    ],
)
def test_a_statement_that_says_it_qualifies_and_lacks_what_is_asked_now(
    field: str, value: Any, why: str
) -> None:
    """As an earlier version would have signed it: it holds, and counts no longer."""
    document = json.loads(TEXT)
    document["predicate"][field] = value
    if value is None:
        del document["predicate"][field]
    text, images = PLAN_TEXT, document["predicate"]["validatorImages"]
    if field == "validatorImages":
        other = plan(*PLAN.desired_state.releases, **{**PINNED, "validatorImages": images})
        text = json.dumps(other.wire()).encode()
        document["predicate"]["plan"]["digest"] = other.desired_state_digest
        document["subject"][-1]["digest"]["sha256"] = other.desired_state_digest[7:]
    old = seal(json.dumps(document).encode())
    assert look(old, text=text).code == VALID
    verdict = look(old, text=text, require_qualifying=True)
    assert verdict.code == NOT_ENOUGH and why in verdict.checks[-1].detail


@pytest.mark.parametrize("where", ["desiredState", "recorded", "releases", "version", "validation"])
def test_a_plan_with_a_name_twice_is_not_the_plan(where: str) -> None:
    """Whoever reads the file sees the first, and the digest is of the last."""
    name = b'"%s":' % where.encode()
    assert PLAN_TEXT.count(name) > 0
    forged = PLAN_TEXT.replace(name, name + b'"as the board approved it",' + name, 1)
    assert json.loads(forged) == json.loads(PLAN_TEXT)
    verdict = look(text=forged)
    assert (verdict.code, failed(verdict)) == (INVALID, "plan")
    assert "a name stands twice" in verdict.checks[-1].detail


def test_a_key_that_is_not_among_the_pinned() -> None:
    mine, other = fingerprint(DER), "0" * 64
    assert verify(SEALED, DER, PLAN_TEXT, require_qualifying=False, fingerprints=(other, mine)).code == VALID
    verdict = verify(SEALED, DER, PLAN_TEXT, require_qualifying=False, fingerprints=(other,))
    assert (verdict.code, failed(verdict)) == (INVALID, "key")
    assert mine in verdict.checks[0].detail


def test_a_statement_stays_small() -> None:
    """Under 64 KB for 17 releases, with every record and a digest of each function."""
    releases = [release(f"release-number-{number}") for number in range(17)]
    functions = {f"function_number_{number}": sha(number) for number in range(45)}
    documents = {f"rollouts/demo-12345678-1/acknowledgements/release-{n}.json": sha(n) for n in range(30)}
    large = replace(
        BOUND,
        plan=plan(*releases, **PINNED),
        pipeline=ASSETS.model_copy(update={"functions": functions}),
        validators=VALIDATORS * 20,
        documents=documents,
        decision=decision(reason="x" * 1024),
        decisions=(KIM.model_copy(update={"reason": "x" * 1024}),) * 5,
    )
    assert len(statement(large)) < 64 * 1024


def test_without_approval_or_aicr_evidence() -> None:
    bound = replace(BOUND, decision=None, aicr_evidence=None, validation=DISABLED, plan=UNVALIDATED)
    predicate = json.loads(statement(bound))["predicate"]
    assert "approval" not in predicate
    assert "aicrEvidence" not in predicate
    assert look(seal(statement(bound)), text=json.dumps(UNVALIDATED.wire()).encode()).code == VALID
    verdict = look(seal(statement(replace(BOUND, aicr_evidence=None))))
    assert (verdict.code, failed(verdict)) == (INVALID, "subjects"), "validation leaves evidence"


# Verifying


@pytest.mark.parametrize(
    "key", [DER, PEM, b"\n" + PEM, pem(DER)], ids=["DER", "PEM", "PEM after a line", "ours"]
)
def test_valid(key: bytes) -> None:
    verdict = look(key=key)
    assert verdict.code == VALID
    assert [check.name for check in verdict.checks] == [
        "key", "envelope", "signature", "statement", "subjects", "plan", "outcome",
    ]  # fmt: skip
    assert all(check.ok for check in verdict.checks)
    assert verdict.binding is not None
    assert json.loads(as_json(verdict))["code"] == 0
    assert look(require_qualifying=True).code == VALID


def test_incomplete_without_the_plan() -> None:
    verdict = look(text=None)
    assert verdict.code == INCOMPLETE
    assert [check.name for check in verdict.checks if check.ok is None] == ["plan"]


def test_a_failed_rollout_is_valid_but_not_enough() -> None:
    changed = json.loads(TEXT)
    changed["predicate"]["outcome"] = "Failed"
    assert look(seal(json.dumps(changed).encode())).code == NOT_ENOUGH


FAILED = {"tests": 2, "passed": 1, "failed": 1}


@pytest.mark.parametrize(
    ("validation", "aicr", "code"),
    [
        (FAILED, True, NOT_ENOUGH),
        (FAILED, False, NOT_ENOUGH),
        ({"tests": 2, "passed": 0, "other": 2}, True, NOT_ENOUGH),
        ({"tests": 0, "passed": 0}, True, NOT_ENOUGH),
        ({"tests": 3, "passed": 1, "failed": 1}, True, INVALID),
        (FAILED | {"reportDigest": None}, True, INVALID),
    ],
)
def test_a_rollout_that_failed_its_validation(validation: dict[str, Any], aicr: bool, code: int) -> None:
    """Authentic, and says so: only one that succeeded has to have passed."""
    document = json.loads(TEXT)
    predicate = document["predicate"]
    predicate["validation"] |= validation
    if not aicr:
        del predicate["aicrEvidence"]
        document["subject"] = [one for one in document["subject"] if one["name"] != "aicr-evidence"]
    said = {"outcome": "Failed", "qualifying": False, "notQualifyingBecause": ["it failed"]}
    predicate |= said
    verdict = look(seal(json.dumps(document).encode()))
    assert verdict.code == code, verdict.checks
    predicate["outcome"] = "Succeeded"
    assert look(seal(json.dumps(document).encode())).code == INVALID


def test_every_flipped_byte_of_the_payload_fails() -> None:
    signature = read_envelope(SEALED).signatures[0][1]
    for at in range(len(TEXT)):
        payload = TEXT[:at] + bytes([TEXT[at] ^ 1]) + TEXT[at + 1 :]
        verdict = look(envelope(PAYLOAD_TYPE, payload, "", signature))
        assert (verdict.code, failed(verdict), verdict.binding) == (INVALID, "signature", None), at


@pytest.mark.parametrize("bit", [1, 0x80])
def test_every_flipped_byte_of_the_signature_fails(bit: int) -> None:
    signature = read_envelope(SEALED).signatures[0][1]
    for at in range(len(signature)):
        changed = signature[:at] + bytes([signature[at] ^ bit]) + signature[at + 1 :]
        assert failed(look(envelope(PAYLOAD_TYPE, TEXT, "", changed))) == "signature", at


@pytest.mark.parametrize("bit", [1, 2, 4, 8, 16, 32, 64, 128])
def test_every_flipped_byte_of_the_key_fails(bit: int) -> None:
    for at in range(len(DER)):
        changed = DER[:at] + bytes([DER[at] ^ bit]) + DER[at + 1 :]
        verdict = look(key=changed)
        assert (verdict.code, failed(verdict)) in ((INVALID, "key"), (INVALID, "signature")), at


def test_every_flipped_byte_of_the_planned_state_fails() -> None:
    start = PLAN_TEXT.index(b'"desiredState"')
    end = PLAN_TEXT.index(b'"kind":"Plan"')
    for at in range(start, end - 1):
        changed = PLAN_TEXT[:at] + bytes([PLAN_TEXT[at] ^ 1]) + PLAN_TEXT[at + 1 :]
        verdict = look(text=changed)
        assert (verdict.code, failed(verdict)) == (INVALID, "plan"), (at, changed[at - 20 : at + 20])


def test_every_changed_character_of_the_envelope_fails_but_the_hint() -> None:
    """The keyid is never trusted, so it may be anything; all else is needed as it is."""
    hint = range(SEALED.index(b'"keyid"'), SEALED.index(b',"sig"'))
    for at in [*range(0, 40), *range(len(SEALED) - 260, len(SEALED))]:
        if at not in hint:
            changed = SEALED[:at] + bytes([SEALED[at] ^ 1]) + SEALED[at + 1 :]
            assert look(changed).code == INVALID, (at, changed[at - 5 : at + 5])


def other_keys() -> list[Any]:
    made = [
        ec.derive_private_key(7, ec.SECP256R1()),
        ec.derive_private_key(7, ec.SECP384R1()),
        ec.derive_private_key(7, ec.SECP256K1()),
        ed25519.Ed25519PrivateKey.from_private_bytes(b"7" * 32),
        rsa.generate_private_key(65537, 2048),
    ]
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return [key.public_key().public_bytes(*form) for key in made]


@pytest.mark.parametrize(
    ("key", "check"),
    [
        *zip(other_keys(), ["signature", "key", "key", "key", "key"], strict=True),
        (b"", "key"),
        (b"not a key", "key"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "key"),
        (DER + b"\0", "key"),
        (DER[:-1], "key"),
    ],
    ids=[
        "another P-256",
        "P-384",
        "secp256k1",
        "Ed25519",
        "RSA",
        "empty",
        "text",
        "bad PEM",
        "longer",
        "shorter",
    ],
)
def test_other_keys(key: bytes, check: str) -> None:
    verdict = look(key=key)
    assert (verdict.code, failed(verdict)) == (INVALID, check)


@pytest.mark.parametrize(
    ("sealed", "check"),
    [
        (b"", "envelope"),
        (b"{}", "envelope"),
        (b"[" * 100_000, "envelope"),
        (json.dumps({**json.loads(SEALED), "signatures": []}).encode(), "envelope"),
        (seal(TEXT, "application/json"), "envelope"),
        (seal(b"not json"), "statement"),
        (seal(b"[" * 100_000), "statement"),
        (seal(b"\xff"), "statement"),
        (seal(b"{}"), "statement"),
        (seal(TEXT[:-1] + b',"_type":"https://in-toto.io/Statement/v1"}'), "statement"),
        (SEALED[:-1] + b',"payloadType":"application/vnd.in-toto+json"}', "envelope"),
        (seal(TEXT.replace(b"Statement/v1", b"Statement/v2")), "statement"),
        (seal(TEXT.replace(b"evidence-binding/v1", b"evidence-binding/v2")), "statement"),
        (seal(json.dumps({**json.loads(TEXT), "subject": []}).encode()), "statement"),
        (
            seal(json.dumps({**json.loads(TEXT), "subject": json.loads(TEXT)["subject"][1:]}).encode()),
            "subjects",
        ),
        (
            seal(json.dumps({**json.loads(TEXT), "subject": json.loads(TEXT)["subject"] * 2}).encode()),
            "subjects",
        ),
    ],
    # A signature differs from run to run, and so would names that held one.
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_envelopes_even_signed(sealed: bytes, check: str) -> None:
    verdict = look(sealed)
    assert (verdict.code, failed(verdict)) == (INVALID, check)


def changed(path: str, value: Any) -> bytes:
    document = json.loads(TEXT)
    *before, last = path.split(".")
    inner = document
    for part in before:
        inner = inner[int(part)] if isinstance(inner, list) else inner[part]
    inner[int(last) if isinstance(inner, list) else last] = value
    return seal(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("path", "value", "check"),
    [
        ("subject.0.digest.sha256", "0" * 64, "subjects"),
        ("subject.0.name", "other", "subjects"),
        ("subject.0.digest", {"sha512": "0" * 64}, "subjects"),
        ("subject.0.digest", {}, "statement"),
        ("subject.0.digest", {"sha256": "A" * 64}, "statement"),
        ("predicate.plan.digest", sha("other"), "subjects"),
        ("predicate.releases.0.manifestDigest", sha("other"), "subjects"),
        ("predicate.releases.0.contentDigest", sha("other"), "plan"),
        ("predicate.aicrImageDigest", sha("other"), "plan"),
        ("predicate.releases", [], "statement"),
        ("predicate.outcome", "Perfect", "statement"),
        ("predicate.qualifying", "yes", "statement"),
        ("predicate.qualifying", False, "subjects"),
        ("predicate.notQualifyingBecause", ["it ran in the local engine"], "subjects"),
        ("predicate.approval.decision", "Rejected", "subjects"),
        ("predicate.approval.by", [], "subjects"),
        ("predicate.validation", {"mode": "Disabled"}, "subjects"),
        ("predicate.validation.failed", 1, "subjects"),
        ("predicate.validation.other", 1, "subjects"),
        ("predicate.validation.passed", 0, "subjects"),
        ("predicate.validation.tests", 3, "subjects"),
        ("predicate.validation.reportDigest", None, "subjects"),
        ("predicate.aicrEvidence", None, "subjects"),
        ("predicate.aicrEvidence.reference", REFERENCE + sha("other"), "subjects"),
        ("predicate.aicrEvidence.reference", REFERENCE.removesuffix("@"), "subjects"),
        ("predicate.aicrEvidence.reference", f"{REFERENCE}{sha('e')}@{sha('e')}", "subjects"),
        ("predicate.aicrEvidence.reference", "r@" + sha("e"), "subjects"),
        ("predicate.aicrEvidence.reference", REFERENCE.replace("1-1@", "2-1@") + sha("e"), "subjects"),
        ("predicate.aicrEvidence.reference", REFERENCE.replace("1-1@", "1@") + sha("e"), "subjects"),
        ("predicate.aicrEvidence.reference", REFERENCE.replace("1-1@", "1-1-1@") + sha("e"), "subjects"),
        (
            "predicate.aicrEvidence.reference",
            REFERENCE.replace("evidence/", "charts/") + sha("e"),
            "subjects",
        ),
        ("predicate.aicrEvidence.digest", sha("other"), "subjects"),
        ("predicate.aicrVersion", "v9.9.9", "plan"),
        ("predicate.validatorImages", ["other@" + sha("other")], "plan"),
        ("predicate.plan.recipe", "another", "plan"),
        ("predicate.plan.resolvedBy", 7, "statement"),
        ("predicate.releases.0.namespace", "elsewhere", "plan"),
        ("predicate.releases.0.chart", "another", "plan"),
        ("predicate.releases.0.version", "9.9.9", "plan"),
    ],
)
def test_a_signed_statement_that_contradicts_itself(path: str, value: Any, check: str) -> None:
    verdict = look(changed(path, value))
    assert (verdict.code, failed(verdict)) == (INVALID, check)


def test_a_statement_without_validation_for_a_plan_that_requires_it() -> None:
    bound = replace(BOUND, validation=DISABLED, aicr_evidence=None)
    verdict = look(seal(statement(bound)))
    assert (verdict.code, failed(verdict)) == (INVALID, "plan")
    assert "validation mode" in next(check.detail for check in verdict.checks if check.ok is False)


def test_releases_in_another_order_than_the_plans() -> None:
    document = json.loads(TEXT)
    document["predicate"]["releases"].reverse()
    verdict = look(seal(json.dumps(document).encode()))
    assert (verdict.code, failed(verdict)) == (INVALID, "plan")


def test_validator_images_are_the_plans() -> None:
    made = plan(**{"validatorImages": ["v@" + sha("v")]})
    text = json.dumps(made.wire()).encode()
    assert look(seal(statement(replace(BOUND, plan=made))), text=text).code == VALID


def test_fields_not_known_are_ignored() -> None:
    document = json.loads(TEXT)
    document["later"] = document["predicate"]["later"] = document["predicate"]["plan"]["later"] = 1
    assert look(seal(json.dumps(document).encode())).code == VALID


def test_one_good_signature_among_others() -> None:
    document = json.loads(SEALED)
    document["signatures"].insert(0, {"keyid": fingerprint(DER), "sig": base64.b64encode(b"x").decode()})
    assert look(json.dumps(document).encode()).code == VALID


def test_another_plan() -> None:
    other = json.dumps(plan(release("other")).wire()).encode()
    assert failed(look(text=other)) == "plan"


def test_who_did_what_a_manual_step_asked_for_is_bound() -> None:
    given = Acknowledgement(
        rollout="demo-12345678-1", release="gpu-operator", request_digest=sha("asked"), by="kim",
        identity="aws-iam", issuer="aws:111122223333", principal="arn:aws:iam::111122223333:role/kim",
        reason="Drained it", at="2026-01-01T01:00:00.000Z",
    )  # fmt: skip
    bound = json.loads(statement(replace(BOUND, acknowledgements=(given,))))["predicate"]
    wire = given.wire()
    assert wire.pop("rollout") == BOUND.rollout.name
    assert bound["acknowledgements"] == [wire]
    assert "acknowledgements" not in json.loads(statement(BOUND))["predicate"], "as evidence was before"


PAGE = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text()


def test_the_page_has_every_reason_in_its_words() -> None:
    """A closed set: whoever reads a statement finds its words there, and nothing else is ever said."""
    table = PAGE.partition("## What never qualifies")[2].partition("\n\nUnsigned")[0]
    rows = [re.escape(words) for words in re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)]
    known = [re.compile(re.sub(r"<[^>]+>", ".+", row)) for row in rows]
    nothing: dict[str, Any] = {"pipeline": BoundPipeline(version="1"), "validators": None, "tuple_": None}
    other = {"validators": (VALIDATORS[0].model_copy(update={"digest": sha("x")}),)}
    everything = {"local_engine": True, "decision": BYPASSED, "validation": DISABLED} | {
        "config": config(development=True, **{"aicr.developmentVersions": ["1.1.2"]})
    }
    said = {
        reason
        for change in (nothing, other, everything, {"tuple_": BoundTuple(gpu_mode="dra")}, {"deployed": None})
        for reason in not_qualifying(replace(BOUND, **change))
    }
    assert len(known) == 12
    for reason in said:
        assert [row.pattern for row in known if row.fullmatch(reason)] != [], reason
    for row in known:
        assert any(row.fullmatch(reason) for reason in said), row.pattern
