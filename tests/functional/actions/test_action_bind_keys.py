"""Bind evidence: the life of the pipeline's key, and the key that AICR signs with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from aicr_pipeline.adapters.signer import Signer, SigningKeyError
from aicr_pipeline.decide.dsse import fingerprint, read_envelope
from aicr_pipeline.decide.verify import VALID, pem, verify
from aicr_pipeline.errors import TransientError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key
from cryptography.hazmat.primitives.asymmetric import ec
from moto import mock_aws

from infra.asl import RETRY
from tests.evidence_world import ROLLOUT, EvidenceWorld, der_of
from tests.functional.actions.binding import OTHER, evidence_keys, make, plan_of, predicate_of, server
from tests.keys import rsa_key
from tests.unit.samples import refused

__all__ = ["make", "server"]


# The life of the pipeline's key


def test_a_rotation_between_two_rollouts_leaves_the_old_evidence_verifiable(
    make: Callable[..., EvidenceWorld],
) -> None:
    world, later = make(), make()
    old = world.bind()
    later.kms.key = OTHER
    new = later.bind()
    assert old["fingerprint"] != new["fingerprint"] == fingerprint(der_of(OTHER))
    for place, bound in ((world, old), (later, new)):
        key = place.ledger.get(f"evidence/demo/keys/{bound['fingerprint']}.pem") or b""
        sealed = place.ledger.get(bound["key"]) or b""
        assert verify(sealed, key, plan_of(place), require_qualifying=False).code == VALID


@pytest.mark.parametrize("calls", [1, 2])
def test_a_rotation_in_the_middle(make: Callable[..., EvidenceWorld], calls: int) -> None:
    """Between asking for the key and signing, or right after: pointer, keyid and signature are of one key."""
    world = make()
    world.kms.moves[calls] = OTHER
    bound = world.bind()
    sealed = world.ledger.get(bound["key"]) or b""
    key = world.ledger.get(f"evidence/demo/keys/{bound['fingerprint']}.pem") or b""
    assert verify(sealed, key, plan_of(world), require_qualifying=False).code == VALID
    assert read_envelope(sealed).signatures[0][0] == bound["fingerprint"]


def test_a_run_that_died_before_its_pointer_and_a_rotation_after_it(
    make: Callable[..., EvidenceWorld],
) -> None:
    world = make()
    first = world.bind()
    del world.s3.objects[rollout_key(ROLLOUT, "binding")]
    world.kms.key = OTHER
    second = world.bind()
    assert second["key"] != first["key"]
    assert second["fingerprint"] == fingerprint(der_of(OTHER))
    assert len(evidence_keys(world)) == 4, "two envelopes, two keys; the pointer says which is the binding"
    assert world.bind() == second


def test_an_alias_that_never_rests(make: Callable[..., EvidenceWorld]) -> None:
    world = make()
    mine = world.kms.key
    world.kms.moves = {1: OTHER, 2: mine, 3: OTHER, 4: mine, 5: OTHER}
    with pytest.raises(TransientError, match="being moved"):
        world.bind()
    assert evidence_keys(world) == []


PASSING = [
    "ThrottlingException",
    "KMSInternalException",
    "DependencyTimeoutException",
    "KeyUnavailableException",
]
STANDING = [
    ("DisabledException", "disabled; enable it"),
    ("KMSInvalidStateException", "waits for its deletion"),
    ("NotFoundException", "no such key or alias"),
    ("AccessDeniedException", "KMS refuses"),
    ("InvalidKeyUsageException", "not one that signs"),
    ("SomethingNew", "KMS answers SomethingNew"),
]


@pytest.mark.parametrize("before", [0, 1], ids=["asking for the key", "signing"])
@pytest.mark.parametrize("code", PASSING)
def test_what_passes_in_kms_is_tried_again_and_nothing_is_half_done(
    make: Callable[..., EvidenceWorld], code: str, before: int
) -> None:
    world = make()
    world.kms.errors = [""] * before + [code]
    with pytest.raises(TransientError, match=code) as caught:
        world.bind()
    assert caught.value.reason is Reason.SigningKeyUnavailable
    assert type(caught.value).__name__ in {name for retry in RETRY for name in retry["ErrorEquals"]}
    assert evidence_keys(world) == []
    assert world.bind()["qualifying"] is True


@pytest.mark.parametrize("before", [0, 1], ids=["asking for the key", "signing"])
@pytest.mark.parametrize(("code", "words"), STANDING)
def test_a_key_that_somebody_must_look_after_stops_the_execution_where_it_is(
    make: Callable[..., EvidenceWorld], code: str, words: str, before: int
) -> None:
    world = make()
    world.kms.errors = [""] * before + [code]
    with pytest.raises(SigningKeyError, match=words) as caught:
        world.bind()
    assert caught.value.reason is Reason.SigningKeyUnavailable
    assert caught.value.retry, "so that the handler raises it: no domain end, and a redrive goes on"
    assert "SigningKeyError" not in {name for retry in RETRY for name in retry["ErrorEquals"]}
    assert evidence_keys(world) == []
    assert world.bind()["qualifying"] is True, "the redrive, once the key is well"


@pytest.mark.parametrize(
    "made", [lambda: ec.generate_private_key(ec.SECP384R1()), rsa_key], ids=["P-384", "RSA-2048"]
)
def test_an_alias_that_names_a_key_of_another_kind(
    make: Callable[..., EvidenceWorld], made: Callable[[], Any]
) -> None:
    world = make()
    world.kms.key = made()
    with pytest.raises(SigningKeyError, match="point the alias at an ECC_NIST_P256 key"):
        world.bind()
    assert world.kms.calls == ["get_public_key"], "nothing is signed with it"


def test_the_alias_is_what_kms_is_asked_for() -> None:
    """On moto's KMS, which hashes a digest again: only that the alias leads to the key it names now."""
    with mock_aws():
        kms = boto3.client("kms", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
        keys = [kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY") for _ in range(2)]
        first, second = (key["KeyMetadata"]["KeyId"] for key in keys)
        kms.create_alias(AliasName="alias/a", TargetKeyId=first)
        arn = keys[0]["KeyMetadata"]["Arn"].replace(f"key/{first}", "alias/a")
        before = Signer(kms, arn).public_key()
        kms.update_alias(AliasName="alias/a", TargetKeyId=second)
        assert Signer(kms, arn).public_key() == kms.get_public_key(KeyId=second)["PublicKey"] != before


# The key that AICR signs with


def test_a_signature_of_aicrs_is_required_once_a_key_is_configured(
    make: Callable[..., EvidenceWorld],
) -> None:
    world = make(aicr_key="EC")
    bound = world.bind()
    found = predicate_of(world, bound)["aicrEvidence"]
    mark = fingerprint(der_of(world.aicr_key))
    assert (bound["aicrSigned"], found["signed"], found["keyFingerprint"]) == (True, True, mark)
    assert world.s3.objects[f"evidence/demo/aicr-keys/{mark}.pem"] == pem(der_of(world.aicr_key))
    assert [key for key in evidence_keys(world) if "/keys/" in key] == [
        f"evidence/demo/keys/{bound['fingerprint']}.pem"
    ], "whoever pins what is there pins the pipeline alone"


@pytest.mark.parametrize("kept", [False, True], ids=["none", "another key's"])
def test_evidence_without_that_signature_fails_the_rollout(
    make: Callable[..., EvidenceWorld], kept: bool
) -> None:
    unsigned, signed = make(), make(aicr_key="EC")
    world = signed if kept else unsigned
    binder = {"config": signed.config, "public_key_of": lambda uri: der_of(OTHER)}
    with refused(Reason.RolloutFailed):
        world.bind(**binder)
    assert world.kms.calls == []
    assert evidence_keys(world) == []


def test_it_is_judged_by_what_the_job_was_started_with(make: Callable[..., EvidenceWorld]) -> None:
    """A key that is added, removed or replaced before the evidence is bound: none of it is about this Job."""
    plain, signed = make(), make(aicr_key="EC")
    plain.attempt()
    changes: dict[str, Any] = {"config": signed.config, "public_key_of": lambda uri: der_of(OTHER)}
    assert plain.bind(**changes)["aicrSigned"] is False, "added"
    for name, removed in (("removed", True), ("replaced", False)):
        world = make(aicr_key="EC")
        world.attempt(signing_key="awskms:///alias/aicr", public_key=der_of(world.aicr_key))
        if removed:
            changes = {"config": make().config}
        bound = world.bind(**changes)
        assert (bound["aicrSigned"], bound["qualifying"]) == (True, True), name
