"""Bundles that the real AICR rendered: order, namespaces, sources and values are AICR's own."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.bundle import Bundle, BundledRelease, content_digest, read_bundle
from aicr_pipeline.errors import PipelineError

PROFILES = (
    "h100-eks-ubuntu-training-kubeflow",
    "h100-eks-ubuntu-inference-dynamo",
    "h100-gke-cos-training-kubeflow",
    "gb200-eks-ubuntu-training-kubeflow",
)
FIRST = PROFILES[0]


def files(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


@cache
def bundle(folder: Path) -> Bundle:
    return read_bundle(files(folder))


@pytest.mark.parametrize("profile", PROFILES)
def test_order_components_and_namespaces_are_the_recipes(captured: Path, profile: str) -> None:
    derived = json.loads((captured / profile / "releases.derived.json").read_text())
    found = bundle(captured / profile / "bundle-helm")
    assert [(r.name, r.component, r.namespace) for r in found.releases] == [
        (item["release"], item["component"], item["namespace"]) for item in derived
    ]
    for release, item in zip(found.releases, derived, strict=True):
        assert source_of(release) == source_in(item), release.name
    assert found.aicr_version == "v0.19.0-next"


def source_of(release: BundledRelease) -> tuple[str, str, str]:
    if release.source is None:
        return "local-chart", "", ""
    where = release.source.chart if release.source.chart.startswith("oci://") else release.source.repo
    name = "" if where.startswith("oci://") else release.source.chart
    return where, name, release.source.version.removeprefix("v")


def source_in(item: dict[str, Any]) -> tuple[str, str, str]:
    if item["kind"] == "local-chart":
        return "local-chart", "", ""
    url = item["repoURL"]
    if item["kind"] == "oci" and not url.endswith("/" + item["chart"]):
        url = f"{url}/{item['chart']}"
    return url, "" if item["kind"] == "oci" else item["chart"], item["targetRevision"].removeprefix("v")


def test_the_reference_profile_has_17_releases(captured: Path) -> None:
    found = bundle(captured / FIRST / "bundle-helm")
    assert len(found.releases) == 17
    assert len({release.component for release in found.releases}) == 15
    assert [r.name for r in found.releases if r.kind == "wrapper"] == [
        "nodewright-customizations",
        "gpu-operator-readiness",
        "kubeflow-trainer-post",
    ]


def applications(folder: Path) -> dict[str, dict[str, Any]]:
    loaded = (yaml.safe_load(file.read_text()) for file in folder.glob("[0-9]*/application.yaml"))
    return {item["metadata"]["name"]: item for item in loaded}


def test_values_are_those_that_aicr_gives_argo_cd(captured: Path) -> None:
    theirs = applications(captured / FIRST / "bundle-argocd-oci")
    ours = bundle(captured / FIRST / "bundle-helm")
    assert set(theirs) == {release.name for release in ours.releases}
    for release in ours.releases:
        spec = theirs[release.name]["spec"]
        helm = spec["source"].get("helm", {})
        assert spec["destination"]["namespace"] == release.namespace
        if release.kind == "wrapper":
            assert "valuesObject" not in helm
            assert release.values is None
        else:
            assert canonical(release.values) == canonical(helm.get("valuesObject", {})), release.name


def canonical(values: Any) -> str:
    return json.dumps(values, sort_keys=True)


@pytest.mark.parametrize("profile", PROFILES)
def test_one_changed_byte_anywhere_is_found(captured: Path, profile: str) -> None:
    good = files(captured / profile / "bundle-helm")
    for name in sorted(set(good) - {"checksums.txt"})[::7]:
        with pytest.raises(PipelineError, match="does not have the checksum"):
            read_bundle({**good, name: good[name][:-1] + bytes([good[name][-1] ^ 1])})


def test_profiles_differ_in_content(captured: Path) -> None:
    digests = {content_digest(files(captured / profile / "bundle-helm")) for profile in PROFILES}
    assert len(digests) == len(PROFILES)
