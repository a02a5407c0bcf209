"""What the gate reads of a rollout; the wait behind a held step reads the same, or the two would disagree."""

from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import (
    load_acknowledgement,
    load_outcome,
    load_report,
    load_request,
    load_revocation,
    standing_decision,
)
from aicr_pipeline.adapters.runtimes import standing_wish
from aicr_pipeline.decide.gate import Hold, Records, unacknowledged
from aicr_pipeline.model.rollout import Report, Rollout, Step


def gate_records(rollout: Rollout, ledger: Ledger, inbox: Inbox, coordination: Coordination) -> Records:
    """Ledger, inbox and table, as they are now."""
    name = rollout.name
    return Records(
        rollout=rollout,
        report=load_report(ledger, name),
        request=load_request(ledger, name),
        decision=standing_decision(ledger, rollout),
        revocation=load_revocation(ledger, name),
        outcome=load_outcome(ledger, name),
        wish=standing_wish(inbox),
        holder=coordination.lock_holder(),
    )


def waits_for_acknowledgement(step: Step, report: Report, rollout: Rollout, ledger: Ledger) -> Hold | None:
    """Why a step waits for somebody who did what its record asks for; None when it does not."""
    if not step.must_be_acknowledged:
        return None
    return unacknowledged(step, report, rollout, load_acknowledgement(ledger, rollout.name, step.release))
