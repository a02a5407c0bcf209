"""The command that tells whether what runs is qualified: on a ledger's folder, with signed evidence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.adapters.evidence_reader import newest_snapshot, read_evidence
from aicr_pipeline.adapters.ledger_folder import LedgerFolder
from aicr_pipeline.decide.dsse import fingerprint
from aicr_pipeline.decide.qualification import CURRENT, INCOMPLETE, INVALID, NOT_QUALIFIED
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.qualification import ROWS, StaleRow
from aicr_pipeline.qualification import main
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.bound import REFERENCE
from tests.unit.qualified import (
    FABRICS,
    PIPELINE,
    PLAN,
    RELEASE,
    ROLLOUT,
    RUNNING,
    bare,
    put,
    put_bound,
    put_evidence,
    put_plan,
    put_rollout,
    qualified,
    seal,
    snapshot,
    stated,
)
from tests.unit.samples import plan, sha
from tests.unit.test_dsse import DER, PEM


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return qualified(tmp_path)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["--from", ".", "--key", "key.der", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def told(run: Run, *arguments: str) -> dict[str, Any]:
    code, out, _ = run("--json", *arguments)
    made: dict[str, Any] = json.loads(out)
    assert made["code"] == code
    return made


def rows(made: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["row"], one["part"]) for one in made["differences"]]


def running(folder: Path, **changes: Any) -> None:
    """Something else is deployed."""
    (folder / "running.json").write_text(json.dumps(RUNNING.model_copy(update=changes).wire()))


def only(folder: Path, document: dict[str, Any]) -> str:
    """Another envelope in place of the one that is there."""
    for file in (folder / "ledger" / "evidence").rglob("*.json"):
        file.unlink()
    return put_bound(folder, seal(document))


def test_qualified_and_current(run: Run) -> None:
    code, out, err = run()
    assert (code, err) == (CURRENT, "")
    assert out.startswith("cluster demo: QUALIFIED: everything that runs is what the evidence covers\n")
    assert out.endswith("\nQUALIFIED\n")
    for part in ("function bind_evidence", "manifests", "AICR image", "kernel", "workload image", "run"):
        assert re.search(rf"^  covers    {part}: \S", out, re.MULTILINE), part


def test_what_covers_is_told_exactly(run: Run) -> None:
    made = told(run)
    covered = {one["part"]: one["is"] for one in made["evidence"]["identities"]}
    assert covered["plan"] == PLAN.desired_state_digest and covered["rollout"] == ROLLOUT
    assert covered["layer program"] == PIPELINE.layers["program"]
    assert covered["fabric"] == FABRICS[0]
    assert made["profiles"][0]["standing"].startswith("Qualified")
    assert [one["standing"].partition(":")[0] for one in made["profiles"][1:]] == [
        "Not qualified", "Not claimed; a separate profile that never inherits H100 evidence",
    ]  # fmt: skip


def test_a_rebuild(run: Run, folder: Path) -> None:
    functions = PIPELINE.functions | {"check_gate": sha("rebuilt")}
    running(folder, pipeline=PIPELINE.model_copy(update={"functions": functions}))
    code, out, _ = run()
    assert code == NOT_QUALIFIED
    assert f"stale       {ROWS[StaleRow.Rebuild].change}" in out
    assert f"function check_gate: {sha('gate')} qualified, {sha('rebuilt')} now" in out


def test_another_node_in_the_newest_snapshot(run: Run, folder: Path) -> None:
    """A resolve after the install saw it."""
    changed = snapshot(**{"feature.node.kubernetes.io__kernel-version.full": "6.18"})
    put(folder, "resolves/demo-99999999-1/snapshot.yaml", changed, "2026-02-01T00:00:00Z")
    assert rows(told(run)) == [("tuple", "kernel")]


def test_an_older_snapshot_says_nothing(run: Run, folder: Path) -> None:
    changed = snapshot(**{"node.kubernetes.io__instance-type": "p4d.24xlarge"})
    put(folder, "resolves/demo-12345678-1/snapshot.yaml", changed, "2025-12-31T00:00:00Z")
    assert told(run)["code"] == CURRENT


def test_a_snapshot_that_cannot_be_read_leaves_the_tuple_unknown(run: Run, folder: Path) -> None:
    put(folder, "resolves/demo-99999999-1/snapshot.yaml", b"{", "2026-02-01T00:00:00Z")
    made = told(run)
    assert made["code"] == INCOMPLETE and "of the newest snapshot" in made["because"]


def test_another_rollout_of_another_plan(run: Run, folder: Path) -> None:
    other = plan(*PLAN.desired_state.releases, **{"aicr.imageDigest": sha("newer"), "validatorImages": []})
    put_plan(folder, other)
    put_rollout(folder, "demo-22222222-1", other, "2026-02-01T00:00:00.000Z")
    made = told(run)
    assert {row for row, _ in rows(made)} == {"aicr-image", "plan"}
    assert ("plan", "plan") in rows(made)


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


def test_the_newest_snapshot_of_thousands_of_runs(folder: Path) -> None:
    """Runs for one runtime are named by their times; which runtime is the newest, the snapshots say."""
    changed = snapshot(**{"feature.node.kubernetes.io__kernel-version.full": "6.18"})
    for run, text, at in (
        ("demo-aaaaaaaa-1", snapshot(), "2026-03-01T00:00:00Z"),
        ("demo-aaaaaaaa-202603020600", changed, "2026-03-02T06:00:00Z"),
        ("demo-bbbbbbbb-1", snapshot(), "2026-02-01T00:00:00Z"),
    ):
        put(folder, f"resolves/{run}/snapshot.yaml", text, at)
    put(folder, "resolves/demo-aaaaaaaa-20260303060000/runtime.yaml", b"", "2026-03-03T06:00:00Z")
    assert newest_snapshot(LedgerFolder(folder / "ledger")) == read_snapshot(changed)


def test_garbage_beside_good_evidence_changes_nothing(run: Run, folder: Path) -> None:
    key = put_evidence(folder, b"{}")
    made = told(run)
    assert made["code"] == CURRENT
    assert [one["key"] for one in made["ignored"]] == [key]


def test_without_the_pipelines_word_it_is_incomplete(run: Run, folder: Path) -> None:
    (folder / "running.json").unlink()
    made = told(run)
    assert made["code"] == INCOMPLETE and "what of the pipeline is deployed" in made["because"]
    (folder / "kept.json").write_text(json.dumps(RUNNING.wire()))
    assert told(run, "--running", "kept.json")["code"] == CURRENT


def test_nothing_succeeded_yet(folder: Path, run: Run) -> None:
    for part in ("rollouts", "evidence"):
        shutil.rmtree(folder / "ledger" / part)
    made = told(run)
    assert (made["code"], made["because"]) == (NOT_QUALIFIED, "no rollout has succeeded on this cluster")


def test_against_a_release(run: Run, folder: Path) -> None:
    made = told(run, "--release", "release.json")
    assert made["code"] == CURRENT
    states = {(one["part"], one["against"]): one["state"] for one in made["checks"]}
    assert set(states.values()) == {"ok"}
    for part in ("function check_gate", "layer program", "layer dependencies", "manifests", "AICR image",
                 "validator images"):  # fmt: skip
        assert (part, "release 0.1.0") in states
    for part in ("AICR image", "validator images", "chart gpu-operator", "chart aws-efa"):
        assert (part, "plan") in states


@pytest.mark.parametrize(
    ("changes", "part", "state"),
    [
        ({"functions": PIPELINE.functions | {"check_gate": sha("x")}}, "function check_gate", "differs"),
        ({"functions": {"bind_evidence": sha("bind")}}, "function check_gate", "differs"),
        ({"functions": PIPELINE.functions | {"more": sha("x")}}, "function more", "differs"),
        ({"layers": {"program": sha("program")}}, "layer dependencies", "unknown"),
        ({"layers": PIPELINE.layers | {"program": sha("x")}}, "layer program", "differs"),
        ({"cluster.manifests": sha("x")}, "manifests", "differs"),
        ({"cluster.configuration": sha("x")}, "manifests", "unknown"),
        ({"cluster.name": "other"}, "manifests", "unknown"),
        ({"cluster.aicr_image": "ghcr.io/nvidia/aicr@" + sha("x")}, "AICR image", "differs"),
        ({"cluster.aicr_image": "mirror.example.com/aicr@sha256:" + "a" * 64}, "AICR image", "ok"),
        ({"cluster.validator_images": ()}, "validator images", "differs"),
    ],
)
def test_each_line_against_another_release(
    run: Run, folder: Path, changes: dict[str, Any], part: str, state: str
) -> None:
    release = RELEASE
    for path, value in changes.items():
        outer, _, inner = path.rpartition(".")
        if outer:
            value = release.cluster.model_copy(update={inner: value})
        release = release.model_copy(update={outer or inner: value})
    (folder / "other.json").write_text(json.dumps(release.wire()))
    made = told(run, "--release", "other.json")
    states = {one["part"]: one["state"] for one in made["checks"] if one["against"].startswith("release")}
    assert states[part] == state
    assert all(found == "ok" for name, found in states.items() if name != part)
    assert made["code"] == CURRENT, "lines do not decide: the evidence does"


def test_without_knowing_what_runs_no_line_is_ok(run: Run, folder: Path) -> None:
    (folder / "running.json").unlink()
    made = told(run, "--release", "release.json")
    found = {one["state"] for one in made["checks"] if one["against"].startswith("release")}
    assert found == {"unknown"}


def test_what_a_release_says_was_qualified_is_its_word(run: Run, folder: Path) -> None:
    entry = {
        "recipe": "h100-eks-ubuntu-training-kubeflow", "evidence": sha("e"), "keyFingerprint": "0" * 64,
        "plan": sha("p"), "boundAt": "2026-01-01T00:00:00Z", "published": "https://example.com/evidence.zip",
    }  # fmt: skip
    (folder / "other.json").write_text(json.dumps(RELEASE.wire() | {"qualifiedProfiles": [entry]}))
    code, out, _ = run("--release", "other.json")
    assert code == CURRENT
    said = f"qualified with release 0.1.0: evidence {sha('e')}, https://example.com/evidence.zip"
    assert out.count(said) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--key", "release.json"], "Reading --key release.json: the public key is neither PEM nor DER"),
        (["--key", "none"], "none cannot be read"),
        (["--release", "key.der"], "key.der is not JSON"),
        (["--release", "running.json"], "running.json"),
        (["--release", "none"], "none cannot be read"),
        (["--running", "release.json"], "release.json"),
        (["other"], "of another cluster than other"),
        (["--html", "no/such/folder.html"], "cannot be written"),
    ],
)
def test_what_is_given_and_is_not_what_it_should_be(
    run: Run, folder: Path, arguments: list[str], words: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (INVALID, "") and words in err
    code, out, _ = run("--json", *arguments)
    assert code == INVALID and json.loads(out)["status"] == "refused"


@pytest.mark.parametrize(
    "arguments",
    [[], ["demo"], ["--key", "key.der"], ["--key", "key.der", "--from", "none"],
     ["--from", "."], ["--from", ".", "--fingerprint", "AB"],
     ["--key", "key.der", "--ledger", "B", "--from", "."], ["--key", "key.der", "--ledger", "_"]],
)  # fmt: skip
def test_command_lines_that_are_not_understood(
    folder: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == INVALID


def test_the_page_says_what_the_command_says(run: Run, folder: Path) -> None:
    running(folder, pipeline=PIPELINE.model_copy(update={"manifests": sha("<b>changed</b>")}))
    code, _, _ = run("--html", "page.html", "--release", "release.json")
    page = (folder / "page.html").read_text()
    assert code == NOT_QUALIFIED
    assert ROWS[StaleRow.Rebuild].change in page and sha("<b>changed</b>") in page
    assert 'data-state="stale"' in page and 'data-check="differs"' in page
    assert "<script" not in page and "http" not in page.replace("https://in-toto.io", "")


def test_nothing_that_evidence_says_becomes_markup_or_moves_a_cursor(run: Run, folder: Path) -> None:
    hostile = bare()
    hostile["predicate"]["tuple"]["fabrics"] = ["<script>alert(1)</script>\x1b[2J"]
    only(folder, hostile)
    _, out, _ = run("--html", "page.html")
    assert "\x1b" not in out and "<script>" in out
    assert "<script" not in (folder / "page.html").read_text()


@pytest.mark.parametrize("name", ["release.json", "running.json"])
def test_a_name_that_stands_twice_is_refused(run: Run, folder: Path, name: str) -> None:
    """A person reads the first, and a program the last."""
    text = (folder / name).read_text()
    (folder / name).write_text('{"pipeline": 1, "functions": 2, ' + text[1:])
    code, out, err = run("--release", "release.json")
    assert (code, out) == (INVALID, "") and f"{name} is not JSON, or has a name twice" in err


def test_a_release_that_this_version_does_not_know_is_refused(run: Run, folder: Path) -> None:
    for change in ({"apiVersion": "release.aicr-pipeline.dev/v2"}, {"extra": 1}):
        (folder / "other.json").write_text(json.dumps(RELEASE.wire() | change))
        assert run("--release", "other.json")[0] == INVALID
