"""Helpers of these tests: charts in a registry, waiting for a state."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import urllib3
from aicr_pipeline.adapters.http import Transport
from aicr_pipeline.adapters.registry import Reference, Repository
from aicr_pipeline.decide.chart_package import MANIFEST_TYPE, helm_config, helm_manifest, pack

from local.registry import LocalRegistry
from local.registry.store import digest_of

PREFIX = "aicr/demo"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}, namespace: {{ .Values.namespace | default .Release.Namespace }}}
spec:
  replicas: {{ .Values.replicas }}
  template: {spec: {containers: [{name: main, image: "example.invalid/main:{{ .Chart.Version }}"}]}}
"""


class Registry:
    """A running registry, and one password that may do everything."""

    def __init__(self, server: LocalRegistry) -> None:
        self.host = server.host
        self.user, self.password, _ = server.issuer.issue()
        self._pool = urllib3.PoolManager(retries=False, timeout=10)

    @property
    def authorization(self) -> str:
        """The Basic header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def request(self, method: str, path: str, **more: Any) -> urllib3.BaseHTTPResponse:
        """One authenticated request below ``/v2/``."""
        headers = {"Authorization": self.authorization, **more.pop("headers", {})}
        url = path if path.startswith("http") else f"http://{self.host}/v2/{path}"
        answer = self._pool.request(method, url, headers=headers, **more)
        assert answer.status < 400, (method, path, answer.status, answer.data)
        return answer

    @contextmanager
    def repository(self, name: str) -> Iterator[Repository]:
        """A repository, as the pipeline's own client."""
        transport = Transport(frozenset({self.host}))
        try:
            yield Repository(transport, Reference(self.host, name), self)
        finally:
            transport.close()

    def get(self) -> tuple[str, str]:
        """The one password, as credentials."""
        return self.user, self.password

    def renew(self, refused: tuple[str, str] | None = None) -> None:
        """It is good for as long as a test."""

    def push_chart(self, name: str, version: str, templates: Mapping[str, str]) -> str:
        """Push a chart to ``charts/<name>``; returns the manifest digest."""
        metadata = {"apiVersion": "v2", "name": name, "version": version}
        files = {
            "Chart.yaml": json.dumps(metadata).encode(),
            "values.yaml": b"replicas: 1\n",
            **{f"templates/{path}": text.encode() for path, text in templates.items()},
        }
        config, content = helm_config(metadata), pack(name, files)
        for blob in (config, content):
            location = self.request("POST", f"{PREFIX}/charts/{name}/blobs/uploads/").headers["Location"]
            where = location if location.startswith("http") else f"http://{self.host}{location}"
            joint = "&" if "?" in where else "?"
            self.request("PUT", f"{where}{joint}digest={digest_of(blob)}", body=blob)
        manifest = helm_manifest((digest_of(config), len(config)), (digest_of(content), len(content)))
        self.request(
            "PUT",
            f"{PREFIX}/charts/{name}/manifests/{version}",
            body=manifest,
            headers={"Content-Type": MANIFEST_TYPE},
        )
        return digest_of(manifest)


def eventually(read: Callable[[], Any], wanted: Callable[[Any], bool], seconds: float = 10.0) -> Any:
    """Read until wanted; fails with what was read last."""
    deadline = time.monotonic() + seconds
    while True:
        value = read()
        if wanted(value):
            return value
        assert time.monotonic() < deadline, f"not in {seconds} s: {json.dumps(value, default=str)[:3000]}"
        time.sleep(0.02)
