"""Reading a rendered bundle (``aicr bundle -d helm``): checksums, order, sources and merged values.

The bundle's format is stated in ``docs/bundle-format.md``. Everything is checked before anything is
believed: the checksum list is closed-world, so a file that is changed, missing or added is refused.
"""

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.artifacts import check_artifact
from aicr_pipeline.decide.canonical import canonical, sha256
from aicr_pipeline.decide.upgrade_records import read_records
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.plan import UpstreamSource
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.upgrades import ComponentRecord

CHECKSUMS = "checksums.txt"
BUNDLE_INFO = "bundle-info.yaml"
RECIPE = "recipe.yaml"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?")
#: Of one release's values as canonical JSON.
MOST_VALUES_BYTES = 256 << 10

_FOLDER = re.compile(rf"^(\d{{3}})-({_NAME.pattern})$")
_CHECKSUM_LINE = re.compile(r"^([0-9a-f]{64})  (\S.*)$")
_NO_WORD = re.compile(r"[\s\x00-\x1f\x7f]")
#: Which files of a release folder the content digest covers; the rest changes with umask or node count.
_CONTENT = re.compile(
    r"^\d{3}-[^/]+/(values\.yaml|cluster-values\.yaml|upstream\.env|Chart\.yaml|(templates|charts)/.+)$"
)
#: Suffixes that AICR appends to a component's name for releases it adds around it.
_SUFFIXES = ("-pre", "-post", "-readiness")


@dataclass(frozen=True)
class BundledRelease:
    """One release of the bundle, in order.

    ``source`` is None for a wrapper, whose chart files are ``files`` (path in the chart -> bytes).
    """

    name: str
    component: str
    namespace: str
    folder: str
    source: UpstreamSource | None
    values: dict[str, Any] | None
    files: Mapping[str, bytes]

    @property
    def kind(self) -> str:
        return "wrapper" if self.source is None else "chart"


@dataclass(frozen=True)
class Bundle:
    """The bundle, read and checked."""

    recipe: dict[str, Any]
    recipe_digest: str
    recipe_name: str
    aicr_version: str
    content_digest: str
    info: dict[str, Any] | None
    releases: tuple[BundledRelease, ...]
    upgrades: tuple[ComponentRecord, ...] = ()

    def recorded_versions(self) -> Iterable[tuple[str, str]]:
        """What records a version of AICR, and which; an older bundle has but its recipe."""
        yield "bundle's recipe", self.aicr_version
        info = self.info or {}
        for what, found in (
            ("bundle", _at(info, "metadata", "version")),
            ("recipe that the bundle names", _at(info, "build", "recipe", "version")),
        ):
            if found is not None:
                yield what, str(found)


def read_bundle(files: Mapping[str, bytes]) -> Bundle:
    """Read a bundle from its files (path under the bundle's root -> bytes).

    Raises
    ------
    PipelineError
        ``BundleInvalid`` naming the file or release; ``AICRArtifactUnsupported`` for an apiVersion
        this version does not know; ``ContentTooLarge`` for a document over its limit.
    """
    check_checksums(files)
    recipe = _document(files, RECIPE, "RecipeResult")
    info = _document(files, BUNDLE_INFO, "BundleInfo") if BUNDLE_INFO in files else None
    if info is not None:
        _check_build(info, sha256(files[RECIPE]))
    metadata = recipe.get("metadata") if isinstance(recipe.get("metadata"), dict) else {}
    folders, refs = _by_folder(files), _component_refs(recipe)
    releases = tuple(_release(folders, refs, entry) for entry in _ordered(files, info))
    _distinct(releases)
    return Bundle(
        recipe=recipe,
        recipe_digest=sha256(files[RECIPE]),
        recipe_name=_recipe_name(metadata or {}),
        aicr_version=str((metadata or {}).get("version", "")),
        content_digest=content_digest(files),
        info=info,
        releases=releases,
        upgrades=read_records(files, {release.component for release in releases}),
    )


