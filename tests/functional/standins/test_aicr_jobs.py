"""The command inside Jobs of an embedded cluster: what it reads there and what it leaves."""

import base64
import json
from typing import Any

import pytest
import yaml
from aicr_pipeline.adapters.aicr_evidence import fetch_aicr_evidence
from aicr_pipeline.clock import now, parse_time
from aicr_pipeline.decide.aicr_evidence import check_same_report
from aicr_pipeline.decide.aicr_job import PushTarget, registry_secret, render_job
from aicr_pipeline.decide.job_state import job_state
from aicr_pipeline.decide.snapshot import read_snapshot
from aicr_pipeline.decide.validation import judge, read_report
from aicr_pipeline.decide.validators import seen_validators, validators_problem
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import parse_runtime

from local.aicr import profile
from local.aicr.documents import to_yaml
from local.aicr.recipe import resolve
from local.kube import argocd_crds
from local.kube.resources import (
    APPLICATIONS,
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Ref,
)
from tests.functional.standins.cluster import IMAGE, NAMESPACE, VALIDATOR_DIGEST, VALIDATORS, Cluster
from tests.functional.standins.support import Registry

Object = dict[str, Any]


def test_a_snapshot_job_writes_what_the_pipeline_reads(bench: Cluster) -> None:
    bench.add_nodes()
    environment = [
        {"name": "AICR_AGENT_MODE", "value": "true"},
        {"name": "AICR_LOG_PREFIX", "value": "agent"},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    args = ["snapshot", "-o", f"cm://{NAMESPACE}/run-1-snapshot"]
    container = {"command": ["aicr"], "args": args, "env": environment}
    bench.run("run-1-snapshot", container, serviceAccountName="aicr-snapshot")
    bench.ended("run-1-snapshot", "Complete")
    found = bench.store.get(CONFIG_MAPS, "run-1-snapshot", namespace=NAMESPACE)
    assert found["metadata"]["labels"]["app.kubernetes.io/component"] == "Snapshot"
    assert set(found["data"]) == {"format", "snapshot.yaml", "timestamp"}
    assert read_snapshot(found["data"]["snapshot.yaml"].encode()).accelerator == "h100"
    snapshot = yaml.safe_load(found["data"]["snapshot.yaml"])
    assert (snapshot["apiVersion"], snapshot["kind"]) == ("aicr.run/v1", "Snapshot")
    assert snapshot["metadata"]["source-node"] == "gpu-1"
    values = {key: item["value"] for key, item in snapshot["fingerprint"].items()}
    assert values == {
        "service": "eks",
        "accelerator": "h100",
        "gpuModel": "h100",
        "os": "ubuntu",
        "k8sVersion": "1.34.2-eks-local",
        "region": "eu-west-1",
        "nodeCount": 3,
        "gpuNodeCount": 0,
    }
    assert bench.logs("run-1-snapshot").startswith("[agent] snapshot taken: nodes=3")


def test_without_the_right_to_see_nodes_the_snapshot_is_empty_and_the_job_ends_well(bench: Cluster) -> None:
    bench.add_nodes()
    bench.store.create(SERVICE_ACCOUNTS, {"metadata": {"name": "weak"}}, namespace=NAMESPACE)
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "patch"]}
    bench.store.create(ROLES, {"metadata": {"name": "weak"}, "rules": [rule]}, namespace=NAMESPACE)
    bench.store.create(
        ROLE_BINDINGS,
        {
            "metadata": {"name": "weak"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "weak"},
            "subjects": [{"kind": "ServiceAccount", "name": "weak", "namespace": NAMESPACE}],
        },
        namespace=NAMESPACE,
    )
    args = ["snapshot", "-o", f"cm://{NAMESPACE}/empty"]
    bench.run("empty", {"command": ["aicr"], "args": args}, serviceAccountName="weak")
    bench.ended("empty", "Complete")
    text = bench.store.get(CONFIG_MAPS, "empty", namespace=NAMESPACE)["data"]["snapshot.yaml"]
    with pytest.raises(PipelineError) as caught:
        read_snapshot(text.encode())
    assert caught.value.reason == Reason.SnapshotIncomplete


