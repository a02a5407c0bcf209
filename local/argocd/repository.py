"""The repo server's part: a pinned chart out of an OCI registry, rendered with Helm. I/O only."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import os
import subprocess
import tempfile
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
import yaml

from local.argocd.credentials import Credentials
from local.argocd.manifests import Object, Target, target

_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
_CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_CACHED_RENDERS = 64
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class RepositoryError(Exception):
    """The chart could not be resolved, pulled or rendered; the text is what a repo server would say."""


class GenerationError(RepositoryError):
    """The chart is there, and does not render: the kind of error that a repo server remembers."""


class Repository:
    """Resolves, pulls and renders.

    Parameters
    ----------
    helm
        The Helm program.
    workdir
        Where pulled charts and Helm's own folders are kept.
    kube_version
        What charts see as the cluster's version.
    """

    def __init__(self, helm: Path, workdir: Path, kube_version: str) -> None:
        self._helm = helm
        self._workdir = workdir
        self._kube_version = kube_version
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=5.0, read=30.0), retries=urllib3.Retry(total=1, status=0)
        )
        self._renders: OrderedDict[str, Target] = OrderedDict()

    def target(
        self, application: Object, source: Object, revision: str, credentials: Credentials | None
    ) -> Target:
        """What a source at a revision renders to for an Application; raises RepositoryError.

        The registry is asked every time, so a dead token shows at once; chart and render are cached.
        """
        url, reference = _address(source, revision, credentials)
        try:
            digest = self._resolve(url, reference, credentials)
        except RepositoryError as error:
            raise RepositoryError(
                f'failed to resolve revision "{revision}": cannot get digest for revision {revision}: {error}'
            ) from error
        helm = source.get("helm") or {}
        namespace = str((application["spec"].get("destination") or {}).get("namespace", ""))
        name = str(helm.get("releaseName") or application["metadata"]["name"])
        values = helm.get("valuesObject") or yaml.safe_load(helm.get("values") or "{}") or {}
        key = hashlib.sha256(
            json.dumps([digest, name, namespace, values], sort_keys=True).encode()
        ).hexdigest()
        if key not in self._renders:
            chart = self._pull(url, digest, credentials)
            self._renders[key] = target(digest, self._template(chart, name, namespace, values), namespace)
            if len(self._renders) > _CACHED_RENDERS:
                self._renders.popitem(last=False)
        self._renders.move_to_end(key)
        found = self._renders[key]
        # A chart source is known by its version, a native one by the digest.
        return replace(found, revision=revision) if source.get("chart") else found

    def _resolve(self, url: str, revision: str, credentials: Credentials | None) -> str:
        answer = self._request("HEAD", url, f"manifests/{revision}", credentials)
        digest = answer.headers.get("Docker-Content-Digest", "")
        if not digest:
            raise RepositoryError(f"the registry of {url} names no digest for {revision}")
        return str(digest)

    def _pull(self, url: str, digest: str, credentials: Credentials | None) -> Path:
        folder = self._workdir / "charts"
        path = folder / f"{digest.replace(':', '-')}.tgz"
        if path.is_file():
            return path
        content = self._request("GET", url, f"manifests/{digest}", credentials).data
        _verify(content, digest)
        layers = [item for item in json.loads(content).get("layers") or [] if item["mediaType"] == _CHART]
        if len(layers) != 1:
            raise RepositoryError(f"expected only a single oci content layer, got {len(layers)}")
        chart = self._request("GET", url, f"blobs/{layers[0]['digest']}", credentials).data
        _verify(chart, layers[0]["digest"])
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(chart)
        Path(file.name).rename(path)
        return path

    def _template(self, chart: Path, name: str, namespace: str, values: Object) -> list[Object]:
        home = self._workdir / "helm"
        home.mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(home),
            **{f"HELM_{part}_HOME": str(home / part.lower()) for part in ("CACHE", "CONFIG", "DATA")},
        }
        command = [
            *(str(self._helm), "template", name, str(chart), "--namespace", namespace, "--include-crds"),
            *("--kube-version", self._kube_version, "--values", "-"),
        ]
        done = subprocess.run(
            command,
            input=json.dumps(values).encode(),
            capture_output=True,
            env=environment,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            raise GenerationError(f"`helm template . --name-template {name}` failed exit status 1: {words}")
        return list(yaml.load_all(done.stdout, Loader=_Loader))

    def _request(
        self, method: str, url: str, path: str, credentials: Credentials | None
    ) -> urllib3.BaseHTTPResponse:
        parts = urlsplit(url)
        plain = _is_loopback(parts.hostname or "") or bool(credentials and credentials.force_http)
        address = f"{'http' if plain else 'https'}://{parts.netloc}/v2{parts.path}/{path}"
        headers = {"Accept": _MANIFESTS} if path.startswith("manifests/") else {}
        if credentials is not None and credentials.username:
            pair = f"{credentials.username}:{credentials.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        try:
            answer = self._pool.request(method, address, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise RepositoryError(f'{method} "{address}": {error}') from error
        if answer.status == 404:
            raise RepositoryError(f"{parts.netloc}{parts.path}@{path.rpartition('/')[2]}: not found")
        if answer.status >= 400:
            reason = answer.reason or {401: "Unauthorized", 403: "Forbidden"}.get(answer.status, "")
            raise RepositoryError(
                f'{method} "{address}": response status code {answer.status}: {reason}'.rstrip(": ")
            )
        return answer


def _address(source: Object, revision: str, credentials: Credentials | None) -> tuple[str, str]:
    """Where a source is in its registry, and under which tag or digest.

    ``chart:`` with ``host/prefix`` is Helm's form: an exact version, never a digest.
    """
    url, chart = str(source.get("repoURL", "")), str(source.get("chart") or "")
    kind = "helm" if chart else "oci"
    if credentials is not None and credentials.kind != kind:
        raise RepositoryError(
            f"credentials of type {credentials.kind} do not fit a source of type {kind}: {url}"
        )
    if not chart:
        if not url.startswith("oci://"):
            raise RepositoryError(
                f"the stand-in reads oci:// sources and a registry's charts only, not {url}"
            )
        return url, revision
    if "://" in url:
        raise RepositoryError(f"the repository of chart {chart} has a scheme: {url}")
    if ":" in revision:
        raise RepositoryError(
            "invalid revision: failed to determine semver constraint: improper constraint: " + revision
        )
    return f"oci://{url.rstrip('/')}/{chart}", revision.replace("+", "_")


def _verify(content: bytes, digest: str) -> None:
    actual = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if actual != digest:
        raise RepositoryError(f"mismatched digest: wanted {digest}, got {actual}")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
