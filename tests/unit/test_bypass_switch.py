"""``make demo BYPASS=1`` sets ``approvals.bypass`` for one run, and nothing else does."""

import subprocess
from pathlib import Path

import pytest
import yaml
from aicr_pipeline.model.config import load_cluster_config

from local.demo import options

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "clusters" / "demo.yaml"


@pytest.mark.parametrize(
    ("given", "bypassed"), [([], False), (["BYPASS=0"], False), (["BYPASS=1"], True), (["APPROVE=x"], False)]
)
def test_make_hands_the_switch_on(given: list[str], bypassed: bool) -> None:
    done = subprocess.run(
        ["make", "-n", "demo", *given], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (line,) = [line for line in done.stdout.splitlines() if "-m local" in line]
    assert ("--bypass" in line) == bypassed


def test_the_switch_is_in_the_runs_own_configuration_only(tmp_path: Path) -> None:
    before = DEMO.read_text()
    made = options(
        DEMO, bundle=None, charts=None, approver=None, work=tmp_path, runtime=ROOT / "x", bypass=True
    )
    assert load_cluster_config(made.cluster_file).approvals.bypass
    assert yaml.safe_load(before) == {
        **(told := yaml.safe_load(made.cluster_file.read_text())),
        "approvals": {name: value for name, value in told["approvals"].items() if name != "bypass"},
    }
    assert DEMO.read_text() == before
