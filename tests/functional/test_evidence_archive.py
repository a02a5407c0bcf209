"""The archive of a rollout's evidence: packed, and verified by us and with openssl alone."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.adapters.evidence_pack import collect
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.archive_readme import readme
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.dsse import fingerprint
from aicr_pipeline.decide.verify import INCOMPLETE, INVALID, NOT_ENOUGH, VALID, pem
from aicr_pipeline.evidence_pack import write_archive
from aicr_pipeline.model.evidence import Statement
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Report, acknowledgement_key, rollout_key
from aicr_pipeline.verify import main
from cryptography.hazmat.primitives.asymmetric import ec
from securesystemslib.dsse import Envelope as OtherEnvelope
from securesystemslib.signer import SSlibKey

from local.registry import LocalRegistry
from tests.auditor import commands, run
from tests.evidence_world import DEADLINE, ROLLOUT, EvidenceWorld, Wish, artifacts_of, der_of
from tests.functional.packed import ROLLOUTS, failed, files, flipped, look, pack, server, summed, world
from tests.unit.samples import refused, sha

__all__ = ["files", "server", "world"]


# It holds


def test_every_check_is_named(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    began = time.process_time()
    verdict = look(world, files)
    assert time.process_time() - began < 1
    assert verdict.code == VALID, [check for check in verdict.checks if not check.ok]
    assert [check.name for check in verdict.checks] == [
        "sums", "key", "envelope", "signature", "statement", "subjects", "files", "split", "readme",
        "documents", "plan", "records", "validation", "aicr-evidence", "aicr-signature", "pointer", "end",
        "outcome", "qualifying",
    ]  # fmt: skip
    said = {check.name: check.detail for check in verdict.checks}
    assert said["aicr-signature"].startswith("UNSIGNED")
    assert "approved by alex, kim (signed-in)" in said["records"]


def test_packed_twice_it_is_the_same_bytes(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    packed = layout.pack(files, f"evidence-{ROLLOUT}")
    assert layout.pack(dict(reversed(pack(world).items())), f"evidence-{ROLLOUT}") == packed
    assert layout.unpack(packed) == files


def test_securesystemslib_verifies_the_statement(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    mark = fingerprint(der_of(world.kms.key))
    key = SSlibKey(mark, "ecdsa", "ecdsa-sha2-nistp256", {"public": files[layout.PUBLIC_KEY].decode()})
    sealed = OtherEnvelope.from_dict(json.loads(files[layout.ENVELOPE]))
    assert set(sealed.verify([key], threshold=1)) == {mark}
    assert sealed.pae() == files[layout.PAE]


def test_without_a_pin_it_is_incomplete(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    """An archive brings its own key, which proves nothing about who signed."""
    verdict = look(world, files, fingerprints=())
    assert verdict.code == INCOMPLETE
    assert [check.name for check in verdict.checks if check.ok is None] == ["pin"]
    assert look(world, files, fingerprints=(), key=files[layout.PUBLIC_KEY]).code == VALID
    other = look(world, files, fingerprints=["0" * 64])
    assert (other.code, failed(other)) == (INVALID, "key")


@pytest.mark.parametrize(
    "pin",
    [{"key": b""}, {"key": b"\n"}, {"fingerprints": [""]}, {"key": b"", "fingerprints": [""]}],
    ids=["empty key", "blank key", "empty fingerprint", "both"],
)
def test_an_empty_pin_is_none_that_fits(
    world: EvidenceWorld, files: dict[str, bytes], pin: dict[str, Any]
) -> None:
    """What was named and holds nothing is never the archive's own key."""
    verdict = look(world, files, **({"fingerprints": ()} | pin))
    assert (verdict.code, failed(verdict)) == (INVALID, "key")


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"validation": "Disabled"}, VALID),
        ({"bypass": True}, VALID),
        ({"local_engine": True}, VALID),
        ({"releases": 17}, VALID),
    ],
    ids=["no validation", "bypass", "local engine", "17 releases"],
)
def test_other_rollouts(server: LocalRegistry, wish: dict[str, Any], code: int) -> None:
    made = EvidenceWorld(server, f"other-{'-'.join(wish).replace('_', '-')}", Wish(**wish))
    made.finish(made.bind())
    verdict = look(made, pack(made), require_qualifying=False)
    assert verdict.code == code, verdict.checks
    assert look(made, pack(made)).code == (VALID if "releases" in wish else NOT_ENOUGH)


