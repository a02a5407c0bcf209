"""The stand-in kubelet in an embedded cluster: Jobs, their Pods, their processes."""

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.kube.options import DeleteOptions
from local.kube.resources import EVENTS, JOBS, NAMESPACES, SECRETS
from local.kubelet.mounts import expand, rewrite
from tests.functional.standins.cluster import NAMESPACE, Cluster
from tests.functional.standins.support import eventually

Object = dict[str, Any]


def condition(job: Object, kind: str) -> Object:
    return next(item for item in job["status"]["conditions"] if item["type"] == kind)


def test_a_container_sees_its_volumes_and_its_pod(bench: Cluster) -> None:
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


def test_a_failing_container_fails_the_job_with_its_code_and_words(bench: Cluster) -> None:
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


def test_a_deadline_ends_the_process_and_takes_the_pod_away(bench: Cluster) -> None:
    bench.add_nodes()
    bench.run("slow", {"command": ["sleep"], "args": ["600"]}, activeDeadlineSeconds=1)
    job = bench.ended("slow", "Failed")
    assert condition(job, "Failed")["reason"] == "DeadlineExceeded"
    eventually(lambda: bench.pod("slow"), lambda pod: not pod["metadata"])


def test_deleting_a_job_kills_its_children(bench: Cluster) -> None:
    bench.add_nodes()
    code = "import os,time; print(os.getpid(), flush=True); time.sleep(600)"
    bench.run("long", {"command": ["python", code]})
    eventually(lambda: bench.pod("long"), lambda pod: pod["status"].get("phase") == "Running")
    pid = int(eventually(lambda: bench.logs("long"), bool))
    assert Path(f"/proc/{pid}").exists()
    bench.store.delete(JOBS, "long", namespace=NAMESPACE, options=DeleteOptions(propagation="Background"))
    eventually(lambda: _alive(pid), lambda alive: not alive)
    eventually(lambda: bench.pod("long"), lambda pod: not pod["metadata"])


def test_no_fitting_node_is_unschedulable_until_one_comes(bench: Cluster) -> None:
    bench.run("waits", {"command": ["python", "print(1)"]})
    pod = eventually(lambda: bench.pod("waits"), lambda pod: pod["status"].get("conditions"))
    assert pod["status"]["phase"] == "Pending"
    assert pod["status"]["conditions"][0]["reason"] == "Unschedulable"
    bench.add_nodes()
    bench.ended("waits", "Complete")


def test_an_image_that_is_not_allowed_is_not_pulled(bench: Cluster) -> None:
    bench.add_nodes()
    bench.run("foreign", {"image": "example.invalid/other:1", "command": ["python", "print(1)"]})
    pod = eventually(lambda: bench.pod("foreign"), lambda pod: pod["status"].get("containerStatuses"))
    assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
    assert pod["status"]["phase"] == "Pending"


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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(B)", "$(B)"),
        ("$A $( $$ x$", "$A $( $ x$"),
    ],
)
def test_arguments_are_expanded_as_kubernetes_does(text: str, wanted: str) -> None:
    """Kubernetes, ``third_party/forked/golang/expansion``."""
    assert expand(text, {"A": "1"}) == wanted


def test_a_refused_pod_leaves_the_job_without_one(bench: Cluster) -> None:
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


def test_no_container_outlives_the_engine(tmp_path: Path) -> None:
    script = (
        "import os, sys, threading\n"
        "from pathlib import Path\n"
        "from local.kubelet.process import ContainerProcess\n"
        "env = {'PATH': os.environ['PATH']}\n"
        "ContainerProcess(['sleep', '600'], env, Path('.'), log=print, ended=lambda: None)\n"
        "code = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'\n"
        "ContainerProcess([sys.executable, '-c', code], env, Path('.'),\n"
        "  log=lambda text: print(text, flush=True), ended=lambda: None)\n"
        "threading.Event().wait()\n"
    )
    root = Path(__file__).resolve().parents[3]
    engine = subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True)
    assert engine.stdout is not None
    pid = int(engine.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    engine.kill()
    engine.wait()
    engine.stdout.close()
    eventually(lambda: _alive(pid), lambda alive: not alive)


def _alive(pid: int) -> bool:
    """False also for a zombie that init has not read yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
