"""Runtimes and bundles with something changed: refused as a domain end, or read exactly as they say."""

import json
import re
import shlex
from typing import Any

import yaml as pyyaml
from aicr_pipeline.decide.bundle import BUNDLE_INFO, CHECKSUMS, RECIPE, Bundle, merge, read_bundle
from aicr_pipeline.decide.constraints import check_constraints
from aicr_pipeline.decide.overrides import check_rendered
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import parse_runtime
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.mutations import JSON, changed, edited
from tests.unit.samples import IMAGE, RUNTIME
from tests.unit.test_bundle import INFO, files, sealed
from tests.unit.test_snapshot import GOOD

FULL: dict[str, Any] = {
    **RUNTIME,
    "metadata": {"name": "cluster", "labels": {"a": "b"}},
    "spec": {
        **RUNTIME["spec"],
        "paused": False,
        "validation": {"deployment": "Required"},
        "overrides": {"gpu-operator": {"driver.enabled": True, "list": [1, {"a": None}], "x": 1.5}},
        "aicr": {"version": "v1.1.2", "image": IMAGE},
    },
}
TEXT = pyyaml.safe_dump(FULL).encode()
SETTINGS = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def without_nulls(value: Any) -> Any:
    """A field that is null is an absent one; what is null inside an override stays."""
    if not isinstance(value, dict):
        return [without_nulls(item) for item in value] if isinstance(value, list) else value
    return {
        key: inner if key == "overrides" else without_nulls(inner)
        for key, inner in value.items()
        if inner is not None
    }


def says(accepted: Any, document: Any) -> bool:
    """Whether everything of the document is in what was accepted, with its type; defaults may be more."""
    if isinstance(document, dict):
        return isinstance(accepted, dict) and all(
            key in accepted and says(accepted[key], value) for key, value in document.items()
        )
    if isinstance(document, list):
        return (
            isinstance(accepted, list)
            and len(accepted) == len(document)
            and all(map(says, accepted, document))
        )
    return json.dumps(accepted) == json.dumps(document)


def check_runtime(text: bytes) -> None:
    try:
        found = parse_runtime(text).wire()
    except PipelineError as error:
        assert error.reason in (Reason.InvalidRuntime, Reason.ContentTooLarge)
        assert not error.retry and len(error.message) < 20_000
        return
    document = without_nulls(yaml.load(text, Reason.InvalidRuntime, "x"))
    assert says(found, document), (found, document)


@SETTINGS
@given(changed(FULL))
def test_runtimes_with_changed_fields(document: dict[str, Any]) -> None:
    check_runtime(json.dumps(document).encode())


@SETTINGS
@given(edited(TEXT))
def test_runtimes_with_changed_text(text: bytes) -> None:
    check_runtime(text)


# Bundles

INFO_TEXT = pyyaml.safe_dump(INFO).encode()
WHOLE = files(**{
    BUNDLE_INFO: INFO_TEXT,
    "003-app-post/Chart.yaml": b"apiVersion: v2\nname: app-post\nversion: 0.1.0\n",
    "003-app-post/templates/a.yaml": b"kind: Job\n",
})  # fmt: skip
WHOLE_INFO = {**INFO, "layout": {"releases": [
    *INFO["layout"]["releases"],
    {"name": "app-post", "component": "app", "namespace": "apps", "path": "003-app-post"},
]}}  # fmt: skip
WHOLE[BUNDLE_INFO] = pyyaml.safe_dump(WHOLE_INFO).encode()
OLDER = {name: data for name, data in WHOLE.items() if name != BUNDLE_INFO}
REFUSALS = frozenset(
    {
        Reason.BundleInvalid,
        Reason.AICRArtifactUnsupported,
        Reason.ContentTooLarge,
        Reason.ChartSourceUnsupported,
    }
)


def read(made: dict[str, bytes]) -> Bundle | None:
    try:
        return read_bundle(made)
    except PipelineError as error:
        assert error.reason in REFUSALS, error
        assert not error.retry and len(error.message) < 20_000
        return None


def loaded(data: bytes | None) -> Any:
    return yaml.load(data or b"", Reason.BundleInvalid, "x", most_bytes=4 << 20)


