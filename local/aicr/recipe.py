"""``recipe``: criteria to a recipe (kind RecipeResult)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from local.aicr import AICR_VERSION, profile
from local.aicr.documents import write_document
from local.aicr.errors import AicrError, Code, log

SAMPLE_VARIABLE = "AICR_SAMPLE_BUNDLE"


def sample_folder() -> Path | None:
    """The folder ``AICR_SAMPLE_BUNDLE`` names, or None.

    Raises
    ------
    AicrError
        INTERNAL when the variable names something that is not a rendered bundle.
    """
    value = os.environ.get(SAMPLE_VARIABLE)
    if not value:
        return None
    folder = Path(value)
    if not (folder / "recipe.yaml").is_file():
        raise AicrError(Code.INTERNAL, f"{SAMPLE_VARIABLE} names {folder}, which holds no recipe.yaml")
    return folder


def run(criteria: dict[str, str | None], output: str | None) -> None:
    """Write the recipe for the criteria.

    Raises
    ------
    AicrError
        INVALID_REQUEST for a value the command does not know, NOT_FOUND for criteria without a profile.
    """
    document = resolve(criteria)
    log("recipe resolved", name=name_of(document), components=len(document["componentRefs"]))
    write_document(output, document, output_format="yaml", kubeconfig=None)


def resolve(criteria: dict[str, str | None]) -> dict[str, Any]:
    """The recipe of the criteria: of the sample folder where one is named, else of the built-in profile."""
    wanted = {key: value for key, value in criteria.items() if value}
    for key, value in wanted.items():
        if value not in profile.KNOWN_VALUES[key]:
            raise AicrError(Code.INVALID_REQUEST, f"invalid {key} {value!r}")
    folder = sample_folder()
    document: dict[str, Any] = (
        yaml.safe_load((folder / "recipe.yaml").read_text()) if folder is not None else built_in()
    )
    known = {key: value for key, value in document["criteria"].items() if key in profile.CRITERIA}
    if wanted != known:
        spelled = ", ".join(f"{key}={value}" for key, value in wanted.items())
        raise AicrError(Code.NOT_FOUND, f"no recipe matches the criteria {spelled}")
    return document


def name_of(document: dict[str, Any]) -> str:
    """A recipe's name: its most specific overlay."""
    overlays = (document.get("metadata") or {}).get("appliedOverlays") or ["recipe"]
    return str(overlays[-1])


def built_in() -> dict[str, Any]:
    """The recipe of the built-in profile."""
    return {
        "apiVersion": "aicr.run/v1",
        "kind": "RecipeResult",
        "metadata": {"version": AICR_VERSION, "appliedOverlays": list(profile.OVERLAYS)},
        "criteria": dict(profile.CRITERIA),
        "componentRefs": [
            _reference(component) for component in sorted(profile.COMPONENTS, key=lambda item: item.name)
        ],
        "deploymentOrder": [component.name for component in profile.COMPONENTS],
        "constraints": [{"name": name, "value": value} for name, value in profile.CONSTRAINTS],
        "validation": {
            "deployment": {
                "checks": list(profile.DEPLOYMENT_CHECKS),
                "constraints": [{"name": "Deployment.gpu-operator.version", "value": ">= v24.6.0"}],
            }
        },
    }


def _reference(component: profile.Component) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": component.name,
        "namespace": component.namespace,
        "source": component.source,
        "type": "Helm",
    }
    if component.chart:
        found |= {
            "chart": component.chart,
            "version": component.version,
            "valuesFile": f"components/{component.name}/values.yaml",
        }
    if component.depends:
        found["dependencyRefs"] = list(component.depends)
    if not component.chart:
        found["manifestFiles"] = [f"components/{component.name}/manifests/tuning.yaml"]
    if component.name == profile.POST:
        found["manifestFiles"] = [f"components/{component.name}/manifests/training-runtime.yaml"]
    return found
