"""``AICR_BIN``: which commands the real one runs, what the cluster takes from it, how it is refused.

A shim stands for the real command; the last test runs with the real one where ``AICR_BIN`` names it.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig, load_cluster_config
from aicr_pipeline.model.reasons import Reason

from local.kubelet.settings import default_commands, default_environment
from local.pipeline import wanted_charts
from local.real_aicr import RealAicr, fitted, real_aicr

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "local" / "samples" / "clusterruntime.yaml"
#: Read once, before a test sets it.
REAL = os.environ.get("AICR_BIN")


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shim"
    folder.mkdir()
    command = [sys.executable, str(ROOT / "tests" / "aicr_shim.py"), str(folder)]
    monkeypatch.setenv("AICR_BIN", shlex.join(command))
    return folder


def calls(shim: Path) -> list[Any]:
    file = shim / "calls.jsonl"
    return [json.loads(line)[0] for line in file.read_text().splitlines()] if file.exists() else []


def run_in_job(*arguments: str) -> int:
    """As a container of a Job runs it."""
    command = [*default_commands()["aicr"], *arguments]
    return subprocess.run(command, env=default_environment(), capture_output=True, check=False).returncode


def test_without_the_variable_there_is_the_stand_in_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AICR_BIN", raising=False)
    assert default_commands()["aicr"] == (sys.executable, "-m", "local.aicr")
    assert real_aicr(SAMPLE, tmp_path) is None


def test_recipe_and_bundle_are_the_real_ones(shim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_in_job("recipe", "--service", "nowhere") == 2
    assert calls(shim) == ["recipe"]
    assert run_in_job("snapshot", "--nonsense") == 2
    assert calls(shim) == ["recipe"], "the stand-in's"
    monkeypatch.setenv("AICR_BIN_COMMANDS", "snapshot")
    assert run_in_job("snapshot", "--nonsense") == 2
    assert calls(shim) == ["recipe", "snapshot"]


def test_a_command_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AICR_BIN", str(tmp_path / "aicr"))
    assert run_in_job("recipe") == 127
    with pytest.raises(PipelineError, match="does not run") as caught:
        real_aicr(SAMPLE, tmp_path / "rendered")
    assert caught.value.reason is Reason.AICRInvalidRequest


def test_a_relative_path_is_ones_own_not_the_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AICR_BIN", "./bin/aicr --debug")
    assert default_environment()["AICR_BIN"] == f"{tmp_path}/bin/aicr --debug"


def test_the_wish_is_rendered_ahead(shim: Path, tmp_path: Path) -> None:
    found = real_aicr(SAMPLE, tmp_path / "rendered")
    assert found is not None
    assert found.version == "v1.1.2"
    assert calls(shim) == ["--version", "recipe", "bundle"]
    assert "gpu-operator" in found.namespaces
    assert "gpu-operator" in {chart for _, chart, _ in wanted_charts(found.bundle)}


def test_what_it_refuses_ends_the_start_with_its_words(shim: Path, tmp_path: Path) -> None:
    wish = yaml.safe_load(SAMPLE.read_text())
    wish["spec"]["criteria"]["accelerator"] = "abacus"
    runtime = tmp_path / "wish.yaml"
    runtime.write_text(yaml.safe_dump(wish))
    with pytest.raises(PipelineError, match=r"recipe ended with 2: .*invalid accelerator 'abacus'"):
        real_aicr(runtime, tmp_path / "rendered")


def test_a_program_that_is_no_aicr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AICR_BIN", "/bin/true")
    with pytest.raises(PipelineError, match="Is it aicr"):
        real_aicr(SAMPLE, tmp_path)


@pytest.mark.parametrize(
    ("version", "development"),
    [("v1.2.0", ()), ("v0.19.0-next", ("v0.19.0-next",)), ("v2.0.0", ("v2.0.0",)), ("1.3.0", ())],
)
def test_the_cluster_is_fitted_to_it(tmp_path: Path, version: str, development: tuple[str, ...]) -> None:
    before = load_cluster_config(ROOT / "clusters" / "demo.yaml")
    real = RealAicr(version, tmp_path, ("gpu-operator", "skyhook"))
    after = ClusterConfig.model_validate_json(json.dumps(fitted(before.wire(), real)))
    assert (after.aicr.version, tuple(after.aicr.development_versions)) == (version, development)
    names = [component.name for component in after.namespaces.components]
    assert names == [*(component.name for component in before.namespaces.components), "skyhook"]
    assert after.aicr.image == before.aicr.image


@pytest.mark.skipif(not REAL, reason="no real aicr: set AICR_BIN to one")
def test_the_real_command_renders_the_sample_wish(tmp_path: Path) -> None:
    """Also read by the program's own reader, with every namespace and chart named."""
    found = real_aicr(SAMPLE, tmp_path)
    assert found is not None
    assert found.namespaces
    assert list(wanted_charts(found.bundle))
