"""Overrides: what AICR's flags can say, and whether the bundle holds what the runtime asked for.

AICR writes any path into a component's values, and its logs are not parsed; so what it made is compared.
Its rules (package ``pkg/component``): shallow paths first; an object merges into an object, where null
takes a key away; everything else replaces.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from aicr_pipeline.decide.bundle import Bundle, BundledRelease
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.reasons import Reason

Overrides = Mapping[str, Mapping[str, Any]]
#: AICR's toggle: whether a component is in the bundle at all.
ENABLED = "enabled"
#: AICR's prefix for options of its own Argo CD bundles, which the pipeline does not render.
DEPLOYER = "deployer"
_MOST_SHOWN = 120
_MOST_NAMED = 10
_ABSENT = object()


def check_sayable(overrides: Overrides) -> None:
    """Refuse what AICR has no flag for, before anything runs.

    Raises
    ------
    PipelineError
        ``InvalidOverride`` naming the field.
    """
    for component, paths in overrides.items():
        field = f"spec.overrides.{component}"
        if component == DEPLOYER:
            raise _invalid(
                f"{field}: these are options of AICR's own Argo CD bundles; the pipeline writes its "
                "Applications itself. Take it out."
            )
        if ENABLED not in paths:
            continue
        if not isinstance(paths[ENABLED], bool):
            raise _invalid(
                f"{field}.{ENABLED} is {_shown(paths[ENABLED])}; it takes a component in or out, so it must "
                "be true or false."
            )
        if paths[ENABLED] is False and len(paths) > 1:
            others = ", ".join(sorted(path for path in paths if path != ENABLED))
            raise _invalid(f"{field} takes the component out and sets {others}; leave one of them out.")


def named(overrides: Overrides) -> str:
    """All overrides by their fields, for messages; empty when there are none."""
    fields = [
        f"spec.overrides.{component}.{path}"
        for component, paths in sorted(overrides.items())
        for path in sorted(paths)
    ]
    more = [f"and {len(fields) - _MOST_NAMED} more"] if len(fields) > _MOST_NAMED else []
    return ", ".join(fields[:_MOST_NAMED] + more)


def check_rendered(bundle: Bundle, overrides: Overrides) -> None:
    """Every override must have become what it asks for.

    Raises
    ------
    PipelineError
        ``OverridePathUnknown`` for a component that the bundle does not have; ``InvalidOverride`` with the
        path and both values when a value is another one, or a component is still there.
    """
    components = sorted({release.component for release in bundle.releases})
    by_plain_name = {_plain(component): component for component in components}
    asked: dict[str, list[tuple[str, Any]]] = {}
    for key, paths in overrides.items():
        component = key if key in components else by_plain_name.get(_plain(key))
        if paths.get(ENABLED) is False:
            _require_gone(key, component)
        elif component is None:
            raise PipelineError(
                Reason.OverridePathUnknown,
                f"spec.overrides.{key}: the rendered bundle has no component {key}. It has "
                f"{', '.join(components)}.",
            )
        else:
            asked.setdefault(component, []).extend(
                (path, value) for path, value in paths.items() if path != ENABLED
            )
    for component, wanted in asked.items():
        values = _values(bundle, component)
        _compare(f"spec.overrides.{component}", _expected(wanted), values)


def _require_gone(key: str, component: str | None) -> None:
    if component is not None:
        raise _invalid(
            f"spec.overrides.{key}.{ENABLED} is false, but the rendered bundle still has component "
            f"{component}."
        )


def _values(bundle: Bundle, component: str) -> Mapping[str, Any]:
    """Values that AICR gave the component: of its chart, or what a wrapper's templates were rendered from."""
    releases = [release for release in bundle.releases if release.component == component]
    release = next((release for release in releases if release.name == component), releases[0])
    if release.values is not None:
        return release.values
    return _wrapper_values(release)


def _wrapper_values(release: BundledRelease) -> Mapping[str, Any]:
    what = f"{release.folder}/values.yaml"
    found = yaml.load(release.files.get("values.yaml", b""), Reason.BundleInvalid, what, most_bytes=4 << 20)
    return found if isinstance(found, dict) else {}


def _expected(wanted: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """What the paths leave together, in AICR's order; ``_ABSENT`` where null takes a key away."""
    tree: dict[str, Any] = {}
    for path, value in sorted(wanted, key=lambda item: (item[0].count("."), item[0])):
        *before, last = path.split(".")
        inner = tree
        for part in before:
            if not isinstance(inner.get(part), dict):
                inner[part] = {}
            inner = inner[part]
        if isinstance(value, dict):
            target = inner[last] if isinstance(inner.get(last), dict) else {}
            inner[last] = _merged(target, value)
        else:
            inner[last] = value
    return tree


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(base)
    for key, value in over.items():
        if value is None:
            made[key] = _ABSENT
        elif isinstance(value, dict):
            below = made.get(key)
            made[key] = _merged(below if isinstance(below, dict) else {}, value)
        else:
            made[key] = value
    return made


def _compare(field: str, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    for key, value in wanted.items():
        path, actual = f"{field}.{key}", found.get(key, _ABSENT)
        if isinstance(value, dict) and isinstance(actual, dict):
            _compare(path, value, actual)
        elif isinstance(value, dict) or not _same(value, actual):
            raise _invalid(
                f"{path}: AICR was asked for {_shown(value)}, but the rendered values have {_shown(actual)}. "
                "A path may lead through objects only, and placement has the last word on selectors and "
                "tolerations."
            )


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1, but 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return type(one) is type(other) and bool(one == other)


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, sort_keys=True, default=lambda _: None, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _plain(name: str) -> str:
    """AICR takes ``gpuoperator`` for ``gpu-operator``."""
    return name.replace("-", "")


def _invalid(message: str) -> PipelineError:
    return PipelineError(Reason.InvalidOverride, message)
