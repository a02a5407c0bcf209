"""The stand-in kubelet in an embedded cluster: Jobs, their Pods, and the command inside them."""

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.argocd import install_crds
from local.kube import KubeServer
from local.kube.options import DeleteOptions
from local.kube.resources import (
    APPLICATIONS,
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from local.kubelet import Kubelet, KubeletSettings
from local.kubelet.mounts import rewrite
from local.kubelet.settings import default_commands
from tests.functional.standins.support import Registry, eventually

IMAGE = "ghcr.io/nvidia/aicr@sha256:" + "a" * 64
NAMESPACE = "aicr-system"
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


class Bench:
    """A cluster with nodes and namespaces, and its kubelet."""

    def __init__(self, server: KubeServer, workdir: Path) -> None:
        self.store = server.store
        self.workdir = workdir
        for namespace in (NAMESPACE, "aicr-validation"):
            self.store.create(NAMESPACES, {"metadata": {"name": namespace}})
            self.store.create(SERVICE_ACCOUNTS, {"metadata": {"name": "aicr"}}, namespace=namespace)
            self.store.create(
                CLUSTER_ROLE_BINDINGS,
                {
                    "metadata": {"name": f"test-{namespace}"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "cluster-admin",
                    },
                    "subjects": [{"kind": "ServiceAccount", "name": "aicr", "namespace": namespace}],
                },
            )
        commands = default_commands() | {"python": (sys.executable, "-c"), "sleep": ("sleep",)}
        self.kubelet = Kubelet(
            self.store,
            workdir=workdir,
            settings=KubeletSettings(
                server=server.url,
                token=server.service_account_token,
                images=frozenset({IMAGE}),
                commands=commands,
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


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with KubeServer() as server:
        made = Bench(server, tmp_path)
        made.kubelet.start()
        yield made
        made.kubelet.stop()
        assert not any((tmp_path).iterdir()), "a Pod's folder was left behind"


def condition(job: Object, kind: str) -> Object:
    return next(item for item in job["status"]["conditions"] if item["type"] == kind)


def test_a_container_sees_its_volumes_and_its_pod(bench: Bench) -> None:
    bench.add_nodes()
    code = (
        "import os,sys; print(open(sys.argv[1]).read(), os.environ['NODE'], os.environ['PASSWORD']);"
        "open(os.environ['OUT'] + '/x', 'w').write('kept'); print(open('/dev/null').read());"
        "open('/dev/termination-log'.replace('/dev', os.environ['TERM_DIR']), 'w').write('words')"
    )
    container = {
        "command": ["python", code],
        "args": ["/auth/config.json"],
        "env": [
            {"name": "OUT", "value": "/work"},
            {"name": "TERM_DIR", "value": "/work"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {
                "name": "PASSWORD",
                "valueFrom": {"secretKeyRef": {"name": "login", "key": ".dockerconfigjson"}},
            },
        ],
        "volumeMounts": [{"name": "work", "mountPath": "/work"}, {"name": "auth", "mountPath": "/auth"}],
    }
    auth = {
        "name": "auth",
        "secret": {
            "secretName": "login",
            "items": [{"key": ".dockerconfigjson", "path": "config.json"}],
        },
    }
    bench.run("reads", container, volumes=[{"name": "work", "emptyDir": {}}, auth])
    # The Job owns its Secret, so the Secret comes after it; the Pod waits.
    waiting = eventually(lambda: bench.pod("reads"), lambda pod: pod["status"].get("containerStatuses"))
    assert waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    data = {".dockerconfigjson": base64.b64encode(b"{}").decode()}
    bench.store.create(
        SECRETS,
        {"metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson", "data": data},
        namespace=NAMESPACE,
    )
    job = bench.ended("reads", "Complete")
    assert condition(job, "SuccessCriteriaMet")["reason"] == "CompletionsReached"
    assert job["status"]["succeeded"] == 1
    assert not job["status"].get("active")
    pod = bench.pod("reads")
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["metadata"]["labels"]["job-name"] == "reads"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert "{} gpu-1 {}" in bench.logs("reads")


def test_a_failing_container_fails_the_job_with_its_code_and_words(bench: Bench) -> None:
    bench.add_nodes()
    container = {
        "command": ["python", "import sys; print('why it failed'); sys.exit(3)"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    bench.run("fails", container)
    job = bench.ended("fails", "Failed")
    assert condition(job, "Failed")["reason"] == "BackoffLimitExceeded"
    state = bench.pod("fails")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"], state["message"]) == (3, "Error", "why it failed\n")


def test_a_deadline_ends_the_process_and_takes_the_pod_away(bench: Bench) -> None:
    bench.add_nodes()
    bench.run("slow", {"command": ["sleep"], "args": ["600"]}, activeDeadlineSeconds=1)
    job = bench.ended("slow", "Failed")
    assert condition(job, "Failed")["reason"] == "DeadlineExceeded"
    eventually(lambda: bench.pod("slow"), lambda pod: not pod["metadata"])


def test_deleting_a_job_kills_its_children(bench: Bench) -> None:
    bench.add_nodes()
    code = "import os,time; print(os.getpid(), flush=True); time.sleep(600)"
    bench.run("long", {"command": ["python", code]})
    eventually(lambda: bench.pod("long"), lambda pod: pod["status"].get("phase") == "Running")
    pid = int(eventually(lambda: bench.logs("long"), bool))
    assert Path(f"/proc/{pid}").exists()
    bench.store.delete(JOBS, "long", namespace=NAMESPACE, options=DeleteOptions(propagation="Background"))
    eventually(lambda: Path(f"/proc/{pid}").exists(), lambda exists: not exists)
    eventually(lambda: bench.pod("long"), lambda pod: not pod["metadata"])


def test_no_fitting_node_is_unschedulable_until_one_comes(bench: Bench) -> None:
    bench.run("waits", {"command": ["python", "print(1)"]})
    pod = eventually(lambda: bench.pod("waits"), lambda pod: pod["status"].get("conditions"))
    assert pod["status"]["phase"] == "Pending"
    assert pod["status"]["conditions"][0]["reason"] == "Unschedulable"
    bench.add_nodes()
    bench.ended("waits", "Complete")


def test_an_image_that_is_not_allowed_is_not_pulled(bench: Bench) -> None:
    bench.add_nodes()
    bench.run("foreign", {"image": "example.invalid/other:1", "command": ["python", "print(1)"]})
    pod = eventually(lambda: bench.pod("foreign"), lambda pod: pod["status"].get("containerStatuses"))
    assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
    assert pod["status"]["phase"] == "Pending"


def test_a_snapshot_job_writes_what_the_pipeline_reads(bench: Bench) -> None:
    bench.add_nodes()
    environment = [
        {"name": "AICR_AGENT_MODE", "value": "true"},
        {"name": "AICR_LOG_PREFIX", "value": "agent"},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    args = ["snapshot", "-o", f"cm://{NAMESPACE}/run-1-snapshot"]
    bench.run("run-1-snapshot", {"command": ["aicr"], "args": args, "env": environment})
    bench.ended("run-1-snapshot", "Complete")
    found = bench.store.get(CONFIG_MAPS, "run-1-snapshot", namespace=NAMESPACE)
    assert found["metadata"]["labels"]["app.kubernetes.io/component"] == "Snapshot"
    assert set(found["data"]) == {"format", "snapshot.yaml", "timestamp"}
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


def validate(bench: Bench, registry: Registry, name: str) -> None:
    """A validation Job as the pipeline makes it, its inputs and its login."""
    recipe = yaml.safe_load(_run_here("recipe"))
    snapshot = bench.store.get(CONFIG_MAPS, "snapshot", namespace="aicr-validation")["data"]["snapshot.yaml"]
    for suffix, text in (("input-recipe", yaml.safe_dump(recipe)), ("input-snapshot", snapshot)):
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
        *("--no-sign", "--plain-http", "-o", f"{where}/{name}"),
    ]
    container = {
        "command": ["aicr"],
        "args": args,
        "env": [{"name": "DOCKER_CONFIG", "value": "/auth"}],
        "volumeMounts": [{"name": "work", "mountPath": "/work"}, {"name": "auth", "mountPath": "/auth"}],
    }
    volumes = [{"name": "work", "emptyDir": {}}, {"name": "auth", "secret": {"secretName": name}}]
    bench.run(name, container, namespace="aicr-validation", volumes=volumes)


def _run_here(command: str) -> str:
    from local.aicr import profile
    from local.aicr.documents import to_yaml
    from local.aicr.recipe import resolve

    assert command == "recipe"
    return to_yaml(resolve(dict(profile.CRITERIA)))


def test_validation_follows_argo_cd_and_leaves_evidence(bench: Bench, registry: Registry) -> None:
    bench.add_nodes()
    install_crds(bench.store)
    bench.store.create(NAMESPACES, {"metadata": {"name": "argocd"}})
    names = [item["name"] for item in yaml.safe_load(_run_here("recipe"))["componentRefs"]]
    for name in names:
        status = {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}
        body = {"metadata": {"name": name}, "spec": {"project": "aicr"}, "status": status}
        bench.store.create(APPLICATIONS, body, namespace="argocd")
    args = ["snapshot", "-o", "cm://aicr-validation/snapshot"]
    environment = [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    bench.run("snapshot", {"args": args, "env": environment}, namespace="aicr-validation")
    bench.ended("snapshot", "Complete", "aicr-validation")

    validate(bench, registry, "good")
    bench.ended("good", "Complete", "aicr-validation")
    data = bench.store.get(CONFIG_MAPS, "good", namespace="aicr-validation")["data"]
    assert set(data) == {"format", "snapshot.json", "timestamp"}
    summary = json.loads(data["snapshot.json"])["results"]["summary"]
    assert (summary["tests"], summary["passed"], summary["failed"]) == (4, 4, 0)
    tags = json.loads(registry.request("GET", "aicr/demo/evidence/good/tags/list").data)["tags"]
    assert len(tags) == 1
    assert tags[0].startswith("h100-eks-ubuntu-training-kubeflow-")

    bench.store.merge(
        APPLICATIONS, "nvsentinel", {"status": {"health": {"status": "Degraded"}}}, namespace="argocd"
    )
    validate(bench, registry, "bad")
    bench.ended("bad", "Failed", "aicr-validation")
    report = json.loads(
        bench.store.get(CONFIG_MAPS, "bad", namespace="aicr-validation")["data"]["snapshot.json"]
    )
    failed = [item for item in report["results"]["tests"] if item["status"] == "failed"]
    assert [item["message"] for item in failed] == ["nvsentinel: Degraded, Synced"]
    terminated = bench.pod("bad", "aicr-validation")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert terminated["exitCode"] == 8


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/work/recipe.yaml", "/x/w/recipe.yaml"),
        ("/work", "/x/w"),
        ("/workshop", "/workshop"),
        ("--out=/work/a,/auth", "--out=/x/w/a,/x/a"),
        ("oci://host/work/a", "oci://host/work/a"),
        ("cm://aicr/work", "cm://aicr/work"),
        ("/work/sub/a", "/x/s/a"),
    ],
)
def test_only_paths_below_a_mount_are_rewritten(text: str, wanted: str) -> None:
    assert rewrite(text, {"/work": "/x/w", "/auth": "/x/a", "/work/sub": "/x/s"}) == wanted


def test_a_refused_pod_leaves_the_job_without_one(bench: Bench) -> None:
    bench.add_nodes()
    bench.store.merge(
        NAMESPACES, NAMESPACE, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    bench.run("refused", {"command": ["python", "print(1)"]}, activeDeadlineSeconds=1)
    job = bench.ended("refused", "Failed")
    assert condition(job, "Failed")["reason"] == "DeadlineExceeded"
    assert not bench.pod("refused")["metadata"]
    event = bench.store.list(EVENTS, namespace=NAMESPACE)[0]
    assert event["reason"] == "FailedCreate"
    assert "violates PodSecurity" in event["message"]
