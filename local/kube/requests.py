"""A request as the API reads it: which resource, which verb, which body, which options."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import yaml
from starlette.requests import Request

from local.kube import errors
from local.kube.objects import Object
from local.kube.options import DeleteOptions, FieldValidation, Propagation, WriteOptions
from local.kube.resources import Ref

_LIMIT = 3 * 1024 * 1024  # bytes of a body, as the real server
_PROPAGATIONS: tuple[Propagation, ...] = ("Background", "Foreground", "Orphan")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


@dataclass(frozen=True)
class Target:
    """What a path names."""

    ref: Ref
    namespace: str | None = None
    name: str | None = None
    subresource: str = ""


@dataclass
class Call:
    """One request: its target, its query, its body, and the warnings that its answer carries."""

    request: Request
    target: Target
    body: bytes
    warnings: list[str] = field(default_factory=list)

    def query(self, key: str) -> str:
        """A query parameter, empty when absent."""
        return self.request.query_params.get(key, "")

    def asks(self, key: str) -> bool:
        """A boolean query parameter."""
        return self.query(key) in _TRUE

    def number(self, key: str) -> int:
        """A whole-number query parameter, 0 when absent. Raises ApiError 400."""
        text = self.query(key)
        if not text:
            return 0
        if not text.lstrip("-").isdigit():
            raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax ({key})')
        return int(text)

    @property
    def media_type(self) -> str:
        """The body's media type without parameters."""
        return self.request.headers.get("content-type", "application/json").split(";")[0].strip()

    def write_options(self) -> WriteOptions:
        """Query parameters of a create, update or patch. Raises ApiError 400."""
        agent = self.request.headers.get("user-agent", "unknown").split("/")[0]
        return WriteOptions(
            manager=self.query("fieldManager") or agent or "unknown",
            force=self.asks("force"),
            dry_run=_dry_run(self.request.query_params.getlist("dryRun")),
            field_validation=_field_validation(self.query("fieldValidation")),
            warn=self.warnings.append,
        )

    def delete_options(self) -> DeleteOptions:
        """DeleteOptions from body and query; the query wins. Raises ApiError 400."""
        document = self.document() if self.body.strip() else {}
        if not isinstance(document, dict):
            raise errors.bad_request("DeleteOptions must be an object")
        conditions = document.get("preconditions") or {}
        grace = self.query("gracePeriodSeconds") or document.get("gracePeriodSeconds")
        return DeleteOptions(
            propagation=self._propagation(document),
            grace_seconds=None if grace in (None, "") else int(str(grace)),
            uid=conditions.get("uid"),
            resource_version=conditions.get("resourceVersion"),
            dry_run=_dry_run([*self.request.query_params.getlist("dryRun"), *(document.get("dryRun") or ())]),
            warn=self.warnings.append,
        )

    def _propagation(self, document: Object) -> Propagation | None:
        given = self.query("propagationPolicy") or document.get("propagationPolicy")
        orphan = self.query("orphanDependents") or document.get("orphanDependents")
        if not given and orphan not in (None, ""):
            given = "Orphan" if str(orphan) in _TRUE else "Background"
        for known in _PROPAGATIONS:
            if given == known:
                return known
        if given:
            raise errors.bad_request(
                f'DeleteOptions is invalid: propagationPolicy: Unsupported value: "{given}"'
            )
        return None

    def document(self) -> Any:
        """The body, read as JSON or YAML. Raises ApiError 400, 415."""
        if self.media_type in ("application/vnd.kubernetes.protobuf", "application/cbor"):
            raise errors.unsupported_media_type(("application/json", "application/yaml"))
        try:
            if self.media_type.endswith("yaml") and not self.body.lstrip().startswith(b"{"):
                return yaml.safe_load(self.body)
            return json.loads(self.body)
        except (ValueError, yaml.YAMLError) as error:
            raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def _dry_run(values: list[str]) -> bool:
    for value in values:
        if value != "All":
            raise errors.bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return bool(values)


def _field_validation(text: str) -> FieldValidation:
    if text in ("", "Warn"):
        return "Warn"
    if text == "Strict":
        return "Strict"
    if text == "Ignore":
        return "Ignore"
    raise errors.bad_request(f'fieldValidation: Unsupported value: "{text}"')


async def read_body(request: Request) -> bytes:
    """The whole body. Raises ApiError 413 when it is longer than the real server takes."""
    body = await request.body()
    if len(body) > _LIMIT:
        message = f"Request entity too large: limit is {_LIMIT}"
        raise errors.ApiError(413, "RequestEntityTooLarge", message, {})
    return body


def parse(path: str) -> Target | None:
    """What /api/v1/... or /apis/<group>/<version>/... names; None for any other path."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = None
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else None
    return Target(Ref(group, version, rest[0]), namespace, name, "/".join(rest[2:]))