@pytest.mark.parametrize("approvers", [("alex",), ("alex", "kim")], ids=["one", "two"])
def test_an_approval_that_is_inherited(server: LocalRegistry, approvers: tuple[str, ...]) -> None:
    """The records are the earlier rollout's, and they are in the archive under its name."""
    made = EvidenceWorld(server, f"inherits-{len(approvers)}", Wish(approvers=approvers))
    earlier = "demo-12345678-0"
    made.change(rollout_key(ROLLOUT, "rollout"), inherits=earlier)
    for key in [key for key in made.s3.objects if "/decision" in key]:
        made.change(key, rollout=earlier)
        made.s3.objects[key.replace(ROLLOUT, earlier)] = made.s3.objects.pop(key)
    made.finish(made.bind())
    files = pack(made)
    assert f"{layout.LEDGER}rollouts/{earlier}/decision.json" in files
    assert json.loads(files[layout.PAYLOAD])["predicate"]["approval"]["inheritedFrom"] == earlier
    verdict = look(made, files)
    assert verdict.code == VALID, verdict.checks


def test_a_manual_step_that_was_acknowledged(server: LocalRegistry) -> None:
    made = EvidenceWorld(server, "manual")
    key = rollout_key(ROLLOUT, "report")
    steps = json.loads(made.s3.objects[key])["steps"]
    steps[0]["verdict"] = "manual"
    made.change(key, steps=steps)
    asked = request_digest(Report.model_validate_json(made.s3.objects[key]), DEADLINE)
    made.change(rollout_key(ROLLOUT, "request"), digest=asked)
    made.change(rollout_key(ROLLOUT, "decision"), requestDigest=asked)
    with refused(Reason.RolloutFailed, "an acknowledgement is missing"):
        made.bind()
    who = {
        "by": "kim",
        "identity": "link",
        "issuer": "i",
        "reason": "did it",
        "at": "2026-01-01T13:00:00.000Z",
    }
    given = {"rollout": ROLLOUT, "release": steps[0]["release"], "requestDigest": asked, **who}
    made.put(acknowledgement_key(ROLLOUT, steps[0]["release"]), given)
    made.finish(made.bind())
    files = pack(made)
    assert json.loads(files[layout.PAYLOAD])["predicate"]["acknowledgements"][0]["by"] == "kim"
    assert look(made, files).code == VALID, look(made, files).checks


def test_a_rollout_that_has_not_ended(server: LocalRegistry) -> None:
    made = EvidenceWorld(server, "young")
    made.bind()
    verdict = look(made, pack(made))
    assert (verdict.code, [check.name for check in verdict.checks if check.ok is None]) == (
        INCOMPLETE,
        ["end"],
    )


def test_a_rollout_that_somebody_stopped_while_it_was_bound(server: LocalRegistry) -> None:
    made = EvidenceWorld(server, "stopped")
    bound = made.bind()
    who = {"by": "kim", "identity": "link", "issuer": "i", "reason": "no", "at": "2026-01-01T13:00:00.000Z"}
    made.put(rollout_key(ROLLOUT, "revocation"), {"rollout": ROLLOUT, **who})
    made.finish(bound)
    made.change(rollout_key(ROLLOUT, "outcome"), outcome="Revoked", reason="RolloutRevoked")
    verdict = look(made, pack(made))
    assert verdict.code == NOT_ENOUGH
    assert [check.name for check in verdict.checks if check.ok is False] == ["revocation", "end"]


# Packing


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (rollout_key(ROLLOUT, "binding"), "has no evidence"),
        (rollout_key(ROLLOUT, "report"), "report.json, is not in the ledger"),
        ("evidence/demo/keys/", "is not in the ledger; name the file that holds it: --key"),
        (f"evidence/demo/{ROLLOUT}/", "is not in the ledger"),
    ],
)
def test_nothing_is_packed_that_lacks_something(server: LocalRegistry, gone: str, words: str) -> None:
    made = EvidenceWorld(server, f"lacking-{sha(gone)[7:15]}")
    made.bind()
    for key in [key for key in made.s3.objects if key.startswith(gone)]:
        del made.s3.objects[key]
    with refused(Reason.PlanUnreadable, words):
        pack(made)


