"""release.json: what a release consists of, the same bytes on any machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import load_cluster_config
from aicr_pipeline.model.release import Release

from infra import release as module
from infra.assets import pipeline_assets
from infra.functions import FUNCTIONS
from infra.release import QUALIFIED, as_text, commit, main, release
from infra.sources import LOCK, Sources
from tests.infra.conftest import DEMO, PRIVATE


def made(tmp_path: Path, cluster: Path = DEMO, qualified: Path = QUALIFIED) -> Release:
    return release(load_cluster_config(cluster), Sources.found(tmp_path / "build"), qualified)


def test_it_names_everything_by_digest(tmp_path: Path) -> None:
    found, config = made(tmp_path), load_cluster_config(DEMO)
    assets = pipeline_assets(config, Sources.found(tmp_path / "build"))
    assert set(found.functions) == {function.name for function in FUNCTIONS}
    assert (found.functions, found.layers, found.version) == (assets.functions, assets.layers, assets.version)
    assert (found.cluster.manifests, found.cluster.configuration) == (assets.manifests, assets.configuration)
    assert (found.cluster.aicr_image, found.cluster.validator_images) == (
        config.aicr.image, config.aicr.validator_images,
    )  # fmt: skip
    digest = subprocess.run(["sha256sum", str(LOCK)], capture_output=True, text=True, check=True).stdout
    assert found.lock == f"sha256:{digest.split()[0]}"


def test_none_is_qualified_today(tmp_path: Path) -> None:
    assert made(tmp_path).qualified_profiles == ()


def test_twice_the_same_bytes_and_it_reads_itself(tmp_path: Path) -> None:
    texts = {as_text(made(tmp_path / name)) for name in ("one", "another")}
    (text,) = texts
    assert as_text(Release.model_validate_json(text)) == text


def test_another_clusters_release_differs_in_that_cluster_alone(tmp_path: Path) -> None:
    one, other = made(tmp_path).wire(), made(tmp_path, PRIVATE).wire()
    assert {field for field in one if one[field] != other[field]} == {"cluster"}
    assert one["cluster"]["manifests"] != other["cluster"]["manifests"]


def test_a_qualified_profile_is_listed_and_changes_nothing_else(tmp_path: Path) -> None:
    entry = QUALIFIED.read_text().partition("An entry:\n")[2].replace("#   ", "")
    entry = entry.partition("\n[]")[0]
    for name, value in (
        ("sha256:<of the envelope>", "sha256:" + "1" * 64), ("<of the key that signed it>", "2a" * 32),
        ("sha256:<desiredStateDigest>", "sha256:" + "3" * 64),
        ("https://<where the archive of the evidence is>", "https://example.com/evidence.tar.gz"),
    ):  # fmt: skip
        assert name in entry, "the file's own example"
        entry = entry.replace(name, value)
    (tmp_path / "qualified.yaml").write_text(entry)
    found = made(tmp_path, qualified=tmp_path / "qualified.yaml")
    assert [one.recipe for one in found.qualified_profiles] == ["h100-eks-ubuntu-training-kubeflow"]
    assert found.model_copy(update={"qualified_profiles": ()}) == made(tmp_path)


@pytest.mark.parametrize("text", ["a: 1", "- 1", "- recipe: x", "[", "- {recipe: x, evidence: y}"])
def test_a_list_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "qualified.yaml").write_text(text)
    with pytest.raises(PipelineError, match=r"InvalidConfiguration.*qualified\.yaml"):
        made(tmp_path, qualified=tmp_path / "qualified.yaml")


def test_the_commit_is_told_only_where_the_files_are_its_own(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    assert commit(tmp_path) is None, "no checkout"
    git("init", "-q")
    assert commit(tmp_path) is None, "no commit"
    (tmp_path / "file").write_text("a")
    (tmp_path / "below").mkdir()
    git("add", "file")
    git("commit", "-q", "-m", "x")
    found = commit(tmp_path)
    assert found is not None and len(found) == 40
    (tmp_path / "untracked").write_text("a")
    assert commit(tmp_path) == found
    assert commit(tmp_path / "below") is None, "a folder in somebody else's repository"
    for place in ("functions/bind_evidence/more.py", "layers/aicr_pipeline/python/build/x", "infra/.hidden"):
        file = tmp_path / place
        file.parent.mkdir(parents=True)
        file.write_text("x")
        assert commit(tmp_path) is None, "digests are of a file that no commit has"
        file.unlink()
    (tmp_path / "functions" / "__pycache__").mkdir()
    (tmp_path / "functions" / "__pycache__" / "x.pyc").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    assert commit(tmp_path) == found, "nothing that a digest is of"
    (tmp_path / "file").write_text("b")
    assert commit(tmp_path) is None, "changed"


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "deep" / "release.json"
    assert main("demo", str(target)) == 0
    assert target.read_text() == as_text(Release.model_validate_json(target.read_text()))
    assert "functions, 0 qualified" in capsys.readouterr().out
    assert main("none", str(target)) == 2 and "There is no clusters/none.yaml" in capsys.readouterr().err
    assert main("demo", str(tmp_path)) == 1, "a folder"
    (tmp_path / "qualified.yaml").write_text("{")
    monkeypatch.setattr(module, "QUALIFIED", tmp_path / "qualified.yaml")
    assert main("demo", str(target)) == 1


def test_make_hands_cluster_and_folder_on(tmp_path: Path) -> None:
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run(
        [make, "-n", "release", "CLUSTER=captured", f"OUT={tmp_path}"],
        cwd=module.ROOT, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert f"-m infra.release captured {tmp_path}/release.json" in done.stdout
