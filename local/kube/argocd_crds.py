"""Argo CD's Application and AppProject as this cluster serves them when nobody installs the real definitions.

Written for the local engine: scope, names and the types of the fields that the pipeline writes are those of
argoproj.io/v1alpha1; what Argo CD itself writes (`status`) is kept as it comes. As in the real definitions
there is no status subresource.
"""

from __future__ import annotations

from typing import Any

from local.kube.objects import Object
from local.kube.options import WriteOptions
from local.kube.store import Store

_STRING: Object = {"type": "string"}
_BOOLEAN: Object = {"type": "boolean"}
_INTEGER: Object = {"type": "integer", "format": "int64"}
_STRINGS: Object = {"type": "array", "items": _STRING}
_ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _object(*required: str, **properties: Any) -> Object:
    schema: Object = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema


def _list(items: Object) -> Object:
    return {"type": "array", "items": items}


_NAMED_VALUE = _object("name", "value", name=_STRING, value=_STRING)
_STRING_MAP: Object = {"type": "object", "additionalProperties": _STRING}
_BACKOFF = _object(duration=_STRING, factor=_INTEGER, maxDuration=_STRING)
_RETRY = _object(limit=_INTEGER, backoff=_BACKOFF, refresh=_BOOLEAN)

_HELM = _object(
    releaseName=_STRING,
    values=_STRING,
    valuesObject=_ANYTHING,
    valueFiles=_STRINGS,
    ignoreMissingValueFiles=_BOOLEAN,
    skipCrds=_BOOLEAN,
    skipSchemaValidation=_BOOLEAN,
    skipTests=_BOOLEAN,
    passCredentials=_BOOLEAN,
    namespace=_STRING,
    kubeVersion=_STRING,
    apiVersions=_STRINGS,
    version=_STRING,
    parameters=_list(_object(name=_STRING, value=_STRING, forceString=_BOOLEAN)),
    fileParameters=_list(_object(name=_STRING, path=_STRING)),
)
_DIRECTORY = _object(recurse=_BOOLEAN, include=_STRING, exclude=_STRING, jsonnet=_ANYTHING)
_SOURCE = _object(
    "repoURL",
    repoURL=_STRING,
    path=_STRING,
    chart=_STRING,
    targetRevision=_STRING,
    ref=_STRING,
    name=_STRING,
    helm=_HELM,
    directory=_DIRECTORY,
    kustomize=_ANYTHING,
    plugin=_ANYTHING,
)
_DESTINATION = _object(server=_STRING, name=_STRING, namespace=_STRING)
_SYNC_POLICY = _object(
    automated=_object(prune=_BOOLEAN, selfHeal=_BOOLEAN, allowEmpty=_BOOLEAN, enabled=_BOOLEAN),
    syncOptions=_STRINGS,
    retry=_RETRY,
    managedNamespaceMetadata=_object(labels=_STRING_MAP, annotations=_STRING_MAP),
)
_IGNORED_DIFFERENCE = _object(
    "kind",
    group=_STRING,
    kind=_STRING,
    name=_STRING,
    namespace=_STRING,
    jsonPointers=_STRINGS,
    jqPathExpressions=_STRINGS,
    managedFieldsManagers=_STRINGS,
)
_SYNC = _object(
    revision=_STRING,
    revisions=_STRINGS,
    prune=_BOOLEAN,
    dryRun=_BOOLEAN,
    syncOptions=_STRINGS,
    syncStrategy=_object(apply=_object(force=_BOOLEAN), hook=_object(force=_BOOLEAN)),
    resources=_list(
        _object(
            "kind", "name", group=_STRING, kind=_STRING, name=_STRING, namespace=_STRING, exclude=_BOOLEAN
        )
    ),
    manifests=_STRINGS,
    source=_SOURCE,
    sources=_list(_SOURCE),
    autoHealAttemptsCount=_INTEGER,
)
_OPERATION = _object(
    initiatedBy=_object(username=_STRING, automated=_BOOLEAN),
    info=_list(_NAMED_VALUE),
    sync=_SYNC,
    retry=_RETRY,
)
_APPLICATION_SPEC = _object(
    "destination",
    "project",
    project=_STRING,
    source=_SOURCE,
    sources=_list(_SOURCE),
    sourceHydrator=_ANYTHING,
    destination=_DESTINATION,
    syncPolicy=_SYNC_POLICY,
    ignoreDifferences=_list(_IGNORED_DIFFERENCE),
    info=_list(_NAMED_VALUE),
    revisionHistoryLimit=_INTEGER,
)

_GROUP_KIND = _object("group", "kind", group=_STRING, kind=_STRING, name=_STRING)
_ROLE = _object(
    "name",
    name=_STRING,
    description=_STRING,
    policies=_STRINGS,
    groups=_STRINGS,
    jwtTokens=_list(_object("iat", iat=_INTEGER, exp=_INTEGER, id=_STRING)),
)
_WINDOW = _object(
    kind=_STRING,
    schedule=_STRING,
    duration=_STRING,
    applications=_STRINGS,
    namespaces=_STRINGS,
    clusters=_STRINGS,
    manualSync=_BOOLEAN,
    timeZone=_STRING,
    andOperator=_BOOLEAN,
    syncOverrun=_BOOLEAN,
    description=_STRING,
)
_PROJECT_SPEC = _object(
    description=_STRING,
    sourceRepos=_STRINGS,
    sourceNamespaces=_STRINGS,
    destinations=_list(_DESTINATION),
    destinationServiceAccounts=_list(_ANYTHING),
    clusterResourceWhitelist=_list(_GROUP_KIND),
    clusterResourceBlacklist=_list(_GROUP_KIND),
    namespaceResourceWhitelist=_list(_GROUP_KIND),
    namespaceResourceBlacklist=_list(_GROUP_KIND),
    orphanedResources=_object(
        warn=_BOOLEAN, ignore=_list(_object(group=_STRING, kind=_STRING, name=_STRING))
    ),
    permitOnlyProjectScopedClusters=_BOOLEAN,
    roles=_list(_ROLE),
    signatureKeys=_list(_object("keyID", keyID=_STRING)),
    syncWindows=_list(_WINDOW),
)


def _definition(kind: str, plural: str, short_names: list[str], **properties: Object) -> Object:
    root = _object(
        "metadata", "spec", apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, **properties
    )
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.argoproj.io",
            "labels": {
                "app.kubernetes.io/name": f"{plural}.argoproj.io",
                "app.kubernetes.io/part-of": "argocd",
            },
        },
        "spec": {
            "group": "argoproj.io",
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": short_names,
            },
            "versions": [
                {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
            ],
        },
    }


APPLICATION = _definition(
    "Application",
    "applications",
    ["app", "apps"],
    spec=_APPLICATION_SPEC,
    operation=_OPERATION,
    status=_ANYTHING,
)
APP_PROJECT = _definition(
    "AppProject", "appprojects", ["appproj", "appprojs"], spec=_PROJECT_SPEC, status=_ANYTHING
)


def install(store: Store) -> None:
    """Serve Applications and AppProjects; doing it twice changes nothing."""
    for definition in (APPLICATION, APP_PROJECT):
        store.apply(definition, options=WriteOptions(manager="argocd-setup", force=True))
