"""What the API tells about itself: versions, groups, and the resources of each group."""

from __future__ import annotations

import platform
import re

from local.kube.objects import Object
from local.kube.resources import Ref, Resource

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
# Kinds that are asked, not stored.
VIRTUAL: dict[Ref, tuple[str, bool]] = {
    Ref("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", False),
    Ref("authorization.k8s.io", "v1", "selfsubjectrulesreviews"): ("SelfSubjectRulesReview", False),
    Ref("authorization.k8s.io", "v1", "subjectaccessreviews"): ("SubjectAccessReview", False),
    Ref("authorization.k8s.io", "v1", "localsubjectaccessreviews"): ("LocalSubjectAccessReview", True),
    Ref("authentication.k8s.io", "v1", "selfsubjectreviews"): ("SelfSubjectReview", False),
}


def version(git_version: str) -> Object:
    """The answer of /version."""
    match = re.match(r"v(\d+)\.(\d+)", git_version)
    major, minor = match.groups() if match else ("1", "0")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2025-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": f"linux/{platform.machine()}",
    }


def core_versions() -> Object:
    """The answer of /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group(name: str, versions: list[str]) -> Object:
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _versions(resources: list[Resource]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for ref in [*(resource.ref for resource in resources), *VIRTUAL]:
        if ref.group and ref.version not in found.setdefault(ref.group, []):
            found[ref.group].append(ref.version)
    return found


def group_list(resources: list[Resource]) -> Object:
    """The answer of /apis."""
    groups = [_group(name, versions) for name, versions in sorted(_versions(resources).items())]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(resources: list[Resource], name: str) -> Object | None:
    """The answer of /apis/<group>; None when nothing serves it."""
    versions = _versions(resources).get(name)
    return None if versions is None else {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(resources: list[Resource], group_name: str, version_name: str) -> Object | None:
    """The answer of /api/v1 or /apis/<group>/<version>; None when nothing serves it."""
    listed: list[Object] = []
    for resource in resources:
        if (resource.ref.group, resource.ref.version) == (group_name, version_name):
            listed += _describe(resource)
    for ref, (kind, namespaced) in VIRTUAL.items():
        if (ref.group, ref.version) == (group_name, version_name):
            listed.append(
                {
                    "name": ref.plural,
                    "singularName": kind.lower(),
                    "namespaced": namespaced,
                    "kind": kind,
                    "verbs": ["create"],
                }
            )
    if not listed:
        return None
    group_version = f"{group_name}/{version_name}" if group_name else version_name
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _describe(resource: Resource) -> list[Object]:
    base: Object = {"namespaced": resource.namespaced, "kind": resource.kind}
    main = {"name": resource.ref.plural, "singularName": resource.singular, **base, "verbs": _VERBS}
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    described = [main]
    if resource.status:
        verbs = ["get", "patch", "update"]
        described.append(
            {"name": f"{resource.ref.plural}/status", "singularName": "", **base, "verbs": verbs}
        )
    if resource.ref == Ref("", "v1", "pods"):
        described.append({"name": "pods/log", "singularName": "", **base, "verbs": ["get"]})
    if resource.ref == Ref("", "v1", "serviceaccounts"):
        token = {"name": "serviceaccounts/token", "singularName": "", **base, "verbs": ["create"]}
        described.append({**token, "kind": "TokenRequest", "group": "authentication.k8s.io", "version": "v1"})
    return described
