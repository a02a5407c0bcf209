"""Every six hours, at deployment and before a rollout: a fresh registry token for Argo CD.

The token carries this function's rights, which are to pull ``charts/*`` and ``wrappers/*`` under the
cluster's prefix and nothing else.
"""

import base64
from typing import Any

from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ecr import EcrCredentials
from aicr_pipeline.adapters.http import Counters, Transport
from aicr_pipeline.adapters.registry import Reference, Repository
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason

CREDENTIALS = "credentials"
CREDENTIALS_WANTED = "Credentials Wanted"
EXPIRES_AT = "operator.aicr.run/token-expires-at"


def refresh_credentials(
    config: ClusterConfig,
    ecr: EcrCredentials,
    argocd: ArgoCd,
    coordination: Coordination,
    transport: Transport,
    clock: Clock,
) -> dict[str, Any]:
    """Mint a token, write it into Argo CD's Secret, and try it as Argo CD would.

    Nothing is written with ``engine.kind: eks-capability`` (Argo CD reads ECR with its own role) or
    with ``registry.auth.provider: static`` (the administrator owns the Secret).

    Raises
    ------
    PipelineError
        ``RegistryCredentialsUnavailable`` when there is no token or it is for another registry;
        ``Unauthorized`` when it is alive but refused.
    """
    if not config.mints_credentials:
        return {"written": False}
    ecr.renew()
    token = ecr.token()
    registry = config.registry
    if token.host != registry.host:
        raise PipelineError(
            Reason.RegistryCredentialsUnavailable,
            f"ECR gave a token for {token.host}, but registry.repository is on {registry.host}. "
            "Check the account and the region.",
        )
    expires_at = rfc3339(token.expires_at)
    secret = argocd.write_repo_creds(_patch(config, token.user, token.password, expires_at))
    _canary(config, transport, secret)
    coordination.put_fact(CREDENTIALS, {"mintedAt": rfc3339(clock()), "expiresAt": expires_at})
    return {"written": True, "expiresAt": expires_at}


def _patch(config: ClusterConfig, user: str, password: str, expires_at: str) -> dict[str, Any]:
    """``type: oci`` with a URL that begins as our sources do; the type is always set."""
    data = {"type": "oci", "url": config.registry.repository, "username": user, "password": password}
    if config.registry.plain_http:
        data["insecureOCIForceHttp"] = "true"
    return {
        "metadata": {
            "labels": {"argocd.argoproj.io/secret-type": "repo-creds"},
            "annotations": {EXPIRES_AT: expires_at},
        },
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in data.items()},
    }


def _canary(config: ClusterConfig, transport: Transport, secret: dict[str, Any]) -> None:
    """One look-up with the Secret's own content: absent is fine, refused is not."""
    data = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    reference = Reference(config.registry.host, f"{config.registry.prefix}/charts/canary")
    credentials = FixedCredentials(data["username"], data["password"])
    Repository(transport, reference, credentials, Counters()).head_manifest("canary")
