"""The registry's HTTP interface: the OCI distribution specification, answered the way ECR answers.

Repositories appear with the first push. Tags under ``charts/`` and ``wrappers/`` never move. There is no
DELETE: the pipeline never deletes, and here nobody can.
"""

import base64
import binascii
import json
import re
import uuid
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local.registry.store import Store, digest_of
from local.registry.tokens import TokenIssuer

MAX_MANIFEST = 4 * 1024 * 1024
EXPIRED = "Your authorization token has expired. Reauthenticate and try again."

_NAME = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
_PATH = re.compile(rf"(?P<name>{_NAME})/(?P<kind>manifests|blobs|tags|referrers)/(?P<rest>.+)")
_INDEX = "application/vnd.oci.image.index.v1+json"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")
_IMMUTABLE = re.compile(r"(^|/)(charts|wrappers)/")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class RegistryApp:
    """Answers requests out of a store.

    Parameters
    ----------
    issuer:
        Whose passwords count. None: everybody may read, nobody may write (a publisher's registry).
    immutable:
        Whether the tags of a repository are fixed once written.
    """

    def __init__(
        self,
        store: Store,
        issuer: TokenIssuer | None,
        immutable: Callable[[str], bool] = lambda name: bool(_IMMUTABLE.search(name)),
    ) -> None:
        self._store = store
        self._issuer = issuer
        self._immutable = immutable
        self._uploads: dict[str, tuple[str, bytearray]] = {}

    def asgi(self) -> Starlette:
        """The application."""
        methods = ["GET", "HEAD", "PUT", "POST", "PATCH"]
        return Starlette(routes=[Route("/v2/{path:path}", self.answer, methods=methods)])

    async def answer(self, request: Request) -> Response:
        """Route by hand: repository names hold slashes."""
        path = request.path_params["path"]
        if not path:
            # ECR answers 400 to Basic here; clients that ping are to fail where they would in the cloud.
            refused = self._refuse(request, "", "pull")
            return refused or _error(400, "UNSUPPORTED", "Invalid request")
        match = _PATH.fullmatch(path)
        if not match:
            return _error(404, "NAME_INVALID", "invalid repository name")
        name, kind, rest = match["name"], match["kind"], match["rest"]
        action = "pull" if request.method in ("GET", "HEAD") else "push"
        if refused := self._refuse(request, name, action):
            return refused
        if kind == "tags":
            return self._tags(name) if rest == "list" and action == "pull" else _method_refused()
        if kind == "referrers":
            return self._referrers(name, rest) if action == "pull" else _method_refused()
        if kind == "manifests":
            if not (_DIGEST.fullmatch(rest) or _TAG.fullmatch(rest)):
                return _error(400, "TAG_INVALID", "invalid tag or digest")
            if action == "pull":
                return self._get_manifest(name, rest)
            return (
                await self._put_manifest(request, name, rest)
                if request.method == "PUT"
                else _method_refused()
            )
        if rest == "uploads" or rest.startswith("uploads/"):
            return await self._upload(request, name, rest.removeprefix("uploads").strip("/"))
        if not _DIGEST.fullmatch(rest):
            return _error(400, "DIGEST_INVALID", "invalid digest")
        return self._get_blob(request, name, rest) if action == "pull" else _method_refused()

    def _refuse(self, request: Request, name: str, action: str) -> Response | None:
        if self._issuer is None:
            return None if action == "pull" else _error(403, "DENIED", "this registry is read only")
        user, password = _basic(request)
        grant = self._issuer.read(user, password) if password else None
        if grant is None:
            body = {"errors": [{"code": "UNAUTHORIZED", "message": "Not Authorized"}]}
            challenge = f'Basic realm="http://{request.url.netloc}/",service="ecr.amazonaws.com"'
            return JSONResponse(body, 401, {"WWW-Authenticate": challenge})
        if grant.expired:
            return _error(403, "DENIED", EXPIRED)
        if name and not grant.allows(name, action):
            return _error(403, "DENIED", f"User is not authorized to perform: {action} on repository {name}")
        return None

    def _tags(self, name: str) -> Response:
        if not self._store.exists(name):
            return _unknown_name(name)
        return JSONResponse({"name": name, "tags": self._store.tags(name)})

    def _referrers(self, name: str, digest: str) -> Response:
        if not self._store.exists(name):
            return _unknown_name(name)
        found = []
        for held in self._store.digests(name):
            content, media_type, _ = self._store.manifest(name, held) or (b"{}", "", "")
            document = json.loads(content)
            if (document.get("subject") or {}).get("digest") == digest:
                described = {"mediaType": media_type, "digest": held, "size": len(content)}
                found.append({**described, "artifactType": document.get("artifactType", "")})
        return JSONResponse(
            {"schemaVersion": 2, "mediaType": _INDEX, "manifests": found}, 200, media_type=_INDEX
        )

    def _get_manifest(self, name: str, reference: str) -> Response:
        found = self._store.manifest(name, reference)
        if found is None:
            return _unknown(self._store, name, "MANIFEST_UNKNOWN", "Requested image not found")
        content, media_type, digest = found
        return Response(content, 200, {"Docker-Content-Digest": digest}, media_type)

    async def _put_manifest(self, request: Request, name: str, reference: str) -> Response:
        content = await request.body()
        digest = digest_of(content)
        media_type = request.headers.get("content-type", "")
        if len(content) > MAX_MANIFEST:
            return _error(413, "SIZE_INVALID", "manifest too large")
        if problem := self._manifest_problem(name, reference, content, digest):
            return problem
        # ECR refuses even the manifest that is there already.
        held = self._store.manifest(name, reference)
        if held and not _DIGEST.fullmatch(reference) and self._immutable(name):
            message = (
                f"The image tag '{reference}' already exists in the '{name}' repository and cannot be "
                "overwritten because the repository is immutable. (ImageTagAlreadyExistsException)"
            )
            return _error(400, "TAG_INVALID", message)
        await run_in_threadpool(self._store.put_manifest, name, reference, content, media_type)
        headers = {"Docker-Content-Digest": digest, "Location": f"/v2/{name}/manifests/{digest}"}
        if subject := json.loads(content).get("subject"):
            headers["OCI-Subject"] = subject["digest"]
        return Response(b"", 201, headers)

    def _manifest_problem(self, name: str, reference: str, content: bytes, digest: str) -> Response | None:
        if _DIGEST.fullmatch(reference) and reference != digest:
            return _error(400, "DIGEST_INVALID", "manifest digest did not match")
        try:
            document = json.loads(content)
            parts = (
                [document["config"], *document["layers"]] if "layers" in document else document["manifests"]
            )
            digests = [str(part["digest"]) for part in parts]
        except (ValueError, LookupError, TypeError):
            return _error(400, "MANIFEST_INVALID", "manifest invalid")
        for part in digests:
            if not (self._store.has_blob(name, part) or self._store.manifest(name, part)):
                return _error(400, "MANIFEST_BLOB_UNKNOWN", f"blob {part} unknown to {name}")
        return None

    def _get_blob(self, request: Request, name: str, digest: str) -> Response:
        content = self._store.blob(name, digest)
        if content is None:
            return _unknown(self._store, name, "BLOB_UNKNOWN", "blob unknown to registry")
        headers = {"Docker-Content-Digest": digest, "Accept-Ranges": "bytes"}
        wanted = _RANGE.fullmatch(request.headers.get("range", ""))
        if not wanted:
            return Response(content, 200, headers, "application/octet-stream")
        start, end = int(wanted[1]), min(int(wanted[2] or len(content) - 1), len(content) - 1)
        if start > end:
            return Response(b"", 416, {"Content-Range": f"bytes */{len(content)}"})
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        return Response(content[start : end + 1], 206, headers, "application/octet-stream")

    async def _upload(self, request: Request, name: str, upload: str) -> Response:
        if request.method == "POST" and not upload:
            # A cross-repository mount may be answered like any other upload; this one always is.
            upload = uuid.uuid4().hex
            self._uploads[upload] = (name, bytearray())
            digest = request.query_params.get("digest")
            return await (
                self._finish(request, name, upload, digest) if digest else self._progress(name, upload)
            )
        owner, received = self._uploads.get(upload, ("", bytearray()))
        if owner != name:
            return _error(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry")
        if request.method == "PATCH":
            start = request.headers.get("content-range", "").partition("-")[0]
            if start and (not start.isdigit() or int(start) != len(received)):
                return Response(b"", 416, {"Range": f"0-{max(len(received) - 1, 0)}"})
            received += await request.body()
            return await self._progress(name, upload)
        if request.method == "PUT":
            return await self._finish(request, name, upload, request.query_params.get("digest", ""))
        if request.method == "GET":
            return Response(b"", 204, {"Range": f"0-{max(len(received) - 1, 0)}"})
        return _method_refused()

    async def _progress(self, name: str, upload: str) -> Response:
        size = len(self._uploads[upload][1])
        headers = {"Location": f"/v2/{name}/blobs/uploads/{upload}", "Docker-Upload-UUID": upload}
        return Response(b"", 202, {**headers, "Range": f"0-{max(size - 1, 0)}"})

    async def _finish(self, request: Request, name: str, upload: str, wanted: str) -> Response:
        _, received = self._uploads.pop(upload)
        received += await request.body()
        content = bytes(received)
        if digest_of(content) != wanted:
            return _error(400, "DIGEST_INVALID", "provided digest did not match uploaded content")
        await run_in_threadpool(self._store.put_blob, name, content)
        headers = {"Location": f"/v2/{name}/blobs/{wanted}", "Docker-Content-Digest": wanted}
        return Response(b"", 201, headers)


def _basic(request: Request) -> tuple[str, str]:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(value).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def _unknown(store: Store, name: str, code: str, message: str) -> Response:
    return _error(404, code, message) if store.exists(name) else _unknown_name(name)


def _unknown_name(name: str) -> Response:
    return _error(404, "NAME_UNKNOWN", f"The repository with name '{name}' does not exist in the registry")


def _method_refused() -> Response:
    return _error(405, "UNSUPPORTED", "The operation is unsupported.")


def _error(status: int, code: str, message: str) -> Response:
    return JSONResponse({"errors": [{"code": code, "message": message}]}, status)
