"""Verifying evidence against what stands today in ledger and registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aicr_pipeline.adapters.live_evidence import Live, look_live
from aicr_pipeline.adapters.registry import Repository
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.dsse import fingerprint, read_envelope
from aicr_pipeline.decide.verify import INCOMPLETE, INVALID, VALID, Looks, Stop, Verdict
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.evidence import Statement
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key
from cryptography.hazmat.primitives.asymmetric import ec

from local.registry import LocalRegistry
from tests.evidence_world import ROLLOUT, EvidenceWorld, Wish, der_of, repository_of
from tests.functional.live import NOT_A_SUCCESS, STORE, envelope, gone, server, world
from tests.unit.samples import sha

__all__ = ["server", "world"]


def look(world: EvidenceWorld, copies: Any = None, **more: Any) -> Verdict:
    looks, sealed = Looks(), envelope(world)
    binding = Statement.model_validate_json(read_envelope(sealed).payload).predicate
    live = Live(world.ledger, repository_of(world), **more)
    try:
        look_live(looks, sealed, binding, fingerprint(der_of(world.kms.key)), live, copies)
    except Stop:
        return looks.verdict(None)
    return looks.verdict(binding)


def failed(verdict: Verdict) -> str:
    return next((check.name for check in verdict.checks if check.ok is False), "")


def test_everything_stands(world: EvidenceWorld) -> None:
    verdict = look(world)
    assert verdict.code == VALID, verdict.checks
    assert [check.name for check in verdict.checks] == [
        "ledger-statement", "ledger-pointer", "ledger-documents", "ledger-revocation", "ledger-end",
        "registry-binding", "registry-evidence", "registry-charts",
    ]  # fmt: skip


def other_statement(world: EvidenceWorld) -> None:
    world.change(rollout_key(ROLLOUT, "binding"), key=f"evidence/demo/{ROLLOUT}/{'0' * 64}.intoto.json")


def other_bytes(world: EvidenceWorld) -> None:
    for key in world.s3.objects:
        if key.endswith(".intoto.json"):
            world.s3.objects[key] = b"x"


def without(folder: str) -> Callable[[EvidenceWorld], None]:
    def act(world: EvidenceWorld) -> None:
        for key in [key for key in STORE._manifests if key[0].startswith(f"{world.prefix}/{folder}")]:
            del STORE._manifests[key]

    return act


def other_content(folder: str) -> Callable[[EvidenceWorld], None]:
    """A registry that says one digest and serves other bytes."""

    def act(world: EvidenceWorld) -> None:
        for key, (text, kind) in list(STORE._manifests.items()):
            if key[0].startswith(f"{world.prefix}/{folder}"):
                STORE._manifests[key] = (text + b" ", kind)

    return act


def other_layer(folder: str) -> Callable[[EvidenceWorld], None]:
    def act(world: EvidenceWorld) -> None:
        for key in [key for key in STORE._blobs if key[0] == f"{world.prefix}/{folder}"]:
            STORE._blobs[key] = b"x" * len(STORE._blobs[key])

    return act


def without_blobs(folder: str) -> Callable[[EvidenceWorld], None]:
    """The manifest is there, and nothing that it names."""

    def act(world: EvidenceWorld) -> None:
        for key in [key for key in STORE._blobs if key[0] == f"{world.prefix}/{folder}"]:
            del STORE._blobs[key]

    return act


def other_binding(world: EvidenceWorld) -> None:
    without(f"evidence/{ROLLOUT}-binding")(world)
    world.push({"x": (b"x", 0o600)}, f"evidence/{ROLLOUT}-binding", "binding")


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (other_bytes, "ledger-statement"),
        (gone(rollout_key(ROLLOUT, "binding")), "ledger-pointer"),
        (other_statement, "ledger-pointer"),
        (lambda w: w.change(rollout_key(ROLLOUT, "binding"), fingerprint="0" * 64), "ledger-pointer"),
        (gone(rollout_key(ROLLOUT, "report")), "ledger-documents"),
        (lambda w: w.change(rollout_key(ROLLOUT, "decision"), reason="another"), "ledger-documents"),
        (gone(f"rollouts/{ROLLOUT}/snapshot.yaml"), "ledger-documents"),
        (lambda w: w.change(rollout_key(ROLLOUT, "outcome"), rollout="demo-12345678-9"), "ledger-end"),
        (lambda w: w.change(rollout_key(ROLLOUT, "outcome"), evidence="another"), "ledger-end"),
        (without(f"evidence/{ROLLOUT}-binding"), "registry-binding"),
        (other_binding, "registry-binding"),
        (without_blobs(f"evidence/{ROLLOUT}-binding"), "registry-binding"),
        (other_layer(f"evidence/{ROLLOUT}-binding"), "registry-binding"),
        (without(f"evidence/{ROLLOUT}-1"), "registry-evidence"),
        (other_content(f"evidence/{ROLLOUT}-1"), "registry-evidence"),
        (other_layer(f"evidence/{ROLLOUT}-1"), "registry-evidence"),
        (without_blobs(f"evidence/{ROLLOUT}-1"), "registry-evidence"),
        (without("charts/gpu-operator"), "registry-charts"),
        (other_content("charts/gpu-operator"), "registry-charts"),
        (without_blobs("charts/gpu-operator"), "registry-charts"),
    ],
)  # fmt: skip
def test_what_is_gone_or_another_fails(
    world: EvidenceWorld, spoil: Callable[[EvidenceWorld], Any], check: str
) -> None:
    sealed, binding_of = envelope(world), Statement.model_validate_json
    spoil(world)
    looks, binding = Looks(), binding_of(read_envelope(sealed).payload).predicate
    live = Live(world.ledger, repository_of(world))
    with pytest.raises(Stop):
        look_live(looks, sealed, binding, fingerprint(der_of(world.kms.key)), live)
    verdict = looks.verdict(None)
    assert (verdict.code, failed(verdict)) == (INVALID, check)


def not_attached(world: EvidenceWorld) -> None:
    for key, (text, _) in list(STORE._manifests.items()):
        if key[0] == f"{world.prefix}/evidence/{ROLLOUT}-1" and b'"subject"' in text:
            del STORE._manifests[key]
            STORE._tags = {tag: digest for tag, digest in STORE._tags.items() if digest != key[1]}


def attached_by_another(world: EvidenceWorld) -> None:
    not_attached(world)
    other = ec.derive_private_key(7, ec.SECP256R1())
    statement = world.aicr_files()["statement.intoto.json"][0]
    world.attach(world.signature(statement, other), f"evidence/{ROLLOUT}-1")


def other_kept_key(world: EvidenceWorld) -> None:
    world.s3.objects[kept_key(world)] = der_of(ec.derive_private_key(7, ec.SECP256R1()))


def kept_key(world: EvidenceWorld) -> str:
    return layout.aicr_key_in_ledger("demo", fingerprint(der_of(world.aicr_key)))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (not_attached, "the signature of AICR's evidence"),
        (attached_by_another, "not signed by the key"),
        (lambda world: world.s3.objects.pop(kept_key(world)), "is not in the ledger"),
        (other_kept_key, "is another key"),
        (lambda world: None, ""),
    ],
    ids=["not attached", "another's", "no key", "another key", "all there"],
)
def test_aicrs_signature_is_still_attached(
    server: LocalRegistry, request: pytest.FixtureRequest, spoil: Callable[[EvidenceWorld], Any], says: str
) -> None:
    prefix = f"live-{sha(request.node.name)[7:17]}"
    made = EvidenceWorld(server, prefix, Wish(charts=True, aicr_key="EC"))
    made.finish(made.bind())
    spoil(made)
    verdict = look(made)
    found = {check.name: check for check in verdict.checks}["registry-evidence"]
    assert (verdict.code, found.ok) == ((INVALID, False) if says else (VALID, True)), verdict.checks
    assert (says or f"its signature by {fingerprint(der_of(made.aicr_key))}") in found.detail


@pytest.mark.parametrize(("change", "check", "code"), NOT_A_SUCCESS)
def test_how_the_ledger_says_it_ended_counts(
    world: EvidenceWorld, change: Callable[[EvidenceWorld], Any], check: str, code: int
) -> None:
    change(world)
    verdict = look(world)
    assert verdict.code == code
    assert [found.name for found in verdict.checks if not found.ok] == [check]


@pytest.mark.parametrize("part", ["binding", "outcome", "revocation"])
def test_an_archives_copy_is_the_ledgers(world: EvidenceWorld, part: str) -> None:
    """What came after the statement is not signed: whoever tampers with it is seen by the ledger."""
    key, check = rollout_key(ROLLOUT, part), {"binding": "pointer", "outcome": "end"}.get(part, part)
    assert look(world, copies={key: world.s3.objects.get(key)}).code == VALID
    verdict = look(world, copies={key: world.s3.objects.get(key, b"") + b" "})
    assert (verdict.code, failed(verdict)) == (INVALID, f"ledger-{check}")


def test_a_registry_that_cannot_be_reached_leaves_it_incomplete(world: EvidenceWorld) -> None:
    def unreachable(address: str) -> Repository:
        raise TransientError(Reason.RegistryUnreachable, f"Reading {address}: no answer.")

    looks, sealed = Looks(), envelope(world)
    binding = Statement.model_validate_json(read_envelope(sealed).payload).predicate
    look_live(looks, sealed, binding, fingerprint(der_of(world.kms.key)), Live(world.ledger, unreachable))
    verdict = looks.verdict(binding)
    assert verdict.code == INCOMPLETE
    assert [check.name for check in verdict.checks if check.ok is None] == [
        "registry-binding", "registry-evidence", "registry-charts"
    ]  # fmt: skip


def test_without_validation_the_registry_has_to_be_named(server: LocalRegistry) -> None:
    made = EvidenceWorld(server, "live-disabled", Wish(charts=True, validation="Disabled"))
    made.finish(made.bind())
    verdict = look(made)
    assert verdict.code == INCOMPLETE
    assert "pass --registry" in str(verdict.checks)
    assert look(made, registry=f"oci://{server.host}/live-disabled").code == VALID


def test_a_prefix_that_has_the_folders_name_in_it(server: LocalRegistry) -> None:
    made = EvidenceWorld(server, "team/evidence/prod", Wish(charts=True))
    made.finish(made.bind())
    verdict = look(made)
    assert verdict.code == VALID, verdict.checks


def test_a_registry_that_refuses_us_leaves_it_incomplete(world: EvidenceWorld) -> None:
    """Who we are says nothing about what is there."""
    world.registry = world.registry._replace(credentials=None)
    verdict = look(world)
    assert verdict.code == INCOMPLETE
    assert {check.name for check in verdict.checks if check.ok is None} == {
        "registry-binding", "registry-evidence", "registry-charts"
    }  # fmt: skip


def test_without_credentials_for_the_registry_it_is_incomplete(world: EvidenceWorld) -> None:
    """They are AWS's or a file's to give, and neither says anything about the evidence."""

    class Without:
        def get(self) -> tuple[str, str]:
            raise PipelineError(Reason.RegistryCredentialsUnavailable, "AWS gives none.")

        def renew(self, refused: tuple[str, str] | None = None) -> None: ...

    world.registry = world.registry._replace(credentials=Without())
    verdict = look(world)
    assert verdict.code == INCOMPLETE
    assert {check.name for check in verdict.checks if check.ok is None} == {
        "registry-binding", "registry-evidence", "registry-charts"
    }  # fmt: skip
