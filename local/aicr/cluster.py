"""The little of the Kubernetes API the stand-in needs, over plain HTTP.

The official client costs a second to import; each Job here lives for less than that.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import urllib3
import yaml

from local.aicr.errors import AicrError, Code

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_TIMEOUT = urllib3.Timeout(connect=5.0, read=20.0)
_RETRIES = urllib3.Retry(total=2, backoff_factor=0.2, status=0)


class ApiError(AicrError):
    """The API server refused; ``status`` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        code = {401: Code.UNAUTHORIZED, 403: Code.UNAUTHORIZED, 404: Code.NOT_FOUND}.get(
            status, Code.INTERNAL
        )
        super().__init__(code, message)
        self.status = status


class Cluster:
    """Requests to the API server that a kubeconfig names.

    Parameters
    ----------
    kubeconfig
        Path of the file; its current context is used. Token or client certificate, CA inline or by path.
    """

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        context = _named(document["contexts"], document["current-context"])["context"]
        server = _named(document["clusters"], context["cluster"])["cluster"]
        user = _named(document["users"], context["user"])["user"]
        self._server = str(server["server"]).rstrip("/")
        self._headers = {"Authorization": f"Bearer {user['token']}"} if user.get("token") else {}
        options: dict[str, Any] = {"timeout": _TIMEOUT, "retries": _RETRIES}
        if self._server.startswith("https"):
            options |= _tls(server, user)
        self._pool = urllib3.PoolManager(**options)

    @classmethod
    def from_environment(cls, flag: str | None) -> Cluster:
        """The cluster of ``--kubeconfig``, else of ``KUBECONFIG``.

        Raises
        ------
        AicrError
            INTERNAL when neither names a readable file.
        """
        path = Path(flag or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        if not path.is_file():
            raise AicrError(Code.INTERNAL, f"failed to get kubernetes client: no kubeconfig at {path}")
        return cls(path)

    def get(self, path: str) -> dict[str, Any]:
        """GET one object or list; raises ApiError."""
        return cast("dict[str, Any]", json.loads(self._send("GET", path).data))

    def apply(self, path: str, body: dict[str, Any], *, manager: str = "aicr") -> dict[str, Any]:
        """Server-side apply with force, as the command writes its ConfigMaps."""
        data = self._send("PATCH", f"{path}?fieldManager={manager}&force=true", _APPLY, body).data
        return cast("dict[str, Any]", json.loads(data))

    def create(self, path: str, body: dict[str, Any]) -> None:
        """POST an object; raises ApiError."""
        self._send("POST", path, _JSON, body)

    def delete(self, path: str, propagation: str = "Background") -> None:
        """DELETE an object; one that is gone is no error."""
        try:
            self._send("DELETE", path, _JSON, {"propagationPolicy": propagation})
        except ApiError as error:
            if error.status != 404:
                raise

    def text(self, path: str) -> str:
        """GET something that is no JSON: a log."""
        return self._send("GET", path).data.decode(errors="replace")

    def watch(self, path: str, seconds: int) -> Iterator[dict[str, Any]]:
        """Objects as they are and as they change, for at most ``seconds``."""
        joint = "&" if "?" in path else "?"
        answer = self._send("GET", f"{path}{joint}watch=true&timeoutSeconds={seconds}", stream=True)
        rest = b""
        try:
            for chunk in answer.stream():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)["object"]
        finally:
            answer.close()

    def _send(
        self,
        method: str,
        path: str,
        content_type: str = "",
        body: dict[str, Any] | None = None,
        *,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        headers = {**self._headers, "Accept": "application/json"}
        if content_type:
            headers["Content-Type"] = content_type
        try:
            answer = self._pool.request(
                method,
                self._server + path,
                headers=headers,
                body=json.dumps(body) if body is not None else None,
                preload_content=not stream,
            )
        except urllib3.exceptions.HTTPError as error:
            raise AicrError(
                Code.UNAVAILABLE, f"the API server did not answer {method} {path}: {error}"
            ) from error
        if answer.status >= 400:
            raise ApiError(answer.status, f"{method} {path}: {answer.status} {_message(answer.data)}")
        return answer


def _named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data).get("message", ""))
    except ValueError:
        return data.decode(errors="replace")[:200]


def _tls(server: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    if server.get("insecure-skip-tls-verify"):
        return {"cert_reqs": "CERT_NONE"}
    options: dict[str, Any] = {}
    if path := server.get("certificate-authority"):
        options["ca_certs"] = path
    elif data := server.get("certificate-authority-data"):
        options["ca_cert_data"] = base64.b64decode(data).decode()
    for key, option in (("client-certificate", "cert_file"), ("client-key", "key_file")):
        if path := user.get(key):
            options[option] = path
        elif data := user.get(f"{key}-data"):
            # ssl can load a client certificate from files only.
            with tempfile.NamedTemporaryFile(delete=False) as file:
                file.write(base64.b64decode(data))
            options[option] = file.name
    return options
