"""``snapshot``: what the command writes down about a cluster, from its nodes and its version.

A real agent also reads the node it runs on (PCI devices, kernel parameters). The local engine has no
GPU to look at, so the hardware of the source node follows from its instance type.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import Any

from local.aicr import AICR_VERSION
from local.aicr.cluster import ApiError, Cluster
from local.aicr.documents import now, read_document, write_document
from local.aicr.errors import log

Node = dict[str, Any]

# EC2 families and what is in them: model as the command spells it, GPUs of the largest size.
_ACCELERATORS: dict[str, tuple[str, int]] = {
    "p4d": ("a100", 8),
    "p4de": ("a100", 8),
    "p5": ("h100", 8),
    "p5e": ("h200", 8),
    "p5en": ("h200", 8),
    "p6-b200": ("b200", 8),
    "p6e-gb200": ("gb200", 4),
    "g6": ("l40", 8),
    "g6e": ("l40s", 8),
}
#: Names a snapshot of the real command, which is then handed out in place of the cluster's.
SAMPLE_VARIABLE = "AICR_SAMPLE_SNAPSHOT"
_PROVIDERS = {"aws": "eks", "gce": "gke", "azure": "aks", "oci": "oke", "kind": "kind"}
_PRODUCT = "nvidia.com/gpu.product"
_REGION = "topology.kubernetes.io/region"
_TYPE = "node.kubernetes.io/instance-type"


def run(output: str | None, kubeconfig: str | None) -> None:
    """Take the snapshot of the cluster and write it; a cluster that shows no node ends well too.

    Raises
    ------
    AicrError
        When the cluster cannot be reached at all or the document cannot be written.
    """
    if sample := os.environ.get(SAMPLE_VARIABLE):
        write_document(output, read_document(sample, None)[0], output_format="yaml", kubeconfig=kubeconfig)
        return
    cluster = Cluster.from_environment(kubeconfig)
    nodes = _list(cluster, "/api/v1/nodes")
    pods = _list(cluster, "/api/v1/pods")
    policies = _list(cluster, "/apis/nvidia.com/v1/clusterpolicies")
    version = cluster.get("/version")
    document = snapshot(nodes, pods, policies, version, os.environ.get("NODE_NAME", ""), now())
    log("snapshot taken", nodes=len(nodes), source=document["metadata"].get("source-node", ""))
    write_document(output, document, output_format="yaml", kubeconfig=kubeconfig)


def _list(cluster: Cluster, path: str) -> list[dict[str, Any]]:
    """The items at ``path``; none when the API refuses: each collector degrades to nothing, as really."""
    try:
        return list(cluster.get(path).get("items") or [])
    except ApiError as error:
        if error.status != 404:  # a kind that is not installed is no news
            log("collector returned nothing", path=path, status=error.status)
        return []


def snapshot(
    nodes: list[Node],
    pods: list[dict[str, Any]],
    policies: list[dict[str, Any]],
    version: dict[str, Any],
    node_name: str,
    timestamp: str,
) -> dict[str, Any]:
    """The Snapshot document.

    Parameters
    ----------
    nodes, pods, policies
        Items as the API lists them.
    version
        The answer of ``/version``.
    node_name
        The node the agent runs on; the first node when empty or unknown.
    timestamp
        RFC 3339, whole seconds.
    """
    by_name = {node["metadata"]["name"]: node for node in nodes}
    source = by_name.get(node_name) or (nodes[0] if nodes else None)
    metadata = {"version": AICR_VERSION, "timestamp": timestamp}
    if source is not None:
        metadata["source-node"] = source["metadata"]["name"]
    return {
        "apiVersion": "aicr.run/v1",
        "kind": "Snapshot",
        "metadata": metadata,
        "fingerprint": _fingerprint(nodes, source, version) if source is not None else {},
        "measurements": _measurements(nodes, source, pods, policies, version),
    }


def accelerator(node: Node) -> tuple[str, int]:
    """Model and number of GPUs of a node; ``("", 0)`` for a node without."""
    labels = _labels(node)
    family = labels.get(_TYPE, "").partition(".")[0]
    model, count = _ACCELERATORS.get(family, ("", 0))
    if product := labels.get(_PRODUCT):
        model = _model(product) or model
        count = int(labels.get("nvidia.com/gpu.count", count or 1))
    return model, count


def _model(product: str) -> str:
    found = re.search(r"(GB300|GB200|B300|B200|H200|H100|A100|L40S|L40)", product.upper())
    return found.group(1).lower() if found else ""


def _labels(node: Node) -> dict[str, str]:
    return dict(node["metadata"].get("labels") or {})


def _info(node: Node) -> dict[str, str]:
    return dict((node.get("status") or {}).get("nodeInfo") or {})


def _provider(node: Node) -> str:
    scheme = str((node.get("spec") or {}).get("providerID") or "").partition("://")[0]
    return _PROVIDERS.get(scheme, "")


def _release(node: Node) -> dict[str, str]:
    """The fields of os-release that follow from the node's reported image name."""
    image = _info(node).get("osImage", "")
    found = re.match(r"(?P<name>.*?) (?P<version>\d+(?:\.\d+)?)", image)
    if not found:
        return {"PRETTY_NAME": image} if image else {}
    name = found["name"]
    identifier = {"Ubuntu": "ubuntu", "Amazon Linux": "amzn", "Red Hat Enterprise Linux": "rhel"}.get(
        name, name.lower().replace(" ", "-")
    )
    return {"ID": identifier, "NAME": name, "PRETTY_NAME": image, "VERSION_ID": found["version"]}


