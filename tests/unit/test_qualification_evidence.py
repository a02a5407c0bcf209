"""Whether what runs is qualified, by the command: which evidence counts, and which is named and ignored."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.adapters.evidence_reader import read_evidence
from aicr_pipeline.adapters.ledger_folder import LedgerFolder
from aicr_pipeline.decide.dsse import fingerprint
from aicr_pipeline.decide.qualification import CURRENT, INCOMPLETE, INVALID, NOT_QUALIFIED
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.qualification import main
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.bound import REFERENCE
from tests.unit.qualification_runs import Run, folder, only, rows, run, told
from tests.unit.qualified import (
    FABRICS,
    PLAN,
    ROLLOUT,
    put,
    put_bound,
    put_evidence,
    put_rollout,
    seal,
    stated,
)
from tests.unit.samples import sha
from tests.unit.test_dsse import DER, PEM

__all__ = ["folder", "run"]


def test_a_bypassed_rollout_of_the_same_plan(run: Run, folder: Path) -> None:
    put_rollout(folder, "demo-12345678-2", PLAN, "2026-02-01T00:00:00.000Z")
    bypassed = stated(**{
        "approval.identity": "bypass", "rollout.name": "demo-12345678-2", "qualifying": False,
        "notQualifyingBecause": ["approval was bypassed: nobody was asked"],
        "aicrEvidence.reference": REFERENCE.replace("1-1@", "2-1@") + sha("e"),
    })  # fmt: skip
    key = put_bound(folder, seal(bypassed), "demo-12345678-2")
    made = told(run)
    assert rows(made) == [("plan", "rollout")]
    (ignored,) = made["ignored"]
    assert ignored["key"] == key and ignored["why"].startswith("Evidence from a rollout that ran under the")


@pytest.mark.parametrize("identity", ["bypass"])
def test_a_bypass_that_says_it_qualifies_is_refused(run: Run, folder: Path, identity: str) -> None:
    only(folder, stated(**{"approval.identity": identity}))
    made = told(run)
    assert (made["code"], made["evidence"]) == (NOT_QUALIFIED, None) and len(made["ignored"]) == 1


def test_an_empty_tuple_never_covers(run: Run, folder: Path) -> None:
    only(folder, stated(**{"tuple.fabrics": list(FABRICS), "tuple.kernels": []}))
    made = told(run)
    assert made["code"] == NOT_QUALIFIED
    assert ("tuple", "kernel") in rows(made) or made["evidence"] is None


def test_todays_demo_is_not_qualified(run: Run, folder: Path) -> None:
    local = stated(**{"qualifying": False, "notQualifyingBecause": ["it ran in the local engine"]})
    only(folder, local)
    code, out, _ = run()
    assert code == NOT_QUALIFIED
    assert "NOT QUALIFIED: no evidence counts: not qualified on hardware" in out
    assert "it ran in the local engine" in out


def _rename(folder: Path, to: str) -> None:
    (file,) = (folder / "ledger" / "evidence").rglob("*.json")
    target = folder / "ledger" / to.replace("NAME", file.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    file.rename(target)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda f: _rename(f, "evidence/demo/demo-99999999-1/NAME"), "another cluster or rollout"),
        (lambda f: _rename(f, "evidence/other/demo-12345678-1/NAME"), "another cluster or rollout"),
        (lambda f: _rename(f, "evidence/demo/notes.txt"), "its key is not one of evidence"),
        (lambda f: _rename(f, f"evidence/demo/{ROLLOUT}/{'0' * 64}.intoto.json"), "not what its key says"),
        (lambda f: (f / "ledger" / plan_key(PLAN.desired_state_digest)).unlink(), "plan is not in what was"),
    ],
)
def test_what_does_not_verify_is_named_and_ignored(
    run: Run, folder: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(folder)
    made = told(run, "demo")
    assert made["evidence"] is None and made["code"] in (NOT_QUALIFIED, INCOMPLETE)
    assert any(why in one["why"] for one in made["ignored"]), made["ignored"]


def _record(folder: Path, name: str, **fields: Any) -> None:
    """Change a record of the rollout, or write it."""
    file = folder / "ledger" / f"rollouts/{ROLLOUT}/{name}.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(before | fields))


def _drop(folder: Path, name: str) -> None:
    (folder / "ledger" / f"rollouts/{ROLLOUT}/{name}.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda f: _drop(f, "binding"), "binding.json does not name it"),
        (lambda f: _record(f, "binding", key="evidence/demo/x/y.intoto.json"), "does not name it"),
        (lambda f: (f / f"ledger/rollouts/{ROLLOUT}/binding.json").write_text("[]"), "binding.json does not"),
        (lambda f: _record(f, "revocation", by="kim"), "its rollout was stopped"),
        (lambda f: _drop(f, "outcome"), "its rollout has not ended"),
        (lambda f: (f / f"ledger/rollouts/{ROLLOUT}/outcome.json").write_text("{"), "has not ended"),
        (lambda f: _record(f, "outcome", outcome="Failed", reason="RolloutFailed"), "says Failed"),
        (lambda f: _record(f, "outcome", outcome="Revoked", reason="RolloutRevoked"), "says Revoked"),
        (lambda f: _record(f, "outcome", rollout="demo-99999999-1"), "did not succeed"),
        (lambda f: _record(f, "outcome", evidence="another"), "outcome.json names another"),
        (lambda f: _record(f, "outcome", evidence=None), "outcome.json names another"),
    ],
    ids=[
        "no pointer", "pointer to another", "pointer that is none", "stopped", "not ended", "no JSON",
        "failed", "revoked", "outcome of another", "outcome with another", "outcome with none",
    ],
)  # fmt: skip
def test_evidence_of_no_rollout_that_succeeded_is_named_and_ignored(
    folder: Path, spoil: Callable[[Path], None], why: str
) -> None:
    """Signed and whole, and still nobody's: a run that died left it, or the rollout ended otherwise."""
    spoil(folder)
    found = read_evidence(LedgerFolder(folder / "ledger"), [DER], lambda _: False)
    assert (found.proven, found.older) == ([], 0)
    assert len(found.left) == 1 and why in found.left[0].why


