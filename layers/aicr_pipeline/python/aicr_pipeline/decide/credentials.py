"""Argo CD's registry token: what its Secrets hold, how old it is, and what is wrong with what is found.

What is known of the token is a fact of the coordination table: ``mintedAt`` and ``expiresAt``; ``checkedAt``,
when the registry last took it; ``versions``, the Secrets' resource versions then; ``probe``, what was asked
for. What went wrong last is a fact of its own, so that trouble never overwrites what is known to be good.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.ecr_host import parse_ecr_host
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason

EXPIRES_AT = "operator.aicr.run/token-expires-at"
SECRET_TYPE = "argocd.argoproj.io/secret-type"  # noqa: S105 - a label
LABELS = {SECRET_TYPE: "repo-creds"}

#: A sync must not start with less than this left.
MARGIN = timedelta(minutes=15)
#: Nor a rollout: its first steps take long, and people have just been asked about it.
FIRST_MARGIN = timedelta(hours=1)
#: Before the first step the registry must have taken the token so recently.
PROVEN_FOR = timedelta(minutes=5)

# Metrics. All are of refresh_credentials; alarms speak of them.
SECONDS_LEFT = "RegistryTokenSecondsLeft"
TROUBLES = "RegistryCredentialsTroubles"
REFUSED = "RegistryCanaryRefused"

#: Asked for where no chart is known yet: absent with the right to pull, refused without.
NO_CHART = "charts/canary:canary"
_PROBE = re.compile(r"(charts|wrappers)/[a-z0-9]+([._-]+[a-z0-9]+)*@sha256:[0-9a-f]{64}")

Fact = Mapping[str, Any]


@dataclass(frozen=True)
class RepoCreds:
    """A Secret of ours in Argo CD's namespace: all that it says beside user and password."""

    name: str
    data: Mapping[str, str]


def repo_creds(config: ClusterConfig) -> tuple[RepoCreds, ...]:
    """The Secrets that the pipeline keeps; none where it keeps no credentials.

    Argo CD compares the URL as plain text (``util/db/repository_secrets.go``), so sources with ``oci://``
    and Helm's form without it need a Secret each. ``type`` is always set: without it Argo CD takes ``git``.
    """
    if not config.mints_credentials:
        return ()
    registry, engine = config.registry, config.engine
    plain = {"insecureOCIForceHttp": "true"} if registry.plain_http else {}
    found = [RepoCreds(engine.repo_creds_secret, {"type": "oci", "url": registry.repository, **plain})]
    if engine.helm_repo_creds:
        url = registry.repository.removeprefix("oci://")
        data = {"type": "helm", "enableOCI": "true", "url": url, **plain}
        found.append(RepoCreds(engine.helm_repo_creds_secret, data))
    return tuple(found)


def encoded(data: Mapping[str, str]) -> dict[str, str]:
    """As a Secret's ``data`` has it."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}


def decoded(secret: Mapping[str, Any]) -> dict[str, str]:
    """A Secret's ``data`` as text. What somebody wrote there and is none is left out."""
    found: dict[str, str] = {}
    for name, value in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(value).decode()
        except ValueError:
            continue
    return found


def patch(wanted: RepoCreds, user: str, password: str, expires_at: str) -> dict[str, Any]:
    """What is merged into a Secret to give it a token."""
    return {
        "metadata": {"labels": dict(LABELS), "annotations": {EXPIRES_AT: expires_at}},
        "data": encoded({**wanted.data, "username": user, "password": password}),
    }


def is_for(token_host: str, registry_host: str) -> bool:
    """Whether a token that ECR gave together with ``token_host`` is good for the configured registry.

    One token serves every registry of its region that the role may use, in other accounts and under the FIPS
    and dual-stack names too; ECR names only the caller's own (GetAuthorizationToken, AuthorizationData).
    """
    token, registry = parse_ecr_host(token_host), parse_ecr_host(registry_host)
    if token is None or registry is None:
        return token_host == registry_host
    return (token.partition, token.region) == (registry.partition, registry.region)