def check_bundle(made: dict[str, bytes]) -> None:
    """Names, order, sources and values, worked out again in another way from the files."""
    bundle = read(made)
    if bundle is None:
        return
    folders = sorted({name.split("/")[0] for name in made if "/" in name})
    if BUNDLE_INFO in made:
        listed = loaded(made[BUNDLE_INFO])["layout"]["releases"]
        expected = [(entry["name"], entry.get("path", entry.get("folder")).strip("/")) for entry in listed]
        recipes = {
            ref["name"]: ref.get("namespace") for ref in loaded(made[RECIPE]).get("componentRefs") or []
        }
        for release, entry in zip(bundle.releases, listed, strict=True):
            component = entry.get("component") or release.component
            assert release.component == component
            assert release.namespace == (entry.get("namespace") or recipes[component])
    else:
        expected = [(folder[4:], folder) for folder in folders]
    assert [(release.name, release.folder) for release in bundle.releases] == expected
    assert sorted(folder for _, folder in expected) == folders
    recipe = loaded(made[RECIPE])
    assert recipe["kind"] == "RecipeResult" and str(recipe["apiVersion"]).startswith("aicr.run/v1")
    for release in bundle.releases:
        values = merge(
            loaded(made.get(f"{release.folder}/values.yaml")) or {},
            loaded(made.get(f"{release.folder}/cluster-values.yaml")) or {},
        )
        if release.source is None:
            assert f"{release.folder}/upstream.env" not in made
            for name, data in release.files.items():
                assert made[f"{release.folder}/{name}"] == data
            continue
        assert json.dumps(release.values, sort_keys=True) == json.dumps(values, sort_keys=True)
        text = made[f"{release.folder}/upstream.env"].decode()
        # A shell's comment begins a word; that of shlex may be inside one.
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        words = dict(word.split("=", 1) for word in shlex.split("\n".join(lines)))
        source = release.source
        assert {"CHART": source.chart, "REPO": source.repo, "VERSION": source.version} == {
            "REPO": "",
            **words,
        }
        assert bool(source.repo) != source.chart.startswith("oci://")
        assert re.fullmatch(r"\S+", source.version)


@st.composite
def bundles(draw: st.DrawFn) -> dict[str, bytes]:
    """A whole bundle with one or two files dropped, replaced, added or edited; the checksums fit again."""
    made = dict(draw(st.sampled_from([WHOLE, OLDER])))
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(made)))
        change = draw(st.sampled_from(["drop", "edit", "edit", "field", "field", "field", "rename"]))
        if change == "drop":
            del made[name]
        elif change == "rename":
            new = draw(edited(name.encode(), 1)).decode(errors="ignore").replace("\n", "").strip() or "x"
            made[new] = made.pop(name)
        elif change == "field" and isinstance(document := _loaded(made[name]), dict):
            made[name] = json.dumps(draw(changed(document))).encode()
        else:
            made[name] = draw(edited(made[name]))
    return sealed(made)


def _loaded(data: bytes) -> Any:
    try:
        return loaded(data)
    except PipelineError:
        return None


@SETTINGS
@given(bundles())
def test_bundles_with_changed_files(made: dict[str, bytes]) -> None:
    check_bundle(made)


@SETTINGS
@given(st.sampled_from([WHOLE, OLDER]), st.data())
def test_no_file_changes_without_its_checksum(whole: dict[str, bytes], data: st.DataObject) -> None:
    good = sealed(whole)
    name = data.draw(st.sampled_from(sorted(good)))
    text = data.draw(edited(good[name], 1))
    if text != good[name]:
        found = read({**good, name: text})
        # The list itself may be written in another order, or end in an empty line: it says the same.
        assert found is None or (name == CHECKSUMS and found == read(good))


@SETTINGS
@given(changed(GOOD, 3))
def test_snapshots_with_changed_fields(document: dict[str, Any]) -> None:
    text = json.dumps(document).encode()
    try:
        found = read_snapshot(text)
    except PipelineError as error:
        assert error.reason in (Reason.AICRArtifactUnsupported, Reason.SnapshotIncomplete)
        return
    fingerprint = document["fingerprint"]
    assert document["kind"] == "Snapshot"
    for name, seen in (("service", found.service), ("k8sVersion", found.kubernetes_version)):
        entry = fingerprint[name]
        assert str(entry["value"] if isinstance(entry, dict) else entry) == seen


@SETTINGS
@given(
    JSON,
    JSON,
    st.dictionaries(
        st.sampled_from(["app", "base", "x"]),
        st.dictionaries(st.text(min_size=1, max_size=4), JSON, max_size=2),
    ),
)
def test_constraints_and_overrides_of_any_shape(recipe: Any, measurements: Any, overrides: Any) -> None:
    bundle = read_bundle(sealed(WHOLE))
    for check in (
        lambda: check_constraints(
            {"constraints": recipe}, measurements if isinstance(measurements, list) else [], "1.34"
        ),
        lambda: check_rendered(bundle, overrides),
    ):
        try:
            check()
        except PipelineError as error:
            assert error.reason in (
                Reason.AICRArtifactUnsupported, Reason.OverridePathUnknown, Reason.InvalidOverride,
            )  # fmt: skip
