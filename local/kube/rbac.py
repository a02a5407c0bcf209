"""Role-based access control, evaluated from the stored roles and bindings.

Not here: the check that nobody hands out more rights than they have (`escalate`, `bind`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from local.kube import errors
from local.kube.objects import Object, meta
from local.kube.options import WriteOptions
from local.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
    Ref,
)
from local.kube.store import Store

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
_ANYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz")
_BOOTSTRAP: tuple[tuple[str, str, list[Object]], ...] = (
    ("cluster-admin", MASTERS, [_ANYTHING, {"nonResourceURLs": ["*"], "verbs": ["*"]}]),
    (
        "system:discovery",
        AUTHENTICATED,
        [{"nonResourceURLs": [*_DISCOVERY, "/version", "/version/"], "verbs": ["get"]}],
    ),
    (
        "system:basic-user",
        AUTHENTICATED,
        [
            {
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                "verbs": ["create"],
            },
            {
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["selfsubjectreviews"],
                "verbs": ["create"],
            },
        ],
    ),
)


@dataclass(frozen=True)
class Identity:
    """Who asks: a user and the groups it is in."""

    user: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Action:
    """What is asked for: a verb on a resource (`pods/log` for a subresource), or on a path."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def bootstrap(store: Store) -> None:
    """Store the roles and bindings that every cluster begins with and that this one knows."""
    options = WriteOptions(manager="kube-apiserver")
    for name, group, rules in _BOOTSTRAP:
        labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
        store.create(
            CLUSTER_ROLES, {"metadata": {"name": name, "labels": labels}, "rules": rules}, None, options
        )
        binding = {
            "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
        }
        store.create(CLUSTER_ROLE_BINDINGS, binding, None, options)


def authorize(store: Store, identity: Identity, action: Action) -> None:
    """Raise ApiError 403, worded as the real server does, unless a stored rule allows the action."""
    if allowed(store, identity, action):
        return
    if action.path:
        message = f'forbidden: User "{identity.user}" cannot {action.verb} path "{action.path}"'
        raise errors.ApiError(403, "Forbidden", message, {})
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    why = (
        f'User "{identity.user}" cannot {action.verb} resource "{action.resource}" '
        f'in API group "{action.group}" {where}'
    )
    raise errors.forbidden(action.group, action.resource.split("/")[0], action.name, why)


def allowed(store: Store, identity: Identity, action: Action) -> bool:
    """Whether a stored rule allows the action; `system:masters` may do everything."""
    if MASTERS in identity.groups:
        return True
    return any(_covers(rule, action) for rule in rules_of(store, identity, action.namespace))


def rules_of(store: Store, identity: Identity, namespace: str) -> Iterator[Object]:
    """All rules that bindings give an identity, cluster-wide and in one namespace."""
    for binding in _stored(store, CLUSTER_ROLE_BINDINGS, None):
        if _binds(binding, identity):
            yield from _rules(store, binding["roleRef"], "")
    if namespace:
        for binding in _stored(store, ROLE_BINDINGS, namespace):
            if _binds(binding, identity):
                yield from _rules(store, binding["roleRef"], namespace)


def _stored(store: Store, ref: Ref, namespace: str | None) -> list[Object]:
    return [obj for _, obj in store.storage.items((ref.group, ref.plural), namespace)]


def _rules(store: Store, role: Object, namespace: str) -> list[Object]:
    ref, where = (CLUSTER_ROLES, "") if role["kind"] == "ClusterRole" else (ROLES, namespace)
    stored = store.storage.get((ref.group, ref.plural), (where, role["name"]))
    return (stored or {}).get("rules") or []


def _binds(binding: Object, identity: Identity) -> bool:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User" and name == identity.user:
            return True
        if kind == "Group" and name in identity.groups:
            return True
        if kind == "ServiceAccount":
            namespace = subject.get("namespace") or meta(binding).get("namespace")
            if identity.user == f"system:serviceaccount:{namespace}:{name}":
                return True
    return False


def _covers(rule: Object, action: Action) -> bool:
    def lists(field: str, wanted: str) -> bool:
        values: list[Any] = rule.get(field) or []
        return "*" in values or wanted in values

    if not lists("verbs", action.verb):
        return False
    if action.path:
        return any(
            path in ("*", action.path) or (path.endswith("*") and action.path.startswith(path[:-1]))
            for path in rule.get("nonResourceURLs") or ()
        )
    if not lists("apiGroups", action.group):
        return False
    _, slash, subresource = action.resource.partition("/")
    if not lists("resources", action.resource) and not (
        slash and f"*/{subresource}" in (rule.get("resources") or ())
    ):
        return False
    names = rule.get("resourceNames") or []
    return not names or action.name in names
