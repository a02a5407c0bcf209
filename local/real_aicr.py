"""A real ``aicr`` for the local engine: what it is, and what has to fit it before anything runs.

The Jobs run it (``local.aicr.chosen``). Its version takes the place of the configured one, and the wish is
rendered once ahead, since the local publishers must know the charts and the cluster the namespaces.
"""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aicr_pipeline.decide.aicr_command import bundle_arguments, recipe_arguments, wish_of
from aicr_pipeline.decide.bundle import read_bundle
from aicr_pipeline.decide.versions import numbers
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.aicr_generation import generation
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import parse_runtime

from local.aicr.chosen import BINARY, command_line

_VERSION = re.compile(r"aicr version (v?\d\S*)")
_SECONDS = 120


@dataclass(frozen=True)
class RealAicr:
    """The command's version, a folder that it rendered, and the namespaces of its releases."""

    version: str
    bundle: Path
    namespaces: tuple[str, ...]


def real_aicr(runtime: Path, folder: Path) -> RealAicr | None:
    """The command that ``AICR_BIN`` names, tried with a wish; None when the variable is not set.

    Raises
    ------
    PipelineError
        ``AICRInvalidRequest`` with the command's own words when it does not run or refuses the wish; what
        reading the runtime and the bundle raise.
    """
    command = command_line(os.environ.get(BINARY, ""))
    if not command:
        return None
    found = _VERSION.search(_run(command, "--version"))
    if found is None:
        raise PipelineError(
            Reason.AICRInvalidRequest, f"{BINARY}: {command[0]} --version names no version. Is it aicr?"
        )
    folder.mkdir(parents=True, exist_ok=True)
    recipe, bundle = folder / "recipe.yaml", folder / "bundle"
    wish = wish_of(parse_runtime(runtime.read_bytes()))
    _run(command, *recipe_arguments(wish, str(recipe)), cwd=folder)
    _run(command, *bundle_arguments(wish, str(recipe), str(bundle)), cwd=folder)
    files = {str(file.relative_to(bundle)): file.read_bytes() for file in bundle.rglob("*") if file.is_file()}
    namespaces = sorted({release.namespace for release in read_bundle(files).releases})
    return RealAicr(found[1], bundle, tuple(namespaces))


def fitted(wire: dict[str, Any], real: RealAicr) -> dict[str, Any]:
    """The cluster's configuration (as written) for that command: its version, and namespaces it lacks."""
    wire["aicr"]["version"] = real.version
    known = numbers(real.version)
    if known is None or known[0] != 1 or "-" in real.version:
        wire["aicr"]["developmentVersions"] = [real.version]
    if not generation(real.version).signs:
        # It could not sign with the key of the configuration, which would be refused.
        for name in ("signingKey", "transparencyLog"):
            wire["validation"].pop(name, None)
    components = wire["namespaces"]["components"]
    named = {component["name"] for component in components}
    components += [
        {"name": name, "podSecurity": "privileged"} for name in real.namespaces if name not in named
    ]
    return wire


def _run(command: tuple[str, ...], *arguments: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            [*command, *arguments], cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipelineError(
            Reason.AICRInvalidRequest, f"{BINARY}: {command[0]} does not run: {error}"
        ) from error
    if done.returncode != 0:
        words = f"{command[0]} {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-1500:]}"
        raise PipelineError(Reason.AICRInvalidRequest, f"{BINARY}: {words}")
    return done.stdout + done.stderr
