"""The hardware and software that a rollout was validated on, as the post-install snapshot and the plan say.

A qualification covers exactly this tuple: instance type, node image, kernel, driver, GPU Operator or DRA
mode, fabric, workload image. What neither of the two records stays empty; nothing is guessed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.decide.snapshot import Snapshot
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.evidence import BoundTuple
from aicr_pipeline.model.plan import DesiredState, PlannedRelease
from aicr_pipeline.model.reasons import Reason

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
#: What EKS writes on the nodes of a managed node group.
_AMI = "eks.amazonaws.com/nodegroup-image"
#: The identity of a node image. An operating system's name is shared by many of them.
_AMI_ID = re.compile(r"^ami-[0-9a-f]{8,17}$")
#: A tag may be another image by now.
_BY_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
#: Node Feature Discovery's, GPU Feature Discovery's.
_KERNEL = "feature.node.kubernetes.io/kernel-version.full"
_DRIVER = "nvidia.com/cuda.driver-version.full"
_DRIVER_PARTS = ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev")
#: Components that bring a fabric to the nodes, by AICR's names.
_FABRICS: Mapping[str, str] = {"aws-efa": "efa", "gke-nccl-tcpxo": "tcpxo", "network-operator": "rdma"}
_GPU_OPERATOR, _DRA_DRIVER = "gpu-operator", "nvidia-dra-driver-gpu"
#: Kubeflow Trainer's: what a TrainJob runs in when it names nothing else.
_TRAINER_GROUP = "trainer.kubeflow.org/"
_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")


def read_tuple(snapshot: Snapshot, state: DesiredState, workload_images: Iterable[str]) -> BoundTuple:
    """The tuple of the accelerated nodes.

    Parameters
    ----------
    snapshot:
        Taken after the install.
    state:
        Of the plan: it names the accelerated nodes, and versions where the snapshot does not.
    workload_images:
        What ``runtime_images`` found in the plan's wrapper charts. One by tag alone, and none is recorded.
    """
    nodes = _Nodes(snapshot, state.placement.accelerated.node_selector)
    measured = _Measured(snapshot)
    kernels = set(nodes.values(_KERNEL))
    # The snapshot describes the one node it was taken on, and says nothing about another.
    if nodes.names == {measured.source}:
        kernels |= measured.texts("K8s", "node", "kernel-version")
    return BoundTuple(
        instance_types=_sorted(nodes.values(_INSTANCE_TYPE)),
        node_images=_identities(nodes.values(_AMI), _AMI_ID),
        kernels=_sorted(kernels),
        drivers=_sorted(_drivers(nodes, measured, state)),
        gpu_mode="dra" if _is_dra(state) else "gpu-operator",
        fabrics=_sorted([*measured.texts("NetworkTopology", "identity", "linkType"), *_fabrics(state)]),
        workload_images=_identities(workload_images, _BY_DIGEST),
    )


def _identities(found: Iterable[str], form: re.Pattern[str]) -> tuple[str, ...]:
    """All of them or none: a name that may be something else tomorrow is no identity."""
    values = _sorted(found)
    return values if all(form.search(value) for value in values) else ()


def runtime_images(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Images of the training runtimes among a chart's templates, as written there.

    AICR's wrapper charts are rendered already; a template that is no plain YAML has none that is known.
    """
    found: set[str] = set()
    for path, text in files.items():
        if "templates/" not in path or _TRAINER_GROUP.encode() not in text:
            continue
        for part in text.split(b"\n---"):
            try:
                document = yaml.load(part, Reason.BundleInvalid, path)
            except PipelineError:
                continue
            if isinstance(document, dict) and document.get("kind") in _RUNTIMES:
                found.update(_images(document))
    return _sorted(found)


@dataclass(frozen=True)
class _Reading:
    """One label: its value, and the nodes that carry it; None when the list was cut short."""

    key: str
    value: str
    nodes: frozenset[str] | None


