"""The HTTP face of the store: authentication, authorization, verbs, answers. The rest is the store's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from local.kube import discovery, errors, listing, patches, rbac, requests, reviews, streams
from local.kube.objects import Object, meta, name_of
from local.kube.rbac import MASTERS, Action, Identity
from local.kube.requests import Call, Target
from local.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from local.kube.store import Store
from local.kube.tokens import TokenIssuer

Authenticate = Callable[[str | None], Identity | None]
_ADMIN = Identity("system:admin", (MASTERS, rbac.AUTHENTICATED))
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_RETURNED_WHEN_DELETED = (PODS, SERVICE_ACCOUNTS)  # others answer a Status


class Api:
    """One cluster's API as an ASGI application (`app`)."""

    def __init__(
        self, store: Store, tokens: TokenIssuer, authenticate: Authenticate | None, version: str
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._authenticate = authenticate
        self._version = version
        self.streams = streams.Streams()
        self.app = Starlette(routes=[Route("/{path:path}", self._serve, methods=_METHODS)])

    async def _serve(self, request: Request) -> Response:
        warnings: list[str] = []
        try:
            identity = self._identify(request)
            target = requests.parse(request.url.path)
            if target is None:
                answer = self._about(request, identity)
            else:
                body = await requests.read_body(request)
                answer = self._resource(Call(request, target, body, warnings), identity)
        except errors.ApiError as error:
            answer = _json(error.body(), error.code)
        for warning in warnings:
            answer.headers.append("Warning", f"299 - {json.dumps(warning)}")
        return answer

    def _identify(self, request: Request) -> Identity:
        if self._authenticate is None:
            return _ADMIN
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" and token.strip() else None
        known = self._tokens.identify(bearer) if bearer else None
        identity = known or self._authenticate(bearer)
        if identity is None:
            raise errors.ApiError(401, "Unauthorized", "Unauthorized")
        if rbac.AUTHENTICATED in identity.groups:
            return identity
        return Identity(identity.user, (*identity.groups, rbac.AUTHENTICATED))

    # -- what is not a resource

    def _about(self, request: Request, identity: Identity) -> Response:
        path = request.url.path.rstrip("/") or "/"
        if path in ("/healthz", "/livez", "/readyz"):  # probes need no rights
            return PlainTextResponse("ok")
        rbac.authorize(self._store, identity, Action("get", path=path))
        document = self._document(path)
        if document is None:
            raise errors.unknown_path()
        return _json(document)

    def _document(self, path: str) -> Object | None:
        with self._store.storage.lock:
            served = self._store.registry.all()
        match path.strip("/").split("/"):
            case ["version"]:
                return discovery.version(self._version)
            case ["api"]:
                return discovery.core_versions()
            case ["api", version]:
                return discovery.resource_list(served, "", version)
            case ["apis"]:
                return discovery.group_list(served)
            case ["apis", group]:
                return discovery.group(served, group)
            case ["apis", group, version]:
                return discovery.resource_list(served, group, version)
        return None

    # -- resources

    def _resource(self, call: Call, identity: Identity) -> Response:
        target = call.target
        virtual = discovery.VIRTUAL.get(target.ref)
        if virtual is not None:
            self._authorize(identity, "create", target)
            if call.request.method != "POST":
                raise _not_allowed()
            body = call.document()
            answer = reviews.answer(self._store, target.ref, virtual[0], body, identity, target.namespace)
            return _json(answer, 201)
        verb = _verb(call)
        self._authorize(identity, verb, target, call)
        resource = self._store.registry.get(target.ref)
        if not resource.namespaced and target.namespace is not None:
            raise errors.unknown_path()
        if resource.namespaced and target.name is not None and target.namespace is None:
            raise errors.unknown_path()
        if target.subresource not in ("", "status"):
            return self._special(call, verb)
        if target.subresource and not resource.status:
            raise errors.unknown_path()
        return self._verb_handler(verb)(call, resource, identity)

    def _verb_handler(self, verb: str) -> Callable[[Call, Resource, Identity], Response]:
        return {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }[verb]

    def _authorize(self, identity: Identity, verb: str, target: Target, call: Call | None = None) -> None:
        plural = target.ref.plural + (f"/{target.subresource}" if target.subresource else "")
        namespace, name = target.namespace or "", target.name or ""
        if target.ref == NAMESPACES and name:
            namespace = name  # a namespace is authorized as part of itself
        if call is not None and not name and verb in ("list", "watch", "deletecollection"):
            for part in call.query("fieldSelector").split(","):
                if part.startswith("metadata.name="):
                    name = part.removeprefix("metadata.name=").lstrip("=")
        action = Action(verb, target.ref.group, plural, namespace, name)
        with self._store.storage.lock:
            rbac.authorize(self._store, identity, action)

    def _get(self, call: Call, resource: Resource, identity: Identity) -> Response:
        target = call.target
        return _json(self._store.get(target.ref, str(target.name), target.namespace))

    def _list(self, call: Call, resource: Resource, identity: Identity) -> Response:
        target = call.target
        return _json(
            listing.page(
                self._store,
                target.ref,
                target.namespace,
                call.query("labelSelector"),
                call.query("fieldSelector"),
                call.number("limit"),
                call.query("continue"),
            )
        )

    def _watch(self, call: Call, resource: Resource, identity: Identity) -> Response:
        lines = streams.watch(self._store, self.streams, call)
        return StreamingResponse(lines, media_type="application/json")

    def _create(self, call: Call, resource: Resource, identity: Identity) -> Response:
        target = call.target
        created = self._store.create(target.ref, call.document(), target.namespace, call.write_options())
        return _json(created, 201)

    def _update(self, call: Call, resource: Resource, identity: Identity) -> Response:
        target, body = call.target, call.document()
        _settle_name(body, str(target.name))
        options = call.write_options()
        if target.subresource:
            return _json(self._store.replace_status(target.ref, body, target.namespace, options))
        return _json(self._store.replace(target.ref, body, target.namespace, options))

    def _patch(self, call: Call, resource: Resource, identity: Identity) -> Response:
        accepted = [_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH, _APPLY_PATCH]
        if resource.custom:
            accepted.remove(_STRATEGIC_PATCH)
        if call.media_type not in accepted:
            raise errors.unsupported_media_type(accepted)
        if call.media_type == _APPLY_PATCH:
            return self._apply(call, resource, identity)
        target, body = call.target, call.document()
        change: dict[str, Callable[[Object], Any]] = {
            _JSON_PATCH: lambda live: patches.json_patch(live, body),
            _MERGE_PATCH: lambda live: patches.merge_patch(live, body),
            _STRATEGIC_PATCH: lambda live: patches.strategic_merge(live, body),
        }
        return _json(
            self._store.patch(
                target.ref,
                str(target.name),
                change[call.media_type],
                target.namespace,
                call.write_options(),
                target.subresource,
            )
        )

    def _apply(self, call: Call, resource: Resource, identity: Identity) -> Response:
        target, body = call.target, call.document()
        _settle_name(body, str(target.name))
        if not call.query("fieldManager"):
            cause = errors.Cause(
                "fieldManager", "Required value: is required for apply patch", "FieldValueRequired"
            )
            raise errors.invalid("meta.k8s.io", "PatchOptions", "", [cause])
        wanted = (target.ref.api_version, resource.kind)
        if (body.get("apiVersion"), body.get("kind")) != wanted:
            raise errors.bad_request(f"apply needs apiVersion and kind: {wanted[0]}, {wanted[1]}")
        with self._store.storage.lock:
            created = self._store.find(target.ref, str(target.name), target.namespace) is None
            if created:
                self._authorize(identity, "create", target)
            applied = self._store.apply(body, target.namespace, call.write_options(), target.subresource)
        return _json(applied, 201 if created else 200)

    def _delete(self, call: Call, resource: Resource, identity: Identity) -> Response:
        target, options = call.target, call.delete_options()
        with self._store.storage.lock:
            last = self._store.delete(target.ref, str(target.name), target.namespace, options)
            stays = self._store.find(target.ref, str(target.name), target.namespace) is not None
        if stays or target.ref in _RETURNED_WHEN_DELETED:
            return _json(last)
        details: Object = {"name": target.name, "kind": target.ref.plural, "uid": meta(last)["uid"]}
        if target.ref.group:
            details["group"] = target.ref.group
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
        return _json(status)

    def _delete_collection(self, call: Call, resource: Resource, identity: Identity) -> Response:
        target, options = call.target, call.delete_options()
        with self._store.storage.lock:
            found = listing.page(
                self._store,
                target.ref,
                target.namespace,
                call.query("labelSelector"),
                call.query("fieldSelector"),
            )
            for item in list(found["items"]):
                if self._store.find(target.ref, name_of(item), meta(item).get("namespace")) is not None:
                    self._store.delete(target.ref, name_of(item), meta(item).get("namespace"), options)
        return _json(found)

    # -- subresources of single kinds

    def _special(self, call: Call, verb: str) -> Response:
        target = call.target
        if (target.ref, target.subresource, verb) == (PODS, "log", "get"):
            return self._log(call, str(target.namespace), str(target.name))
        if (target.ref, target.subresource, verb) == (SERVICE_ACCOUNTS, "token", "create"):
            body = call.document()
            seconds = int((body.get("spec") or {}).get("expirationSeconds") or 3600)
            status = self._tokens.issue(str(target.namespace), str(target.name), seconds)
            return _json(
                {**body, "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "status": status},
                201,
            )
        raise errors.unknown_path()

    def _log(self, call: Call, namespace: str, name: str) -> Response:
        pod = self._store.get(PODS, name, namespace)
        container = streams.log_container(pod, call.query("container"))
        text = self._store.logs.read(namespace, name, container)
        phase = (pod.get("status") or {}).get("phase")
        if not text and phase == "Pending":
            raise errors.bad_request(
                f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
            )
        if call.asks("follow"):
            follow = streams.follow_log(self._store, self.streams, namespace, name, container)
            return StreamingResponse(follow, media_type="text/plain")
        if call.query("tailLines"):
            count = call.number("tailLines")
            text = "".join(text.splitlines(keepends=True)[-count:]) if count > 0 else ""
        if call.query("limitBytes"):
            text = text.encode()[: call.number("limitBytes")].decode(errors="ignore")
        return PlainTextResponse(text)


def _verb(call: Call) -> str:
    """The verb that RBAC knows a request by (apiserver/pkg/endpoints/request)."""
    named = call.target.name is not None
    match call.request.method, named:
        case "GET" | "HEAD", _ if call.asks("watch"):
            return "watch"
        case "GET" | "HEAD", True:
            return "get"
        case "GET" | "HEAD", False:
            return "list"
        case "POST", named if not named or call.target.subresource:
            return "create"
        case "PUT", True:
            return "update"
        case "PATCH", True:
            return "patch"
        case "DELETE", True:
            return "delete"
        case "DELETE", False:
            return "deletecollection"
    raise _not_allowed()


def _not_allowed() -> errors.ApiError:
    message = "the server does not allow this method on the requested resource"
    return errors.ApiError(405, "MethodNotAllowed", message, {})


def _settle_name(body: Any, name: str) -> None:
    if not isinstance(body, dict):
        raise errors.bad_request("the body must be an object")
    given = meta(body).setdefault("name", name)
    if given != name:
        raise errors.bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def _json(document: Object, code: int = 200) -> Response:
    content = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return Response(content, code, media_type="application/json")
