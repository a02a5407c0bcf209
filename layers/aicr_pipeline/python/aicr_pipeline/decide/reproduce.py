"""Rendering a plan again: what to run, what to run it on, and what of the result differs from the plan."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.aicr_command import Wish, bundle_arguments, recipe_arguments, wish_of
from aicr_pipeline.decide.bundle import (
    CHECKSUMS,
    BundledRelease,
    check_checksums,
    content_list,
    read_bundle,
)
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.chart_package import pack
from aicr_pipeline.decide.chart_yaml import parse_chart_yaml
from aicr_pipeline.decide.compare_plans import Difference, differences
from aicr_pipeline.decide.versions import same
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import Plan, PlannedRelease
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import ClusterRuntime

#: The plan holds the image's digest, which says what it is; where to get it is not part of a plan.
IMAGE_REPOSITORY = "ghcr.io/nvidia/aicr"
RECIPE_FILE, RECIPE_AGAIN, BUNDLE_FOLDER = "recipe.yaml", "recipe-again.yaml", "bundle"


@dataclass(frozen=True)
class Rendering:
    """How to render a plan again. ``missing`` says what the ledger has not got, and what that means."""

    image: str
    recipe: tuple[str, ...]
    bundle: tuple[str, ...]
    missing: tuple[str, ...]

    def wire(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "image": self.image,
            "recipe": ["aicr", *self.recipe],
            "bundle": ["aicr", *self.bundle],
            "missing": list(self.missing),
        }


def rendering(plan: Plan, runtime: ClusterRuntime | None, has_recipe: bool, repository: str) -> Rendering:
    """The command lines, which are the render Job's own but for where the results go.

    Parameters
    ----------
    runtime:
        The wish that the plan's run recorded; None when the ledger does not have it.
    repository:
        Where the image is fetched from, unless the wish names its own.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when the wish is not the one the plan was made from.
    """
    missing = []
    if runtime is None:
        wish = Wish(plan.desired_state.criteria, plan.desired_state.placement, {})
        missing.append(
            f"resolves/{plan.recorded.run}/runtime.yaml: criteria and placement are taken from the plan, "
            "but overrides are not known; if there were any, the bundle will differ"
        )
    else:
        wish = _wish(plan, runtime)
        if runtime.spec.aicr is not None:
            repository = runtime.spec.aicr.image.partition("@")[0]
    if not has_recipe:
        missing.append(
            f"resolves/{plan.recorded.run}/recipe.yaml: the recipe is resolved again, "
            "and may differ with the number of nodes"
        )
    recipe = RECIPE_FILE if has_recipe else RECIPE_AGAIN
    return Rendering(
        image=f"{repository}@{plan.desired_state.aicr.image_digest}",
        recipe=tuple(recipe_arguments(wish, RECIPE_AGAIN)),
        bundle=tuple(bundle_arguments(wish, recipe, BUNDLE_FOLDER)),
        missing=tuple(missing),
    )


def _wish(plan: Plan, runtime: ClusterRuntime) -> Wish:
    wish, state = wish_of(runtime), plan.desired_state
    own = runtime.spec.aicr
    strange = [
        name
        for name, differs in (
            ("criteria", wish.criteria != state.criteria),
            ("placement", wish.placement != state.placement),
            ("aicr.image", own is not None and own.image.partition("@")[2] != state.aicr.image_digest),
        )
        if differs
    ]
    if strange:
        raise PipelineError(
            Reason.PlanUnreadable,
            f"The runtime recorded for plan {plan.desired_state_digest} is not the one it was made from: "
            f"{', '.join(strange)} differ.",
        )
    return wish


def command_script(plan: Plan, made: Rendering) -> str:
    """A POSIX shell script that renders the plan again in its own folder."""
    return f"""#!/bin/sh
# Renders plan {plan.desired_state_digest}
# again, in this script's folder: {RECIPE_AGAIN} and {BUNDLE_FOLDER}/.
# Runs AICR's image with docker (ENGINE=podman: with podman), or AICR_BIN=/path/to/aicr instead of an image.
set -eu
cd "$(dirname "$0")"
IMAGE={shlex.quote(made.image)}
if [ -e {BUNDLE_FOLDER} ]; then
  echo "{BUNDLE_FOLDER} is there already; remove it first" >&2
  exit 2
