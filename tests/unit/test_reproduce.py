"""Rendering a plan again: the Job's own arguments, what is missing said, each difference named once."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.aicr_job import PushTarget, render_job
from aicr_pipeline.decide.bundle import content_list, read_bundle
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.chart_package import pack
from aicr_pipeline.decide.chart_yaml import parse_chart_yaml
from aicr_pipeline.decide.plan import make_plan
from aicr_pipeline.decide.reproduce import command_script, compare_bundle, readme, rendering
from aicr_pipeline.model.plan import Plan, PlannedChart, Recorded
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import ClusterRuntime

from tests.unit.samples import IMAGE, config, plan, refused, runtime, sha
from tests.unit.test_bundle import sealed
from tests.unit.test_bundle_captured import FIRST, PROFILES
from tests.unit.test_bundle_captured import files as captured_files

Files = dict[str, bytes]
OVERRIDES = {"gpu-operator": {"driver.version": "570; rm -rf /", "list": [1, "two", {"it's": True}]}}
WISH = runtime(overrides=OVERRIDES)


def plan_of(wish: Any = WISH) -> Plan:
    wire = wish.wire()["spec"]
    return plan(placement=wire["placement"], **{"aicr.imageDigest": IMAGE.partition("@")[2]})


def test_the_arguments_are_the_jobs_own() -> None:
    made = rendering(plan_of(), WISH, True, "registry.example/aicr")
    job = render_job("run-render-1", "run", IMAGE, WISH, PushTarget("r.example/b:run-1", plain_http=False))
    pod = job["spec"]["template"]["spec"]
    recipe, bundle = pod["initContainers"][0]["args"], pod["containers"][0]["args"]
    assert [*made.recipe[:-1], "/work/recipe.yaml"] == recipe
    assert [
        {"recipe.yaml": "/work/recipe.yaml", "bundle": "oci://r.example/b:run-1"}.get(argument, argument)
        if at
        else argument
        for at, argument in enumerate(made.bundle)
    ] == bundle
    assert made.image == f"registry.example/aicr@{plan_of().desired_state.aicr.image_digest}"
    assert made.missing == ()


def test_overrides_survive_the_shell() -> None:
    made = rendering(plan_of(), WISH, True, "registry.example/aicr")
    for text in (command_script(plan_of(), made), readme(plan_of(), made, True)):
        lines = [line.strip() for line in text.splitlines() if line.strip().startswith("aicr bundle ")]
        assert [shlex.split(line) for line in lines] == [["aicr", *made.bundle]]


def test_what_is_missing_is_said() -> None:
    made = rendering(plan_of(), None, False, "registry.example/aicr")
    assert ["runtime.yaml" in made.missing[0], "recipe.yaml" in made.missing[1]] == [True, True]
    assert "--set-json" not in made.bundle
    assert made.bundle[:3] == ("bundle", "-r", "recipe-again.yaml")
    assert readme(plan_of(), made, False).count("**Missing**") == 2
    assert "sha256sum" not in readme(plan_of(), made, False)


def test_the_wishs_own_image_is_named() -> None:
    digest = plan_of().desired_state.aicr.image_digest
    wish = runtime(aicr={"version": "v1.1.2", "image": f"mirror.example/aicr@{digest}"})
    assert rendering(plan_of(), wish, True, "other.example/aicr").image == f"mirror.example/aicr@{digest}"


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        (runtime(intent="inference"), "criteria"),
        (runtime(**{"placement.system.nodeSelector": {"pool": "x"}}), "placement"),
        (runtime(aicr={"version": "v1.1.2", "image": f"x.example/aicr@{sha('other')}"}), "aicr.image"),
    ],
)
def test_another_wish_is_refused(wish: Any, named: str) -> None:
    with refused(Reason.PlanUnreadable, "is not the one it was made from", named):
        rendering(plan_of(), wish, True, "registry.example/aicr")


# Comparing bundles that the real AICR rendered


def planned(files: Mapping[str, bytes], wish: ClusterRuntime | None = None) -> Plan:
    """The plan of a bundle, its wrappers packed as the mirror packs them."""
    found = read_bundle(files)
    charts: dict[str, PlannedChart] = {}
    for release in found.releases:
        name, version, content = release.name, "1.0.0", sha(f"content {release.name}")
        if release.source is None:
            chart = parse_chart_yaml(release.files["Chart.yaml"], release.name)
            name, version, content = chart.name, chart.version, sha256(pack(chart.name, release.files))
        charts[release.name] = PlannedChart(
            name=name, version=version, content_digest=content, manifest_digest=sha(f"manifest {name}")
        )
    recorded = Recorded(
        run="one",
        runtime_version="v",
        created_at="2026-01-01T00:00:00.000Z",
        snapshot_digest=sha("snapshot"),
        recipe_digest=found.recipe_digest,
        bundle_digest=sha("artifact"),
    )
    aicr = config(
        **{"aicr.version": found.aicr_version, "aicr.developmentVersions": [found.aicr_version]}
    ).aicr
    return make_plan(found, wish or runtime(), aicr, charts, recorded)


@pytest.fixture(scope="module")
def rendered(captured: Path) -> Files:
    return captured_files(captured / FIRST / "bundle-helm")


def told(made: Plan, files: Files, listed: bytes | None) -> list[tuple[str, str | None, str]]:
    found = compare_bundle(made, files, listed).findings
    return [(finding.what, finding.release, finding.difference.path) for finding in found]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_bundle_equals_its_own_plan(captured: Path, profile: str) -> None:
    files = captured_files(captured / profile / "bundle-helm")
    made = compare_bundle(planned(files), files, content_list(files))
    assert (made.findings, made.notes) == ((), ())
    assert compare_bundle(planned(files), files, None).findings == ()


CONTENT = ("plan", None, "bundleContentDigest")


def folder(files: Files, release: str) -> str:
    return next(name.partition("/")[0] for name in files if name.partition("/")[0][4:] == release)


def one_value(files: Files) -> tuple[Files, list[Any]]:
    name = f"{folder(files, 'gpu-operator')}/values.yaml"
    values = yaml.safe_load(files[name])
    values["driver"]["version"] = "1.2.3"
    changed = {**files, name: yaml.safe_dump(values).encode()}
    return changed, [("values", "gpu-operator", "driver.version"), ("changed file", None, name), CONTENT]


def one_version(files: Files) -> tuple[Files, list[Any]]:
    name = f"{folder(files, 'cert-manager')}/upstream.env"
    lines = [b"VERSION=v9.9.9" if line.startswith(b"VERSION=") else line for line in files[name].splitlines()]
    wanted = [("release", "cert-manager", "source.version"), ("changed file", None, name), CONTENT]
    return {**files, name: b"\n".join(lines) + b"\n"}, wanted


def one_repository(files: Files) -> tuple[Files, list[Any]]:
    name = f"{folder(files, 'cert-manager')}/upstream.env"
    lines = [
        b"REPO=https://evil.example" if line.startswith(b"REPO=") else line
        for line in files[name].splitlines()
    ]
    wanted = [("release", "cert-manager", "source.repo"), ("changed file", None, name), CONTENT]
    return {**files, name: b"\n".join(lines) + b"\n"}, wanted


def one_template(files: Files) -> tuple[Files, list[Any]]:
    name = next(name for name in sorted(files) if "gpu-operator-readiness/templates/" in name)
    wanted = [("release", "gpu-operator-readiness", "chart.contentDigest"), ("changed file", None, name)]
    return {**files, name: files[name] + b"# x\n"}, [*wanted, CONTENT]


def new_template(files: Files) -> tuple[Files, list[Any]]:
    name = f"{folder(files, 'gpu-operator-readiness')}/templates/surprise.yaml"
    wanted = [("release", "gpu-operator-readiness", "chart.contentDigest"), ("extra file", None, name)]
    return {**files, name: b"{}"}, [*wanted, CONTENT]


def a_comment(files: Files) -> tuple[Files, list[Any]]:
    name = f"{folder(files, 'gpu-operator')}/values.yaml"
    return {**files, name: files[name] + b"# x\n"}, [("changed file", None, name), CONTENT]


def last_release_missing(files: Files) -> tuple[Files, list[Any]]:
    last = max(name.partition("/")[0] for name in files if "/" in name)
    left = {name: data for name, data in files.items() if not name.startswith(last)}
    gone = [name for name in sorted(files) if name.startswith(last) and name in content_names(files)]
    return left, [
        ("missing release", last[4:], last[4:]), *(("missing file", None, name) for name in gone), CONTENT,
    ]  # fmt: skip


def another_version_of_aicr(files: Files) -> tuple[Files, list[Any]]:
    recipe = yaml.safe_load(files["recipe.yaml"])
    recipe["metadata"]["version"] = "v1.0.0"
    return {**files, "recipe.yaml": yaml.safe_dump(recipe).encode()}, [("plan", None, "aicr.version")]


def content_names(files: Files) -> set[str]:
    return {line[66:] for line in content_list(files).decode().splitlines()}


@pytest.mark.parametrize(
    "change",
    [
        one_value, one_version, one_repository, one_template, new_template, a_comment, last_release_missing,
        another_version_of_aicr,
    ],
)  # fmt: skip
def test_one_change_is_named_and_nothing_else(
    rendered: Files, change: Callable[[Files], tuple[Files, list[Any]]]
) -> None:
    made, listed = planned(rendered), content_list(rendered)
    changed, wanted = change(rendered)
    assert told(made, changed, listed) == wanted
    named_without_files = [item for item in wanted if not item[0].endswith(" file")]
    assert told(made, changed, None) == named_without_files
    # The other way round: the plan is of the changed one.
    assert len(told(planned(sealed_again(changed)), rendered, None)) == len(named_without_files)


def sealed_again(files: Files) -> Files:
    return sealed({name: data for name, data in files.items() if name != "checksums.txt"})


def test_files_that_decide_nothing_are_notes(rendered: Files) -> None:
    made = planned(rendered)
    changed = {**rendered, "README.md": b"other", "recipe.yaml": rendered["recipe.yaml"] + b"# x\n"}
    compared = compare_bundle(made, changed, content_list(rendered))
    assert compared.findings == ()
    assert ["does not have the checksum" in compared.notes[0], "recipe.yaml" in compared.notes[1]] == [
        True
    ] * 2


def test_another_order_is_named(rendered: Files) -> None:
    one, two = sorted({name.partition("/")[0] for name in rendered if "/" in name})[:2]
    swapped = {
        name.replace(one, f"002-{one[4:]}").replace(two, f"001-{two[4:]}"): data
        for name, data in rendered.items()
    }
    assert told(planned(rendered), swapped, None) == [("plan", None, "releases (order)"), CONTENT]


def test_a_list_of_another_plan_is_refused(rendered: Files) -> None:
    with refused(Reason.PlanUnreadable, "The content list is not that of plan"):
        compare_bundle(planned(rendered), rendered, b"x")


def test_what_is_no_bundle_is_refused(rendered: Files) -> None:
    with refused(Reason.BundleInvalid, "recipe.yaml is missing"):
        compare_bundle(planned(rendered), {"a": b"b"}, None)


def test_the_namespace_is_compared(rendered: Files) -> None:
    made = planned(rendered)
    releases = list(made.desired_state.releases)
    releases[0] = releases[0].model_copy(update={"namespace": "other"})
    state = made.desired_state.model_copy(update={"releases": tuple(releases)})
    moved = made.model_copy(update={"desired_state": state})
    assert told(moved, rendered, None) == [("release", releases[0].name, "namespace")]
