"""The two kinds of Argo CD as CustomResourceDefinitions, open below spec and status.

Like Argo CD's own they have no status subresource. The schema says only what reconciling needs.
"""

from __future__ import annotations

from typing import Any

from local.kube.options import WriteOptions
from local.kube.store import Store

_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def install_crds(store: Store) -> None:
    """Create or update the definitions."""
    for body in (
        _definition("Application", "applications", ["app", "apps"], {"operation": _ANY, "status": _ANY}),
        _definition("AppProject", "appprojects", ["appproj", "appprojs"], {"status": _ANY}),
    ):
        store.apply(body, options=WriteOptions(manager="argocd", force=True))


def _definition(kind: str, plural: str, short: list[str], extra: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": ["metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _ANY,
            **extra,
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.argoproj.io", "labels": {"app.kubernetes.io/part-of": "argocd"}},
        "spec": {
            "group": "argoproj.io",
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": short,
            },
            "versions": [
                {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
