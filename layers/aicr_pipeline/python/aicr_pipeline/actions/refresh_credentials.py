"""Argo CD's registry token: minted, written into its Secrets, and tried as Argo CD would try it.

Minted every six hours and at deployment; looked at every hour and before a rollout, and then minted where
half of its life is gone or something is wrong with it. The token carries this function's rights, which are
to pull ``charts/*`` and ``wrappers/*`` under the cluster's prefix and nothing else.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ecr import EcrCredentials
from aicr_pipeline.adapters.http import Counters, Transport
from aicr_pipeline.adapters.registry import Reference, Repository
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.adapters.registry_errors import RepositoryMissingError
from aicr_pipeline.clock import Clock, parse_time, rfc3339
from aicr_pipeline.decide.credentials import (
    LABELS,
    NO_CHART,
    REFUSED,
    SECONDS_LEFT,
    TROUBLES,
    decoded,
    half_life_passed,
    is_for,
    patch,
    repo_creds,
    trouble_with,
)
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason

CREDENTIALS = "credentials"
TROUBLE = "credentials-trouble"
CREDENTIALS_WANTED = "Credentials Wanted"

#: Name and value of a metric.
Measure = Callable[[str, float], None]


@dataclass(frozen=True)
class Keeper:
    """Keeps the token of one cluster's Argo CD.

    Both methods do nothing with ``engine.kind: eks-capability`` (Argo CD reads ECR with its own role) or with
    ``registry.auth.provider: static`` (the administrator owns the Secret). Both are safe to run twice, and
    next to each other: whoever writes last leaves a token that works.
    """

    config: ClusterConfig
    ecr: EcrCredentials
    argocd: ArgoCd
    coordination: Coordination
    transport: Transport
    clock: Clock
    measure: Measure

    def refresh(self) -> dict[str, Any]:
        """Mint, write all Secrets, and try what they hold.

        Raises
        ------
        PipelineError
            ``RegistryCredentialsUnavailable`` when there is no token, it is for another registry, or there is
            no Secret for it; ``Unauthorized`` when it is alive but refused. Transient where it may pass.
        """
        if not self.config.mints_credentials:
            return {"written": False}
        with self._telling(proven=False):
            return self._renew((self.coordination.fact(CREDENTIALS) or {}).get("probe") or NO_CHART)

    def check(self, probe: str | None) -> dict[str, Any]:
        """Try what the Secrets hold now; mint where it does not work, was changed, or is half gone.

        Parameters
        ----------
        probe:
            ``charts/name@sha256:…`` that Argo CD pulls next; None: what was asked for the last time.

        Raises
        ------
        PipelineError
            As ``refresh`` does, and ``RegistryUnreachable`` when the registry cannot be asked.
        """
        if not self.config.mints_credentials:
            return {"written": False}
        known = self.coordination.fact(CREDENTIALS)
        probe = probe or (known or {}).get("probe") or NO_CHART
        with self._telling(proven=False):
            problem = self._problem(known, probe)
        if problem is None and known is not None:
            now = self.clock()
            known = {**known, "checkedAt": rfc3339(now), "probe": probe}
            self.coordination.put_fact(CREDENTIALS, known)
            if not half_life_passed(known, now):
                self._measure_life(known)
                return {"written": False, "expiresAt": known["expiresAt"]}
        with self._telling(proven=problem is None):
            return {**self._renew(probe), "because": str(problem.reason) if problem else "age"}

    def _problem(self, known: Mapping[str, Any] | None, probe: str) -> PipelineError | None:
        """What is wrong with the Secrets as Kubernetes returns them, or None."""
        versions: dict[str, str] = {}
        for wanted in repo_creds(self.config):
            # Patching is a right that writing needs anyway, and its answer is the whole Secret: no right to
            # read is granted. The label is part of it: without it Argo CD would not look at the Secret.
            secret = self.argocd.write_repo_creds(wanted.name, {"metadata": {"labels": dict(LABELS)}})
            problem = trouble_with(wanted, secret, self.clock()) or self._refusal(secret, probe)
            if problem is not None:
                return problem
            versions[wanted.name] = secret["metadata"].get("resourceVersion", "")
        if known is not None and known.get("versions") != versions:
            return PipelineError(
                Reason.RegistryCredentialsUnavailable,
                "Argo CD's Secret was changed by somebody since the token was written; it is written again.",
            )
        return None

    def _renew(self, probe: str) -> dict[str, Any]:
        self.ecr.renew()
        token, host = self.ecr.token(), self.config.registry.host
        if not is_for(token.host, host):
            raise PipelineError(
                Reason.RegistryCredentialsUnavailable,
                f"ECR gave a token for {token.host}, but registry.repository is on {host}. "
                "Check registry.repository and the region.",
            )
        minted, expires_at = rfc3339(self.clock()), rfc3339(token.expires_at)
        written = [
            (
                wanted,
                self.argocd.write_repo_creds(
                    wanted.name, patch(wanted, token.user, token.password, expires_at)
                ),
            )
            for wanted in repo_creds(self.config)
        ]
        for wanted, secret in written:
            problem = trouble_with(wanted, secret, self.clock()) or self._refusal(secret, probe)
            if problem is not None:
                raise problem
        fact = {
            "mintedAt": minted,
            "expiresAt": expires_at,
            "checkedAt": rfc3339(self.clock()),
            "versions": {
                wanted.name: secret["metadata"].get("resourceVersion", "") for wanted, secret in written
            },
            "probe": probe,
        }
        self.coordination.put_fact(CREDENTIALS, fact)
        self._measure_life(fact)
        return {"written": True, "expiresAt": expires_at}

    def _refusal(self, secret: Mapping[str, Any], probe: str) -> PipelineError | None:
        """Ask the registry for ``probe`` with a Secret's own content: absent is fine, refused is not.

        A GET, because a refused HEAD has no body that tells an expired token from a right that is missing.
        """
        data = decoded(secret)
        path, _, what = probe.partition("@") if "@" in probe else probe.rpartition(":")
        reference = Reference(self.config.registry.host, f"{self.config.registry.prefix}/{path}")
        credentials = FixedCredentials(data["username"], data["password"])
        try:
            Repository(self.transport, reference, credentials, Counters()).get_manifest(what)
        except RepositoryMissingError:
            return None  # we were let in to be told so
        except PipelineError as error:
            if error.retry:
                raise
            self.measure(REFUSED, 1)
            return PipelineError(
                error.reason,
                f"The registry refuses what is in Argo CD's Secret {secret['metadata']['name']}. "
                + error.message,
            )
        return None

    @contextmanager
    def _telling(self, *, proven: bool) -> Iterator[None]:
        """Record what went wrong, for the states that wait; what was known to be good stays as it is.

        ``proven``: what the Secrets hold works all the same.
        """
        try:
            yield
        except PipelineError as error:
            trouble = {"at": rfc3339(self.clock()), "reason": str(error.reason), "message": error.message}
            self.coordination.put_fact(TROUBLE, {**trouble, "proven": proven})
            self.measure(TROUBLES, 1)
            known = self.coordination.fact(CREDENTIALS)
            if known is not None:
                self._measure_life(known)
            raise

    def _measure_life(self, known: Mapping[str, Any]) -> None:
        left = (parse_time(known["expiresAt"]) - self.clock()).total_seconds()
        self.measure(SECONDS_LEFT, max(0.0, left))
