"""``make demo`` as a person runs it, in a process of its own; others check what it left."""

import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from aicr_pipeline import verify
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from local.approve import approve
from tests import auditor
from tests.browser.conftest import CHROMEDRIVER, CHROMIUM, chromium
from tests.workflow.machine import ROOT

__all__ = ["chromium"]

REASON = "a person says so"
PROFILE = [
    "aws-ebs-csi-driver",
    "aws-efa",
    "cert-manager",
    "nfd",
    "nodewright-operator",
    "nodewright-customizations",
    "prometheus-operator-crds",
    "kube-prometheus-stack",
    "gpu-operator",
    "gpu-operator-readiness",
    "k8s-ephemeral-storage-metrics",
    "kai-scheduler",
    "kubeflow-trainer",
    "kubeflow-trainer-post",
    "nvidia-dra-driver-gpu",
    "nvsentinel",
    "prometheus-adapter",
]


def demo(*arguments: str, out: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "layers/aicr_pipeline/python")}
    return subprocess.Popen(
        [sys.executable, "-m", "local", "--out", str(out), *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # Tests may themselves run in the background, where a shell has interruptions ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finished(process: subprocess.Popen[str], out: Path) -> dict[str, Any]:
    try:
        said, _ = process.communicate(timeout=170)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"the demo did not end: {process.communicate()[0][-4000:]}") from None
    summary = json.loads((out / "summary.json").read_text()) if (out / "summary.json").exists() else None
    assert process.returncode == 0, f"{said[-4000:]}\n{summary}"
    assert summary is not None
    return dict(summary)


def in_a_browser(driver: webdriver.Chrome, link: str, short_name: str) -> None:
    """Open the link, choose a reason, type the short name, press the button; the page then says so."""
    driver.get(link)
    driver.find_element(By.CSS_SELECTOR, 'input[value="Planned maintenance"]').click()
    driver.find_element(By.NAME, "reason").send_keys(REASON)
    driver.find_element(By.NAME, "shortName").send_keys(short_name)
    driver.find_element(By.CSS_SELECTOR, 'button[value="Approved"]').click()
    approved = (By.CSS_SELECTOR, '[data-state="approved"]')
    WebDriverWait(driver, 30, poll_frequency=0.05).until(lambda _: driver.find_elements(*approved))


def bound(summary: dict[str, Any]) -> dict[str, Any]:
    """The predicate of the evidence."""
    envelope = json.loads(Path(summary["evidence"]["path"]).read_text())
    return dict(json.loads(base64.b64decode(envelope["payload"]))["predicate"])


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[dict[str, Any], Path]:
    """One straight run, shared by the tests of this module: a person approves at the link that it prints.

    In Chromium where it is installed, else through the page's form.
    """
    out = tmp_path_factory.mktemp("out")
    process = demo(out=out)
    said, link, short_name = "", None, None
    for line in process.stdout or ():
        said += line
        link = link or re.search(r"^http\S+/approvals/\S+$", said, re.MULTILINE)
        short_name = re.search(r"type the short name (\S+), approve", said)
        if link and short_name:
            break
    assert link and short_name, said
    if CHROMIUM.exists() and CHROMEDRIVER.exists():
        in_a_browser(request.getfixturevalue("chromium"), link[0], short_name[1])
    else:
        approve(link[0], short_name[1], REASON)
    return finished(process, out), out


@pytest.mark.timeout(200)
@pytest.mark.xdist_group("main-job")
class TestMainJob:
    def test_all_releases_in_the_profile_s_order(self, run: tuple[dict[str, Any], Path]) -> None:
        summary, _ = run
        assert (summary["outcome"], summary["reason"]) == ("Succeeded", "RolledOut")
        assert [step["release"] for step in summary["steps"]] == PROFILE
        assert all(step["action"] == "Install" and step["seconds"] > 0 for step in summary["steps"])
        approval = {key: summary["approval"][key] for key in ("by", "identity")}
        assert approval == {"by": "alex", "identity": "link"}
        assert summary["approval"]["reason"].endswith(REASON)
        assert summary["validation"] == {"passed": 4, "failed": 0, "skipped": 0, "other": 0}

    def test_aicr_signed_its_evidence_with_the_configured_key(self, run: tuple[dict[str, Any], Path]) -> None:
        evidence = bound(run[0])["aicrEvidence"]
        assert evidence["signed"] is True
        assert re.fullmatch(r"[0-9a-f]{64}", evidence["keyFingerprint"])
        assert evidence["keyFingerprint"] != run[0]["evidence"]["fingerprint"], "that is the pipeline's own"

    def test_the_validators_that_ran_are_the_plans(self, run: tuple[dict[str, Any], Path]) -> None:
        predicate = bound(run[0])
        ran = {item["check"]: item for item in predicate["validators"]}
        assert sorted(ran) == [
            "check-nvidia-smi", "expected-resources", "gpu-operator-version", "operator-health",
        ]  # fmt: skip
        named = {image.rpartition("@")[2] for image in predicate["validatorImages"]}
        assert {item["digest"] for item in ran.values()} == named

    def test_a_browser_approved_it_on_the_page_and_the_rollout_went_on(
        self, run: tuple[dict[str, Any], Path]
    ) -> None:
        if not (CHROMIUM.exists() and CHROMEDRIVER.exists()):
            pytest.skip(f"{CHROMIUM} or {CHROMEDRIVER} is missing: apt-get install chromium chromium-driver")
        summary, _ = run
        assert summary["approval"]["reason"] == f"Planned maintenance: {REASON}"
        assert summary["outcome"] == "Succeeded"

    def test_histories_stay_within_the_budget(self, run: tuple[dict[str, Any], Path]) -> None:
        execution = run[0]["execution"]
        assert execution["rollout"]["transitions"] <= 110
        assert execution["rollout"]["historyEvents"] <= 500
        assert execution["resolve"]["historyEvents"] < 250

    def test_requests_for_charts_stay_within_the_budget(self, run: tuple[dict[str, Any], Path]) -> None:
        mirror = run[0]["mirror"]
        assert (mirror["charts"], mirror["pushed"]) == (17, 17)
        assert mirror["requests"] <= 11 * 17

    def test_anybody_can_recompute_the_plan_s_digest(self, run: tuple[dict[str, Any], Path]) -> None:
        summary, out = run
        plan = json.loads((out / "plan.json").read_text())
        digest = "sha256:" + hashlib.sha256(rfc8785.dumps(plan["desiredState"])).hexdigest()
        assert digest == plan["desiredStateDigest"] == summary["planDigest"]

    def test_evidence_verifies_with_our_verifier(self, run: tuple[dict[str, Any], Path]) -> None:
        summary, out = run
        command = [sys.executable, "-m", "aicr_pipeline.verify", summary["evidence"]["path"]]
        command += ["--key", summary["evidence"]["publicKey"], "--plan", str(out / "plan.json")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "layers/aicr_pipeline/python")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=out)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "VALID"), done.stdout + done.stderr
        # The local engine never qualifies anything.
        strict = subprocess.run(
            [*command, "--require-qualifying"], env=environment, capture_output=True, cwd=out
        )
        assert strict.returncode == 1

    def test_an_auditor_needs_the_archive_and_openssl_alone(
        self, run: tuple[dict[str, Any], Path], tmp_path: Path
    ) -> None:
        """The very lines of the README inside, where there is no Python."""
        evidence = run[0]["evidence"]
        subprocess.run(["tar", "-xzf", evidence["archive"], "-C", tmp_path], check=True)
        (folder,) = tmp_path.iterdir()
        done = auditor.run(folder)
        assert done.returncode == 0, done.stderr
        assert "Verified OK" in done.stdout
        assert evidence["fingerprint"] in done.stdout
        assert verify.main([str(folder), "--fingerprint", evidence["fingerprint"]]) == verify.VALID

    def test_the_evidence_says_what_ran_and_on_what(self, run: tuple[dict[str, Any], Path]) -> None:
        envelope = json.loads(Path(run[0]["evidence"]["path"]).read_text())
        said = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
        assert set(said["pipeline"]["functions"]) >= {"bind_evidence", "apply_release"}
        assert said["validators"]
        assert all(said["tuple"][part] for part in said["tuple"]), said["tuple"]
        assert not any("lacks" in why or "validators" in why for why in said["notQualifyingBecause"])