fi
aicr() {{
  if [ -n "${{AICR_BIN:-}}" ]; then
    "$AICR_BIN" "$@"
    return
  fi
  case "${{ENGINE:-docker}}" in
  *podman) own=--userns=keep-id ;;
  *) own=--pull=missing ;;
  esac
  "${{ENGINE:-docker}}" run --rm "$own" --user "$(id -u):$(id -g)" --read-only --cap-drop ALL \\
    --security-opt no-new-privileges --tmpfs /tmp --env HOME=/tmp --volume "$PWD:/work" --workdir /work \\
    --entrypoint aicr "$IMAGE" "$@"
}}
aicr {shlex.join(made.recipe)}
aicr {shlex.join(made.bundle)}
"""


def readme(plan: Plan, made: Rendering, has_content_list: bool) -> str:
    """What is here, what to run, and what to compare."""
    state, recorded = plan.desired_state, plan.recorded
    lines = [
        f"# Plan {plan.desired_state_digest}",
        "",
        f"Recipe {state.recipe}, AICR {state.aicr.version}, {len(state.releases)} releases. "
        f"Written {recorded.created_at} by resolve {recorded.run}.",
        "",
        *(f"**Missing**: {what}." for what in made.missing),
        *([""] if made.missing else []),
        "1. `sh command.sh` renders it again. By hand:",
        "",
        "   ```shell",
        f"   aicr {shlex.join(made.recipe)}",
        f"   aicr {shlex.join(made.bundle)}",
        "   ```",
        "",
        f"   The image is `{made.image}`. A plan holds its digest; the registry it comes from is not in it.",
        "2. Compare what decides the releases:",
        "",
        "   ```shell",
        "   python -m aicr_pipeline.reproduce plan.json --bundle bundle",
        *(
            ["   (cd bundle && sha256sum -c ../content.sha256)    # without our program"]
            if has_content_list
            else []
        ),
        "   ```",
        "",
        f"   `bundleContentDigest` must be {state.bundle_content_digest}.",
        "",
        "Not compared, since they may change with times, the number of nodes and the umask: `recipe.yaml`,",
        "`bundle-info.yaml`, `checksums.txt`, `install.sh`, `deploy.sh`, `README.md`. So "
        f"`{RECIPE_AGAIN}` may differ from `{RECIPE_FILE}`, too.",
        "The charts themselves are not in a bundle: the plan names each by `chart.contentDigest`.",
        "",
    ]
    return "\n".join(lines)


@dataclass(frozen=True)
class Finding:
    """One difference between plan and bundle. ``what`` is the kind of thing that differs."""

    what: str
    difference: Difference
    release: str | None = None

    def wire(self) -> dict[str, Any]:
        """As JSON, with ``planned`` and ``rendered``."""
        wire = self.difference.wire()
        made: dict[str, Any] = {"what": self.what}
        if self.release is not None:
            made["release"] = self.release
        made["path"] = wire["path"]
        names = (("before", "planned"), ("after", "rendered"))
        return made | {name: wire[side] for side, name in names if side in wire}


@dataclass(frozen=True)
class BundleComparison:
    """``findings``: equal when there are none. ``notes`` make no difference to what is installed."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def compare_bundle(plan: Plan, files: Mapping[str, bytes], listed: bytes | None) -> BundleComparison:
    """Compare a rendered bundle with a plan.

    Parameters
    ----------
    files:
        Path under the bundle's root -> bytes. Checksums that do not hold are a note: a changed file is
        named by what it changes.
    listed:
        The content list of the plan's own bundle; without it files are not named.

    Raises
    ------
    PipelineError
        ``BundleInvalid`` and its kin when ``files`` are no bundle; ``PlanUnreadable`` for a list that
        is not the plan's.
    """
    state = plan.desired_state
    if listed is not None and sha256(listed) != state.bundle_content_digest:
        raise PipelineError(
            Reason.PlanUnreadable,
            f"The content list is not that of plan {plan.desired_state_digest}: it was changed.",
        )
    notes = list(_checksum_notes(files))
    mine = content_list(files)
    bundle = read_bundle({**files, CHECKSUMS: _checksums(files)})
    found: list[Finding] = []
    if not same(bundle.aicr_version, state.aicr.version):
        found.append(_plan("aicr.version", state.aicr.version, bundle.aicr_version))
    if bundle.recipe_name != state.recipe:
        found.append(_plan("recipe", state.recipe, bundle.recipe_name))
    if bundle.recipe_digest != plan.recorded.recipe_digest:
        notes.append("recipe.yaml has other bytes than the recorded one, which times and node counts do")
    found += _releases(state.releases, bundle.releases)
    if listed is not None:
        found += _files(_parsed(listed), _parsed(mine))
    if sha256(mine) != state.bundle_content_digest:
        found.append(_plan("bundleContentDigest", state.bundle_content_digest, sha256(mine)))
        if listed is None:
            notes.append("the ledger has no content list of this plan, so files are not compared one by one")
    return BundleComparison(tuple(found), tuple(notes))


