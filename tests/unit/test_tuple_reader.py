"""The hardware and software tuple: what captured snapshots and bundles say, and that nothing is guessed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.snapshot import Snapshot, read_snapshot
from aicr_pipeline.decide.tuple_reader import read_tuple, runtime_images
from aicr_pipeline.model.plan import DesiredState

from tests.unit.samples import plan, release
from tests.unit.test_bundle_captured import bundle, files

H100 = "h100-eks-ubuntu-training-kubeflow"
TORCH = (
    "pytorch/pytorch:2.11.0-cuda12.8-cudnn9-runtime"
    "@sha256:eee11b3b3872a8c838e35ef48f08b2d5def2080902c7f666831310ca1a0ef2be"
)
#: Profile, driver as planned, fabric, workload image.
EFA = ("efa (aws-efa-k8s-device-plugin v0.5.29)",)
PROFILES = [
    (H100, ("580.173.02",), EFA, (TORCH,)),
    ("gb200-eks-ubuntu-training-kubeflow", ("580.173.02",), EFA, (TORCH,)),
    ("h100-eks-ubuntu-inference-dynamo", ("580.173.02",), EFA, ()),
    # The nodes' image brings the driver there, and the values say nothing about which.
    ("h100-gke-cos-training-kubeflow", (), ("tcpxo (gke-nccl-tcpxo 0.1.0)",), (TORCH,)),
]  # fmt: skip


def state_of(captured: Path, profile: str) -> tuple[DesiredState, dict[str, bytes]]:
    folder = captured / profile / "bundle-helm"
    planned = [
        release(
            one.name,
            one.source.version if one.source else "0.1.0",
            component=one.component,
            kind="wrapper" if one.source is None else "chart",
            values=one.values,
            chart=release(one.name).chart.model_copy(
                update={
                    "name": one.source.chart.rpartition("/")[2] if one.source else one.name,
                    "version": one.source.version if one.source else "0.1.0",
                }
            ),
        )
        for one in bundle(folder).releases
    ]
    group = {"nodeSelector": {"eks.amazonaws.com/nodegroup": "gpu"}}
    return plan(*planned, **{"placement.accelerated": group}).desired_state, files(folder)


def snapshot_of(captured: Path, when: str) -> Snapshot:
    return read_snapshot((captured / H100 / f"snapshot/snapshot-{when}-install.yaml").read_bytes())


@pytest.mark.parametrize(("profile", "planned", "fabrics", "images"), PROFILES)
def test_captured_profiles(
    captured: Path, profile: str, planned: tuple[str, ...], fabrics: tuple[str, ...], images: tuple[str, ...]
) -> None:
    state, rendered = state_of(captured, profile)
    workload = runtime_images(rendered)
    assert workload == images
    for when, drivers in (("post", ("580.173.02",)), ("pre", planned)):
        found = read_tuple(snapshot_of(captured, when), state, workload)
        assert found.wire() == {
            "instanceTypes": ["p5.48xlarge"],
            # Two such nodes, measured on one of them, and no label that says it of both.
            "nodeImages": [],
            "kernels": [],
            "drivers": list(drivers),
            "gpuMode": "gpu-operator",
            "fabrics": list(fabrics),
            "workloadImages": list(images),
        }


NODES = {
    "gpu-1": {"pool": "gpu", "node.kubernetes.io/instance-type": "p5.48xlarge"},
    "gpu-2": {"pool": "gpu", "node.kubernetes.io/instance-type": "p5.48xlarge"},
    "sys-1": {"pool": "system", "node.kubernetes.io/instance-type": "m7i.4xlarge"},
}


def snapshot(
    nodes: dict[str, dict[str, str]] | None = None,
    *,
    source: str = "gpu-1",
    cut: tuple[str, ...] = (),
    **k8s: dict[str, Any],
) -> Snapshot:
    """As AICR 1.x writes it: nodes are listed in each item."""
    carrying: dict[tuple[str, str], list[str]] = {}
    for name, labels in (nodes or NODES).items():
        for label in labels.items():
            carrying.setdefault(label, []).append(name)
    items = [
        {
            "context": {"key": key, "value": value},
            "data": {
                "node-count": len(names),
                "node-list": f"{names[0]} (+{len(names) - 1} more)" if key in cut else ",".join(names),
                "truncated": key in cut,
            },
        }
        for (key, value), names in carrying.items()
    ]
    node = {"source-node": source, "kernel-version": "6.8.0", "os-image": "Ubuntu 24.04"}
    document = {
        "apiVersion": "aicr.run/v1",
        "kind": "Snapshot",
        "metadata": {"version": "v1.1.2"},
        "fingerprint": {
            "service": {"value": "eks"},
            "k8sVersion": {"value": "1.34.2"},
            "nodeCount": {"value": 3},
        },
        "measurements": [
            {"type": "NodeTopology", "subtypes": [{"subtype": "label", "items": items}]},
            {
                "type": "K8s",
                "subtypes": [
                    {"subtype": name, "data": data} for name, data in ({"node": node} | k8s).items()
                ],
            },
        ],
    }
    return read_snapshot(yaml.safe_dump(document).encode())


GPU = {"placement.accelerated": {"nodeSelector": {"pool": "gpu"}}}
PLAIN = plan(release("gpu-operator"), release("aws-efa", "0.5.29"), **GPU).desired_state
POLICY = {"driver.enabled": "true", "driver.version": "570.1"}


def labelled(**labels: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """The nodes with more labels: the first value for gpu-1, the second for gpu-2."""
    made = copy.deepcopy(NODES)
    for key, values in labels.items():
        for name, value in zip(("gpu-1", "gpu-2"), values, strict=False):
            made[name][key] = value
    return made


DRIVER, AMI = "nvidia.com/cuda.driver-version.full", "eks.amazonaws.com/nodegroup-image"
KERNEL = "feature.node.kubernetes.io/kernel-version.full"
PARTS = {
    "nvidia.com/cuda.driver.major": ("570", "570"),
    "nvidia.com/cuda.driver.minor": ("86", "86"),
    "nvidia.com/cuda.driver.rev": ("15", "15"),
}


AMI_1, AMI_2 = "ami-0123456789abcdef1", "ami-0123456789abcdef2"
#: One accelerated node: what was measured on it is said of all of them.
ALONE = {name: labels for name, labels in NODES.items() if name != "gpu-2"}


@pytest.mark.parametrize(
    ("images", "found"),
    [
        (("torch@sha256:" + "a" * 64,), ("torch@sha256:" + "a" * 64,)),
        (("torch:1@sha256:" + "a" * 64,), ("torch:1@sha256:" + "a" * 64,)),
        (("torch:1",), ()),
        (("torch",), ()),
        (("torch@sha256:" + "a" * 64, "torch:1"), ()),
    ],
)
def test_a_tag_is_no_workload_image(images: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert read_tuple(snapshot(), PLAIN, images).workload_images == found


@pytest.mark.parametrize(
    ("made", "field", "found"),
    [
        (lambda: snapshot(), "instance_types", ("p5.48xlarge",)),
        (lambda: snapshot(labelled(**{AMI: (AMI_2, AMI_1)})), "node_images", (AMI_1, AMI_2)),
        (lambda: snapshot(labelled(**{AMI: (AMI_2,)})), "node_images", ()),
        (lambda: snapshot(labelled(**{AMI: (AMI_2, "Ubuntu 24.04")})), "node_images", ()),
        (lambda: snapshot(), "node_images", ()),
        (lambda: snapshot(ALONE), "node_images", ()),
        (lambda: snapshot(ALONE), "kernels", ("6.8.0",)),
        (lambda: snapshot(ALONE, source="sys-1"), "kernels", ()),
        (lambda: snapshot(labelled(**{KERNEL: ("6.8.0", "6.9.0")})), "kernels", ("6.8.0", "6.9.0")),
        (lambda: snapshot(), "kernels", ()),
        (lambda: snapshot(labelled(**{KERNEL: ("6.8.0", "6.8.0")})), "kernels", ("6.8.0",)),
        (lambda: snapshot(labelled(**{KERNEL: ("6.8.0",)})), "kernels", ()),
        (lambda: snapshot(source="sys-1"), "kernels", ()),
        (lambda: snapshot(source="sys-1"), "node_images", ()),
        (lambda: snapshot(labelled(**{DRIVER: ("570.2", "570.1")})), "drivers", ("570.1", "570.2")),
        (lambda: snapshot(labelled(**{DRIVER: ("570.2",)})), "drivers", ()),
        (lambda: snapshot(labelled(**PARTS)), "drivers", ("570.86.15",)),
        (lambda: snapshot(policy=POLICY), "drivers", ("570.1",)),
        (lambda: snapshot(labelled(**{DRIVER: ("570.2", "570.2")}), policy=POLICY), "drivers", ("570.2",)),
        (lambda: snapshot(policy=POLICY | {"driver.enabled": "false"}), "drivers", ()),
        (lambda: snapshot(), "drivers", ()),
        (lambda: snapshot(cut=("pool",)), "instance_types", ()),
        (lambda: snapshot(cut=("pool",)), "kernels", ()),
        (lambda: snapshot(cut=("node.kubernetes.io/instance-type",)), "instance_types", ()),
        (lambda: snapshot({"other": {"a": "b"}}), "instance_types", ()),
        (lambda: snapshot(), "fabrics", ("efa (aws-efa 0.5.29)",)),
        (lambda: snapshot(), "workload_images", ()),
    ],
)  # fmt: skip
def test_what_is_recorded_and_what_is_not(
    made: Callable[[], Snapshot], field: str, found: tuple[str, ...]
) -> None:
    assert getattr(read_tuple(made(), PLAIN, ()), field) == found


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        (None, "gpu-operator"),
        ({"resources": {"gpus": {"enabled": False}, "computeDomains": {"enabled": True}}}, "gpu-operator"),
        ({"resources": {"gpus": {"enabled": True}}}, "dra"),
        ({"resources": "odd"}, "gpu-operator"),
    ],
)
def test_the_mode_is_who_hands_out_gpus(values: Any, mode: str) -> None:
    state = plan(release("gpu-operator"), release("nvidia-dra-driver-gpu", values=values)).desired_state
    assert read_tuple(snapshot(), state, ()).gpu_mode == mode


LABELS: dict[str, Any] = {"subtype": "label"}


@pytest.mark.parametrize(
    "measurements",
    [
        [],
        ["x"],
        [{"type": "K8s", "subtypes": "x"}],
        [{"type": "NodeTopology", "subtypes": [LABELS]}],
        [{"type": "NodeTopology", "subtypes": [LABELS | {"items": [1, {"context": 1, "data": []}]}]}],
    ],
)
def test_odd_measurements_record_nothing(measurements: list[Any]) -> None:
    odd = Snapshot("d", "v", "eks", None, None, "1.34", 1, None, measurements)
    found = read_tuple(odd, plan(release("gpu-operator")).desired_state, ())
    assert found.wire() == {
        "instanceTypes": [], "nodeImages": [], "kernels": [], "drivers": [], "gpuMode": "gpu-operator",
        "fabrics": [], "workloadImages": [],
    }  # fmt: skip


def test_workload_images_are_those_of_training_runtimes_alone() -> None:
    def runtime(kind: str, image: str) -> bytes:
        return yaml.safe_dump(
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": kind,
                "spec": {
                    "template": {"spec": {"replicatedJobs": [{"containers": [{"image": image}, {"x": 1}]}]}}
                },
            }
        ).encode()

    templates = {
        "c/templates/a.yaml": runtime("ClusterTrainingRuntime", "b:1")
        + b"\n---\n"
        + runtime("TrainingRuntime", "a:1"),
        "c/templates/b.yaml": runtime("TrainJob", "job:1"),
        "c/templates/c.yaml": b"{{ if .Values.x }}" + runtime("TrainingRuntime", "unknown:1"),
        "c/values.yaml": runtime("TrainingRuntime", "elsewhere:1"),
    }
    assert runtime_images(templates) == ("a:1", "b:1")
