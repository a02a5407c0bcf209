"""Which documents of AICR are read: by kind and apiVersion, all others refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.decide.validation import judge
from aicr_pipeline.decide.versions import check_aicr_supported, check_recorded
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import config, refused
from tests.unit.test_bundle import INFO, RECIPE, read
from tests.unit.test_snapshot import GOOD


def snapshot(document: Any) -> None:
    read_snapshot(yaml.safe_dump(document).encode())


def recipe(document: Any) -> None:
    read(**{"recipe.yaml": yaml.safe_dump(document).encode()})


def info(document: Any) -> None:
    read(**{"bundle-info.yaml": json.dumps(document).encode()})


READERS: dict[str, tuple[Callable[[Any], None], dict[str, Any], tuple[str, ...]]] = {
    "Snapshot": (snapshot, GOOD, ("v1alpha2", "v1")),
    # With a configuration profile it is v1alpha3 or v1beta2.
    "RecipeResult": (recipe, RECIPE, ("v1alpha2", "v1alpha3", "v1beta2", "v1")),
    "BundleInfo": (info, INFO, ("v1",)),
}
VERSIONS: list[Any] = [
    *(f"aicr.run/{name}" for name in ("v1alpha1", "v1alpha2", "v1alpha3", "v1alpha4", "v1beta1", "v1beta2")),
    *(
        "aicr.run/v1",
        "aicr.run/v2",
        "aicr.run/v1alpha10",
        "aicr.run/v1 ",
        "AICR.run/v1",
        "other/v1",
        "v1",
        "",
    ),
    *("aicr.nvidia.com/v1alpha1", None, 1, ["aicr.run/v1"], {"a": 1}),
]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("version", VERSIONS, ids=repr)
def test_api_version_by_kind(kind: str, version: Any) -> None:
    reader, good, known = READERS[kind]
    document = {**good, "apiVersion": version}
    if isinstance(version, str) and version in {f"aicr.run/{name}" for name in known}:
        reader(document)
    else:
        with refused(Reason.AICRArtifactUnsupported, f"{kind} of aicr.run/", repr(version)):
            reader(document)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("other", [*READERS, "Recipe", "", None, 1])
def test_a_document_of_another_kind(kind: str, other: Any) -> None:
    reader, good, _ = READERS[kind]
    if other != kind:
        with refused(Reason.AICRArtifactUnsupported, repr(other)):
            reader({**good, "kind": other})


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
@pytest.mark.parametrize("kind", READERS)
def test_a_document_without_its_header(kind: str, field: str) -> None:
    reader, good, _ = READERS[kind]
    with refused(Reason.AICRArtifactUnsupported):
        reader({key: value for key, value in good.items() if key != field})


@pytest.mark.parametrize(
    "report", [{}, {"reportFormat": "JUnit", "results": {"tests": []}}, {"reportFormat": "CTRF"}, []]
)
def test_a_report_has_no_api_version_but_a_format(report: Any) -> None:
    with refused(Reason.AICRArtifactUnsupported, "not CTRF"):
        judge(json.dumps(report).encode())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"build": {"deployer": "argocd"}}, "build.deployer is 'argocd'"),
        ({"build": {"recipe": {"digest": "sha256:" + "0" * 64}}}, "build.recipe.digest"),
        ({"build": {"settings": {"vendorCharts": True}}}, "vendorCharts"),
    ],
)
def test_a_build_record_of_another_bundle(change: dict[str, Any], said: str) -> None:
    with refused(Reason.BundleInvalid, said):
        info({**INFO, **change})


@pytest.mark.parametrize("section", [None, 1, [], {"recipe": 1, "settings": []}])
def test_a_build_record_of_another_shape_says_nothing(section: Any) -> None:
    info({**INFO, "build": section, "metadata": section})


def test_all_recorded_versions_are_held_against_the_pin() -> None:
    document = {**INFO, "metadata": {"version": "v1.1.3"}, "build": {"recipe": {"version": "v1.1.4"}}}
    bundle = read(**{"bundle-info.yaml": yaml.safe_dump(document).encode()})
    assert dict(bundle.recorded_versions()) == {
        "bundle's recipe": "v1.1.2", "bundle": "v1.1.3", "recipe that the bundle names": "v1.1.4",
    }  # fmt: skip
    assert dict(read().recorded_versions()) == {"bundle's recipe": "v1.1.2"}
    with refused(Reason.AICRVersionMismatch, "The bundle was made by AICR v1.1.3, but v1.1.2 is pinned"):
        for what, version in bundle.recorded_versions():
            check_recorded(what, version, "v1.1.2")


@pytest.mark.parametrize("version", ["v1.0.0", "1.0.0", "v1.99.3", "v0.19.0-next", "v2.0.0-rc.1"])
def test_supported_versions(version: str) -> None:
    named = ["0.19.0-next", "v2.0.0-rc.1"]
    check_aicr_supported(version, config(**{"aicr.developmentVersions": named}).aicr)


@pytest.mark.parametrize("version", ["v0.19.0", "v0.19.0-next", "v1.0.0-rc.1", "v2.0.0", "1", "", "latest"])
def test_unsupported_versions(version: str) -> None:
    with refused(Reason.AICRVersionMismatch, ">=1.0.0,<2.0.0"):
        check_aicr_supported(version, config().aicr)
