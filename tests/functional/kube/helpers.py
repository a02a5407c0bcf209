"""What the tests of the cluster share."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import urllib3
from kubernetes import client
from kubernetes.client.rest import ApiException

from local.kube import Identity, Store

USERS = {
    "admin-token": Identity("admin", ("system:masters",)),
    "jane-token": Identity("jane", ("team-a",)),
}
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Cluster:
    """An API server that knows USERS; `store` is there when it is the embedded one."""

    url: str
    store: Store | None

    def client(self, token: str | None = "admin-token") -> client.ApiClient:
        configuration = client.Configuration()
        configuration.host = self.url
        configuration.verify_ssl = False
        configuration.retries = 0
        if token is not None:
            configuration.api_key["authorization"] = f"Bearer {token}"
        return client.ApiClient(configuration)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        media_type: str = "application/json",
        token: str = "admin-token",
    ) -> Answer:
        """A request as it stands: the client's typed methods refuse malformed bodies themselves."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": media_type}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        with urllib3.PoolManager(cert_reqs="CERT_NONE") as pool:
            answer = pool.request(
                method, self.url + path, headers=headers, body=data, retries=False, timeout=10
            )
        return Answer(answer.status, json.loads(answer.data), answer.headers.get("Warning", ""))


class Answer(NamedTuple):
    """Status, body, warnings."""

    status: int
    body: dict[str, Any]
    warning: str


def unique(prefix: str = "t") -> str:
    """A name that no other test uses."""
    return f"{prefix}-{os.getpid()}-{next(_NUMBERS)}"


def make_namespace(api: client.ApiClient, **labels: str) -> str:
    name = unique()
    client.CoreV1Api(api).create_namespace({"metadata": {"name": name, "labels": labels}})
    return name


@dataclass
class Refusal:
    """The Status that a refused request carried."""

    message: str = ""
    body: dict[str, Any] | None = None


@contextmanager
def refused(code: int, reason: str) -> Iterator[Refusal]:
    """The block must end with this refusal by the API."""
    refusal = Refusal()
    with pytest.raises(ApiException) as caught:
        yield refusal
    body = json.loads(caught.value.body)
    assert (caught.value.status, body["code"], body["reason"]) == (code, code, reason), body
    assert body["kind"] == "Status" and body["status"] == "Failure"
    refusal.message, refusal.body = body["message"], body


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A Pod that every Pod Security level admits."""
    container = {
        "name": "c",
        "image": "registry.invalid/image@sha256:" + "0" * 64,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "metadata": {"name": name},
        "spec": {"securityContext": RESTRICTED, "containers": [container], **spec},
    }


def job(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": pod("x", restartPolicy="Never")["spec"]}},
    }


def owner(obj: Any, api_version: str, kind: str, *, block: bool = False) -> dict[str, Any]:
    """An ownerReference to an object as the client returned it."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": obj.metadata.name,
        "uid": obj.metadata.uid,
        "blockOwnerDeletion": block,
    }
