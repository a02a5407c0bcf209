"""Whether the cluster's nodes can be what the runtime wishes for, before anything is rendered.

Called by "Take snapshot". Groups may have thousands of nodes: each is looked at once and forgotten, and what
is kept grows with the kinds of nodes, not with their number.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import NodeGroup, Placement, Toleration

#: The kinds of nodes a group is told apart by; a group of more is heterogeneous long before.
MOST_KINDS = 20
#: Taints that come and go by themselves (Kubernetes, "Well-Known Labels, Annotations and Taints").
_PASSING = re.compile(r"^(node\.kubernetes\.io|node\.cloudprovider\.kubernetes\.io)/")
_PASSING_KEYS = frozenset({"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"})
_KEEPS_OUT = ("NoSchedule", "NoExecute")
#: EC2 families that share an accelerator with others; every other family has one of its own.
_EC2_ACCELERATORS: Mapping[str, str] = {
    "p4d": "a100",
    "p4de": "a100",
    "p5": "h100",
    "p5e": "h200",
    "p5en": "h200",
    "p6-b200": "b200",
    "p6-b300": "b300",
    "p6e-gb200": "gb200",
    "p6e-gb300": "gb300",
    "g6": "l4",
    "g6e": "l40s",
}


@dataclass
class Kind:
    """Nodes that are alike in what matters here."""

    count: int
    #: The first one seen, for messages.
    example: str


@dataclass
class GroupView:
    """What is kept of a group of nodes.

    Parameters
    ----------
    count:
        How many nodes the selector matches.
    usable:
        How many of them the group's tolerations let pods onto.
    kinds:
        (accelerator, operating system) to the nodes that have both.
    kept_out:
        Taint as ``key=value:effect`` to the nodes whose taint it is and that no toleration fits.
    """

    count: int = 0
    usable: int = 0
    kinds: dict[tuple[str, str], Kind] = field(default_factory=dict)
    kept_out: dict[str, Kind] = field(default_factory=dict)


def view_group(nodes: Iterable[Mapping[str, Any]], group: NodeGroup) -> GroupView:
    """Look at the nodes of a group, one after the other.

    Parameters
    ----------
    nodes:
        Node objects as Kubernetes lists them.
    group:
        Whose tolerations they are held against.
    """
    view = GroupView()
    for node in nodes:
        name = str((node.get("metadata") or {}).get("name", ""))
        view.count += 1
        _count(view.kinds, (_accelerator(node), _operating_system(node)), name)
        taints = [taint for taint in _lasting_taints(node) if not _tolerated(taint, group.tolerations)]
        view.usable += not taints
        for taint in taints:
            _count(view.kept_out, _taint_text(taint), name)
    return view


def check_groups(placement: Placement, system: GroupView, accelerated: GroupView, shared: str | None) -> None:
    """Refuse groups that the runtime cannot be placed on.

    Parameters
    ----------
    shared:
        The name of a node that both selectors match, or None.

    Raises
    ------
    PipelineError
        ``NodeGroupEmpty``, ``PlacementOverlap``, ``InvalidPlacement`` (no node of a group lets its pods on)
        or ``AcceleratedGroupHeterogeneous``, naming field, nodes and what to do.
    """
    groups = (("system", placement.system, system), ("accelerated", placement.accelerated, accelerated))
    for name, group, view in groups:
        if not view.count:
            raise PipelineError(
                Reason.NodeGroupEmpty,
                f"spec.placement.{name}.nodeSelector ({selector_text(group)}) matches no node. Check the "
                "labels, or scale up.",
            )
    if shared is not None:
        raise PipelineError(
            Reason.PlacementOverlap,
            f"Node {shared} is in both groups: spec.placement.system.nodeSelector "
            f"({selector_text(placement.system)}) and spec.placement.accelerated.nodeSelector "
            f"({selector_text(placement.accelerated)}) match it. Make one of them narrower.",
        )
    for name, _, view in groups:
        if not view.usable:
            taints = "; ".join(
                f"{taint} ({kind.count} of {view.count} nodes, {kind.example} for one)"
                for taint, kind in sorted(view.kept_out.items())
            )
            raise PipelineError(
                Reason.InvalidPlacement,
                f"spec.placement.{name}.tolerations fit no node of the group; not tolerated: {taints}. Add "
                "the tolerations, or take the taints off.",
            )
    if len(accelerated.kinds) > 1:
        kinds = "; ".join(
            f"{accelerator} with {system_name} ({kind.count}, {kind.example} for one)"
            for (accelerator, system_name), kind in sorted(accelerated.kinds.items())
        )
        raise PipelineError(
            Reason.AcceleratedGroupHeterogeneous,
            f"spec.placement.accelerated.nodeSelector ({selector_text(placement.accelerated)}) matches nodes "
            f"of {len(accelerated.kinds)} kinds: {kinds}. AICR's recipes are for one accelerator and one "
            "operating system: narrow the selector, or replace the nodes.",
        )


def selector_text(*groups: NodeGroup) -> str:
    """A label selector that asks for all labels of the groups, as Kubernetes' lists take it."""
    labels = {key: value for group in groups for key, value in group.node_selector.items()}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def may_overlap(placement: Placement) -> bool:
    """Whether a node could match both selectors; not when they want different values of one label."""
    system, accelerated = placement.system.node_selector, placement.accelerated.node_selector
    return all(system[key] == accelerated[key] for key in system.keys() & accelerated.keys())


def _count(kinds: dict[Any, Kind], key: Any, name: str) -> None:
    if key in kinds:
        kinds[key].count += 1
    elif len(kinds) < MOST_KINDS:
        kinds[key] = Kind(1, name)


def _accelerator(node: Mapping[str, Any]) -> str:
    """By the family of the instance type, else by GPU Feature Discovery where it has run."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    instance = str(labels.get("node.kubernetes.io/instance-type", ""))
    # AICR installs the discovery, and while it is being rolled out only some nodes have its label.
    family = instance.partition(".")[0]
    known = _EC2_ACCELERATORS.get(family, family)
    return known or str(labels.get("nvidia.com/gpu.product", "")) or "unknown instance type"


def _operating_system(node: Mapping[str, Any]) -> str:
    """``ubuntu 24.04`` of "Ubuntu 24.04.3 LTS": what AICR's criteria and constraints tell apart.

    A year is the whole version (Amazon Linux 2023): what follows it differs while images are renewed.
    """
    image = str(((node.get("status") or {}).get("nodeInfo") or {}).get("osImage", ""))
    version = re.search(r"\d{4}|\d+(\.\d+)?", image)
    name = image[: version.start()] if version else image.partition("(")[0]
    return f"{name.strip().lower()} {version[0] if version else ''}".strip() or "unknown system"


def _lasting_taints(node: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for taint in (node.get("spec") or {}).get("taints") or []:
        key = str(taint.get("key", ""))
        if taint.get("effect") in _KEEPS_OUT and not _PASSING.match(key) and key not in _PASSING_KEYS:
            yield taint


def _tolerated(taint: Mapping[str, Any], tolerations: Iterable[Toleration]) -> bool:
    """As the scheduler decides (Kubernetes, "Taints and Tolerations")."""
    return any(
        toleration.effect in (None, taint.get("effect"))
        and toleration.key in (None, taint.get("key"))
        and (toleration.operator == "Exists" or (toleration.value or "") == (taint.get("value") or ""))
        for toleration in tolerations
    )


def _taint_text(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"
