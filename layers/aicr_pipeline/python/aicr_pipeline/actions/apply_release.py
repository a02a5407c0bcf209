"""State "Apply release": one write of the Application and one operation at the exact digest."""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import ObjectConflictError, ObjectMissingError
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import load_plan, refuse_over, refuse_revoked
from aicr_pipeline.clock import Clock
from aicr_pipeline.decide.application import (
    application_spec,
    is_ours,
    new_application,
    spec_digest,
    updated_application,
    was_asked,
)
from aicr_pipeline.decide.approval import check_deadline
from aicr_pipeline.decide.ending import step_words
from aicr_pipeline.decide.engine_words import initiator
from aicr_pipeline.decide.names import request_id
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.plan import PlannedRelease
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.step import StepEvent

_CONFLICTS = 5


class OperationInFlightError(TransientError):
    """Somebody else is at it. The state machine tries again every 20 seconds for half an hour."""


def apply_release(
    step: StepEvent, config: ClusterConfig, ledger: Ledger, argocd: ArgoCd, clock: Clock
) -> dict[str, Any]:
    """Write the release unless this very request was written before; ``Unchanged`` writes nothing.

    The gate was open a moment ago, or days: a redrive begins here, and somebody else's operation may have
    been waited for. So what ends a rollout is looked at again.

    Returns
    -------
    dict
        ``written``; and what "Wait until ready" waits for: ``digest`` (the manifest's), ``requestId``
        (null for ``Unchanged``) and ``spec``, the digest of what the Application asks for.

    Raises
    ------
    PipelineError
        ``RolloutSuperseded`` for one that is over, ``RolloutRevoked``, ``RolloutExpired``;
        ``ForeignObject``; the hold's reason where the gate held the step; transient while somebody else's
        operation runs or the Application is being deleted: that is waited for, never overwritten.
    """
    item, rollout = dict(step.item or {}), str(step.input["rollout"])
    _refuse_held(step.input.get("gate"), item)
    refuse_over(ledger, rollout)
    refuse_revoked(ledger, rollout)
    check_deadline(str(step.input["deadline"]), clock())
    plan = load_plan(ledger, str(step.input["toPlan"]))
    release = plan.release(str(item["release"]))
    if release is None:
        raise PipelineError(Reason.StepUnknown, f"The plan has no release {item['release']}.")
    digest, spec = release.chart.manifest_digest, spec_digest(application_spec(release, config))
    if item["action"] == "Unchanged":
        return {"written": False, "digest": digest, "requestId": None, "spec": spec}
    ours = request_id(rollout, int(item["index"]), release.name)
    for _ in range(_CONFLICTS):
        try:
            written = _write(config, argocd, release, plan.desired_state_digest, ours)
        except (ObjectConflictError, ObjectMissingError):
            continue  # read again: what the other writer did decides what is left to do
        return {"written": written, "digest": digest, "requestId": ours, "spec": spec}
    raise TransientError(Reason.Conflict, f"Application {release.name} is being written by somebody else.")


def _refuse_held(gate: object, item: Mapping[str, Any]) -> None:
    """A definition from before "Hold step" takes whatever the gate does not end for an open one.

    Its executions keep it for as long as their approval waits. They cannot wait here, so they end.
    """
    hold = gate.get("hold") if isinstance(gate, Mapping) else None
    if hold is not None:
        why = str(hold["message"]).removeprefix(f"{step_words(item)}: ")
        raise PipelineError(
            Reason(hold["reason"]),
            f"{why} This rollout began before steps could wait for that, so it ends here: submit the runtime "
            "again once it is done.",
        )


def _write(config: ClusterConfig, argocd: ArgoCd, release: PlannedRelease, plan: str, ours: str) -> bool:
    current = argocd.application(release.name)
    if current is None:
        argocd.create_application(new_application(release, config, plan, ours))
        return True
    if not is_ours(current):
        raise PipelineError(
            Reason.ForeignObject, f"Application {release.name} is not the pipeline's; it never adopts."
        )
    if current["metadata"].get("deletionTimestamp"):
        raise OperationInFlightError(
            Reason.Conflict, f"Application {release.name} is being deleted; waiting until it is gone."
        )
    if was_asked(current, ours):
        return False
    state = (current.get("status") or {}).get("operationState") or {}
    if current.get("operation") or state.get("phase") in ("Running", "Terminating"):
        whose = initiator({"operation": current.get("operation") or state.get("operation")})
        raise OperationInFlightError(
            Reason.Conflict,
            f"Application {release.name} has an operation of {whose} in flight; waiting for it. Terminate it "
            "in Argo CD if it never ends.",
        )
    argocd.replace_application(updated_application(current, release, config, plan, ours))
    return True
