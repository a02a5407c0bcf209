"""A place where Argo CD's token is kept: its empty Secrets, a registry, and ECR's one call."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aicr_pipeline.actions.check_gate import check_gate
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS, TROUBLE, Keeper
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import Json
from aicr_pipeline.adapters.ecr import EcrCredentials
from aicr_pipeline.adapters.http import Transport
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.credentials import decoded, encoded, probe_of
from aicr_pipeline.model.config import ClusterConfig

from infra.cluster_manifests import manifests
from local.kube import SECRETS
from local.registry import Scope, TokenIssuer
from tests.functional.actions.support import BEGAN, PLAN, Place, aws_error, item, step
from tests.unit.samples import DEPLOYED, config

PULL = frozenset({"pull"})
SCOPES = (Scope("aicr/demo/charts", PULL), Scope("aicr/demo/wrappers", PULL))
OCI, HELM = "aicr-registry", "aicr-registry-helm"
FIRST = PLAN.desired_state.releases[0]


@dataclass
class Ecr:
    """ECR's one call: what the issuer makes, with the rights that the role has now."""

    issuer: TokenIssuer
    endpoint: str
    scopes: Iterable[Scope] = SCOPES
    errors: list[str] = field(default_factory=list)
    calls: int = 0

    def get_authorization_token(self) -> dict[str, Any]:
        self.calls += 1
        if self.errors:
            raise aws_error(self.errors.pop(0))
        user, password, expires_at = self.issuer.issue(self.scopes)
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        data = {"authorizationToken": token, "expiresAt": expires_at, "proxyEndpoint": self.endpoint}
        return {"authorizationData": [data]}


class Kept:
    """A place with Argo CD's empty Secrets, a registry, and what keeps the token."""

    def __init__(self, place: Place, host: str, issuer: TokenIssuer, **changes: Any) -> None:
        self.place = place
        local = {"registry.repository": f"oci://{host}/aicr/demo", "registry.plainHttp": True}
        self.config: ClusterConfig = config(**{**local, "engine.helmRepoCreds": True, **changes})
        place.config = self.config
        self.ecr = Ecr(issuer, f"http://{host}")
        self.issuer = issuer
        self.argocd = ArgoCd(place.cluster, self.config.engine)
        self.entered = BEGAN
        self.measured: list[tuple[str, float]] = []
        for manifest in manifests(self.config):
            if manifest["kind"] == "Secret":
                place.store.apply(manifest, "argocd")
        self.transport = Transport(frozenset({host}), sleep=lambda _: None)
        self.keeper = Keeper(
            self.config, EcrCredentials(self.ecr, place.clock), self.argocd, place.coordination,
            self.transport, place.clock, lambda name, value: self.measured.append((name, value)),
        )  # fmt: skip

    def secret(self, name: str = OCI) -> Json:
        return self.place.store.get(SECRETS, name, "argocd")

    def data(self, name: str = OCI) -> dict[str, str]:
        return decoded(self.secret(name))

    def overwrite(self, name: str = OCI, **data: str) -> None:
        """Somebody writes into a Secret."""
        self.place.store.merge(SECRETS, name, {"data": encoded(data)}, "argocd")

    @property
    def known(self) -> dict[str, Any] | None:
        return self.place.coordination.fact(CREDENTIALS)

    @property
    def trouble(self) -> dict[str, Any] | None:
        return self.place.coordination.fact(TROUBLE)

    def count(self, metric: str) -> int:
        return sum(1 for name, _ in self.measured if name == metric)

    def works(self, name: str = OCI) -> bool:
        """Whether the registry knows what is in the Secret, and it may pull charts."""
        data = self.data(name)
        grant = self.issuer.read(data.get("username", ""), data.get("password", ""))
        return bool(grant and not grant.expired and grant.allows("aicr/demo/charts/x", "pull"))

    def gate(self, index: int = 1, retries: int = 0) -> dict[str, Any]:
        release = PLAN.desired_state.releases[index - 1].name
        if retries == 0:
            self.entered = self.place.now
        made = step(
            "Check gate",
            item=item(release, index),
            token=None,
            retries=retries,
            enteredAt=rfc3339(self.entered),
            input={"toPlan": PLAN.desired_state_digest},
        )
        p = self.place
        return check_gate(
            made, self.config, p.ledger, p.inbox, p.argocd, p.coordination, p.bus, p.clock, DEPLOYED
        )

    def wake(self) -> dict[str, Any]:
        """What the rule does with the newest event."""
        return self.keeper.check(probe_of({"detail": self.place.events.details("Credentials Wanted")[-1]}))
