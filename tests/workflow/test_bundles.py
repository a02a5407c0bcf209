"""Bundles of the real AICR through the resolve machine: the good ones, and each with one thing spoilt."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.bundle import check_checksums

from tests.workflow.machine import ROOT, Machine, machine, runtime

pytestmark = pytest.mark.xdist_group("bundles")

PROFILE = "h100-eks-ubuntu-training-kubeflow"


@dataclass
class Rendered:
    """A machine whose AICR hands out a copy of captured outputs, which a test may change."""

    machine: Machine
    origin: Path
    folder: Path
    snapshot: Path

    def restore(self, when: str = "pre") -> None:
        """Bundle and snapshot as they were captured."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.origin / "bundle-helm", self.folder)
        for path in self.folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.copyfile(self.origin / "snapshot" / f"snapshot-{when}-install.yaml", self.snapshot)
        self.snapshot.chmod(0o644)
        found = {
            str(p.relative_to(self.folder)): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()
        }
        check_checksums(found)

    def plans(self) -> list[str]:
        s3, bucket = self.machine.pipeline.aws.client("s3"), self.machine.pipeline.aws.outputs["LedgerBucket"]
        found = s3.list_objects_v2(Bucket=bucket, Prefix="plans/").get("Contents", [])
        return [item["Key"] for item in found]


@pytest.fixture(scope="module")
def rendered(captured: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rendered]:
    work = tmp_path_factory.mktemp("bundles")
    folder, snapshot, cluster = work / "bundle", work / "snapshot.yaml", ROOT / "clusters" / "captured.yaml"
    shutil.copytree(captured / PROFILE / "bundle-helm", folder)
    with machine(work / "work", cluster=cluster, bundle=folder, snapshot=snapshot) as running:
        yield Rendered(running, captured / PROFILE, folder, snapshot)


def seal(folder: Path) -> None:
    """A checksum list that fits what is there now."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "checksums.txt"]
    lines = (
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files
    )
    (folder / "checksums.txt").write_text("".join(lines))


def edit_recipe(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    change(recipe)
    # As JSON, which is YAML, and reads in a tenth of the time.
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    seal(folder)


def _change_value(folder: Path) -> None:
    values = folder / "003-cert-manager" / "values.yaml"
    values.write_text(values.read_text() + "surprise: true\n")


def _drop_line(folder: Path) -> None:
    sums = folder / "checksums.txt"
    sums.write_text("".join(line for line in sums.read_text().splitlines(True) if "003-" not in line))


def _unreadable_chart(folder: Path) -> None:
    (folder / "006-nodewright-customizations" / "Chart.yaml").write_text("name: [\n")
    seal(folder)


def _needs_newer_kubernetes(folder: Path) -> None:
    edit_recipe(folder, lambda recipe: recipe["constraints"][0].update(value=">= 1.99.0"))


def _needs_another_system(folder: Path) -> None:
    edit_recipe(folder, lambda recipe: recipe["constraints"][2].update(value="22.04"))


def _of_a_newer_schema(folder: Path) -> None:
    edit_recipe(folder, lambda recipe: recipe.update(apiVersion="aicr.run/v2"))


def _by_another_release(folder: Path) -> None:
    edit_recipe(folder, lambda recipe: recipe["metadata"].update(version="v1.1.2"))


def _from_nowhere(folder: Path) -> None:
    source = folder / "003-cert-manager" / "upstream.env"
    lines = [
        "REPO='ftp://charts.example'\n" if line.startswith("REPO=") else line
        for line in source.read_text().splitlines(True)
    ]
    source.write_text("".join(lines))
    seal(folder)


def _elsewhere(folder: Path) -> None:
    edit_recipe(folder, lambda recipe: recipe["componentRefs"][2].update(namespace="somewhere-else"))


def _as_it_is(_folder: Path) -> None:
    """What is wrong is the wish."""


SPOILT: dict[str, tuple[Callable[[Path], None], dict[str, Any], str, str]] = {
    "changed file": (_change_value, {}, "BundleInvalid", "003-cert-manager/values.yaml"),
    "missing checksum": (_drop_line, {}, "BundleInvalid", "003-cert-manager/"),
    "unreadable chart": (_unreadable_chart, {}, "ChartInvalid", "nodewright-customizations"),
    "kubernetes": (
        _needs_newer_kubernetes,
        {},
        "KubernetesUnsupported",
        "K8s.server.version '>= 1.99.0', found '1.34.2-eks-b3126f4'",
    ),
    "system": (_needs_another_system, {}, "CriteriaConflict", "OS.release.VERSION_ID '22.04', found '24.04'"),
    "schema": (
        _of_a_newer_schema,
        {},
        "AICRArtifactUnsupported",
        "recipe.yaml is 'RecipeResult' of 'aicr.run/v2'",
    ),
    "release": (_by_another_release, {}, "AICRVersionMismatch", "v1.1.2, but v0.19.0-next is pinned"),
    "source": (_from_nowhere, {}, "ChartSourceUnsupported", "cert-manager"),
    "namespace": (_elsewhere, {}, "NamespaceNotAllowed", "(somewhere-else)"),
    # Releases before 1.0 drop it without a word.
    "unknown component": (
        _as_it_is,
        {"overrides": {"no-such": {"a.b": 1}}},
        "OverridePathUnknown",
        "spec.overrides.no-such",
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_spoilt_bundles_are_refused_naming_what_is_wrong(rendered: Rendered, case: str) -> None:
    spoil, spec, reason, words = SPOILT[case]
    rendered.restore()
    spoil(rendered.folder)
    ended = rendered.machine.resolve(runtime(**spec) + f"# {case}\n".encode())
    assert (ended.status, ended.error) == ("FAILED", reason), ended.cause
    assert words in (ended.cause or "")
    assert rendered.plans() == []


def test_one_digest_before_and_after_the_install_and_for_any_number_of_nodes(rendered: Rendered) -> None:
    digests = []
    for when, nodes in (("pre", 4), ("post", 4), ("pre", 400)):
        rendered.restore(when)
        if nodes != 4:
            edit_recipe(rendered.folder, lambda recipe: recipe["criteria"].update(nodes=400))
            taken = yaml.safe_load(rendered.snapshot.read_text())
            taken["fingerprint"]["nodeCount"]["value"] = nodes
            taken["measurements"].reverse()
            rendered.snapshot.write_text(json.dumps(taken))
        ended = rendered.machine.resolve(runtime(paused=True) + f"# {when} {nodes}\n".encode())
        assert ended.status == "SUCCEEDED", ended.cause
        assert ended.output["snapshot"]["nodes"] == nodes
        assert ended.output["bundle"]["unchecked"] == []
        assert len(ended.output["bundle"]["releases"]) == ended.output["plan"]["releases"] == 17
        digests.append(ended.output["plan"]["digest"])
    assert len(set(digests)) == 1
    assert len(rendered.plans()) == 1