def test_the_key_may_be_given_where_the_ledger_lacks_it(server: LocalRegistry) -> None:
    made = EvidenceWorld(server, "earlier")
    made.bind()
    for key in [key for key in made.s3.objects if "/keys/" in key]:
        del made.s3.objects[key]
    found = collect(made.ledger, ROLLOUT, artifacts_of(made), lambda: der_of(made.kms.key))
    assert look(made, found).code == INCOMPLETE, "it has not ended"


# The README's own lines


def write(files: dict[str, bytes], folder: Path) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)
    return folder


def test_the_page_has_the_readmes_lines(server: LocalRegistry, files: dict[str, bytes]) -> None:
    """An auditor takes them from there: whoever changed an archive may have changed those in it."""
    page = commands((Path(__file__).parents[2] / "docs" / "evidence.md").read_text())
    binding = Statement.model_validate_json(files[layout.PAYLOAD]).predicate
    assert binding.aicr_evidence is not None
    signed = binding.aicr_evidence.model_copy(update={"signed": True, "key_fingerprint": "0" * 64})
    whole = readme(binding.model_copy(update={"aicr_evidence": signed}), "1" * 64, [])
    assert commands(whole.decode()) == page
    for aicr in (binding.aicr_evidence, None):
        part = readme(binding.model_copy(update={"aicr_evidence": aicr}), "2" * 64, [])
        assert page.startswith(commands(part.decode())), "the last steps only where there is what they check"


def test_an_auditor_checks_it_with_the_readmes_lines(
    world: EvidenceWorld, files: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "a.tar.gz").write_bytes(layout.pack(files, "evidence"))
    subprocess.run(["tar", "-xzf", "a.tar.gz"], cwd=tmp_path, check=True)
    done = run(tmp_path / "evidence")
    assert done.returncode == 0, done.stderr
    assert "Verified OK" in done.stdout
    assert done.stderr == ""
    assert fingerprint(der_of(world.kms.key)) in done.stdout
    assert layout.read_folder(tmp_path / "evidence") == files