def test_an_orphan_beside_good_evidence_is_ignored(run: Run, folder: Path) -> None:
    key = put_evidence(folder, seal(stated(**{"boundAt": "2026-01-01T09:00:00.000Z"})))
    made = told(run)
    assert made["code"] == CURRENT
    assert [(one["key"], "does not name it" in one["why"]) for one in made["ignored"]] == [(key, True)]


def test_another_key_verifies_nothing_and_both_do(run: Run, folder: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    (folder / "other.pem").write_bytes(
        other.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    (folder / "key.pem").write_bytes(PEM)
    assert main(["--from", ".", "--key", "other.pem"]) == NOT_QUALIFIED
    assert main(["--from", ".", "--key", "other.pem", "--key", "key.pem"]) == CURRENT
    code, out, _ = run("--key", "other.pem")
    assert code == CURRENT and out.endswith("QUALIFIED\n")


def test_a_fingerprint_pins_a_key_that_the_ledger_keeps(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = fingerprint(DER)
    for keys in ("keys", "aicr-keys"):
        put(folder, f"evidence/demo/{keys}/{mark}.pem", PEM, "2026-01-01T10:00:00Z")
    assert main(["--from", ".", "--fingerprint", mark]) == CURRENT
    assert "ignored" not in capsys.readouterr().out, "a key is no evidence, AICR's neither"
    (folder / "ledger" / f"evidence/demo/keys/{mark}.pem").unlink()
    assert main(["--from", ".", "--fingerprint", mark]) == INVALID, "a key of AICR's is never a pin"
    capsys.readouterr()
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    for text in (b"x", other.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )):  # fmt: skip
        put(folder, f"evidence/demo/keys/{mark}.pem", text, "2026-01-01T10:00:00Z")
        assert main(["--from", ".", "--fingerprint", mark]) == INVALID, "what stands there is another key"
    assert main(["--from", ".", "--fingerprint", "0" * 64]) == INVALID
    assert "give the key itself with --key" in capsys.readouterr().err


def test_a_changed_plan_is_not_believed(run: Run, folder: Path) -> None:
    file = folder / "ledger" / plan_key(PLAN.desired_state_digest)
    file.write_text(file.read_text().replace("v0.5.29", "v0.5.30"))
    code, out, err = run()
    assert (code, out) == (INVALID, "") and "PlanUnreadable" in err


def test_evidence_is_looked_at_back_to_the_newest_that_counts(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest rollouts' always, so that what does not count is named; then no more than it takes."""
    monkeypatch.setattr("aicr_pipeline.adapters.evidence_reader.LOOKED_AT", 2)
    later = [f"demo-12345678-{number}" for number in (2, 3, 4)]
    for name in later:
        put_rollout(folder, name, PLAN, "2026-02-01T00:00:00.000Z", "Failed")
        put_evidence(folder, b"{}", name)
    put_evidence(folder, b"{}", "demo-99999999-1")  # of a rollout that never began
    made = told(run)
    assert made["evidence"]["key"].split("/")[2] == ROLLOUT, "older than the two that are looked at"
    assert [one["key"].split("/")[2] for one in made["ignored"]] == later, "before it, not after"
    assert made["older"] == 1
    assert "\nolder       the evidence of 1 rollouts before was not looked at\n" in run()[1]
    only(folder, stated(**{"qualifying": False, "notQualifyingBecause": ["it ran in the local engine"]}))
    for name in [*later, "demo-99999999-1"]:
        put_evidence(folder, b"{}", name)
    made = told(run)
    assert (made["evidence"], len(made["ignored"]), made["older"]) == (None, 5, 0), (
        "nothing counts: all of it"
    )


def test_garbage_beside_good_evidence_changes_nothing(run: Run, folder: Path) -> None:
    key = put_evidence(folder, b"{}")
    made = told(run)
    assert made["code"] == CURRENT
    assert [one["key"] for one in made["ignored"]] == [key]


def test_nothing_succeeded_yet(folder: Path, run: Run) -> None:
    for part in ("rollouts", "evidence"):
        shutil.rmtree(folder / "ledger" / part)
    made = told(run)
    assert (made["code"], made["because"]) == (NOT_QUALIFIED, "no rollout has succeeded on this cluster")
