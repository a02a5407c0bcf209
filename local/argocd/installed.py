"""What an installation of Argo CD leaves in the cluster beside its kinds, as far as others look at it."""

from __future__ import annotations

from typing import Any

#: The release whose behaviour the stand-in has.
VERSION = "v3.4.2"
_NAME = "argocd-application-controller"


def controller(namespace: str, image: str = f"quay.io/argoproj/argocd:{VERSION}") -> dict[str, Any]:
    """The application controller's StatefulSet, labelled as Argo CD's own manifests label it.

    Nothing runs it: the stand-in does the controller's work.
    """
    labels = {
        "app.kubernetes.io/component": "application-controller",
        "app.kubernetes.io/name": _NAME,
        "app.kubernetes.io/part-of": "argocd",
    }
    selected = {"app.kubernetes.io/name": _NAME}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": _NAME, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 1,
            "serviceName": _NAME,
            "selector": {"matchLabels": selected},
            "template": {
                "metadata": {"labels": selected},
                "spec": {
                    "serviceAccountName": _NAME,
                    "containers": [
                        {
                            "name": _NAME,
                            "image": image,
                            "args": ["/usr/local/bin/argocd-application-controller"],
                        }
                    ],
                },
            },
        },
    }