def test_the_readmes_lines_see_what_was_changed(files: dict[str, bytes], tmp_path: Path) -> None:
    """With sums that fit: the signature and what it speaks of, by openssl and sha256sum alone."""
    plan = next(name for name in files if name.startswith(f"{layout.LEDGER}plans/"))
    names = [
        layout.ENVELOPE, layout.PAYLOAD, layout.SIGNATURE, layout.PUBLIC_KEY, plan,
        f"{ROLLOUTS}decision.json", f"{ROLLOUTS}report.json", layout.AICR_MANIFEST, layout.AICR_LAYER,
        f"{layout.AICR_FILES}ctrf/deployment.json",
    ]  # fmt: skip
    for number, name in enumerate(names):
        data = files[name]
        changed = summed({**files, name: flipped(data, len(data) // 2, 0)})
        done = run(write(changed, tmp_path / str(number)))
        assert done.returncode != 0, name
        assert "DOES NOT HOLD: " in done.stderr, f"{name}: whoever runs it by hand sees no exit code"
    damaged = {**files, layout.README: files[layout.README].replace(b"Read it", b"Reads it")}
    assert run(write(damaged, tmp_path / "readme")).returncode != 0, "SHA256SUMS shows a change elsewhere"


# AICR's evidence, signed by AICR


@pytest.mark.parametrize("kind", ["EC", "RSA"])
def test_evidence_that_aicr_signed(server: LocalRegistry, tmp_path: Path, kind: str) -> None:
    made = EvidenceWorld(server, f"signed-{kind.lower()}", Wish(aicr_key=kind))
    # Whoever may push can attach another beside it, of a key that nobody named.
    other = ec.derive_private_key(7, ec.SECP256R1())
    statement = made.aicr_files()["statement.intoto.json"][0]
    made.attach(made.signature(statement, other), f"evidence/{ROLLOUT}-1")
    bound = made.bind()
    assert bound["aicrSigned"] is True
    made.finish(bound)
    files = pack(made)
    verdict = look(made, files)
    assert verdict.code == VALID, verdict.checks
    mark = fingerprint(der_of(made.aicr_key))
    assert mark in next(check.detail for check in verdict.checks if check.name == "aicr-signature")
    for name in (layout.AICR_KEY, layout.AICR_SIGNATURE):
        changed = summed({**files, name: flipped(files[name], len(files[name]) // 2, 0)})
        assert (look(made, changed).code, failed(look(made, changed))) == (INVALID, "aicr-signature"), name
    theirs = {**files, layout.AICR_SIGNATURE: made.signature(statement, other)}
    assert failed(look(made, summed(theirs))) == "aicr-signature"
    theirs[layout.AICR_KEY] = pem(der_of(other))
    assert failed(look(made, summed(theirs))) == "aicr-signature", "signed, but not by the key that is bound"
    done = run(write(files, tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Verified OK") == 2
    assert mark in done.stdout
    assert "is not signed by AICR" not in files[layout.README].decode()
    for number, forged in enumerate(signed_otherwise(made, files, kind, other)):
        assert run(write(summed({**files, **forged}), tmp_path / str(number))).returncode != 0, number


def signed_otherwise(
    made: EvidenceWorld, files: dict[str, bytes], kind: str, other: Any
) -> Iterator[dict[str, bytes]]:
    """Good signatures, which are not AICR's of this artifact: a test of the README's lines."""
    statement = files[f"{layout.AICR_FILES}statement.intoto.json"]
    yield {
        layout.AICR_SIGNATURE: made.signature(statement, other),
        layout.AICR_KEY: pem(der_of(other)),
    }
    if kind == "RSA":
        return
    digest, made.evidence_digest = made.evidence_digest, sha("another")
    try:
        # About another artifact; the digest that it ought to be about stands elsewhere in it.
        elsewhere = json.loads(statement) | {"note": digest}
        yield {layout.AICR_SIGNATURE: made.signature(statement, made.aicr_key)}
        yield {layout.AICR_SIGNATURE: made.signature(json.dumps(elsewhere).encode(), made.aicr_key)}
    finally:
        made.evidence_digest = digest
    twisted = json.loads(statement)
    twisted["predicate"]["manifest"]["digest"] = sha("another")
    yield {layout.AICR_SIGNATURE: made.signature(json.dumps(twisted).encode(), made.aicr_key)}


@pytest.mark.parametrize("name", ["more.txt", "aicr/more.json", ".hidden", "ledger/SHA256SUMS"])
def test_the_readmes_lines_see_what_was_added(files: dict[str, bytes], tmp_path: Path, name: str) -> None:
    assert run(write({**files, name: b"x"}, tmp_path)).returncode != 0


def test_unsigned_evidence_says_so_everywhere(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    payload = json.loads(files[layout.PAYLOAD])["predicate"]["aicrEvidence"]
    assert payload["signed"] is False
    assert "keyFingerprint" not in payload
    assert json.loads(files[f"{ROLLOUTS}binding.json"])["aicrSigned"] is False
    assert "**AICR's evidence is not signed by AICR.**" in files[layout.README].decode()
    assert "UNSIGNED" in str(look(world, files).checks)


def test_what_nobody_signed_is_said(
    world: EvidenceWorld, files: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An archive may leave out that somebody stopped the rollout: only the ledger knows."""
    file = tmp_path / "a.tar.gz"
    file.write_bytes(layout.pack(files, "evidence"))
    assert main([str(file), "--fingerprint", fingerprint(der_of(world.kms.key))]) == VALID
    assert "note binding.json, outcome.json and whether somebody stopped" in capsys.readouterr().out
    assert "Nobody signed that" in " ".join(files[layout.README].decode().split())


def test_a_place_that_takes_no_archive_is_left_as_it_is(world: EvidenceWorld, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for place in ("folder", "pipe", "gone/x"):
        with refused(Reason.InvalidConfiguration, "--out "):
            write_archive(world.ledger, ROLLOUT, artifacts_of(world), None, tmp_path / place)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "pipe"]
    assert (tmp_path / "pipe").is_fifo()
