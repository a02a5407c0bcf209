"""Which credentials Argo CD uses for a repository URL. Pure.

Source: util/db/repository_secrets.go. A ``repository`` Secret for exactly this URL, else the ``repo-creds``
template with the longest URL that is a plain string prefix.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LABEL = "argocd.argoproj.io/secret-type"


@dataclass(frozen=True)
class Credentials:
    """User and password for a registry, whether to speak plain HTTP, and what kind of source they are for."""

    username: str = ""
    password: str = ""
    force_http: bool = False
    kind: str = "git"


def find_credentials(secrets: Iterable[dict[str, Any]], repo_url: str) -> Credentials | None:
    """The credentials for a repository URL among the Secrets of Argo CD's namespace, or None.

    A ``repository`` Secret without a user takes the template's, as enrichCredsToRepo does.
    """
    wanted = normalise(repo_url)
    template: tuple[int, Credentials] | None = None
    exact: Credentials | None = None
    for secret in secrets:
        kind = (secret["metadata"].get("labels") or {}).get(LABEL)
        data = {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
        url = normalise(data.get("url", ""))
        found = Credentials(
            data.get("username", ""),
            data.get("password", ""),
            data.get("insecureOCIForceHttp", "") == "true",
            # Repository.Normalize: without a type it is git.
            data.get("type", "") or "git",
        )
        if kind == "repository" and url == wanted:
            exact = found
        elif (
            kind == "repo-creds"
            and url
            and wanted.startswith(url)
            and (template is None or len(url) > template[0])
        ):
            template = (len(url), found)
    if exact is not None and (exact.username or template is None):
        return exact
    return template[1] if template else None


def normalise(url: str) -> str:
    """Lower case, without a trailing ``.git``."""
    return url.strip().lower().removesuffix(".git")
