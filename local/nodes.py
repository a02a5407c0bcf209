"""The nodes of the embedded cluster: two for the system, two with H100 GPUs. Names and ids are invented."""

from typing import Any

from local.kube import NODES, Store

_KERNEL = "6.17.0-1019-aws"
_REGION = "us-west-2"


def add_nodes(store: Store) -> None:
    """Put the nodes into the cluster."""
    for number in (1, 2):
        store.create(NODES, _node("system", number, "m7i.4xlarge"))
        store.create(NODES, _node("gpu", number, "p5.48xlarge"))


def _node(group: str, number: int, instance_type: str) -> dict[str, Any]:
    is_gpu = group == "gpu"
    name = f"ip-10-0-{2 if is_gpu else 1}-{10 + number}.{_REGION}.compute.internal"
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/region": _REGION,
        "topology.kubernetes.io/zone": f"{_REGION}a",
        "eks.amazonaws.com/nodegroup": group,
        "eks.amazonaws.com/nodegroup-image": "ami-0123456789abcdef0",
        # Node Feature Discovery's, which comes with the GPU Operator: here it is there from the start.
        "feature.node.kubernetes.io/kernel-version.full": _KERNEL,
    }
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}] if is_gpu else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"aws:///{_REGION}a/i-0{number:016x}", "taints": taints},
        "status": {
            "capacity": {"cpu": "64", "memory": "256Gi"} | ({"nvidia.com/gpu": "8"} if is_gpu else {}),
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "kubeletVersion": "v1.34.2-eks-local",
                "osImage": "Ubuntu 24.04.3 LTS",
                "kernelVersion": _KERNEL,
                "architecture": "amd64",
                "operatingSystem": "linux",
                "containerRuntimeVersion": "containerd://2.1.5",
            },
        },
    }