class _Nodes:
    """The accelerated nodes, and what their labels say."""

    def __init__(self, snapshot: Snapshot, selector: Mapping[str, str]) -> None:
        self._readings = tuple(_readings(snapshot.measurements))
        lists = [self._carrying(key, value) for key, value in selector.items()]
        self.names: frozenset[str] = frozenset.intersection(*lists) if lists else frozenset()

    def values(self, key: str) -> tuple[str, ...]:
        """What the label says on those nodes; nothing unless it is known of each of them."""
        found, known = [], set[str]()
        for reading in self._readings:
            if reading.key == key and reading.nodes is not None and reading.nodes & self.names:
                found.append(reading.value)
                known |= reading.nodes
        return tuple(found) if self.names <= known else ()

    def _carrying(self, key: str, value: str) -> frozenset[str]:
        found = [reading.nodes for reading in self._readings if (reading.key, reading.value) == (key, value)]
        return found[0] if len(found) == 1 and found[0] is not None else frozenset()


class _Measured:
    """What the snapshot's measurements say by type, subtype and name."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._measurements = snapshot.measurements
        (source,) = self.texts("K8s", "node", "source-node") or {""}
        self.source = source

    def texts(self, kind: str, subtype: str, name: str) -> set[str]:
        """At most one value, as text; in ``data``, or in ``context`` where it describes."""
        for entry in _subtypes(self._measurements, kind):
            if entry.get("subtype") == subtype:
                for where in ("data", "context"):
                    value = _mapping(entry.get(where)).get(name)
                    if isinstance(value, str | int | float) and str(value).strip():
                        return {str(value).lower() if isinstance(value, bool) else str(value)}
        return set()


def _readings(measurements: list[Any]) -> Iterable[_Reading]:
    """Labels by ``items``, which are lossless; AICR before 1.0 names the nodes in ``data`` instead."""
    for entry in _subtypes(measurements, "NodeTopology"):
        if entry.get("subtype") != "label":
            continue
        folded = _mapping(entry.get("data"))
        for item in _list(entry.get("items")):
            context, data = _mapping(_mapping(item).get("context")), _mapping(_mapping(item).get("data"))
            listed = data.get("node-list")
            if listed is None:
                listed = str(folded.get(str(data.get("node-list-ref")), "")).rpartition("|")[2]
            names = frozenset(name for name in str(listed).split(",") if name)
            whole = data.get("truncated") in (False, "false") and len(names) == data.get("node-count")
            yield _Reading(str(context.get("key")), str(context.get("value")), names if whole else None)


def _drivers(nodes: _Nodes, measured: _Measured, state: DesiredState) -> Iterable[str]:
    """As found on the nodes; else as the GPU Operator's policy has it; else as its values were planned."""
    if found := nodes.values(_DRIVER):
        return found
    parts = [nodes.values(part) for part in _DRIVER_PARTS]
    if all(len(part) == 1 for part in parts):
        return (".".join(part[0] for part in parts),)
    policy = measured.texts("K8s", "policy", "driver.version")
    if policy and "true" in measured.texts("K8s", "policy", "driver.enabled"):
        return policy
    operator = _component(state, _GPU_OPERATOR)
    driver = _mapping(_mapping(operator.values if operator else None).get("driver"))
    version = driver.get("version")
    # Where the operator does not install it, the nodes' image does, and the values say nothing about that.
    return (str(version),) if version and driver.get("enabled") is True else ()


def _is_dra(state: DesiredState) -> bool:
    """Whether GPUs are handed out by the DRA driver; without its ``gpus`` it only makes compute domains."""
    driver = _component(state, _DRA_DRIVER)
    resources = _mapping(_mapping(driver.values if driver else None).get("resources"))
    return _mapping(resources.get("gpus")).get("enabled") is True


def _fabrics(state: DesiredState) -> Iterable[str]:
    for release in state.releases:
        fabric = _FABRICS.get(release.component)
        if fabric is not None and release.name == release.component:
            yield f"{fabric} ({release.chart.name} {release.chart.version})"


def _component(state: DesiredState, name: str) -> PlannedRelease | None:
    return next((release for release in state.releases if release.name == name), None)


def _images(node: Any) -> Iterable[str]:
    """Every container's image below a document."""
    level = [node]
    while level:
        for item in level:
            for group in ("initContainers", "containers"):
                for container in _list(_mapping(item).get(group)):
                    image = _mapping(container).get("image")
                    if isinstance(image, str) and image:
                        yield image
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]


def _subtypes(measurements: list[Any], kind: str) -> Iterable[Mapping[str, Any]]:
    for measurement in measurements:
        if _mapping(measurement).get("type") == kind:
            for entry in _list(_mapping(measurement).get("subtypes")):
                yield _mapping(entry)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value.strip() for value in values if value.strip()}))
