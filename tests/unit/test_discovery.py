"""What the nodes say against what the runtime wishes for."""

import tracemalloc
from typing import Any

import pytest
from aicr_pipeline.decide.discovery import MOST_KINDS, check_groups, may_overlap, selector_text, view_group
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import NodeGroup, Placement, Toleration

from tests.unit.samples import refused

SYSTEM = NodeGroup(node_selector={"pool": "system"})
GPU = NodeGroup(
    node_selector={"pool": "gpu"},
    tolerations=(Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),),
)
PLACEMENT = Placement(system=SYSTEM, accelerated=GPU)
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def node(name: str = "n", type_: str = "p5.48xlarge", image: str = "Ubuntu 24.04.3 LTS", *taints: Any) -> Any:
    return {
        "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": type_}},
        "spec": {"taints": list(taints)},
        "status": {"nodeInfo": {"osImage": image}},
    }


def check(*gpus: Any, system: Any = None, shared: str | None = None, group: NodeGroup = GPU) -> None:
    placement = Placement(system=SYSTEM, accelerated=group)
    systems = [node("s", "m7i.4xlarge")] if system is None else system
    check_groups(placement, view_group(systems, SYSTEM), view_group(gpus, group), shared)


def test_groups_as_they_should_be() -> None:
    check(
        node("a", "p5.48xlarge", "Ubuntu 24.04.3 LTS", TAINT), node("b", "p5.4xlarge", "Ubuntu 24.04.2 LTS")
    )


def test_an_empty_group_is_named_with_its_selector() -> None:
    with refused(Reason.NodeGroupEmpty, "spec.placement.accelerated.nodeSelector (pool=gpu)", "scale up"):
        check()
    with refused(Reason.NodeGroupEmpty, "spec.placement.system.nodeSelector (pool=system)"):
        check(node(), system=[])


def test_a_node_of_both_groups_is_named() -> None:
    with refused(Reason.PlacementOverlap, "Node both", "pool=system", "pool=gpu"):
        check(node(), shared="both")


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (
            [node("b", "p5e.48xlarge")],
            ["of 2 kinds", "h100 with ubuntu 24.04 (1, a", "h200 with ubuntu 24.04 (1, b"],
        ),
        ([node("b", image="Ubuntu 22.04.5 LTS")], ["ubuntu 22.04", "ubuntu 24.04"]),
        ([node("b", image="Amazon Linux 2023.6.20241031")], ["amazon linux 2023 (1"]),
        ([node("b", "x9.metal")], ["x9 with"]),
        ([node("b", "")], ["unknown instance type"]),
    ],
)
def test_one_accelerator_and_one_system(others: list[Any], words: list[str]) -> None:
    with refused(Reason.AcceleratedGroupHeterogeneous, *words):
        check(node("a"), *others)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("p4d.24xlarge", "p4de.24xlarge"),
        ("p5e.48xlarge", "p5en.48xlarge"),
        ("p5.48xlarge", "p5.4xlarge"),
        ("g5.12xlarge", "g5.48xlarge"),
        ("a3-highgpu-8g", "a3-highgpu-8g"),
    ],
)
def test_sizes_of_one_accelerator_are_alike(one: str, other: str) -> None:
    check(node("a", one), node("b", other))


def test_images_that_are_being_renewed_are_one_system() -> None:
    check(node("a", image="Amazon Linux 2023.6.20250303"), node("b", image="Amazon Linux 2023.7.20250428"))


def test_discovery_that_has_reached_some_nodes_makes_no_difference() -> None:
    found = node("b")
    found["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
    check(node("a"), found)


def test_systems_may_differ() -> None:
    check(
        node(),
        system=[node("s", "m7i.large"), node("t", "c6i.large", "Bottlerocket OS 1.20.0 (aws-k8s-1.34)")],
    )


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        (Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="nvidia.com/gpu", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="nvidia.com/gpu", value="present", effect="NoSchedule"), True),
        (Toleration(key="nvidia.com/gpu", value="present"), True),
        (Toleration(key="nvidia.com/gpu", value="other", effect="NoSchedule"), False),
        (Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="nvidia.com/gpu"), False),
    ],
)
def test_taints_are_held_against_tolerations_as_the_scheduler_does(
    toleration: Toleration, fits: bool
) -> None:
    group = NodeGroup(node_selector={"pool": "gpu"}, tolerations=(toleration,))
    nodes = [node("a", "p5.48xlarge", "Ubuntu 24.04", TAINT)]
    if fits:
        check(*nodes, group=group)
        return
    taint = "nvidia.com/gpu=present:NoSchedule (1 of 1 nodes, a for one)"
    with refused(Reason.InvalidPlacement, "spec.placement.accelerated.tolerations", taint):
        check(*nodes, group=group)


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"},
        {"key": "anything", "effect": "PreferNoSchedule"},
    ],
)
def test_taints_that_pass_or_only_advise_are_no_matter(taint: Any) -> None:
    check(node("a", "p5.48xlarge", "Ubuntu 24.04", taint))


def test_one_node_under_repair_stops_nobody() -> None:
    repair = {"key": "repair", "effect": "NoSchedule"}
    nodes = [node("a"), node("b", "p5.48xlarge", "Ubuntu 24.04", repair)]
    check(*nodes)
    view = view_group(nodes, GPU)
    assert (view.count, view.usable, set(view.kept_out)) == (2, 1, {"repair:NoSchedule"})


def test_selectors() -> None:
    assert selector_text(NodeGroup(node_selector={"b": "2", "a": "1"})) == "a=1,b=2"
    assert not may_overlap(PLACEMENT)
    other = NodeGroup(node_selector={"zone": "a"})
    assert may_overlap(Placement(system=other, accelerated=GPU))
    assert selector_text(other, GPU) == "pool=gpu,zone=a"


def test_what_is_kept_does_not_grow_with_the_nodes() -> None:
    def many(count: int) -> Any:
        return (
            node(f"n{number}", f"type{number}.large", f"System {number}", TAINT) for number in range(count)
        )

    view = view_group(many(MOST_KINDS), GPU)
    tracemalloc.start()
    view = view_group(many(5000), GPU)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (view.count, len(view.kinds)) == (5000, MOST_KINDS)
    assert peak < 200_000


@pytest.mark.parametrize(
    "odd", [{}, {"metadata": {}, "spec": None, "status": None}, {"status": {"nodeInfo": None}}]
)
def test_a_node_that_says_nothing_is_a_kind_of_its_own(odd: Any) -> None:
    assert set(view_group([odd], GPU).kinds) == {("unknown instance type", "unknown system")}
