"""Verifying evidence: no changed byte verifies, and nothing that contradicts itself or its plan."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aicr_pipeline.decide.dsse import envelope, fingerprint, read_envelope
from aicr_pipeline.decide.evidence import statement
from aicr_pipeline.decide.verify import INCOMPLETE, INVALID, NOT_ENOUGH, VALID, as_json, pem, verify
from aicr_pipeline.model.evidence import PAYLOAD_TYPE
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tests.keys import rsa_key
from tests.unit.bound import (
    BOUND,
    DISABLED,
    PINNED,
    PLAN,
    PLAN_TEXT,
    REFERENCE,
    SEALED,
    TEXT,
    changed,
    failed,
    look,
    seal,
)
from tests.unit.samples import plan, release, sha
from tests.unit.test_dsse import DER, PEM

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


def public(key: Any) -> bytes:
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return bytes(key.public_key().public_bytes(*form))


#: Made in the test that wants them: an RSA key takes a while.
OTHER_KEYS: dict[str, tuple[Callable[[], bytes], str]] = {
    "another P-256": (lambda: public(ec.derive_private_key(7, ec.SECP256R1())), "signature"),
    "P-384": (lambda: public(ec.derive_private_key(7, ec.SECP384R1())), "key"),
    "secp256k1": (lambda: public(ec.derive_private_key(7, ec.SECP256K1())), "key"),
    "Ed25519": (lambda: public(ed25519.Ed25519PrivateKey.from_private_bytes(b"7" * 32)), "key"),
    "RSA": (lambda: public(rsa_key()), "key"),
    "empty": (lambda: b"", "key"),
    "text": (lambda: b"not a key", "key"),
    "bad PEM": (lambda: b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "key"),
    "longer": (lambda: DER + b"\0", "key"),
    "shorter": (lambda: DER[:-1], "key"),
}


@pytest.mark.parametrize(("key", "check"), OTHER_KEYS.values(), ids=OTHER_KEYS)
def test_other_keys(key: Callable[[], bytes], check: str) -> None:
    verdict = look(key=key())
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