def trouble_with(wanted: RepoCreds, secret: Mapping[str, Any], now: datetime) -> PipelineError | None:
    """What is wrong with a Secret as Kubernetes returns it, before any registry is asked.

    Returns
    -------
    PipelineError
        ``RegistryCredentialsUnavailable`` when it holds no token, or one for something else;
        ``RegistryCredentialsStale`` when its token has expired.
    """
    data = decoded(secret)
    name = f"Argo CD's Secret {wanted.name}"
    if not data.get("username") or not data.get("password"):
        return _unavailable(f"{name} holds no credentials yet; they are written by refresh_credentials.")
    other = sorted(field for field, value in wanted.data.items() if data.get(field) != value)
    if other:
        return _unavailable(
            f"{name} is not for {wanted.data['url']}: its {', '.join(other)} is another; find who writes it."
        )
    expires = expiry(secret)
    if expires is None:
        return _unavailable(f"{name} does not say when its token expires; find who writes it.")
    if expires <= now:
        return PipelineError(
            Reason.RegistryCredentialsStale,
            f"The token in {name} expired at {expires:%Y-%m-%dT%H:%M:%SZ}; a newer one is wanted.",
        )
    return None


def expiry(secret: Mapping[str, Any]) -> datetime | None:
    """When a Secret says that its token expires."""
    text = (secret["metadata"].get("annotations") or {}).get(EXPIRES_AT)
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def probe_of(event: Mapping[str, Any]) -> str | None:
    """The chart that an event names as the next to be pulled, ``charts/name@sha256:…``."""
    detail = event.get("detail") or {}
    probe = f"{detail.get('repository')}@{detail.get('digest')}"
    return probe if _PROBE.fullmatch(probe) else None


def is_fresh(fact: Fact | None, now: datetime, margin: timedelta = MARGIN) -> bool:
    """Whether the token outlives the margin."""
    return fact is not None and parse_time(fact["expiresAt"]) - now > margin


def half_life_passed(fact: Fact | None, now: datetime) -> bool:
    """Whether less than half of the token's life is left, or there is none."""
    if fact is None:
        return True
    minted, expires = parse_time(fact["mintedAt"]), parse_time(fact["expiresAt"])
    return expires - now < (expires - minted) / 2


def checked_at(fact: Fact) -> datetime:
    """When the registry last took the token; a new one is tried before it counts."""
    return parse_time(fact.get("checkedAt") or fact["mintedAt"])


def in_doubt(fact: Fact | None, trouble: Fact | None) -> bool:
    """Whether the last thing known of the token is that it did not work."""
    return trouble is not None and not trouble["proven"] and _is_later(trouble, fact)


def why_not(fact: Fact | None, trouble: Fact | None, now: datetime) -> tuple[Reason, str]:
    """Why a step cannot have Argo CD's token: reason and sentence.

    The trouble that was met last says most. Else there is no token (``RegistryCredentialsUnavailable``), an
    old one (``RegistryCredentialsStale``), or one that the registry was not asked about lately.
    """
    if trouble is not None and (
        in_doubt(fact, trouble) or (_is_later(trouble, fact) and not is_fresh(fact, now))
    ):
        return Reason(trouble["reason"]), str(trouble["message"])
    asked = "it was asked for again; see the log of refresh_credentials."
    if fact is None:
        return (
            Reason.RegistryCredentialsUnavailable,
            f"Argo CD has no registry token that is known of; {asked}",
        )
    if not is_fresh(fact, now, FIRST_MARGIN):
        until = f"expires at {fact['expiresAt']}"
        return (
            Reason.RegistryCredentialsStale,
            f"Argo CD's registry token {until}, too soon for a step; {asked}",
        )
    seen = f"{checked_at(fact):%Y-%m-%dT%H:%M:%SZ}"
    return (
        Reason.RegistryCredentialsUnavailable,
        f"The registry was last seen to take Argo CD's token at {seen}, too long ago; {asked}",
    )


def _is_later(trouble: Fact, fact: Fact | None) -> bool:
    return fact is None or checked_at(fact) < parse_time(trouble["at"])


def _unavailable(message: str) -> PipelineError:
    return PipelineError(Reason.RegistryCredentialsUnavailable, message)
