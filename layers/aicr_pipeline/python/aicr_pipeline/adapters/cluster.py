"""The Kubernetes API, over the official client's transport and plain JSON.

The typed API classes would cost seconds of import; the pipeline touches few kinds, so paths and
dictionaries serve. Reading an absent object gives None; a refused one never does.
"""

import base64
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason

Json = dict[str, Any]

_TIMEOUT = (3.0, 15.0)
_ATTEMPTS = 4
_RETRYABLE = {429, 500, 502, 503, 504}
_PAGE = 250
_TOKEN_SECONDS = 600


class ObjectConflictError(TransientError):
    """409: somebody wrote in between, or the object exists already. Read again, then decide."""

    def __init__(self, what: str) -> None:
        super().__init__(Reason.Conflict, f"{what} was written by somebody else in between.")


class UnexpectedAnswerError(Exception):
    """An answer that no part of the domain stands for: the state fails there, and can be redriven."""


class ObjectMissingError(UnexpectedAnswerError):
    """404 to a write: what was to be changed is not there."""


class Cluster:
    """One cluster, as one identity."""

    def __init__(self, endpoint: str, ca_pem: bytes | None, token: Callable[[], str]) -> None:
        """``token`` mints a bearer token; it is kept for ten minutes."""
        from kubernetes.client import ApiClient, Configuration

        configuration = Configuration(host=endpoint.rstrip("/"))
        if ca_pem is not None:
            with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as file:
                file.write(ca_pem)
            configuration.ssl_ca_cert = file.name
        configuration.retries = 0  # ours are bounded by verb and status
        self._api = ApiClient(configuration)
        self._host = configuration.host
        self._mint = token
        self._token = ""
        self._expires = 0.0

    def get(self, path: str) -> Json | None:
        """One object, or None when it is absent."""
        status, body = self._call("GET", path)
        return None if status == 404 else self._ok(status, body, "GET", path)

    def list(self, path: str, **parameters: str) -> Iterator[Json]:
        """Items of a list, page by page, so that thousands of nodes need no more memory than a page."""
        onward: str | None = None
        while True:
            query = {**parameters, "limit": str(_PAGE)} | ({"continue": onward} if onward else {})
            status, body = self._call("GET", f"{path}?{urlencode(query)}")
            page = self._ok(status, body, "LIST", path)
            yield from page.get("items") or []
            onward = (page.get("metadata") or {}).get("continue")
            if not onward:
                return

    def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """Create an object; raises ObjectConflictError when it exists."""
        return self._write("POST", path, body, "application/json")

    def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        """Replace an object at its resourceVersion; raises ObjectConflictError when that is not current."""
        return self._write("PUT", path, body, "application/json")

    def merge(self, path: str, patch: Mapping[str, Any]) -> Json:
        """JSON merge patch (RFC 7396)."""
        return self._write("PATCH", path, patch, "application/merge-patch+json")

    def text(self, path: str) -> str | None:
        """Plain text, such as a pod's log; None when it is absent."""
        status, body = self._call("GET", path)
        if status in (400, 404):
            return None
        if status >= 300:
            self._ok(status, body, "GET", path)
        return body.decode(errors="replace")

    def _write(self, method: str, path: str, body: Mapping[str, Any], content_type: str) -> Json:
        status, answer = self._call(method, path, body, content_type)
        if status == 409:
            raise ObjectConflictError(_named(path))
        return self._ok(status, answer, method, path)

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str | None = None
    ) -> tuple[int, bytes]:
        status, data = self._send(method, path, body, content_type)
        if status == 401:
            # The token dies with the credentials that signed it, which may be before its own end.
            self._expires = 0.0
            status, data = self._send(method, path, body, content_type)
        return status, data

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str | None
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._bearer()}", "Accept": "application/json"}
        if content_type:
            headers["Content-Type"] = content_type
        for attempt in range(_ATTEMPTS):
            try:
                answer = self._api.call_api(
                    method, self._host + path, headers, body, _request_timeout=_TIMEOUT
                )
                data: bytes = answer.read()  # type: ignore[no-untyped-call]
            except Exception as error:  # noqa: BLE001 - the client raises bare urllib3 errors of many kinds
                if attempt + 1 == _ATTEMPTS:
                    raise TransientError(
                        Reason.ClusterUnreachable,
                        f"The cluster's API at {self._host} cannot be reached: {type(error).__name__}. "
                        "Check the endpoint, the security groups and the route from the functions' subnets.",
                    ) from None
            else:
                if answer.status not in _RETRYABLE or attempt + 1 == _ATTEMPTS:
                    return int(answer.status), data or b""
            time.sleep(random.uniform(0, 0.2 * 2**attempt))  # noqa: S311 - jitter
        raise AssertionError("unreachable")

    def _bearer(self) -> str:
        # By the wall clock: a monotonic one may stand still while Lambda freezes the process.
        if time.time() >= self._expires:
            self._token, self._expires = self._mint(), time.time() + _TOKEN_SECONDS
        return self._token

    def _ok(self, status: int, body: bytes, method: str, path: str) -> Json:
        if status < 300:
            found: Json = json.loads(body) if body else {}
            return found
        said = _message(body)
        if status in (401, 403):
            raise PipelineError(
                Reason.Unauthorized,
                f"The cluster refuses to {method} {_named(path)}: {said} Check the access entry and the "
                "cluster manifests.",
            )
        if status in _RETRYABLE:
            raise TransientError(
                Reason.ClusterUnreachable, f"The cluster answers {status} to {method} {_named(path)}: {said}"
            )
        kind = ObjectMissingError if status == 404 else UnexpectedAnswerError
        raise kind(f"The cluster answers {status} to {method} {_named(path)}: {said}")


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return "no explanation."


def _named(path: str) -> str:
    parts = path.partition("?")[0].split("/")
    return "/".join(parts[-2:])


def connect(config: ClusterConfig, eks: Callable[[str], Any]) -> Cluster:
    """The configured cluster, as this function's role.

    Endpoint and CA come from the configuration, else from DescribeCluster; ``eks`` makes the client for
    the cluster's region, which need not be the stack's.
    """
    import botocore.session

    cluster = config.cluster
    endpoint, ca = cluster.endpoint, cluster.certificate_authority
    if endpoint is None:
        described = eks(cluster.region).describe_cluster(name=cluster.known_as)["cluster"]
        endpoint, ca = described["endpoint"], described["certificateAuthority"]["data"]
    session = botocore.session.get_session()

    def token() -> str:
        from aicr_pipeline.adapters.eks_token import eks_token

        return eks_token(session, cluster.region, cluster.known_as)

    return Cluster(endpoint, base64.b64decode(ca) if ca else None, token)
