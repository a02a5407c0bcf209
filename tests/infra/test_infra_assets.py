"""What is deployed, by digest: the same everywhere, and another whenever something of it is."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline import __version__, env
from aicr_pipeline.decide.tree_digest import tree_digest
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import load_cluster_config
from aicr_pipeline.model.evidence import BoundPipeline

from infra.assets import as_text, folder_digest, pipeline_assets
from infra.functions import FUNCTIONS
from infra.sources import FUNCTIONS_FOLDER, ROOT, Sources
from tests.infra.conftest import DEMO
from tests.infra.templates import Stack

#: All that the digests are made of.
PARTS = ("app.py", "cdk.json", "infra", "functions", "layers", "clusters")
#: Prints the document of the checkout it runs in.
PRINT = """
from infra.assets import as_text, pipeline_assets
from infra.sources import ROOT, Sources
from aicr_pipeline.model.config import load_cluster_config
config = load_cluster_config(ROOT / "clusters" / "demo.yaml")
print(as_text(pipeline_assets(config, Sources.found(ROOT / "b"))))
"""


def document(checkout: Path) -> dict[str, Any]:
    """What a checkout's own code says."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", PRINT], cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document of this checkout."""
    made = pipeline_assets(load_cluster_config(DEMO), Sources.found(tmp_path_factory.mktemp("build")))
    return made.wire()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same checkout at another place, with other modes and times, and what Python left there."""
    checkout = tmp_path_factory.mktemp("another place")
    for part in PARTS:
        source, target = ROOT / part, checkout / part
        if source.is_file():
            shutil.copyfile(source, target)
        else:
            shutil.copytree(
                source, target, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile
            )
    for place in checkout.rglob("*"):
        place.chmod(0o700 if place.is_dir() else 0o640)
        os.utime(place, (1, 1))
    for folder in ("functions/bind_evidence", "layers/aicr_pipeline/python/aicr_pipeline", "infra"):
        (checkout / folder / "__pycache__").mkdir()
        (checkout / folder / "__pycache__" / "left.cpython-311.pyc").write_bytes(b"left")
    return checkout


def test_two_machines_say_the_same(here: dict[str, Any], elsewhere: Path) -> None:
    assert document(elsewhere) == here


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("functions/bind_evidence/handler.py", {"functions"}),
        ("layers/aicr_pipeline/python/aicr_pipeline/decide/gate.py", {"layers"}),
        ("infra/alarms.py", {"manifests"}),
        ("cdk.json", {"manifests"}),
        # The deadline stands in the rollout machine's definition.
        ("clusters/demo.yaml", {"manifests", "configuration"}),
    ],
)
def test_each_change_shows_where_it_was_made(
    here: dict[str, Any], elsewhere: Path, file: str, changed: set[str]
) -> None:
    place = elsewhere / file
    before = place.read_text()
    place.write_text(
        before.replace("deadline: 6h", "deadline: 5h") if file.endswith(".yaml") else before + "\n"
    )
    try:
        found = document(elsewhere)
    finally:
        place.write_text(before)
    assert {field for field in here if found[field] != here[field]} == changed
    if "functions" in changed:
        others = {name for name in here["functions"] if found["functions"][name] != here["functions"][name]}
        assert others == {"bind_evidence"}


def test_an_approver_is_configuration_and_no_manifest(tmp_path: Path, here: dict[str, Any]) -> None:
    other = tmp_path / "demo.yaml"
    other.write_text(DEMO.read_text().replace("alex@example.com", "sam@example.com"))
    found = pipeline_assets(load_cluster_config(other), Sources.found(tmp_path / "build")).wire()
    assert {field for field in here if found[field] != here[field]} == {"configuration"}


def test_sha256sum_gives_the_same_digest() -> None:
    """The line of docs/evidence.md."""
    page = (ROOT / "docs" / "evidence.md").read_text()
    (line,) = [one for one in page.splitlines() if one.startswith("(cd functions/bind_evidence && ")]
    done = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert f"sha256:{done.stdout.split()[0]}" == folder_digest(FUNCTIONS_FOLDER / "bind_evidence")


def test_the_layer_that_is_deployed_holds_the_document(stack: Stack) -> None:
    (file,) = stack.assembly.glob("asset.*/cluster/assets.json")
    found = json.loads(file.read_text())
    assert set(found["functions"]) == {function.name for function in FUNCTIONS}
    assert set(found["layers"]) == {"program"}  # tests synthesize without the dependencies
    assert found["version"] == __version__
    assert file.read_text() == as_text(BoundPipeline.model_validate(found))
    # Of the configuration alone: its own layer's digest could not stand in the document.
    only = {"cluster/cluster.json": hashlib.sha256(file.with_name("cluster.json").read_bytes()).hexdigest()}
    assert found["configuration"] == tree_digest(only)


def test_a_built_dependency_layer_is_told(tmp_path: Path) -> None:
    (tmp_path / "layers" / "dependencies" / "python").mkdir(parents=True)
    (tmp_path / "layers" / "dependencies" / "python" / "some.py").write_text("")
    found = pipeline_assets(load_cluster_config(DEMO), Sources.found(tmp_path))
    assert found.layers["dependencies"] == folder_digest(tmp_path / "layers" / "dependencies")


@pytest.mark.parametrize("name", ["a\nb", "a\\b", "a\rb"])
def test_a_name_that_could_be_two_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="rename"):
        tree_digest({name: "0" * 64})


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"version": 1}'])
def test_without_a_document_nothing_is_bound(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "assets.json").write_bytes(content)
    monkeypatch.setenv("CLUSTER_CONFIG", str(tmp_path / "cluster.json"))
    env.pipeline_assets.cache_clear()
    with pytest.raises(PipelineError, match=r"InvalidConfiguration.*assets\.json"):
        env.pipeline_assets()