def _releases(planned: tuple[PlannedRelease, ...], rendered: tuple[BundledRelease, ...]) -> Iterator[Finding]:
    mine, theirs = {one.name: one for one in planned}, {one.name: one for one in rendered}
    for name in mine:
        if name not in theirs:
            yield Finding("missing release", Difference(name, before=mine[name].chart.version), name)
    for name in theirs:
        if name not in mine:
            yield Finding("extra release", Difference(name, after=_version(theirs[name])), name)
    orders = [[name for name in one if name in other] for one, other in ((mine, theirs), (theirs, mine))]
    if orders[0] != orders[1]:
        yield _plan("releases (order)", *orders)
    for name in orders[0]:
        before, after = mine[name], theirs[name]
        for difference in differences(_planned(before), _rendered(after)):
            yield Finding("release", difference, name)
        for difference in differences(before.values or {}, after.values or {}):
            yield Finding("values", difference, name)


def _planned(release: PlannedRelease) -> dict[str, Any]:
    made: dict[str, Any] = {
        "namespace": release.namespace,
        "component": release.component,
        "kind": release.kind,
    }
    if release.source is None:
        chart = release.chart
        made["chart"] = {"name": chart.name, "version": chart.version, "contentDigest": chart.content_digest}
    else:
        made["source"] = release.source.wire()
    return made


def _rendered(release: BundledRelease) -> dict[str, Any]:
    made: dict[str, Any] = {
        "namespace": release.namespace,
        "component": release.component,
        "kind": release.kind,
    }
    if release.source is None:
        chart = parse_chart_yaml(release.files["Chart.yaml"], f"release {release.name} of the bundle")
        content = sha256(pack(chart.name, release.files))
        made["chart"] = {"name": chart.name, "version": chart.version, "contentDigest": content}
    else:
        made["source"] = release.source.wire()
    return made


def _version(release: BundledRelease) -> str:
    if release.source is not None:
        return release.source.version
    return parse_chart_yaml(release.files["Chart.yaml"], f"release {release.name} of the bundle").version


def _files(planned: Mapping[str, str], rendered: Mapping[str, str]) -> Iterator[Finding]:
    for path in sorted(planned.keys() | rendered.keys()):
        if path not in rendered:
            yield Finding("missing file", Difference(path, before=planned[path]))
        elif path not in planned:
            yield Finding("extra file", Difference(path, after=rendered[path]))
        elif planned[path] != rendered[path]:
            yield Finding("changed file", Difference(path, planned[path], rendered[path]))


def _parsed(listed: bytes) -> dict[str, str]:
    lines = listed.decode().splitlines()
    return {line[66:]: f"sha256:{line[:64]}" for line in lines}


def _checksums(files: Mapping[str, bytes]) -> bytes:
    """A list that holds, since what is compared is the content."""
    names = sorted(name for name in files if name != CHECKSUMS)
    return "".join(f"{sha256(files[name]).removeprefix('sha256:')}  {name}\n" for name in names).encode()


def _checksum_notes(files: Mapping[str, bytes]) -> Iterable[str]:
    try:
        check_checksums(files)
    except PipelineError as error:
        yield f"the pipeline would not take it as it is. {error.message}"


def _plan(path: str, planned: Any, rendered: Any) -> Finding:
    return Finding("plan", Difference(path, planned, rendered))
