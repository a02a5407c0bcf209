"""Jobs, Pods and nodes as data: what the job controller, the scheduler and the kubelet would write. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def pod_for(job: Object) -> Object:
    """The Pod of a Job, as the job controller makes it; its name is derived from the Job's uid."""
    metadata = job["metadata"]
    template = job["spec"]["template"]
    uid = metadata["uid"]
    suffix = hashlib.sha256(uid.encode()).hexdigest()[:5]
    labels = {
        **((template.get("metadata") or {}).get("labels") or {}),
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": metadata["name"],
        "controller-uid": uid,
        "job-name": metadata["name"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name'][:57]}-{suffix}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": (template.get("metadata") or {}).get("annotations") or {},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": metadata["name"],
                    "uid": uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": dict(template["spec"]),
    }


def is_finished(job: Object) -> bool:
    """True when a Job has a terminal condition."""
    return any(
        item["type"] in ("Complete", "Failed") and item["status"] == "True"
        for item in (job.get("status") or {}).get("conditions") or []
    )


def feasible(pod_spec: Object, nodes: list[Object]) -> list[str]:
    """Names of the nodes that match a Pod's selector and whose taints it tolerates, sorted."""
    selector = pod_spec.get("nodeSelector") or {}
    tolerations = pod_spec.get("tolerations") or []
    found = []
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        taints = [
            taint
            for taint in (node.get("spec") or {}).get("taints") or []
            if taint["effect"] in ("NoSchedule", "NoExecute")
        ]
        if (node.get("spec") or {}).get("unschedulable"):
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        if any(labels.get(key) != value for key, value in selector.items()):
            continue
        if all(any(_tolerates(item, taint) for item in tolerations) for taint in taints):
            found.append(node["metadata"]["name"])
    return sorted(found)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(
        toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", "")
    )


def pending_unschedulable(nodes: int, now: str) -> Object:
    """Status of a Pod that fits no node."""
    return {
        "phase": "Pending",
        "qosClass": "BestEffort",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": f"0/{nodes} nodes are available: {nodes} node(s) didn't match "
                "Pod's node affinity/selector or had untolerated taint(s).",
                "lastProbeTime": None,
                "lastTransitionTime": now,
            }
        ],
    }


def pod_status(phase: str, started: str, now: str, init: list[Object], containers: list[Object]) -> Object:
    """Status of a Pod on a node; ``init`` and ``containers`` are container statuses."""
    ready = phase == "Running"
    initialized = all((item["state"].get("terminated") or {}).get("exitCode") == 0 for item in init)
    conditions = [
        ("PodScheduled", True, ""),
        ("Initialized", initialized, "" if initialized else "ContainersNotInitialized"),
        ("ContainersReady", ready, "" if ready else _not_ready(phase)),
        ("Ready", ready, "" if ready else _not_ready(phase)),
    ]
    status: Object = {
        "phase": phase,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "qosClass": "Burstable",
        "startTime": started,
        "conditions": [
            {
                "type": name,
                "status": "True" if value else "False",
                **({"reason": reason} if reason else {}),
                "lastProbeTime": None,
                "lastTransitionTime": now,
            }
            for name, value, reason in conditions
        ],
        "containerStatuses": containers,
    }
    if init:
        status["initContainerStatuses"] = init
    return status


def _not_ready(phase: str) -> str:
    return {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")


def image_id(image: str, tags: Mapping[str, str]) -> str:
    """What a node says it pulled: the repository at the digest of the manifest.

    ``tags`` says what a tagged image of a repository is; of others the digest is made up from the reference.
    """
    bare, _, digest = image.partition("@")
    folder, slash, name = bare.rpartition("/")
    repository = f"{folder}{slash}{name.partition(':')[0]}"
    made_up = f"sha256:{hashlib.sha256(image.encode()).hexdigest()}"
    return f"{repository}@{digest or tags.get(repository, made_up)}"


def container_status(container: Object, state: Object, tags: Mapping[str, str]) -> Object:
    """One entry of containerStatuses; ``state`` is a ContainerState. A container that waits has no image."""
    running = "running" in state
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": "" if "waiting" in state else image_id(image, tags),
        "ready": running or (state.get("terminated") or {}).get("exitCode") == 0,
        "started": running,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def waiting(reason: str, message: str = "") -> Object:
    """ContainerState of a container that does not run yet."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated(exit_code: int, started: str, finished: str, message: str) -> Object:
    """ContainerState of a container that ended; a signal is 128 + its number, as container runtimes say."""
    code = exit_code if exit_code >= 0 else 128 - exit_code
    state: Object = {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": started,
        "finishedAt": finished,
    }
    if message:
        state["message"] = message
    return {"terminated": state}


def failed_create(job: Object, message: str, now: str) -> Object:
    """The Event of a Job whose Pod the API server refused."""
    metadata = job["metadata"]
    suffix = hashlib.sha256(f"{metadata['uid']}{message}".encode()).hexdigest()[:16]
    return {
        "metadata": {"name": f"{metadata['name']}.{suffix}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "reason": "FailedCreate",
        "message": f"Error creating: {message}",
        "type": "Warning",
        "source": {"component": "job-controller"},
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }


def job_started(now: str) -> Object:
    """Status of a Job whose Pod exists."""
    return {"active": 1, "ready": 0, "terminating": 0, "startTime": now, "uncountedTerminatedPods": {}}


def job_succeeded(now: str) -> Object:
    """Merge patch of the status of a Job whose Pod succeeded."""
    return {
        "active": None,
        "ready": 0,
        "succeeded": 1,
        "completionTime": now,
        "conditions": [
            _condition("SuccessCriteriaMet", now, "CompletionsReached", _REACHED),
            _condition("Complete", now, "CompletionsReached", _REACHED),
        ],
    }


def job_failed(now: str, reason: str) -> Object:
    """Merge patch of the status of a Job that failed for ``BackoffLimitExceeded`` or ``DeadlineExceeded``."""
    message = {
        "BackoffLimitExceeded": "Job has reached the specified backoff limit",
        "DeadlineExceeded": "Job was active longer than specified deadline",
    }[reason]
    return {
        "active": None,
        "ready": 0,
        "failed": 1,
        "conditions": [
            _condition("FailureTarget", now, reason, message),
            _condition("Failed", now, reason, message),
        ],
    }


_REACHED = "Reached expected number of succeeded pods"


def _condition(name: str, now: str, reason: str, message: str) -> Object:
    return {
        "type": name,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": now,
        "lastTransitionTime": now,
    }