def check_checksums(files: Mapping[str, bytes]) -> None:
    """Closed world: exactly the listed files, each with its listed SHA-256. Raises ``BundleInvalid``."""
    if CHECKSUMS not in files:
        raise _invalid(f"{CHECKSUMS} is missing, so nothing in the bundle can be believed")
    listed: dict[str, str] = {}
    for number, line in enumerate(_decoded(files[CHECKSUMS], CHECKSUMS).splitlines(), 1):
        match = _CHECKSUM_LINE.match(line)
        if match is None:
            raise _invalid(f"{CHECKSUMS} line {number} is not '<sha256>  <path>'")
        if match[2] in listed:
            raise _invalid(f"{CHECKSUMS} lists {match[2]} twice")
        listed[match[2]] = match[1]
    present = set(files) - {CHECKSUMS}
    for name in sorted(present - set(listed)):
        raise _invalid(f"{name} has no line in {CHECKSUMS}")
    for name in sorted(set(listed) - present):
        raise _invalid(f"{name} is listed in {CHECKSUMS} but missing")
    for name, want in listed.items():
        if hashlib.sha256(files[name]).hexdigest() != want:
            raise _invalid(f"{name} does not have the checksum that {CHECKSUMS} gives it")


def content_list(files: Mapping[str, bytes]) -> bytes:
    """``<sha256>  <path>`` lines, sorted by path, of the files that decide the releases."""
    lines = (
        f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n"
        for name in sorted(files)
        if _CONTENT.match(name)
    )
    return "".join(lines).encode()


def content_digest(files: Mapping[str, bytes]) -> str:
    """SHA-256 over the content list."""
    return sha256(content_list(files))


