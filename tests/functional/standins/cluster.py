"""A cluster with a kubelet, for tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from aicr_pipeline.model.config import load_cluster_config

from infra.cluster_rbac import job_accounts
from local.aicr import AICR_VERSION
from local.kube import KubeServer
from local.kube.options import WriteOptions
from local.kube.resources import JOBS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from local.kubelet import Kubelet, KubeletSettings
from local.kubelet.settings import default_commands, default_environment
from tests.functional.standins.support import eventually

IMAGE = "ghcr.io/nvidia/aicr@sha256:" + "a" * 64
VALIDATORS = "ghcr.io/nvidia/aicr-validators/deployment"
VALIDATOR_DIGEST = "sha256:" + "d" * 64
NAMESPACE = "aicr-system"
DEMO = Path(__file__).resolve().parents[3] / "clusters" / "demo.yaml"
GPU = {"eks.amazonaws.com/nodegroup": "gpu"}
Object = dict[str, Any]


def node(name: str, group: str, instance_type: str) -> Object:
    """A node as EKS reports it."""
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}] if group == "gpu" else []
    return {
        "metadata": {
            "name": name,
            "labels": {
                "eks.amazonaws.com/nodegroup": group,
                "node.kubernetes.io/instance-type": instance_type,
                "topology.kubernetes.io/region": "eu-west-1",
            },
        },
        "spec": {"providerID": f"aws:///eu-west-1a/{name}", **({"taints": taints} if taints else {})},
    }


NODE_STATUS = {
    "conditions": [{"type": "Ready", "status": "True"}],
    "nodeInfo": {
        "architecture": "amd64",
        "bootID": "b",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.17.0-1019-aws",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.34.2",
        "machineID": "m",
        "operatingSystem": "linux",
        "osImage": "Ubuntu 24.04.3 LTS",
        "systemUUID": "s",
    },
}


class Cluster:
    """A cluster with nodes and namespaces, and its kubelet."""

    def __init__(self, server: KubeServer, workdir: Path, version: str = AICR_VERSION) -> None:
        self.store = server.store
        self.workdir = workdir
        for namespace in (NAMESPACE, "aicr-validation"):
            self.store.create(NAMESPACES, {"metadata": {"name": namespace}})
            self.store.create(SERVICE_ACCOUNTS, {"metadata": {"name": "aicr"}}, namespace=namespace)
        # The accounts of AICR's Jobs have exactly the rights that the cluster's manifests give them.
        config = load_cluster_config(DEMO)
        config = config.model_copy(update={"aicr": config.aicr.model_copy(update={"version": version})})
        for manifest in job_accounts(config):
            self.store.apply(manifest, options=WriteOptions(manager="setup", force=True))
        commands = default_commands() | {"python": (sys.executable, "-c"), "sleep": ("sleep",)}
        self.kubelet = Kubelet(
            self.store,
            workdir=workdir,
            settings=KubeletSettings(
                server=server.url,
                token=server.service_account_token,
                images=frozenset({IMAGE, f"{VALIDATORS}:{version}"}),
                tags={VALIDATORS: VALIDATOR_DIGEST},
                commands=commands,
                environment=default_environment() | {"AICR_STANDIN_VERSION": version},
            ),
        )

    def add_nodes(self) -> None:
        """One system node, two GPU nodes."""
        for name, group, kind in (
            ("system-1", "system", "m7i.4xlarge"),
            ("gpu-1", "gpu", "p5.48xlarge"),
            ("gpu-2", "gpu", "p5.48xlarge"),
        ):
            self.store.create(NODES, node(name, group, kind))
            self.store.merge_status(NODES, name, {"status": NODE_STATUS})

    def run(self, name: str, container: Object, *, namespace: str = NAMESPACE, **spec: Any) -> None:
        """Create a Job with one container on a GPU node."""
        job_spec = {key: spec.pop(key) for key in ("activeDeadlineSeconds",) if key in spec}
        body = {
            "metadata": {"name": name},
            "spec": {
                "backoffLimit": 0,
                **job_spec,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "serviceAccountName": "aicr",
                        "nodeSelector": GPU,
                        "tolerations": [{"operator": "Exists"}],
                        "containers": [{"name": "main", "image": IMAGE, **container}],
                        **spec,
                    }
                },
            },
        }
        self.store.create(JOBS, body, namespace=namespace)

    def ended(self, name: str, kind: str, namespace: str = NAMESPACE) -> Object:
        """The Job once it has a condition."""

        def has(job: Object) -> bool:
            return any(item["type"] == kind for item in job.get("status", {}).get("conditions") or [])

        found: Object = eventually(lambda: self.store.get(JOBS, name, namespace=namespace), has, 15)
        return found

    def pod(self, name: str, namespace: str = NAMESPACE) -> Object:
        """The Pod of a Job."""
        pods = self.store.list(
            PODS, namespace=namespace, label_selector=f"batch.kubernetes.io/job-name={name}"
        )
        return pods[0] if pods else {"metadata": {}, "status": {}}

    def logs(self, name: str, namespace: str = NAMESPACE) -> str:
        """What its container wrote."""
        pod = self.pod(name, namespace)["metadata"]["name"]
        return str(self.store.logs.read(namespace, pod, "main"))
