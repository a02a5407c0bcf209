"""Kinds that are asked and not stored: access reviews, who am I."""

from __future__ import annotations

from local.kube import errors, rbac
from local.kube.objects import Object
from local.kube.rbac import Action, Identity
from local.kube.resources import Ref
from local.kube.store import Store


def answer(
    store: Store, ref: Ref, kind: str, body: Object, identity: Identity, namespace: str | None
) -> Object:
    """The review with its status. Raises ApiError 400 for a body that names nothing to review."""
    review: Object = {"kind": kind, "apiVersion": ref.api_version, "metadata": body.get("metadata") or {}}
    spec = body.get("spec") or {}
    if kind == "SelfSubjectReview":
        review["status"] = {"userInfo": {"username": identity.user, "groups": list(identity.groups)}}
        return review
    review["spec"] = spec
    if kind == "SelfSubjectRulesReview":
        review["status"] = _rules(store, identity, str(spec.get("namespace") or ""))
        return review
    subject = identity
    if kind in ("SubjectAccessReview", "LocalSubjectAccessReview"):
        subject = Identity(str(spec.get("user") or ""), tuple(spec.get("groups") or ()))
    action = _action(spec, namespace)
    permitted = rbac.allowed(store, subject, action)
    review["status"] = {"allowed": permitted}
    if permitted:
        review["status"]["reason"] = "RBAC: allowed"
    return review


def _action(spec: Object, namespace: str | None) -> Action:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(path, dict):
        return Action(str(path.get("verb") or ""), path=str(path.get("path") or ""))
    if not isinstance(resource, dict):
        raise errors.bad_request(
            "spec: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        )
    plural = str(resource.get("resource") or "")
    if resource.get("subresource"):
        plural += f"/{resource['subresource']}"
    return Action(
        str(resource.get("verb") or ""),
        str(resource.get("group") or ""),
        plural,
        str(resource.get("namespace") or namespace or ""),
        str(resource.get("name") or ""),
    )


def _rules(store: Store, identity: Identity, namespace: str) -> Object:
    found = list(rbac.rules_of(store, identity, namespace))
    if rbac.MASTERS in identity.groups:
        found.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
    return {
        "resourceRules": [rule for rule in found if rule.get("resources")],
        "nonResourceRules": [rule for rule in found if rule.get("nonResourceURLs")],
        "incomplete": False,
    }
