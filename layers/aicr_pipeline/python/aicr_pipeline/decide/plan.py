"""Making a plan from what was read and mirrored, and reading one back with its digest checked."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aicr_pipeline.decide.canonical import digest
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.config import Aicr
from aicr_pipeline.model.plan import (
    DesiredState,
    Plan,
    PlannedAicr,
    PlannedChart,
    PlannedCriteria,
    PlannedRelease,
    Recorded,
)
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import ClusterRuntime

if TYPE_CHECKING:  # with it come a YAML reader and the records, which pages have no use for
    from aicr_pipeline.decide.bundle import Bundle


def make_plan(
    bundle: "Bundle",
    runtime: ClusterRuntime,
    aicr: Aicr,
    charts: Mapping[str, PlannedChart],
    recorded: Recorded,
) -> Plan:
    """The plan of a bundle whose charts are all in the registry.

    ``charts`` maps each release's name to what was mirrored for it.
    """
    spec = runtime.spec
    state = DesiredState(
        # With the ``v`` that AICR writes: a pin may be spelled without, and means the same.
        aicr=PlannedAicr(
            image_digest=aicr.image.partition("@")[2], version=f"v{aicr.version.removeprefix('v')}"
        ),
        recipe=bundle.recipe_name,
        bundle_content_digest=bundle.content_digest,
        criteria=PlannedCriteria(
            service=spec.criteria.service,
            accelerator=spec.criteria.accelerator,
            os=spec.criteria.os,
            intent=spec.intent,
            platform=spec.platform,
        ),
        placement=spec.placement,
        validation=spec.validation.deployment,
        validator_images=tuple(sorted(aicr.validator_images)),
        releases=tuple(
            PlannedRelease(
                name=release.name,
                component=release.component,
                namespace=release.namespace,
                kind="wrapper" if release.source is None else "chart",
                chart=charts[release.name],
                source=release.source,
                values=release.values,
            )
            for release in bundle.releases
        ),
    )
    return Plan(
        desired_state_digest=desired_state_digest(state.wire()),
        desired_state=state,
        recorded=recorded,
        upgrades=bundle.upgrades or None,
    )


def desired_state_digest(desired_state: Mapping[str, Any]) -> str:
    """``sha256:`` + SHA-256 of the RFC 8785 form of the desired state. See ``docs/plan.md``."""
    return digest(dict(desired_state), "the plan's desired state")


@lru_cache(maxsize=4)
def read_plan(text: bytes, want: str) -> Plan:
    """Read a plan document and check that it is the one asked for.

    The same bytes are read once in a process: before each step of 200 releases it was a third of the work.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when it does not parse or its content does not have the digest ``want``.
    """
    try:
        data = json.loads(text)
        found = desired_state_digest(data["desiredState"])
    except (ValueError, KeyError, TypeError, RecursionError, PipelineError) as error:
        raise PipelineError(
            Reason.PlanUnreadable, f"Plan {want} is not a plan document: {type(error).__name__}."
        ) from None
    if found != want or data.get("desiredStateDigest") != want:
        raise PipelineError(
            Reason.PlanUnreadable,
            f"Plan {want} was changed after it was written: its content has digest {found}.",
        )
    return parse(Plan, data, Reason.PlanUnreadable, f"plan {want}")


def check_namespaces(bundle: "Bundle", allowed: set[str]) -> None:
    """Every release must go to a declared namespace.

    Raises
    ------
    PipelineError
        ``NamespaceNotAllowed`` naming each release.
    """
    strays = [
        f"{release.name} ({release.namespace})"
        for release in bundle.releases
        if release.namespace not in allowed
    ]
    if strays:
        raise PipelineError(
            Reason.NamespaceNotAllowed,
            f"Not among namespaces.components: {', '.join(strays)}. Declare them, then "
            "apply the cluster manifests.",
        )