def validate(bench: Cluster, registry: Registry, name: str, *flags: str) -> None:
    """A validation Job as the pipeline makes it, its inputs and its login."""
    recipe = to_yaml(resolve(dict(profile.CRITERIA)))
    snapshot = bench.store.get(CONFIG_MAPS, "snapshot", namespace=NAMESPACE)["data"]["snapshot.yaml"]
    for suffix, text in (("input-recipe", recipe), ("input-snapshot", snapshot)):
        bench.store.create(
            CONFIG_MAPS,
            {"metadata": {"name": f"{name}-{suffix}"}, "data": {"snapshot.yaml": text}},
            namespace="aicr-validation",
        )
    entry = {"username": registry.user, "password": registry.password}
    config = json.dumps({"auths": {registry.host: entry}}).encode()
    bench.store.create(
        SECRETS,
        {"metadata": {"name": name}, "data": {"config.json": base64.b64encode(config).decode()}},
        namespace="aicr-validation",
    )
    where = "cm://aicr-validation"
    args = [
        *("validate", "-r", f"{where}/{name}-input-recipe", "-s", f"{where}/{name}-input-snapshot"),
        *("--phase", "deployment", "--namespace", "aicr-validation"),
        *("--emit-attestation", "/work/evidence", "--push", f"{registry.host}/aicr/demo/evidence/{name}"),
        *("--no-sign", *flags, "--plain-http", "-o", f"{where}/{name}"),
    ]
    container = {
        "command": ["aicr"],
        "args": args,
        "env": [{"name": "DOCKER_CONFIG", "value": "/auth"}],
        "volumeMounts": [{"name": "work", "mountPath": "/work"}, {"name": "auth", "mountPath": "/auth"}],
    }
    volumes = [{"name": "work", "emptyDir": {}}, {"name": "auth", "secret": {"secretName": name}}]
    bench.run(
        name,
        container,
        namespace="aicr-validation",
        volumes=volumes,
        serviceAccountName="aicr-validation",
    )