def _fingerprint(nodes: list[Node], source: Node, version: dict[str, Any]) -> dict[str, Any]:
    labelled = [node for node in nodes if _PRODUCT in _labels(node)]
    model, _ = accelerator(source)
    origin = "gpu.hardware.model"
    if labelled:
        model, origin = _model(_labels(labelled[0])[_PRODUCT]) or model, f"nodeTopology.label.{_PRODUCT}"
    release = _release(source)
    found: dict[str, Any] = {
        "k8sVersion": {
            "source": "k8s.server.version",
            "value": str(version.get("gitVersion", "")).removeprefix("v"),
        },
        "nodeCount": {"source": "nodeTopology.summary.node-count", "value": len(nodes)},
        "gpuNodeCount": {"source": f"nodeTopology.label.{_PRODUCT}", "value": len(labelled)},
    }
    if model:
        found["accelerator"] = {"source": origin, "value": model}
        found["gpuModel"] = {"source": "gpu.hardware.model", "value": model}
    if release.get("ID"):
        found["os"] = {"source": "os.release", "value": release["ID"], "version": release["VERSION_ID"]}
    if provider := _provider(source):
        found["service"] = {"source": "k8s.node.provider", "value": provider}
    if region := _labels(source).get(_REGION):
        found["region"] = {"source": f"nodeTopology.label.{_REGION}", "value": region}
    return found


def _subtype(name: str, data: dict[str, Any], items: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {"subtype": name}
    if data:
        entry["data"] = data
    if items:
        entry["items"] = items
    return entry


def _measurements(
    nodes: list[Node],
    source: Node | None,
    pods: list[dict[str, Any]],
    policies: list[dict[str, Any]],
    version: dict[str, Any],
) -> list[dict[str, Any]]:
    operating_system: dict[str, Any] = {"type": "OS"}
    gpu: dict[str, Any] = {"type": "GPU"}
    kubernetes = [
        _subtype(
            "server", {"version": version.get("gitVersion", ""), "platform": version.get("platform", "")}
        ),
        _subtype("image", _images(pods)),
        _subtype("policy", _policy(policies)),
    ]
    if source is not None:
        model, count = accelerator(source)
        operating_system["subtypes"] = [
            _subtype("sysctl", {"/proc/sys/kernel/osrelease": _info(source).get("kernelVersion", "")}),
            _subtype("release", _release(source)),
        ]
        hardware: dict[str, Any] = {"gpu-present": bool(model), "gpu-count": count}
        if model:
            hardware |= {
                "detection-source": "nfd",
                "driver-loaded": _PRODUCT in _labels(source),
                "model": model,
            }
        gpu["subtypes"] = [_subtype("hardware", hardware)]
        kubernetes.append(_subtype("node", _node(source)))
    return [
        operating_system,
        {"type": "SystemD"},
        gpu,
        {"type": "NodeTopology", "subtypes": _topology(nodes)},
        {"type": "K8s", "subtypes": kubernetes},
    ]


def _node(node: Node) -> dict[str, Any]:
    info = _info(node)
    runtime, _, runtime_version = info.get("containerRuntimeVersion", "").partition("://")
    return {
        "container-runtime-id": info.get("containerRuntimeVersion", ""),
        "container-runtime-name": runtime,
        "container-runtime-version": runtime_version,
        "kernel-version": info.get("kernelVersion", ""),
        "kubelet-version": info.get("kubeletVersion", ""),
        "operating-system": info.get("operatingSystem", "linux"),
        "os-image": info.get("osImage", ""),
        "provider": _provider(node),
        "provider-id": str((node.get("spec") or {}).get("providerID") or ""),
        "source-node": node["metadata"]["name"],
    }


def _images(pods: list[dict[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pod in pods:
        for container in (pod.get("spec") or {}).get("containers") or []:
            reference = str(container.get("image", "")).partition("@")[0].rpartition("/")[2]
            name, _, tag = reference.partition(":")
            if name:
                found[name] = tag or "latest"
    return dict(sorted(found.items()))


def _policy(policies: list[dict[str, Any]]) -> dict[str, str]:
    if not policies:
        return {}
    spec = policies[0].get("spec") or {}
    return {
        f"{part}.enabled": str((spec.get(part) or {}).get("enabled", True)).lower()
        for part in ("devicePlugin", "driver", "toolkit")
    }


def _topology(nodes: list[Node]) -> list[dict[str, Any]]:
    """Which nodes carry which taint and label; a key with several values gets one entry for each."""
    taints: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in nodes:
        name = node["metadata"]["name"]
        for taint in (node.get("spec") or {}).get("taints") or []:
            taints[(taint["key"], taint.get("value", ""), taint["effect"])].append(name)
        for key, value in _labels(node).items():
            labels[(key, value)].append(name)
    values: dict[str, int] = defaultdict(int)
    for key, _value in labels:
        values[key] += 1
    taint_data: dict[str, Any] = {}
    taint_items = []
    for (key, value, effect), names in sorted(taints.items()):
        taint_data[key] = f"{effect}|{value}|{','.join(sorted(names))}"
        taint_items.append(_item({"effect": effect, "key": key, "value": value}, key, names))
    label_data: dict[str, Any] = {}
    label_items = []
    for (key, value), names in sorted(labels.items()):
        reference = f"{key}.{value}" if values[key] > 1 else key
        label_data[reference] = f"{value}|{','.join(sorted(names))}"
        label_items.append(_item({"key": key, "value": value}, reference, names))
    summary = {"label-count": len(labels), "node-count": len(nodes), "taint-count": len(taints)}
    return [
        _subtype("summary", summary),
        _subtype("taint", taint_data, taint_items),
        _subtype("label", label_data, label_items),
    ]


def _item(context: dict[str, str], reference: str, names: list[str]) -> dict[str, Any]:
    return {
        "context": context,
        "data": {"node-count": len(names), "node-list-ref": reference, "truncated": False},
    }
