"""The yardstick: the same copies on urllib3, eight at a time, with no check, no retry and no refusal read.

What an expert would write for one afternoon's use. As skopeo does, it looks for each blob before it sends it.
"""

import base64
import hashlib
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import urllib3

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Loop:
    """One job."""

    def __init__(self, job: dict[str, Any]) -> None:
        pair = base64.b64encode(f"{job['user']}:{job['password']}".encode()).decode()
        self.auth = {"Authorization": f"Basic {pair}"}
        self.base = f"http://{job['host']}/v2/{job['prefix']}/charts"
        self.pool = urllib3.PoolManager(maxsize=8, retries=False)

    def copy(self, chart: dict[str, str]) -> None:
        """One chart, unless it is there."""
        target = f"{self.base}/{chart['name']}"
        if chart["repo"]:
            self._from_index(chart, target)
        else:
            self._from_registry(chart, target)

    def _from_registry(self, chart: dict[str, str], target: str) -> None:
        host, _, repository = chart["chart"].removeprefix("oci://").partition("/")
        source = f"http://{host}/v2/{repository}"
        answer = self.pool.request(
            "GET", f"{source}/manifests/{chart['version']}", headers={"Accept": MANIFEST}
        )
        digest = answer.headers["Docker-Content-Digest"]
        if self._there(target, chart["version"]) == digest:
            return
        manifest = answer.json()
        for part in (manifest["config"], *manifest["layers"]):
            self._push(
                target, part["digest"], self.pool.request("GET", f"{source}/blobs/{part['digest']}").data
            )
        self._put_manifest(target, chart["version"], answer.data)

    def _from_index(self, chart: dict[str, str], target: str) -> None:
        """The digest of an archive is in the manifest, so that is fetched rather than looked for."""
        index = self.pool.request("GET", f"{chart['repo']}/index.yaml").data.decode()
        entry = index[index.index(f"\n  {chart['name']}:") :]
        digest = "sha256:" + re.search(r"digest: (\w+)", entry)[1]  # type: ignore[index]
        there = self.pool.request(
            "GET", f"{target}/manifests/{chart['version']}", headers={"Accept": MANIFEST, **self.auth}
        )
        if there.status == 200 and there.json()["layers"][0]["digest"] == digest:
            return
        url = re.search(r"urls:\n\s*- (\S+)", entry)[1]  # type: ignore[index]
        archive = self.pool.request("GET", f"{chart['repo']}/{url}").data
        config = json.dumps({"apiVersion": "v2", "name": chart["name"], "version": chart["version"]}).encode()
        configured = "sha256:" + hashlib.sha256(config).hexdigest()
        self._push(target, configured, config)
        self._push(target, digest, archive)
        kind = "application/vnd.cncf.helm"
        manifest = {
            "schemaVersion": 2,
            "config": {"mediaType": f"{kind}.config.v1+json", "digest": configured, "size": len(config)},
            "layers": [
                {"mediaType": f"{kind}.chart.content.v1.tar+gzip", "digest": digest, "size": len(archive)}
            ],
        }
        self._put_manifest(target, chart["version"], json.dumps(manifest).encode())

    def _there(self, target: str, tag: str) -> str | None:
        headers = {"Accept": MANIFEST, **self.auth}
        answer = self.pool.request("HEAD", f"{target}/manifests/{tag}", headers=headers)
        return answer.headers.get("Docker-Content-Digest") if answer.status == 200 else None

    def _push(self, target: str, digest: str, content: bytes) -> None:
        if self.pool.request("HEAD", f"{target}/blobs/{digest}", headers=self.auth).status == 200:
            return
        opened = self.pool.request("POST", f"{target}/blobs/uploads/", headers=self.auth)
        url = f"{opened.headers['Location']}&digest={digest}"
        headers = {"Content-Type": "application/octet-stream", **self.auth}
        assert self.pool.request("PUT", url, body=content, headers=headers).status == 201

    def _put_manifest(self, target: str, tag: str, content: bytes) -> None:
        headers = {"Content-Type": MANIFEST, **self.auth}
        answer = self.pool.request("PUT", f"{target}/manifests/{tag}", body=content, headers=headers)
        assert answer.status == 201


if __name__ == "__main__":
    work = json.loads(Path(sys.argv[1]).read_text())
    loop = Loop(work)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(loop.copy, work["charts"]))
