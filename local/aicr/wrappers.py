"""The releases that are the bundle's own templates: written for this project, already rendered.

A wrapper's templates hold no Helm expressions, as in real bundles: placement is filled in when the
bundle is rendered, so a wrapper needs no values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from local.aicr import AICR_VERSION, profile
from local.aicr.documents import to_yaml

#: By tag and digest, as AICR has it.
_TORCH = (
    "pytorch/pytorch:2.11.0-cuda12.8-cudnn9-runtime"
    "@sha256:eee11b3b3872a8c838e35ef48f08b2d5def2080902c7f666831310ca1a0ef2be"
)
Objects = list[dict[str, Any]]
WRAPPER_VERSION = "0.1.0"


@dataclass(frozen=True)
class Placement:
    """Where the two kinds of workloads may run, as the command's scheduling flags say."""

    system_selector: dict[str, str]
    system_tolerations: list[dict[str, str]]
    accelerated_selector: dict[str, str]
    accelerated_tolerations: list[dict[str, str]]


def chart_yaml(name: str, component: str) -> str:
    """Chart.yaml of a wrapper."""
    return to_yaml(
        {
            "apiVersion": "v2",
            "appVersion": WRAPPER_VERSION,
            "description": f"Objects of {component} that no upstream chart carries.",
            "name": name,
            "type": "application",
            "version": WRAPPER_VERSION,
        }
    )


def tuning(placement: Placement) -> tuple[str, str]:
    """File name and text of nodewright-customizations: one package of node settings for the GPU nodes."""
    objects: Objects = [
        {
            "apiVersion": "skyhook.nvidia.com/v1alpha1",
            "kind": "Skyhook",
            "metadata": {"name": "gpu-node-tuning"},
            "spec": {
                "nodeSelectors": {"matchLabels": placement.accelerated_selector},
                "additionalTolerations": placement.accelerated_tolerations,
                "interruptionBudget": {"percent": 25},
                "packages": {
                    "sysctl": {
                        "image": "ghcr.io/nvidia/skyhook-packages/tuning",
                        "version": "1.2.0",
                        "configMap": {"sysctl.conf": "vm.max_map_count = 1048576\n"},
                    }
                },
            },
        }
    ]
    return "tuning.yaml", _documents(objects)


def readiness(component: str, namespace: str) -> tuple[str, str]:
    """File name and text of a readiness gate: a Job that passes once the ClusterPolicy is ready."""
    name = f"{component}-readiness-gate"
    check = {
        "apiVersion": "chainsaw.kyverno.io/v1alpha1",
        "kind": "Test",
        "metadata": {"name": f"{component}-readiness"},
        "spec": {
            "steps": [
                {
                    "name": "policy-ready",
                    "try": [
                        {
                            "assert": {
                                "resource": {
                                    "apiVersion": "nvidia.com/v1",
                                    "kind": "ClusterPolicy",
                                    "status": {"state": "ready"},
                                }
                            }
                        }
                    ],
                }
            ]
        },
    }
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{name}-{namespace}"}
    container = {
        "name": "gate",
        "image": f"ghcr.io/nvidia/aicr-gate:{AICR_VERSION}",
        "args": ["--bundle-dir=/bundle", f"--namespace={namespace}", "--max-wait=1h"],
        "volumeMounts": [{"name": "bundle", "mountPath": "/bundle", "readOnly": True}],
    }
    objects: Objects = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role["name"]},
            "rules": [
                {"apiGroups": ["nvidia.com"], "resources": ["clusterpolicies"], "verbs": ["get", "list"]}
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role["name"]},
            "roleRef": role,
            "subjects": [account],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{component}-readiness-bundle", "namespace": namespace},
            "data": {"readiness.yaml": to_yaml(check)},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "backoffLimit": 6,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "serviceAccountName": name,
                        "containers": [container],
                        "volumes": [
                            {"name": "bundle", "configMap": {"name": f"{component}-readiness-bundle"}}
                        ],
                    }
                },
            },
        },
    ]
    return "readiness.yaml", _documents(objects)


def training_runtime(placement: Placement) -> tuple[str, str]:
    """File name and text of kubeflow-trainer-post: the runtime that training jobs refer to."""
    pod = {
        "nodeSelector": placement.accelerated_selector,
        "tolerations": placement.accelerated_tolerations,
        "containers": [{"name": "node", "image": _TORCH}],
    }
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    objects: Objects = [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "ClusterTrainingRuntime",
            "metadata": {
                "name": "torch-distributed",
                "labels": {"trainer.kubeflow.org/framework": "torch"},
            },
            "spec": {
                "mlPolicy": {"numNodes": 1, "torch": {}},
                "template": {"spec": {"replicatedJobs": [job]}},
            },
        }
    ]
    return "training-runtime.yaml", _documents(objects)


def templates(release: str, component: profile.Component, placement: Placement) -> tuple[str, str]:
    """The template of a wrapper release: its file name and its text."""
    if release.endswith("-readiness"):
        return readiness(component.name, component.namespace)
    if release.endswith("-post"):
        return training_runtime(placement)
    return tuning(placement)


def _documents(objects: Objects) -> str:
    return "---\n".join(to_yaml(item) for item in objects)