@pytest.mark.timeout(200)
def test_captured_bundle_of_the_real_aicr(captured: Path, tmp_path: Path) -> None:
    bundle = captured / "h100-eks-ubuntu-training-kubeflow" / "bundle-helm"
    arguments = ["--cluster", "captured", "--approve", "x", "--bundle", str(bundle)]
    summary = finished(demo(*arguments, out=tmp_path), tmp_path)
    assert summary["outcome"] == "Succeeded"
    assert [step["release"] for step in summary["steps"]] == PROFILE
    assert {step["namespace"] for step in summary["steps"]} >= {"skyhook", "gpu-operator"}
    # No signing key is configured there: the evidence says so plainly.
    evidence = bound(summary)["aicrEvidence"]
    assert evidence["signed"] is False
    assert "keyFingerprint" not in evidence
    envelope = json.loads(Path(summary["evidence"]["path"]).read_text())
    predicate = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
    assert predicate["qualifying"] is False
    assert any("development version" in why for why in predicate["notQualifyingBecause"])


@pytest.mark.parametrize(
    ("number", "after"),
    [  # each signal at a moment of its own: set-up, resolve, rollout
        (signal.SIGINT, 0.5),
        (signal.SIGTERM, 9.0),
        (signal.SIGKILL, 18.0),
    ],
)
def test_killed_at_any_moment_leaves_no_process_behind(
    tmp_path: Path, number: signal.Signals, after: float
) -> None:
    process = demo("--approve", "x", out=tmp_path)
    time.sleep(after)
    os.kill(process.pid, number)
    process.wait(timeout=30)
    # Children of the demo have its session, or descend from what had; each carries its working folder.
    until = time.monotonic() + 30  # of a machine with other work
    while (left := _descendants(process.pid)) and time.monotonic() < until:
        time.sleep(0.2)
    assert left == {}


def _descendants(session: int) -> dict[int, str]:
    """Processes of the demo's session, and any whose command names the demo's folder."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        belongs = int(stat[3]) == session or f"run-{session}/" in command
        if belongs and stat[0] != "Z":
            found[int(entry.name)] = command
    return found


def test_bad_configuration_is_in_the_summary(tmp_path: Path) -> None:
    text = (ROOT / "clusters" / "demo.yaml").read_text()
    (tmp_path / "demo.yaml").write_text(text + "surprise: 1\n")
    process = demo("--cluster", str(tmp_path / "demo.yaml"), out=tmp_path)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1, said
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["outcome"], summary["reason"]) == ("Stalled", "InvalidConfiguration")
    assert "surprise: unknown field" in summary["message"]
