"""The one profile the sample knows: H100 on EKS with Ubuntu, for training with Kubeflow.

Names, namespaces, chart sources and versions are facts of the public stack; the values beside them are
this project's own and short: enough that every chart renders and every placement shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RECIPE_NAME = "h100-eks-ubuntu-training-kubeflow"
CRITERIA = {
    "service": "eks",
    "accelerator": "h100",
    "os": "ubuntu",
    "intent": "training",
    "platform": "kubeflow",
}
OVERLAYS = ("base", "eks", "eks-training", "h100-eks-training", "h100-eks-ubuntu-training", RECIPE_NAME)
CONSTRAINTS = (
    ("K8s.server.version", ">= 1.32.4"),
    ("OS.release.ID", "ubuntu"),
    ("OS.release.VERSION_ID", "24.04"),
    ("OS.sysctl./proc/sys/kernel/osrelease", ">= 6.8"),
)
DEPLOYMENT_CHECKS = ("operator-health", "expected-resources", "gpu-operator-version", "check-nvidia-smi")

# What the documentation of the command lists for each criterion; anything else is a malformed request.
KNOWN_VALUES: dict[str, tuple[str, ...]] = {
    "service": ("aks", "bcm", "eks", "gke", "kind", "lke", "metal3", "ocp", "oke"),
    "accelerator": ("a100", "b200", "gb200", "gb300", "h100", "h200", "l40", "l40s", "rtx-pro-6000"),
    "os": ("amazonlinux", "cos", "ol", "rhel", "talos", "ubuntu"),
    "intent": ("inference", "training"),
    "platform": ("dynamo", "kubeflow", "nim", "runai", "slurm"),
}


@dataclass(frozen=True)
class Component:
    """One component of the stack.

    ``source`` is a chart repository (https) or an OCI prefix; empty for a component that is only the
    bundle's own templates. ``system`` and ``accelerated`` are the value paths that take a placement.
    """

    name: str
    namespace: str
    chart: str = ""
    version: str = ""
    source: str = ""
    depends: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    system: tuple[str, ...] = ()
    accelerated: tuple[str, ...] = ()


_PROMETHEUS = "https://prometheus-community.github.io/helm-charts"

COMPONENTS: tuple[Component, ...] = (
    Component(
        "aws-ebs-csi-driver",
        "kube-system",
        "aws-ebs-csi-driver",
        "2.59.0",
        "https://kubernetes-sigs.github.io/aws-ebs-csi-driver",
        values={"controller": {"replicaCount": 2}, "node": {"enableLinux": True}},
        system=("controller",),
        accelerated=("node",),
    ),
    Component(
        "aws-efa",
        "kube-system",
        "aws-efa-k8s-device-plugin",
        "v0.5.29",
        "https://aws.github.io/eks-charts",
        values={"resources": {"requests": {"cpu": "10m"}}},
        accelerated=("",),
    ),
    Component(
        "cert-manager",
        "cert-manager",
        "cert-manager",
        "v1.20.2",
        "https://charts.jetstack.io",
        values={"crds": {"enabled": True}},
        system=("", "webhook", "cainjector"),
    ),
    Component(
        "nfd",
        "node-feature-discovery",
        "node-feature-discovery",
        "0.19.0",
        "https://kubernetes-sigs.github.io/node-feature-discovery/charts",
        values={"topologyUpdater": {"enable": True}},
        system=("master", "gc"),
        accelerated=("worker",),
    ),
    Component(
        "nodewright-operator",
        "nodewright",
        "nodewright",
        "v0.17.1",
        "oci://ghcr.io/nvidia/nodewright/charts",
        values={"controllerManager": {"replicas": 1}},
        system=("controllerManager",),
    ),
    Component(
        "nodewright-customizations",
        "nodewright",
        depends=("nodewright-operator",),
        values={"accelerator": "h100", "intent": "training", "service": "eks"},
    ),
    Component("prometheus-operator-crds", "monitoring", "prometheus-operator-crds", "28.0.1", _PROMETHEUS),
    Component(
        "kube-prometheus-stack",
        "monitoring",
        "kube-prometheus-stack",
        "84.4.0",
        _PROMETHEUS,
        depends=("prometheus-operator-crds",),
        values={"crds": {"enabled": False}, "prometheus": {"prometheusSpec": {"retention": "15d"}}},
        system=("prometheus.prometheusSpec", "alertmanager.alertmanagerSpec"),
    ),
    Component(
        "gpu-operator",
        "gpu-operator",
        "gpu-operator",
        "v26.3.3",
        "https://helm.ngc.nvidia.com/nvidia",
        depends=("nfd", "cert-manager", "kube-prometheus-stack", "nodewright-customizations"),
        values={
            "cdi": {"enabled": True},
            "driver": {"enabled": True, "version": "580.95.05"},
            "toolkit": {"enabled": True},
        },
        system=("operator",),
        accelerated=("daemonsets",),
    ),
    Component(
        "k8s-ephemeral-storage-metrics",
        "monitoring",
        "k8s-ephemeral-storage-metrics",
        "1.19.2",
        "https://jmcgrath207.github.io/k8s-ephemeral-storage-metrics/chart",
        depends=("kube-prometheus-stack", "prometheus-operator-crds"),
        values={"prometheus": {"enable": True}},
        system=("",),
    ),
    Component(
        "kai-scheduler",
        "kai-scheduler",
        "kai-scheduler",
        "v0.14.1",
        "oci://ghcr.io/kai-scheduler/kai-scheduler",
        depends=("gpu-operator",),
        values={"global": {"leaderElection": True}},
        system=("global",),
    ),
    Component(
        "kubeflow-trainer",
        "kubeflow",
        "kubeflow-trainer",
        "2.2.0",
        "oci://ghcr.io/kubeflow/charts",
        depends=("cert-manager", "kube-prometheus-stack", "gpu-operator"),
        values={"manager": {"replicas": 1}},
        system=("manager",),
    ),
    Component(
        "nvidia-dra-driver-gpu",
        "nvidia-dra-driver",
        "dra-driver-nvidia-gpu",
        "0.4.1",
        "oci://registry.k8s.io/dra-driver-nvidia/charts",
        depends=("gpu-operator",),
        values={"nvidiaDriverRoot": "/run/nvidia/driver"},
        system=("controller",),
        accelerated=("kubeletPlugin",),
    ),
    Component(
        "nvsentinel",
        "nvsentinel",
        "nvsentinel",
        "v1.9.0",
        "oci://ghcr.io/nvidia",
        depends=("cert-manager", "gpu-operator", "prometheus-operator-crds"),
        values={"networkPolicy": {"enabled": False}},
        system=("platformConnector",),
    ),
    Component(
        "prometheus-adapter",
        "monitoring",
        "prometheus-adapter",
        "5.3.0",
        _PROMETHEUS,
        depends=("kube-prometheus-stack",),
        values={"prometheus": {"port": 9090}, "replicas": 1},
        system=("",),
    ),
)
"""In deployment order."""

READINESS = "gpu-operator"
"""The component whose ``-readiness`` gate ``--readiness-hooks`` adds right after it."""
POST = "kubeflow-trainer"
"""The component whose own objects follow it as a ``-post`` release."""