def installed(bench: Cluster) -> None:
    """All components as Argo CD shows them when they are well, and a snapshot."""
    bench.add_nodes()
    argocd_crds.install(bench.store)
    bench.store.create(NAMESPACES, {"metadata": {"name": "argocd"}})
    for name in (component.name for component in profile.COMPONENTS):
        status = {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}
        spec = {"project": "aicr", "destination": {"namespace": "x"}}
        body = {"metadata": {"name": name}, "spec": spec, "status": status}
        bench.store.create(APPLICATIONS, body, namespace="argocd")
    args = ["snapshot", "-o", "cm://aicr-system/snapshot"]
    environment = [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    bench.run("snapshot", {"args": args, "env": environment}, serviceAccountName="aicr-snapshot")
    bench.ended("snapshot", "Complete")


def names(bench: Cluster, ref: Ref, namespace: str | None = "aicr-validation") -> set[str]:
    return {item["metadata"]["name"] for item in bench.store.list(ref, namespace=namespace)}


def test_validation_follows_argo_cd_and_leaves_evidence(bench: Cluster, registry: Registry) -> None:
    installed(bench)
    validate(bench, registry, "good", "--no-cleanup")
    bench.ended("good", "Complete", "aicr-validation")
    data = bench.store.get(CONFIG_MAPS, "good", namespace="aicr-validation")["data"]
    assert set(data) == {"format", "snapshot.json", "timestamp"}
    report = data["snapshot.json"].encode()
    result, problem = judge(report)
    assert (result.tests, result.passed, result.failed, problem) == (4, 4, 0, None)
    # Its evidence goes through the reader that is for the real one's, and is of this very run.
    with registry.repository("aicr/demo/evidence/good") as repository:
        found = fetch_aicr_evidence(repository, None, no_key)
    assert found.signature is None
    check_same_report(found.evidence, report)
    assert found.evidence.recipe_name == "h100-eks-ubuntu-training-kubeflow"
    # The checks' pods are there to be looked at, until their TTL.
    job = bench.store.get(JOBS, "good", namespace="aicr-validation")
    since = parse_time(job["metadata"]["creationTimestamp"])
    seen = seen_validators(bench.store.list(PODS, namespace="aicr-validation"), since)
    ran = [check.name for check in read_report(report).checks]
    assert sorted(item.check for item in seen) == sorted(ran)
    assert validators_problem(seen, ran, [f"{VALIDATORS}@{VALIDATOR_DIGEST}"]) is None
    assert {item.image for item in seen} <= {image for image, _ in found.evidence.validator_images}
    assert names(bench, SERVICE_ACCOUNTS) == {"aicr", "aicr-validation", "aicr-validator"}

    bench.store.merge(
        APPLICATIONS, "nvsentinel", {"status": {"health": {"status": "Degraded"}}}, namespace="argocd"
    )
    validate(bench, registry, "bad")
    bench.ended("bad", "Failed", "aicr-validation")
    bad = json.loads(
        bench.store.get(CONFIG_MAPS, "bad", namespace="aicr-validation")["data"]["snapshot.json"]
    )
    failed = [item for item in bad["results"]["tests"] if item["status"] == "failed"]
    assert [item["message"] for item in failed] == ["nvsentinel: Degraded, Synced"]
    terminated = bench.pod("bad", "aicr-validation")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert terminated["exitCode"] == 8
    # Without the flag a run takes its validators' Jobs and inputs away again.
    left = names(bench, JOBS) - {"good", "bad"}
    assert len(left) == 4
    assert len({name for name in names(bench, CONFIG_MAPS) if name.startswith("aicr-")}) == 2


@pytest.mark.parametrize("bench", ["v1.0.3"], indirect=True)
def test_the_older_aicr_binds_its_validators_itself(bench: Cluster, registry: Registry) -> None:
    """With what the manifests print for it, a launcher that is cluster-admin; nothing is left of the run."""
    installed(bench)
    validate(bench, registry, "good")
    bench.ended("good", "Complete", "aicr-validation")
    assert names(bench, SERVICE_ACCOUNTS) == {"aicr", "aicr-validation"}
    bindings = {
        item["metadata"]["name"]
        for item in bench.store.list(CLUSTER_ROLE_BINDINGS)
        if item["roleRef"]["name"] == "cluster-admin"
    }
    assert "aicr-validation" in bindings
    assert not [name for name in bindings if name.startswith("aicr-validator")]
    assert names(bench, JOBS) == {"good"}
    bench.store.delete(CLUSTER_ROLE_BINDINGS, "aicr-validation")
    validate(bench, registry, "weak")
    bench.ended("weak", "Failed", "aicr-validation")


def no_key(_uri: str) -> bytes:
    raise AssertionError("nobody asks for a key that is not configured")


RUNTIME = b"""\
apiVersion: operator.aicr.run/v1alpha1
kind: ClusterRuntime
metadata: {name: cluster}
spec:
  intent: training
  platform: kubeflow
  criteria: {service: eks, accelerator: h100, os: ubuntu}
  placement:
    system: {nodeSelector: {eks.amazonaws.com/nodegroup: system}}
    accelerated:
      nodeSelector: {eks.amazonaws.com/nodegroup: gpu}
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  overrides:
    gpu-operator: {driver.version: "570.1"}
"""


def start_render(bench: Cluster, registry: Registry, name: str, runtime: bytes, password: str) -> Object:
    """The Job that the pipeline itself makes, and the Secret it owns."""
    push = PushTarget(f"{registry.host}/aicr/demo/bundles/demo:{name}", plain_http=True)
    body = render_job(name, "run-1", IMAGE, parse_runtime(runtime), push)
    job = bench.store.create(JOBS, body, namespace=NAMESPACE)
    secret = registry_secret(job, registry.host, registry.user, password)
    bench.store.create(SECRETS, secret, namespace=NAMESPACE)
    return job


def test_the_pipelines_render_job_pushes_a_bundle(bench: Cluster, registry: Registry) -> None:
    bench.add_nodes()
    start_render(bench, registry, "run-1-1", RUNTIME, registry.password)
    bench.ended("run-1-1", "Complete")
    status = bench.pod("run-1-1")["status"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    manifest = json.loads(registry.request("GET", "aicr/demo/bundles/demo/manifests/run-1-1").data)
    assert manifest["artifactType"] == "application/vnd.nvidia.aicr.artifact"


def test_the_pipelines_render_job_fails_with_the_commands_code(bench: Cluster, registry: Registry) -> None:
    bench.add_nodes()
    unknown = RUNTIME.replace(b"gpu-operator:", b"gpu-oprator:")
    start_render(bench, registry, "typo", unknown, registry.password)
    start_render(bench, registry, "login", RUNTIME, "wrong")
    for name, reason, code in (
        ("typo", Reason.AICRInvalidRequest, 2),
        ("login", Reason.AICRUnauthorized, 4),
    ):
        state = job_state(bench.ended(name, "Failed"), [bench.pod(name)], now())
        assert (state.state, state.reason, state.exit_code) == ("failed", reason, code)
        assert state.container == "bundle"
