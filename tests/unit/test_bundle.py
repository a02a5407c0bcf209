"""Bundles made by hand: what is refused, and in which order releases come."""

import hashlib
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.bundle import (
    Bundle,
    check_checksums,
    content_digest,
    read_bundle,
)
from aicr_pipeline.decide.plan import check_namespaces
from aicr_pipeline.model.reasons import Reason

from tests.unit.samples import refused

ENV = b"CHART='app'\nREPO='https://charts.example'\nVERSION='1.2.3'\n"
WRAPPER = b"apiVersion: v2\nname: app-post\nversion: 0.1.0\n"
RECIPE: dict[str, Any] = {
    "apiVersion": "aicr.run/v1",
    "kind": "RecipeResult",
    "metadata": {"version": "v1.1.2", "name": "h100"},
    "componentRefs": [{"name": "app", "namespace": "apps"}, {"name": "base", "namespace": "kube-system"}],
}
INFO: dict[str, Any] = {
    "apiVersion": "aicr.run/v1",
    "kind": "BundleInfo",
    "layout": {
        "releases": [
            {"name": "base", "component": "base", "namespace": "kube-system", "path": "002-base"},
            {"name": "app", "component": "app", "namespace": "apps", "path": "001-app/"},
        ]
    },
}


def sealed(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with a fitting checksum list."""
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return {**files, "checksums.txt": "".join(lines).encode()}


def files(**changes: bytes | None) -> dict[str, bytes]:
    """Two charts; changes are by path, None drops a file."""
    made: dict[str, bytes | None] = {
        "recipe.yaml": yaml.safe_dump(RECIPE).encode(),
        "README.md": b"read me",
        "001-app/upstream.env": ENV,
        "001-app/values.yaml": b"a: {b: 1, c: 2}\n",
        "001-app/cluster-values.yaml": b"a: {b: 3}\n",
        "001-app/install.sh": b"#!/bin/sh\n",
        "002-base/upstream.env": b"CHART=oci://ghcr.io/x/base\nREPO=\nVERSION=v2.0.0\n",
        "002-base/values.yaml": b"",
        **changes,
    }
    return {name: data for name, data in made.items() if data is not None}


def read(**changes: bytes | None) -> Bundle:
    return read_bundle(sealed(files(**changes)))


def test_a_good_bundle() -> None:
    bundle = read()
    assert [(r.name, r.component, r.namespace, r.kind) for r in bundle.releases] == [
        ("app", "app", "apps", "chart"),
        ("base", "base", "kube-system", "chart"),
    ]
    assert bundle.releases[0].values == {"a": {"b": 3, "c": 2}}
    assert bundle.releases[1].values == {}
    assert bundle.releases[1].source is not None
    assert bundle.releases[1].source.chart == "oci://ghcr.io/x/base"
    assert (bundle.aicr_version, bundle.recipe_name) == ("v1.1.2", "h100")
    assert bundle.recipe_digest == "sha256:" + hashlib.sha256(files()["recipe.yaml"]).hexdigest()


# Checksums: closed world


def test_no_checksums() -> None:
    with refused(Reason.BundleInvalid, "checksums.txt is missing"):
        check_checksums(files())


def test_every_changed_file_is_found() -> None:
    good = sealed(files())
    for name in files():
        with refused(Reason.BundleInvalid, f"{name} does not have the checksum"):
            check_checksums({**good, name: good[name] + b"\n"})


def test_every_missing_file_is_found() -> None:
    good = sealed(files())
    for name in files():
        with refused(Reason.BundleInvalid, f"{name} is listed in checksums.txt but missing"):
            check_checksums({key: data for key, data in good.items() if key != name})


@pytest.mark.parametrize(
    "name", ["extra", "001-app/templates/x.yaml", "003-more/values.yaml", "checksums.txt2"]
)
def test_an_added_file_is_found(name: str) -> None:
    with refused(Reason.BundleInvalid, f"{name} has no line"):
        check_checksums({**sealed(files()), name: b""})


@pytest.mark.parametrize(
    "line",
    ["", "x", "a" * 64 + " one-space", "A" * 64 + "  upper", "a" * 63 + "  short", "a" * 64 + "  ", "# note"],
)
def test_a_line_that_is_none(line: str) -> None:
    good = sealed(files())
    with refused(Reason.BundleInvalid, "line 1 is not"):
        check_checksums({**good, "checksums.txt": line.encode() + b"\n" + good["checksums.txt"]})


def test_a_duplicate_line() -> None:
    good = sealed(files())
    first = good["checksums.txt"].splitlines(keepends=True)[0]
    with refused(Reason.BundleInvalid, "twice"):
        check_checksums({**good, "checksums.txt": good["checksums.txt"] + first})


# Content digest


def test_the_content_digest_by_hand() -> None:
    # As documented: lines of sha256, two spaces, path; sorted by path; of what decides the releases only.
    covered = [
        "001-app/cluster-values.yaml",
        "001-app/upstream.env",
        "001-app/values.yaml",
        "002-base/upstream.env",
        "002-base/values.yaml",
    ]
    text = "".join(f"{hashlib.sha256(files()[name]).hexdigest()}  {name}\n" for name in covered)
    assert content_digest(files()) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "name", ["README.md", "recipe.yaml", "001-app/install.sh", "deploy.sh", "001-app/NOTES"]
)
def test_what_varies_between_renders_is_not_covered(name: str) -> None:
    assert content_digest({**files(), name: b"other"}) == content_digest(files())


@pytest.mark.parametrize(
    "name",
    ["001-app/values.yaml", "001-app/upstream.env", "001-app/templates/a/b.yaml", "001-app/charts/c/d"],
)
def test_what_decides_the_releases_is_covered(name: str) -> None:
    assert content_digest({**files(), name: b"other"}) != content_digest(files())


# Order


def test_order_is_that_of_bundle_info_never_sorted() -> None:
    bundle = read(**{"bundle-info.yaml": yaml.safe_dump(INFO).encode()})
    assert [release.name for release in bundle.releases] == ["base", "app"]
    assert bundle.info is not None


@pytest.mark.parametrize(
    ("releases", "said"),
    [
        (None, "layout.releases is not a list"),
        ([], "layout.releases is not a list"),
        ({"a": 1}, "layout.releases is not a list"),
        (["x"], "layout.releases[0] is not a mapping"),
        ([{"name": "app"}], "layout.releases[0] has no name or path"),
        ([{"name": 1, "path": "001-app"}], "layout.releases[0] has no name or path"),
        ([{"name": "app", "path": "001-app"}], "folder 002-base is not among layout.releases"),
        ([*INFO["layout"]["releases"], {"name": "x", "path": "003-x"}], "its folder 003-x is missing"),
        ([*INFO["layout"]["releases"], {"name": "x", "path": "../001-app"}], "../001-app is missing"),
        ([*INFO["layout"]["releases"], {"name": "x", "path": "001-app"}], "001-app belongs to two releases"),
        ([{"name": "a" * 54, "path": "001-app"}], "no release name of at most 53"),
        ([{"name": "../x", "path": "001-app"}], "no release name of at most 53"),
        ([{"name": "app\n", "path": "001-app"}], "no release name of at most 53"),
    ],
)
def test_bundle_info_that_does_not_fit(releases: Any, said: str) -> None:
    info = {**INFO, "layout": {"releases": releases}}
    with refused(Reason.BundleInvalid, said):
        read(**{"bundle-info.yaml": yaml.safe_dump(info).encode()})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"misc/x": b""}, "folder misc is not named"),
        ({"1-x/values.yaml": b""}, "folder 1-x is not named"),
        ({"003-X/values.yaml": b""}, "folder 003-X is not named"),
        ({f"003-{'x' * 54}/values.yaml": b""}, "is not named"),
        ({"002-other/upstream.env": ENV}, "two folders have the same number"),
        ({"003-app/upstream.env": ENV}, "release app stands twice"),
        ({"001-app/upstream.env": None}, "001-app must hold either upstream.env or Chart.yaml"),
        ({"001-app/Chart.yaml": WRAPPER}, "001-app must hold either upstream.env or Chart.yaml"),
        ({"001-app/templates/x.yaml": b"kind: A\n"}, "001-app/templates/x.yaml would be lost"),
        ({"001-app/charts/x.tgz": b""}, "001-app/charts/x.tgz would be lost"),
        ({"recipe.yaml": None}, "recipe.yaml is missing"),
        ({"recipe.yaml": b"- a"}, "recipe.yaml is not a mapping"),
        ({"001-app/values.yaml": b"- a"}, "001-app/values.yaml is not a mapping"),
        ({"001-app/values.yaml": b"a: 1\na: 2"}, "stands twice"),
        ({"001-app/values.yaml": b"x: 9007199254740993"}, "release app: its values cannot be written"),
        ({"001-app/values.yaml": b"x: 0x" + b"f" * 5000}, "release app: its values cannot be written"),
        ({"001-app/values.yaml": b"x: .nan"}, "release app: its values cannot be written"),
        ({"003-gone/upstream.env": ENV}, "neither bundle-info.yaml nor the recipe names its namespace"),
    ],
)
def test_folders_that_do_not_fit(changes: dict[str, bytes | None], said: str) -> None:
    with refused(Reason.BundleInvalid, said):
        read(**changes)


def test_nothing_but_a_recipe() -> None:
    with refused(Reason.BundleInvalid, "it holds no release"):
        read_bundle(sealed({"recipe.yaml": files()["recipe.yaml"]}))


def test_values_too_large() -> None:
    with refused(Reason.ContentTooLarge, "001-app/values.yaml"):
        read(**{"001-app/values.yaml": b"#" * ((4 << 20) + 1)})


# Components and namespaces


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("app-post", "app"),
        ("app-pre", "app"),
        ("app-readiness", "app"),
        ("exact-post", "exact-post"),
    ],
)
def test_names_lose_their_suffix_unless_the_recipe_has_them(name: str, component: str) -> None:
    recipe = {
        **RECIPE,
        "componentRefs": [*RECIPE["componentRefs"], {"name": "exact-post", "namespace": "own"}],
    }
    bundle = read(**{
        "recipe.yaml": yaml.safe_dump(recipe).encode(),
        f"003-{name}/Chart.yaml": WRAPPER,
        f"003-{name}/templates/a.yaml": b"kind: Job",
    })  # fmt: skip
    found = bundle.releases[2]
    assert (found.component, found.namespace) == (component, "own" if component == name else "apps")
    assert (found.kind, found.values) == ("wrapper", None)


def test_a_wrapper_holds_its_chart_and_nothing_for_people() -> None:
    bundle = read(**{
        "003-app-post/Chart.yaml": WRAPPER,
        "003-app-post/templates/a.yaml": b"kind: Job",
        "003-app-post/values.yaml": b"{}",
        "003-app-post/cluster-values.yaml": b"# nothing\n",
        "003-app-post/install.sh": b"x",
    })  # fmt: skip
    assert set(bundle.releases[2].files) == {"Chart.yaml", "templates/a.yaml", "values.yaml"}
    assert bundle.releases[0].files == {}


def test_a_wrapper_with_cluster_values_is_refused() -> None:
    with refused(Reason.BundleInvalid, "003-app-post/cluster-values.yaml is not empty"):
        read(**{"003-app-post/Chart.yaml": WRAPPER, "003-app-post/cluster-values.yaml": b"a: 1"})


def test_every_stray_namespace_is_named() -> None:
    check_namespaces(read(), {"apps", "kube-system"})
    with refused(Reason.NamespaceNotAllowed, "app (apps), base (kube-system)"):
        check_namespaces(read(), {"other"})


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"name": "n", "appliedOverlays": ["a"]}, "n"),
        ({"appliedOverlays": ["a", "b"]}, "b"),
        ({"appliedOverlays": []}, "unnamed"),
        ({}, "unnamed"),
        (None, "unnamed"),
    ],
)
def test_recipe_names(metadata: Any, name: str) -> None:
    assert (
        read(**{"recipe.yaml": yaml.safe_dump({**RECIPE, "metadata": metadata}).encode()}).recipe_name == name
    )
