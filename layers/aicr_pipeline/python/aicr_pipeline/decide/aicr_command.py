"""The command lines of ``aicr recipe`` and ``aicr bundle``, in one place.

The render Job runs them, and people who reproduce a plan run the same: they cannot drift apart.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.overrides import ENABLED, check_sayable
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import PlannedCriteria
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import ClusterRuntime, NodeGroup, Placement, Toleration


@dataclass(frozen=True)
class Wish:
    """What of a runtime document reaches AICR's flags."""

    criteria: PlannedCriteria
    placement: Placement
    overrides: Mapping[str, Mapping[str, Any]]


def wish_of(runtime: ClusterRuntime) -> Wish:
    """The wish of a runtime document."""
    spec = runtime.spec
    criteria = PlannedCriteria(
        service=spec.criteria.service,
        accelerator=spec.criteria.accelerator,
        os=spec.criteria.os,
        intent=spec.intent,
        platform=spec.platform,
    )
    return Wish(criteria, spec.placement, spec.overrides)


def recipe_arguments(wish: Wish, recipe: str) -> list[str]:
    """Arguments of ``aicr`` that resolve the recipe into the file ``recipe``."""
    criteria = wish.criteria
    return [
        *("recipe", "--service", criteria.service, "--accelerator", criteria.accelerator),
        *("--os", criteria.os, "--intent", criteria.intent, "--platform", criteria.platform),
        *("-o", recipe),
    ]


def bundle_arguments(wish: Wish, recipe: str, output: str) -> list[str]:
    """Arguments of ``aicr`` that render the file ``recipe`` into ``output``, a folder or ``oci://`` address.

    Raises
    ------
    PipelineError
        ``InvalidPlacement`` for a toleration, ``InvalidOverride`` for an override that AICR's flags cannot
        express.
    """
    return [
        *("bundle", "-r", recipe, "-d", "helm", "--readiness-hooks"),
        *_placement("system", wish.placement.system),
        *_placement("accelerated", wish.placement.accelerated),
        *_overrides(wish.overrides),
        *("-o", output),
    ]


def _placement(group: str, nodes: NodeGroup) -> Iterable[str]:
    for key, value in sorted(nodes.node_selector.items()):
        yield from (f"--{group}-node-selector", f"{key}={value}")
    for toleration in nodes.tolerations:
        yield from (f"--{group}-node-toleration", _toleration(group, toleration))


def _toleration(group: str, toleration: Toleration) -> str:
    """AICR makes ``Exists`` of ``key:effect``, so ``Equal`` without a value has no form of its own."""
    if toleration.key is None or toleration.effect is None:
        raise PipelineError(
            Reason.InvalidPlacement,
            f"spec.placement.{group}.tolerations: AICR takes key=value:effect, "
            "so key and effect are required.",
        )
    if toleration.operator == "Equal" and not toleration.value:
        raise PipelineError(
            Reason.InvalidPlacement,
            f"spec.placement.{group}.tolerations: AICR reads {toleration.key}:{toleration.effect} as "
            "operator Exists, so give Equal a value or write operator: Exists.",
        )
    value = f"={toleration.value}" if toleration.value else ""
    return f"{toleration.key}{value}:{toleration.effect}"


def _overrides(overrides: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    check_sayable(overrides)
    for component, paths in sorted(overrides.items()):
        for path, value in sorted(paths.items()):
            text = json.dumps(value, sort_keys=True, separators=(",", ":"))
            # The toggle is no value: AICR refuses it among the typed ones.
            flag = "--set" if path == ENABLED else "--set-json"
            yield from (flag, f"{component}:{path}={text}")
