"""Documents that many tests start from: valid ones, each field of which a test may change."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from aicr_pipeline.decide.deployed import deployed_digest
from aicr_pipeline.decide.plan import desired_state_digest
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.evidence import BoundPipeline, BoundTuple, BoundValidator
from aicr_pipeline.model.plan import DesiredState, Plan, PlannedChart, PlannedRelease, Recorded
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import ApprovalRequest, Decision
from aicr_pipeline.model.runtime import ClusterRuntime, NodeGroup

VALIDATOR_IMAGE = "ghcr.io/nvidia/aicr-validators/deployment@sha256:" + "d" * 64
IMAGE = "ghcr.io/nvidia/aicr@sha256:" + "a" * 64


def sha(seed: object) -> str:
    """Some digest; the same for the same seed."""
    return "sha256:" + hashlib.sha256(str(seed).encode()).hexdigest()


CONFIG: dict[str, Any] = {
    "cluster": {"name": "demo", "region": "us-west-2", "account": "111122223333"},
    "registry": {"repository": "oci://111122223333.dkr.ecr.us-west-2.amazonaws.com/aicr/demo"},
    "aicr": {"image": IMAGE, "version": "v1.1.2"},
    "namespaces": {"components": [{"name": "gpu-operator"}, {"name": "monitoring"}]},
    "approvals": {
        "identity": "link",
        "identityReason": "one person, one machine",
        "approvers": [{"name": "alex"}, {"name": "kim"}],
    },
}

RUNTIME: dict[str, Any] = {
    "apiVersion": "operator.aicr.run/v1alpha1",
    "kind": "ClusterRuntime",
    "metadata": {"name": "cluster"},
    "spec": {
        "intent": "training",
        "platform": "kubeflow",
        "criteria": {"service": "eks", "accelerator": "h100", "os": "ubuntu"},
        "placement": {
            "system": {"nodeSelector": {"pool": "system"}},
            "accelerated": {
                "nodeSelector": {"pool": "gpu"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            },
        },
    },
}
_ABSENT = object()


def ctrf(*statuses: str, **fields: Any) -> bytes:
    """A CTRF report of a check for each status, all with the same other fields."""
    return ctrf_of([{"name": f"check-{n}", "status": status, **fields} for n, status in enumerate(statuses)])


def ctrf_of(tests: list[dict[str, Any]], /, **summary: Any) -> bytes:
    """A CTRF report of these tests, with a summary that agrees unless told otherwise."""
    kinds = ("passed", "failed", "skipped", "pending")
    counts = {kind: sum(1 for test in tests if test.get("status") == kind) for kind in kinds}
    agreed = {"tests": len(tests), **counts, "other": len(tests) - sum(counts.values())}
    results = {"summary": {**agreed, **summary}, "tests": tests}
    return json.dumps({"reportFormat": "CTRF", "results": results}).encode()


def changed(document: Mapping[str, Any], path: str, value: Any = _ABSENT) -> dict[str, Any]:
    """A copy with the field at a dotted path replaced, or dropped when no value is given."""
    made: dict[str, Any] = copy.deepcopy(dict(document))
    *before, last = path.split(".")
    inner: Any = made
    for part in before:
        inner = inner[int(part)] if isinstance(inner, list) else inner.setdefault(part, {})
    key: Any = int(last) if isinstance(inner, list) else last
    if value is _ABSENT:
        del inner[key]
    else:
        inner[key] = value
    return made


def config(**changes: Any) -> ClusterConfig:
    """The configuration, with fields changed: ``config(**{"registry.plainHttp": True})``."""
    document = dict(CONFIG)
    for path, value in changes.items():
        document = changed(document, path, value)
    return parse(ClusterConfig, document, Reason.InvalidConfiguration, "the sample")


def runtime(**changes: Any) -> ClusterRuntime:
    """The wish, with fields below ``spec`` changed."""
    document = dict(RUNTIME)
    for path, value in changes.items():
        document = changed(document, f"spec.{path}", value)
    return parse(ClusterRuntime, document, Reason.InvalidRuntime, "the sample")


def runtime_text(**changes: Any) -> bytes:
    """The wish as people write it."""
    return yaml.safe_dump(runtime(**changes).wire()).encode()


def release(name: str, version: str = "1.0.0", **fields: Any) -> PlannedRelease:
    """A chart's release; ``kind="wrapper"`` makes it one of AICR's own."""
    wrapper = fields.get("kind") == "wrapper"
    made: dict[str, Any] = {
        "name": name,
        "component": name.removesuffix("-readiness"),
        "namespace": "gpu-operator",
        "kind": "chart",
        "chart": chart(name, version),
        "values": None if wrapper else {"replicas": 1},
    }
    return PlannedRelease(**(made | fields))


def chart(name: str, version: str = "1.0.0", seed: object = "") -> PlannedChart:
    """A mirrored chart, with digests of its own."""
    return PlannedChart(
        name=name,
        version=version,
        content_digest=sha(("content", name, version, seed)),
        manifest_digest=sha(("manifest", name, version, seed)),
    )


def plan(*releases: PlannedRelease, **changes: Any) -> Plan:
    """A plan under its true digest. ``changes`` are wire paths of the desired state."""
    group = NodeGroup(node_selector={"pool": "system"}).wire()
    state: dict[str, Any] = {
        "aicr": {"imageDigest": sha("aicr"), "version": "v1.1.2"},
        "recipe": "h100-eks-ubuntu-training-kubeflow",
        "bundleContentDigest": sha("bundle"),
        "criteria": {
            "service": "eks",
            "accelerator": "h100",
            "os": "ubuntu",
            "intent": "training",
            "platform": "kubeflow",
        },
        "placement": {"system": group, "accelerated": group},
        "validation": "Required",
        "validatorImages": [VALIDATOR_IMAGE],
        "releases": [item.wire() for item in releases or (release("gpu-operator"), release("kai-scheduler"))],
    }
    for path, value in changes.items():
        state = changed(state, path, value)
    desired = parse(DesiredState, state, Reason.PlanUnreadable, "the sample")
    return Plan(
        desired_state_digest=desired_state_digest(desired.wire()),
        desired_state=desired,
        recorded=Recorded(
            run="demo-12345678-1",
            runtime_version="v1",
            created_at="2026-01-01T00:00:00.000Z",
            snapshot_digest=sha("snapshot"),
            recipe_digest=sha("recipe"),
            bundle_digest=sha("artifact"),
        ),
    )


def decision(**changes: Any) -> Decision:
    """An approval that holds until 2026-01-02."""
    fields: dict[str, Any] = {
        "rollout": "demo-12345678-1",
        "decision": "Approved",
        "request_digest": sha("request"),
        "by": ("alex",),
        "identity": "link",
        "issuer": "aicr-pipeline",
        "reason": "Looks right",
        "at": "2026-01-01T00:00:00.000Z",
        "expires_at": "2026-01-02T00:00:00.000Z",
    }
    return Decision(**(fields | changes))


def request(**changes: Any) -> ApprovalRequest:
    """What ``decision`` decides: alex or kim was to."""
    fields: dict[str, Any] = {
        "rollout": "demo-12345678-1",
        "short_name": "demo-1",
        "digest": sha("request"),
        "deadline": "2026-01-02T00:00:00.000Z",
        "asked": ("alex", "kim"),
        "asked_at": "2026-01-01T00:00:00.000Z",
        "min_approvals": 1,
        "identity": "link",
    }
    return ApprovalRequest(**(fields | changes))


VALIDATOR = "ghcr.io/nvidia/aicr-validators/deployment"
#: What ran, as a whole deployment records it.
ASSETS = BoundPipeline(
    version="0.1.0",
    functions={"bind_evidence": sha("bind_evidence"), "apply_release": sha("apply_release")},
    layers={"program": sha("program"), "dependencies": sha("dependencies")},
    manifests=sha("manifests"),
    configuration=sha("configuration"),
)
#: What the records of a rollout say of it.
DEPLOYED = deployed_digest(ASSETS)
VALIDATORS = (BoundValidator(check="operator-health", image=f"{VALIDATOR}:v1.1.2", digest=sha("validator")),)
TUPLE = BoundTuple(
    instance_types=("p5.48xlarge",),
    node_images=("ami-0123456789abcdef0",),
    kernels=("6.17.0-1019-aws",),
    drivers=("580.173.02",),
    gpu_mode="gpu-operator",
    fabrics=("efa (aws-efa-k8s-device-plugin 0.5.29)",),
    workload_images=("pytorch/pytorch@" + sha("pytorch"),),
)


class Refused:
    """``with refused(Reason.X, "word"):`` the block must raise that reason with those words."""

    def __init__(self, reason: Reason, *words: str) -> None:
        self.reason = reason
        self.words = words

    def __enter__(self) -> Refused:
        self._context = pytest.raises(PipelineError)
        self.info = self._context.__enter__()
        return self

    def __exit__(self, *raised: Any) -> bool:
        caught = self._context.__exit__(*raised)
        error = self.info.value
        assert error.reason is self.reason, error
        for word in self.words:
            assert word in error.message
        return bool(caught)


refused = Refused
