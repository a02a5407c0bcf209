"""Before a rollout and before each step: Argo CD's registry token must work and outlive what comes next."""

from datetime import timedelta

from aicr_pipeline.actions.refresh_credentials import CREDENTIALS, CREDENTIALS_WANTED, TROUBLE
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.clock import Clock, parse_time
from aicr_pipeline.decide.credentials import (
    FIRST_MARGIN,
    MARGIN,
    PROVEN_FOR,
    checked_at,
    half_life_passed,
    in_doubt,
    is_fresh,
    why_not,
)
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.plan import PlannedRelease
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.step import StepEvent

#: So long a state waits for credentials. What is still wrong then needs a person.
PATIENCE = timedelta(minutes=10)
#: Every so many tries they are asked for again; a refresh that fails is tried again on its own meanwhile.
ASK_EVERY = 4
_AWAY = (Reason.RegistryUnreachable, Reason.ClusterUnreachable)


class CredentialsComingError(TransientError):
    """They were asked for: the state machine comes back soon, and goes on for PATIENCE."""


def want_credentials(
    step: StepEvent,
    release: PlannedRelease,
    config: ClusterConfig,
    coordination: Coordination,
    bus: Bus,
    clock: Clock,
) -> None:
    """Ask for a fresh token when half of the old one's life is gone, and wait while there is none that works.

    Before the first step the registry must have taken what is in the Secret within the last minutes; the
    event names ``release``, whose chart Argo CD pulls next, as what to ask the registry for. What is known is
    a fact of the coordination table, which may be lost: asking again rebuilds it.

    Raises
    ------
    PipelineError
        ``CredentialsComingError`` meanwhile; after PATIENCE the reason of ``decide.credentials.why_not``,
        transient where the registry or the cluster is away: that decides nothing, and is redriven.
    """
    if not config.mints_credentials:
        return
    now, first = clock(), step.item is not None and step.item["index"] == 1
    found, trouble = coordination.fact(CREDENTIALS), coordination.fact(TROUBLE)
    margin = FIRST_MARGIN if first or step.item is None else MARGIN
    ready = (
        found is not None
        and is_fresh(found, now, margin)
        and not in_doubt(found, trouble)
        and not (first and now - checked_at(found) > PROVEN_FOR)
    )
    if (not ready or half_life_passed(found, now)) and step.retries % ASK_EVERY == 0:
        bus.announce(
            CREDENTIALS_WANTED,
            {
                "rollout": step.input["rollout"],
                "repository": release.repository,
                "digest": release.chart.manifest_digest,
            },
        )
    if ready:
        return
    reason, message = why_not(found, trouble, now)
    if now - parse_time(step.entered_at) >= PATIENCE:
        raise (TransientError if reason in _AWAY else PipelineError)(reason, message)
    raise CredentialsComingError(reason, message)
