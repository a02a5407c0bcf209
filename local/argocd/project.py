"""What an AppProject permits, with the words Argo CD refuses in. Pure.

Source: pkg/apis/application/v1alpha1 (IsSourcePermitted, IsDestinationPermitted, IsGroupKindNamePermitted)
and controller/sync.go. Globs match as gobwas does: ``*`` within a path segment for URLs, anything for names.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

from local.argocd.credentials import normalise
from local.argocd.manifests import Resource

Object = dict[str, Any]


def spec_errors(application: Object, project: Object | None) -> list[str]:
    """Why the Application's own spec is refused; these become InvalidSpecError conditions."""
    spec = application["spec"]
    name = spec.get("project") or "default"
    if project is None:
        return [f"Application referencing project {name} which does not exist"]
    source, destination = spec.get("source") or {}, spec.get("destination") or {}
    url = str(source.get("repoURL", ""))
    if not url or not (source.get("path") or source.get("chart")):
        return ["spec.source.repoURL and either spec.source.path or spec.source.chart are required"]
    errors = []
    if not source_permitted(project, url):
        errors.append(f"application repo {url} is not permitted in project '{name}'")
    server, namespace = str(destination.get("server", "")), str(destination.get("namespace", ""))
    if not destination_permitted(project, destination, namespace):
        errors.append(
            f"application destination server '{server}' and namespace '{namespace}' "
            f"do not match any of the allowed destinations in project '{name}'"
        )
    return errors


def source_permitted(project: Object, url: str) -> bool:
    """True when ``sourceRepos`` has the URL and no ``!`` entry does."""
    patterns = [str(item) for item in (project.get("spec") or {}).get("sourceRepos") or []]
    wanted = normalise(url)
    if any(_url_matches(item[1:], wanted) for item in patterns if item.startswith("!")):
        return False
    return any(item == "*" or _url_matches(item, wanted) for item in patterns if not item.startswith("!"))


def destination_permitted(project: Object, destination: Object, namespace: str) -> bool:
    """True when a destination of the project has this server (or name) and this namespace."""
    allowed = False
    for item in (project.get("spec") or {}).get("destinations") or []:
        patterns = {key: str(item.get(key, "")) for key in ("server", "name", "namespace")}
        denied = any(value.startswith("!") for value in patterns.values())
        where = _place_matches(patterns, destination)
        if where and _name_matches(patterns["namespace"].removeprefix("!"), namespace):
            if denied:
                return False
            allowed = True
    return allowed


def resource_error(project: Object, application: Object, resource: Resource) -> str:
    """Why one rendered object may not be applied, or nothing."""
    spec = project.get("spec") or {}
    name = project["metadata"]["name"]
    if not _kind_permitted(spec, resource):
        return f"resource {resource.group}:{resource.kind} is not permitted in project {name}"
    destination = application["spec"].get("destination") or {}
    if resource.namespace and not destination_permitted(project, destination, resource.namespace):
        return f"namespace {resource.namespace} is not permitted in project '{name}'"
    return ""


def _kind_permitted(spec: Object, resource: Resource) -> bool:
    scope = "namespaceResource" if resource.namespace else "clusterResource"
    allowed, denied = spec.get(f"{scope}Whitelist"), spec.get(f"{scope}Blacklist") or []
    if any(_group_kind(item, resource) for item in denied):
        return False
    if allowed is None:
        # No list means everything for namespaced kinds and nothing for cluster-scoped ones.
        return bool(resource.namespace)
    return any(_group_kind(item, resource) for item in allowed)


def _group_kind(item: Object, resource: Resource) -> bool:
    return (
        fnmatchcase(resource.group, str(item.get("group", "")))
        and fnmatchcase(resource.kind, str(item.get("kind", "")))
        and fnmatchcase(resource.name, str(item.get("name") or "*"))
    )


def _place_matches(patterns: dict[str, str], destination: Object) -> bool:
    for key in ("server", "name"):
        if patterns[key] and destination.get(key):
            return _name_matches(patterns[key].removeprefix("!"), str(destination[key]))
    return False


def _name_matches(pattern: str, value: str) -> bool:
    return fnmatchcase(value, pattern)


def _url_matches(pattern: str, url: str) -> bool:
    parts = re.split(r"(\*\*|\*)", normalise(pattern))
    expression = "".join(
        ".*" if part == "**" else "[^/]*" if part == "*" else re.escape(part) for part in parts
    )
    return re.fullmatch(expression, url) is not None
