"""What a chart rendered, as Argo CD lists it. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

_CLUSTER_SCOPED = frozenset(
    {
        ("", "Namespace"),
        ("", "PersistentVolume"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("cert-manager.io", "ClusterIssuer"),
        ("networking.k8s.io", "IngressClass"),
        ("nfd.k8s-sigs.io", "NodeFeatureRule"),
        ("node.k8s.io", "RuntimeClass"),
        ("nvidia.com", "ClusterPolicy"),
        ("nvidia.com", "NVIDIADriver"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("resource.k8s.io", "DeviceClass"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("scheduling.run.ai", "Queue"),
        ("skyhook.nvidia.com", "Skyhook"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "VolumeSnapshotClass"),
        ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
    }
)
_WORKLOADS = frozenset({"DaemonSet", "Deployment", "Job", "Pod", "StatefulSet"})
_HOOKS = {
    "pre-install": "PreSync",
    "pre-upgrade": "PreSync",
    "post-install": "PostSync",
    "post-upgrade": "PostSync",
}


@dataclass(frozen=True)
class Resource:
    """One rendered object; ``namespace`` is empty for a cluster-scoped one, ``hook`` is Argo CD's phase."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    hook: str = ""

    @property
    def has_health(self) -> bool:
        """True for kinds that take time to become healthy."""
        return self.kind in _WORKLOADS


@dataclass(frozen=True)
class Target:
    """What an Application should be: its revision and what that renders to."""

    revision: str
    resources: tuple[Resource, ...]
    images: tuple[str, ...] = ()
    digest: str = ""
    objects: tuple[Object, ...] = field(default=(), repr=False, compare=False)


def target(revision: str, objects: Iterable[Object], namespace: str) -> Target:
    """Sort rendered objects into a target; tests and hooks of other moments are left out."""
    kept = [item for item in _flatten(objects) if _hook(item) is not None]
    scopes = crd_scopes(kept)
    resources = tuple(_resource(item, namespace, scopes) for item in kept)
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), default=str)
    return Target(
        revision,
        resources,
        tuple(sorted(set(_images(kept)))),
        hashlib.sha256(text.encode()).hexdigest(),
        tuple(kept),
    )


def crd_scopes(objects: Iterable[Object]) -> dict[tuple[str, str], bool]:
    """(group, kind) -> cluster-scoped, for the kinds that rendered CustomResourceDefinitions declare."""
    return {
        (item["spec"]["group"], item["spec"]["names"]["kind"]): item["spec"].get("scope") == "Cluster"
        for item in objects
        if item.get("kind") == "CustomResourceDefinition"
    }


def _flatten(objects: Iterable[Object]) -> list[Object]:
    found: list[Object] = []
    for item in objects:
        if not item:
            continue
        if str(item.get("kind", "")).endswith("List") and isinstance(item.get("items"), list):
            found.extend(_flatten(item["items"]))
        else:
            found.append(item)
    return found


def _hook(item: Object) -> str | None:
    """Argo CD's phase of a Helm hook, empty for a plain object, None for one that a sync does not run."""
    annotations = (item.get("metadata") or {}).get("annotations") or {}
    moments = [part.strip() for part in str(annotations.get("helm.sh/hook", "")).split(",") if part.strip()]
    if not moments or "crd-install" in moments:
        return ""
    return next((_HOOKS[moment] for moment in moments if moment in _HOOKS), None)


def _resource(item: Object, namespace: str, scopes: Mapping[tuple[str, str], bool]) -> Resource:
    group, _, version = str(item.get("apiVersion", "")).rpartition("/")
    kind = str(item.get("kind", ""))
    metadata = item.get("metadata") or {}
    cluster = scopes.get((group, kind), (group, kind) in _CLUSTER_SCOPED)
    where = "" if cluster else str(metadata.get("namespace") or namespace)
    return Resource(group, version, kind, where, str(metadata.get("name", "")), _hook(item) or "")


def _images(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("containers", "initContainers") and isinstance(item, list):
                yield from (
                    str(part["image"]) for part in item if isinstance(part, dict) and part.get("image")
                )
            yield from _images(item)
    elif isinstance(value, list):
        for item in value:
            yield from _images(item)
