"""What Applications should be: the repo server as the controller asks it, with its memory."""

from __future__ import annotations

import json

from local.argocd.credentials import find_credentials
from local.argocd.generation import Generations
from local.argocd.manifests import Object, Target
from local.argocd.repository import Repository
from local.kube.resources import SECRETS
from local.kube.store import Store


class Targets:
    """Renders sources with the credentials that the cluster has at that moment."""

    def __init__(self, store: Store, repository: Repository, namespace: str) -> None:
        self._store = store
        self._repository = repository
        self._namespace = namespace
        self._generations = Generations()

    def wanted(self, application: Object, *, hard: bool = False) -> Target:
        """What the spec asks for; raises RepositoryError. ``hard`` asks past what is remembered."""
        source = application["spec"]["source"]
        return self.at(application, source, str(source.get("targetRevision", "")), hard=hard)

    def at(self, application: Object, source: Object, revision: str, *, hard: bool = False) -> Target:
        """What a source at a revision renders to; raises RepositoryError."""
        secrets = self._store.list(SECRETS, namespace=self._namespace)
        credentials = find_credentials(secrets, str(source.get("repoURL", "")))
        return self._generations.generate(
            _key(application, source, revision),
            lambda: self._repository.target(application, source, revision, credentials),
            hard=hard,
        )

    def remember(self, application: Object, words: str) -> None:
        """As if what the spec asks for had failed to render often enough."""
        source = application["spec"]["source"]
        self._generations.remember(_key(application, source, str(source.get("targetRevision", ""))), words)


def _key(application: Object, source: Object, revision: str) -> str:
    """Credentials are no part of what repo-server remembers by."""
    return json.dumps([application["metadata"]["name"], source, revision], sort_keys=True)
