"""The server itself: discovery, TLS, logs, speed, stopping, and the store that stand-ins use."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3
from kubernetes import client, dynamic

from local.kube import (
    ADMISSION_POLICIES,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    PODS,
    ApiError,
    DeleteOptions,
    KubeServer,
    Store,
    Tls,
    WriteOptions,
)
from tests.functional.kube.helpers import MERGE, Cluster, job, pod, refused


def test_discovery_lists_what_is_served(cluster: Cluster) -> None:
    found = dynamic.DynamicClient(cluster.client()).resources
    for api_version, kind in (
        ("v1", "Secret"),
        ("v1", "Event"),
        ("batch/v1", "Job"),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
    ):
        assert found.get(api_version=api_version, kind=kind).kind == kind
    groups = cluster.send("GET", "/apis").body["groups"]
    assert "batch" in [group["name"] for group in groups]
    assert cluster.send("GET", "/apis/batch").body["preferredVersion"]["version"] == "v1"
    names = [resource["name"] for resource in cluster.send("GET", "/api/v1").body["resources"]]
    assert {"pods", "pods/log", "pods/status", "secrets"} <= set(names) and "secrets/status" not in names


def test_the_version_is_the_one_asked_for() -> None:
    with KubeServer(kubernetes_version="v1.33.1-x") as server:
        configuration = client.Configuration()
        configuration.host = server.url
        code = client.VersionApi(client.ApiClient(configuration)).get_code()
        assert (code.git_version, code.major, code.minor) == ("v1.33.1-x", "1", "33")


def test_tls_is_verified_by_clients(tmp_path: Path) -> None:
    with KubeServer(tls=Tls.self_signed()) as server:
        assert server.url.startswith("https://127.0.0.1:") and server.ca_pem is not None
        trusted = tmp_path / "ca.pem"
        trusted.write_text(server.ca_pem)
        configuration = client.Configuration()
        configuration.host, configuration.ssl_ca_cert = server.url, str(trusted)
        assert client.CoreV1Api(client.ApiClient(configuration)).list_namespace().items
        trusted.write_text(Tls.self_signed().ca)
        stranger = client.Configuration()
        stranger.host, stranger.ssl_ca_cert, stranger.retries = server.url, str(trusted), 0
        with pytest.raises(urllib3.exceptions.MaxRetryError, match="CERTIFICATE_VERIFY_FAILED"):
            client.CoreV1Api(client.ApiClient(stranger)).list_namespace()


def test_a_stopped_server_leaves_no_thread_and_no_port() -> None:
    before = set(threading.enumerate())
    server = KubeServer()
    server.start()
    host, port = server.url.removeprefix("http://").split(":")
    server.stop()
    server.stop()
    assert set(threading.enumerate()) <= before
    with pytest.raises(urllib3.exceptions.HTTPError), urllib3.PoolManager(retries=False) as pool:
        pool.request("GET", f"http://{host}:{port}/version", timeout=2)


def test_logs_are_read_and_followed(embedded: Cluster) -> None:
    assert embedded.store is not None
    store, core = embedded.store, client.CoreV1Api(embedded.client())
    store.create(NAMESPACES, {"metadata": {"name": "logs"}})
    core.create_namespaced_pod("logs", pod("p", nodeName="n"))
    with refused(400, "BadRequest") as refusal:
        core.read_namespaced_pod_log("p", "logs")
    assert refusal.message == 'container "c" in pod "p" is waiting to start: ContainerCreating'
    with refused(404, "NotFound"):
        core.read_namespaced_pod_log("nope", "logs")
    store.merge_status(PODS, "p", {"status": {"phase": "Running"}}, "logs")
    store.append_log("logs", "p", "c", "one\ntwo\n")
    assert core.read_namespaced_pod_log("p", "logs") == "one\ntwo\n"
    assert core.read_namespaced_pod_log("p", "logs", tail_lines=1) == "two\n"
    with refused(400, "BadRequest"):
        core.read_namespaced_pod_log("p", "logs", container="other")

    def finish() -> None:
        store.append_log("logs", "p", "c", "three\n")
        store.merge_status(PODS, "p", {"status": {"phase": "Succeeded"}}, "logs")

    timer = threading.Timer(0.2, finish)
    timer.start()
    followed = core.read_namespaced_pod_log("p", "logs", follow=True, _request_timeout=10)
    timer.join()
    assert followed == "one\ntwo\nthree\n"


def test_hundreds_of_requests_in_a_second(embedded: Cluster) -> None:
    api = embedded.client()
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map("default", {"metadata": {"name": "fast"}, "data": {"n": "0"}})
    began = time.monotonic()
    for number in range(100):
        core.patch_namespaced_config_map("fast", "default", {"data": {"n": str(number)}}, _content_type=MERGE)
        core.read_namespaced_config_map("fast", "default")
    elapsed = time.monotonic() - began
    assert elapsed < 10, f"200 requests took {elapsed:.1f} s"  # under 1 s on an idle machine


def test_admission_policies_are_stored_and_not_evaluated(embedded: Cluster) -> None:
    assert embedded.store is not None
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "never"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}
                ]
            },
            "validations": [{"expression": "false"}],
        },
    }
    embedded.store.apply(policy, options=WriteOptions(manager="setup"))
    embedded.store.create(CONFIG_MAPS, {"metadata": {"name": "despite"}}, "default")
    embedded.store.delete(ADMISSION_POLICIES, "never")


# -- the store, without HTTP


def test_the_store_hands_out_copies() -> None:
    store = Store()
    store.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "v"}}, "default")
    store.get(CONFIG_MAPS, "c", "default")["data"]["k"] = "changed"
    store.list(CONFIG_MAPS)[0]["data"]["k"] = "changed"
    with store.watch(CONFIG_MAPS) as events:
        event = events.next(timeout=1)
        assert event is not None
        event.object["data"]["k"] = "changed"
    assert store.get(CONFIG_MAPS, "c", "default")["data"] == {"k": "v"}
    assert store.find(CONFIG_MAPS, "nope", "default") is None


def test_a_stand_in_runs_a_job(embedded: Cluster) -> None:
    """What the Job controller and a kubelet do, through the store alone."""
    store = embedded.store
    assert store is not None
    store.create(NAMESPACES, {"metadata": {"name": "stand-in"}})
    jobs, pods = store.watch(JOBS, "stand-in"), store.watch(PODS, "stand-in")

    def controller() -> None:
        for event in jobs:
            if event.type == "ADDED":
                body = pod("p", nodeName="n", restartPolicy="Never")
                body["metadata"]["labels"] = event.object["spec"]["template"]["metadata"]["labels"]
                store.create(PODS, body, "stand-in", WriteOptions(manager="controller"))

    def kubelet() -> None:
        for event in pods:
            if event.type == "ADDED":
                store.append_log("stand-in", "p", "c", "done\n")
                store.merge_status(PODS, "p", {"status": {"phase": "Succeeded"}}, "stand-in")
                store.merge_status(JOBS, "j", {"status": {"succeeded": 1}}, "stand-in")

    with jobs, pods, ThreadPoolExecutor(2) as threads:
        running = [threads.submit(controller), threads.submit(kubelet)]
        with store.watch(JOBS, "stand-in") as outside:
            store.create(JOBS, job("j"), "stand-in")
            while True:
                event = outside.next(timeout=5)
                assert event is not None
                if event.object["status"].get("succeeded"):
                    break
        jobs.close()
        pods.close()
        assert all(future.result(5) is None for future in running)
    read = client.CoreV1Api(embedded.client()).list_namespaced_pod("stand-in", label_selector="job-name=j")
    assert [item.status.phase for item in read.items] == ["Succeeded"]


def test_deletions_through_the_store() -> None:
    store = Store()
    store.create(PODS, pod("p", nodeName="n"), "default")
    assert store.delete(PODS, "p", "default")["metadata"]["deletionGracePeriodSeconds"] == 30
    assert store.find(PODS, "p", "default") is not None
    store.delete(PODS, "p", "default", DeleteOptions(grace_seconds=0))
    assert store.find(PODS, "p", "default") is None
    with pytest.raises(ApiError) as caught:
        store.delete(PODS, "p", "default")
    assert (caught.value.code, caught.value.message) == (404, 'pods "p" not found')


def test_writers_in_many_threads_lose_nothing() -> None:
    store = Store()
    store.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {}}, "default")

    def write(number: int) -> None:
        store.merge(CONFIG_MAPS, "c", {"data": {f"k{number}": "v"}}, "default")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))
    assert len(store.get(CONFIG_MAPS, "c", "default")["data"]) == 200


def test_the_conformance_script_passes() -> None:
    script = Path(__file__).parents[4] / "shared" / "tools" / "kube_api_conformance.py"
    if not script.is_file():
        pytest.skip(f"no conformance script at {script}")
    with KubeServer() as server:
        run = subprocess.run(
            [sys.executable, str(script), server.url],
            capture_output=True,
            text=True,
            timeout=100,
            env=os.environ,
        )
    assert run.returncode == 0 and "40 of 40 pass" in run.stdout, run.stdout + run.stderr
