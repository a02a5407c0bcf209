"""Whether what runs is qualified, by the command: what changed, what a release says, and what is printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.adapters.evidence_reader import newest_snapshot
from aicr_pipeline.adapters.ledger_folder import LedgerFolder
from aicr_pipeline.decide.qualification import CURRENT, INCOMPLETE, INVALID, NOT_QUALIFIED
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.model.qualification import ROWS, StaleRow
from aicr_pipeline.qualification import main

from tests.unit.qualification_runs import Run, folder, only, rows, run, running, told
from tests.unit.qualified import (
    FABRICS,
    PIPELINE,
    PLAN,
    RELEASE,
    ROLLOUT,
    RUNNING,
    bare,
    put,
    put_plan,
    put_rollout,
    snapshot,
)
from tests.unit.samples import plan, sha

__all__ = ["folder", "run"]


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


def test_the_newest_snapshot_of_thousands_of_runs(folder: Path) -> None:
    """Runs for one runtime are named by their times; which runtime is the newest, the snapshots say."""
    changed = snapshot(**{"feature.node.kubernetes.io__kernel-version.full": "6.18"})
    for name, text, at in (
        ("demo-aaaaaaaa-1", snapshot(), "2026-03-01T00:00:00Z"),
        ("demo-aaaaaaaa-202603020600", changed, "2026-03-02T06:00:00Z"),
        ("demo-bbbbbbbb-1", snapshot(), "2026-02-01T00:00:00Z"),
    ):
        put(folder, f"resolves/{name}/snapshot.yaml", text, at)
    put(folder, "resolves/demo-aaaaaaaa-20260303060000/runtime.yaml", b"", "2026-03-03T06:00:00Z")
    assert newest_snapshot(LedgerFolder(folder / "ledger")) == read_snapshot(changed)


def test_without_the_pipelines_word_it_is_incomplete(run: Run, folder: Path) -> None:
    (folder / "running.json").unlink()
    made = told(run)
    assert made["code"] == INCOMPLETE and "what of the pipeline is deployed" in made["because"]
    (folder / "kept.json").write_text(json.dumps(RUNNING.wire()))
    assert told(run, "--running", "kept.json")["code"] == CURRENT


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