def merge(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Helm's merge of two values files: maps deeply, anything else replaced by ``over``."""
    merged = dict(base)
    for key, value in over.items():
        mine = merged.get(key)
        merged[key] = merge(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return merged


def parse_upstream_env(text: str, folder: str) -> UpstreamSource:
    """``upstream.env``: CHART, REPO and VERSION as shell-quoted assignments; nothing else is allowed.

    For OCI sources CHART is the whole ``oci://`` reference and REPO is empty.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise _invalid(f"{folder}/upstream.env line {number}: {error}") from None
        key, equals, value = words[0].partition("=") if len(words) == 1 else ("", "", "")
        if not equals or key not in {"CHART", "REPO", "VERSION"} or key in found:
            raise _invalid(f"{folder}/upstream.env line {number} is not one of CHART=, REPO=, VERSION=")
        if _NO_WORD.search(value):
            raise _invalid(f"{folder}/upstream.env line {number}: {key} holds a space or control character")
        found[key] = value
    for key in ("CHART", "VERSION"):
        if not found.get(key):
            raise _invalid(f"{folder}/upstream.env has no {key}")
    oci = found["CHART"].startswith("oci://")
    repo = found.get("REPO", "")
    if oci == bool(repo) or (repo and not repo.startswith(("https://", "http://"))):
        raise PipelineError(
            Reason.ChartSourceUnsupported,
            f"{folder}: CHART {found['CHART']!r} with REPO {repo!r} is neither an https "
            "repository nor an oci:// chart.",
        )
    return UpstreamSource(chart=found["CHART"], repo=repo, version=found["VERSION"])


@dataclass(frozen=True)
class _Entry:
    folder: str
    name: str
    component: str | None
    namespace: str | None


def _ordered(files: Mapping[str, bytes], info: dict[str, Any] | None) -> Iterable[_Entry]:
    folders = sorted({name.split("/", 1)[0] for name in files if "/" in name})
    numbered = {folder: match for folder in folders if (match := _FOLDER.match(folder))}
    strange = [folder for folder in folders if folder not in numbered]
    if strange:
        raise _invalid(f"folder {strange[0]} is not named NNN-<release>")
    if info is None:
        numbers = [match[1] for match in numbered.values()]
        if len(set(numbers)) != len(numbers):
            raise _invalid("two folders have the same number, so the order is not known")
        if sorted(map(int, numbers)) != list(range(1, len(numbers) + 1)):
            raise _invalid("the folders are not numbered 001, 002 and so on: one is missing")
        entries = [_Entry(folder, match[2], None, None) for folder, match in numbered.items()]
    else:
        entries = list(_from_info(info))
        shared = [entry.folder for entry in entries]
        twice = sorted({folder for folder in shared if shared.count(folder) > 1})
        if twice:
            raise _invalid(f"folder {twice[0]} belongs to two releases of {BUNDLE_INFO}")
        missing = sorted(set(numbered) - set(shared))
        if missing:
            raise _invalid(f"folder {missing[0]} is not among layout.releases of {BUNDLE_INFO}")
    if not entries:
        raise _invalid("it holds no release")
    return entries


def _check_build(info: Mapping[str, Any], recipe_digest: str) -> None:
    """What the build record says of the bundle must be what was asked for, and what is there."""
    deployer = _at(info, "build", "deployer")
    if deployer not in (None, "helm"):
        raise _invalid(f"{BUNDLE_INFO}: build.deployer is {deployer!r}, not helm")
    if _at(info, "build", "settings", "vendorCharts") not in (None, False):
        raise _invalid(
            f"{BUNDLE_INFO}: build.settings.vendorCharts: charts that the bundle carries are not read"
        )
    named = _at(info, "build", "recipe", "digest")
    if named not in (None, recipe_digest):
        raise _invalid(f"{BUNDLE_INFO}: build.recipe.digest is {named!r}, but {RECIPE} has {recipe_digest}")


def _from_info(info: dict[str, Any]) -> Iterable[_Entry]:
    layout = info.get("layout")
    releases = layout.get("releases") if isinstance(layout, dict) else None
    if not isinstance(releases, list) or not releases:
        raise _invalid(f"{BUNDLE_INFO}: layout.releases is not a list of releases")
    for number, release in enumerate(releases):
        where = f"{BUNDLE_INFO}: layout.releases[{number}]"
        if not isinstance(release, dict):
            raise _invalid(f"{where} is not a mapping")
        name, folder = release.get("name"), release.get("path", release.get("folder"))
        if not isinstance(name, str) or not isinstance(folder, str):
            raise _invalid(f"{where} has no name or path")
        if not _NAME.fullmatch(name):
            raise _invalid(f"{where}: {name!r} is no release name of at most 53 characters")
        component, namespace = _text(release, "component", where), _text(release, "namespace", where)
        yield _Entry(folder.strip("/"), name, component, namespace)


def _by_folder(files: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Each folder's files by their path in it."""
    found: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        folder, slash, rest = name.partition("/")
        if slash:
            found.setdefault(folder, {})[rest] = data
    return found


def _release(
    folders: Mapping[str, dict[str, bytes]], refs: Mapping[str, dict[str, Any]], entry: _Entry
) -> BundledRelease:
    own = folders.get(entry.folder)
    if not own:
        raise _invalid(f"release {entry.name}: its folder {entry.folder} is missing")
    component, namespace = _component(refs, entry)
    if ("upstream.env" in own) == ("Chart.yaml" in own):
        raise _invalid(f"{entry.folder} must hold either upstream.env or Chart.yaml")
    if "Chart.yaml" in own:
        if _values(own, entry.folder, "cluster-values.yaml"):
            raise _invalid(
                f"{entry.folder}/cluster-values.yaml is not empty, but a wrapper's templates are rendered"
            )
        chart = {
            name: data for name, data in own.items() if name != "install.sh" and name != "cluster-values.yaml"
        }
        return BundledRelease(entry.name, component, namespace, entry.folder, None, None, chart)
    lost = sorted(name for name in own if name.startswith(("templates/", "charts/")))
    if lost:
        raise _invalid(f"{entry.folder}/{lost[0]} would be lost: the chart comes from elsewhere, as a whole")
    text = _decoded(own["upstream.env"], f"{entry.folder}/upstream.env")
    source = parse_upstream_env(text, entry.folder)
    values = merge(
        _values(own, entry.folder, "values.yaml"), _values(own, entry.folder, "cluster-values.yaml")
    )
    size = len(canonical(values, f"release {entry.name}: its values"))
    if size > MOST_VALUES_BYTES:
        raise PipelineError(
            Reason.ContentTooLarge,
            f"Release {entry.name}: its values have {size} bytes; {MOST_VALUES_BYTES} fit, since an "
            "Application holds them four times over and Kubernetes takes 1.5 MB an object.",
        )
    return BundledRelease(entry.name, component, namespace, entry.folder, source, values, {})


def _component(refs: Mapping[str, dict[str, Any]], entry: _Entry) -> tuple[str, str]:
    names = [entry.component] if entry.component else [entry.name]
    names += [entry.name.removesuffix(suffix) for suffix in _SUFFIXES if entry.name.endswith(suffix)]
    ref = next((refs[name] for name in names if name in refs), None)
    component = entry.component or (str(ref["name"]) if ref else entry.name)
    namespace = entry.namespace or _text(ref or {}, "namespace", f"{RECIPE}: component {component}")
    if namespace is None:
        raise _invalid(f"release {entry.name}: neither {BUNDLE_INFO} nor the recipe names its namespace")
    return component, namespace


def _component_refs(recipe: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The recipe's components by name."""
    listed = recipe.get("componentRefs")
    found: dict[str, dict[str, Any]] = {}
    for ref in [] if listed is None else listed if isinstance(listed, list) else [listed]:
        name = ref.get("name") if isinstance(ref, dict) else None
        if not isinstance(name, str) or name in found:
            raise _invalid(
                f"{RECIPE}: componentRefs is not a list of components, each with a name of its own"
            )
        found[name] = ref
    return found


def _values(own: Mapping[str, bytes], folder: str, name: str) -> dict[str, Any]:
    values = yaml.load(own.get(name, b""), Reason.BundleInvalid, f"{folder}/{name}", most_bytes=4 << 20)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _invalid(f"{folder}/{name} is not a mapping")
    return values


def _document(files: Mapping[str, bytes], name: str, kind: str) -> dict[str, Any]:
    if name not in files:
        raise _invalid(f"{name} is missing")
    data = yaml.load(files[name], Reason.BundleInvalid, name, most_bytes=4 << 20)
    if not isinstance(data, dict):
        raise _invalid(f"{name} is not a mapping")
    check_artifact(data, kind, name)
    return data


def _recipe_name(metadata: Mapping[str, Any]) -> str:
    if isinstance(metadata.get("name"), str):
        return str(metadata["name"])
    overlays = metadata.get("appliedOverlays")
    return str(overlays[-1]) if isinstance(overlays, list) and overlays else "unnamed"


def _distinct(releases: tuple[BundledRelease, ...]) -> None:
    names = [release.name for release in releases]
    for name in names:
        if names.count(name) > 1:
            raise _invalid(f"release {name} stands twice")


def _decoded(data: bytes, name: str) -> str:
    """A file's text; none of it is guessed."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _invalid(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _at(mapping: Mapping[str, Any], *path: str) -> Any:
    """What stands at the path, None where it does not lead."""
    found: Any = mapping
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _text(mapping: Mapping[str, Any], key: str, where: str) -> str | None:
    """Text, None when it is absent or empty; anything else is refused."""
    value = mapping.get(key)
    if value is not None and not isinstance(value, str):
        raise _invalid(f"{where}: {key} is {type(value).__name__}, not text")
    return value or None


def _invalid(what: str) -> PipelineError:
    return PipelineError(Reason.BundleInvalid, f"The rendered bundle is refused: {what}.")
