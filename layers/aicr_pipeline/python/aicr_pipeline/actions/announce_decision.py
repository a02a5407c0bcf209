"""What people's answer to a question came to, as an event; the records in the ledger stay the truth."""

from collections.abc import Mapping

from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.rollouts import load_rollout, standing_decision
from aicr_pipeline.model.reasons import Reason

APPROVAL_DECIDED = "Approval Decided"
BYPASSED = "Bypassed"

#: What a wait came to, in the event's closed set of words.
_WORDS: Mapping[str, str] = {
    "Approved": "Approved",
    Reason.RolloutRejected: "Rejected",
    Reason.RolloutExpired: "Expired",
    Reason.RolloutSuperseded: "Superseded",
    Reason.RolloutRevoked: "Revoked",
}


def announce_decision(came_to: str, rollout: str, ledger: Ledger, bus: Bus) -> None:
    """Announce what a question came to: ``Approved``, or the reason that ended it.

    ``by`` and ``identity`` are of whoever approved or rejected; nothing that a person typed goes along.
    """
    decision = _WORDS.get(came_to, "Refused")
    found = standing_decision(ledger, load_rollout(ledger, rollout)) if decision in _BY_PEOPLE else None
    by, identity = (list(found.by), found.identity) if found is not None else ([], None)
    bus.announce(APPROVAL_DECIDED, {"rollout": rollout, "decision": decision, "by": by, "identity": identity})


def announce_bypass(rollout: str, bus: Bus) -> None:
    """Announce that nobody was asked."""
    detail = {"rollout": rollout, "decision": BYPASSED, "by": [], "identity": "bypass"}
    bus.announce(APPROVAL_DECIDED, detail)


_BY_PEOPLE = ("Approved", "Rejected")
