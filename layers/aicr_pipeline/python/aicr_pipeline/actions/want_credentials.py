"""Before a rollout and before each step: Argo CD's registry token must outlive what comes next."""

from aicr_pipeline.actions.refresh_credentials import CREDENTIALS, CREDENTIALS_WANTED
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.clock import Clock
from aicr_pipeline.decide.credentials import half_life_passed, is_fresh
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.step import StepEvent

#: After so many retries the credentials are not coming.
PATIENCE = 4


def want_credentials(
    step: StepEvent, config: ClusterConfig, coordination: Coordination, bus: Bus, clock: Clock
) -> None:
    """Ask for a fresh token when half of the old one's life is gone; wait while there is none.

    What is known of the token is a fact of the coordination table, which may be lost: asking again
    rebuilds it.

    Raises
    ------
    PipelineError
        Transient while one is being minted; then ``RegistryCredentialsUnavailable`` or, with an old one,
        ``RegistryCredentialsStale``.
    """
    if not config.mints_credentials:
        return
    now = clock()
    found = coordination.fact(CREDENTIALS)
    if half_life_passed(found, now):
        bus.announce(CREDENTIALS_WANTED, {"rollout": step.input["rollout"]})
    if is_fresh(found, now):
        return
    reason = Reason.RegistryCredentialsStale if found else Reason.RegistryCredentialsUnavailable
    message = "Argo CD's registry credentials are missing or expired, and were asked for again."
    if step.retries >= PATIENCE:
        raise PipelineError(reason, message + " See the log of refresh_credentials.")
    raise TransientError(reason, message)
