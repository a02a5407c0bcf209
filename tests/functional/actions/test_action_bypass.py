"""The bypass: it asks nobody, says so everywhere, and holds only while it is configured."""

import json
from typing import Any

from aicr_pipeline.actions.check_gate import check_gate
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.clock import after
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key

from tests.functional.actions.messaging import World, end
from tests.functional.actions.support import BEGAN, PLAN, ROLLOUT, Place, item, step
from tests.unit.samples import DEPLOYED, config, refused


def test_a_bypass_asks_nobody_and_says_so(place: Place) -> None:
    place.put_rollout(PLAN)
    world = World(place, **{"development": True, "approvals.bypass": True})
    world.ask()
    place.sweep()
    assert place.topics.sent == []
    assert place.sfn.answered["token"] == {"output": {"decision": "Bypassed", "by": []}}
    kept = json.loads(place.ledger.get(rollout_key(ROLLOUT, "bypass")) or b"")
    assert (kept["by"], kept["identity"]) == (["nobody"], "bypass")
    assert "nobody was asked" in kept["reason"]
    assert place.ledger.get(rollout_key(ROLLOUT, "decision")) is None
    assert place.events.details("Approval Decided")[0]["decision"] == "Bypassed"


def test_the_last_message_says_that_the_approval_was_bypassed(place: Place) -> None:
    place.put_rollout(PLAN)
    World(place, **{"development": True, "approvals.bypass": True}).ask()
    end(place, {"assessment": {"validation": "Required"}, "steps": [], "evidence": {"key": "e"}})
    assert len(place.topics.sent) == 2
    assert all("Approval was bypassed: nobody was asked" in sent["Message"] for sent in place.topics.sent)


def test_the_gate_believes_a_bypass_only_while_it_is_configured(place: Place) -> None:
    place.submit()
    place.put_rollout(PLAN)
    place.coordination.put_fact(
        CREDENTIALS, {"mintedAt": after(BEGAN, 0), "expiresAt": after(BEGAN, 12 * 3600)}
    )
    world = World(place, **{"development": True, "approvals.bypass": True})
    world.ask()

    def gate() -> dict[str, Any]:
        made = step(
            "Check gate",
            input={"toPlan": PLAN.desired_state_digest, "fromPlan": None},
            token=None,
            item=item(),
        )
        return check_gate(
            made,
            place.config,
            place.ledger,
            place.inbox,
            place.argocd,
            place.coordination,
            place.bus,
            place.clock,
            DEPLOYED,
        )

    assert gate() == {"open": True}
    place.config = config(development=True)
    with refused(Reason.RolloutFailed, "approvals.bypass is not set now"):
        gate()
