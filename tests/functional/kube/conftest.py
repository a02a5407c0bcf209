"""The cluster that these tests talk to: the embedded one, and a real API server where one is at hand.

With KUBEBUILDER_ASSETS (a folder with `kube-apiserver` and `etcd`, as envtest has it) every test that asks
for `cluster` runs a second time against the real server. Tests of what controllers do ask for `embedded`.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubernetes import client

from local.kube import KubeServer
from tests.functional.kube.helpers import USERS, Cluster, make_namespace


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ready(url: str) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"{url}/readyz", headers={"Authorization": "Bearer admin-token"})
    try:
        with urllib.request.urlopen(request, timeout=2, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def _real_server(assets: Path, folder: Path) -> Iterator[Cluster]:
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "sa.key").write_bytes(pem)
    rows = [f'{t},{u.user},{u.user},"{",".join(u.groups)}"' for t, u in USERS.items()]
    (folder / "tokens.csv").write_text("\n".join(rows))
    store, peer, port = f"http://127.0.0.1:{_free_port()}", f"http://127.0.0.1:{_free_port()}", _free_port()
    commands = [
        [
            str(assets / "etcd"),
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}",
            f"--listen-peer-urls={peer}",
            "--unsafe-no-fsync",
        ],
        [
            str(assets / "kube-apiserver"),
            f"--etcd-servers={store}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'certificates'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'sa.key'}",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        ],
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"{number}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        url, deadline = f"https://127.0.0.1:{port}", time.monotonic() + 60
        while not _ready(url):
            if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                pytest.fail(f"the real API server did not start, see {folder}")
            time.sleep(0.2)
        yield Cluster(url, None)
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="session")
def embedded() -> Iterator[Cluster]:
    with KubeServer(authenticate=lambda token: USERS.get(token or "")) as server:
        yield Cluster(server.url, server.store)


@pytest.fixture(scope="session", params=["embedded", "kube-apiserver"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if request.param == "embedded":
        yield request.getfixturevalue("embedded")
        return
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        pytest.skip(
            "KUBEBUILDER_ASSETS names no folder with kube-apiserver and etcd: not run on a real server"
        )
    with _real_server(Path(assets), tmp_path_factory.mktemp("apiserver")) as real:
        yield real


@pytest.fixture
def api(cluster: Cluster) -> client.ApiClient:
    return cluster.client()


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


@pytest.fixture
def namespace(api: client.ApiClient) -> str:
    return make_namespace(api)
