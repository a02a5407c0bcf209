"""Steps that wait for a person, on a whole machine: held before anything is written, let go, or ended."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aicr_pipeline.model.rollout import step_key
from aicr_pipeline.model.upgrades import ComponentRecord

from tests.unit.upgrades import boundary, document, record, transition
from tests.workflow.machine import runtime
from tests.workflow.small.machine import RELEASES, Json, SmallMachine
from tests.workflow.small.terminal import told as terminal
from tests.workflow.test_bundles import seal

MANUAL = record("gpu-operator", boundary("<99.0.0", ">=99.0.0 <=99.1.0", "manual"))
BLOCKED = record("gpu-operator", boundary("<99.0.0", ">=99.0.0 <=99.1.0", "blocked"))


def upgraded(state: Json) -> None:
    """Another version of the second release; its chart is the same."""
    state["releases"][1]["chart"]["version"] = "v99.0.0"


def recorded(small: SmallMachine, plan: str, *records: ComponentRecord) -> str:
    """The same plan, with what its bundle records about upgrades: no part of the desired state."""
    key = f"plans/{plan[7:]}.json"
    document = json.loads(small.pipeline.ledger(key) or b"")
    document["upgrades"] = [one.wire() for one in records]
    small._put("LedgerBucket", key, json.dumps(document).encode())
    return plan


def ledger(small: SmallMachine, key: str) -> Any:
    found = small.pipeline.ledger(key)
    return None if found is None else json.loads(found)


def held(small: SmallMachine, index: int, reason: str) -> str:
    """Wait until a step of the newest rollout is held; the rollout's name."""
    name = small.pipeline.aws.executions(small.pipeline.machine("rollout"))[-1].name
    key = f"rollouts/{name}/holds/{index:04}-{reason}.json"
    small.wait(lambda: small.pipeline.ledger(key) is not None, 60, f"the hold of step {index}")
    return str(name)


def entered(small: SmallMachine, state: str) -> int:
    aws = small.pipeline.aws
    view = aws.executions(small.pipeline.machine("rollout"))[-1]
    names = [event.get("stateEnteredEventDetails", {}).get("name") for event in aws.history(view.arn)]
    return names.count(state)


def test_a_manual_step_waits_for_its_acknowledgement_and_then_goes_on(small: SmallMachine) -> None:
    first = small.installed()
    before = (small.application("gpu-operator") or {})["spec"]
    small.start(recorded(small, small.plan(upgraded, of=first), MANUAL))
    sent = small.offset
    page = small.page(after=sent)
    assert "Verdict: manual" in page and "Drain the queue." in page, "approvers see the record's words"
    small.approve()
    told = small.offset
    name = held(small, 2, "AwaitingAcknowledgement")
    small.wait(lambda: len(small.pipeline.aws.messages) > told, 30, "the message about the hold")
    manual = f"rollout {name}: step 2/3 gpu-operator (Upgrade) awaiting acknowledgement. gpu-operator from "
    assert f"Ready=False (AwaitingAcknowledgement)\n  {manual}" in terminal(small)
    page = small.page(after=told)
    for words in ("Step 2 of 3 waits: gpu-operator", "Drain the queue.", "Jobs would be lost.", "Revoke"):
        assert words in page, words
    assert (small.application("gpu-operator") or {})["spec"] == before, "nothing of the step was written"
    assert ledger(small, step_key(name, 2)) is None
    small.pipeline.aws.quiet()
    mails = [message.message for message in small.pipeline.aws.messages[told:]]
    assert len(mails) == len(small.pipeline.config.approvals.approvers), "each is told once"
    assert "step 2/3 gpu-operator (Upgrade)" in mails[0] and "Drain the queue." in mails[0]
    page = small.acknowledge(after=told)
    assert "Acknowledge gpu-operator" not in page and "acknowledged by" in page
    ended = small.ended()
    assert ended.status == "SUCCEEDED", (ended.error, ended.cause)
    assert (small.outcome(name)["outcome"], entered(small, "Hold step")) == ("Succeeded", 1)
    # The gate looked anew after the hold, and the component's other release was not asked for again.
    assert entered(small, "Check gate") == len(RELEASES) + 1
    given = ledger(small, f"rollouts/{name}/acknowledgements/gpu-operator.json")
    binding = ledger(small, f"rollouts/{name}/binding.json")
    statement = json.loads(base64.b64decode(ledger(small, binding["key"])["payload"]))
    bound = dict(given)
    del bound["rollout"]
    assert statement["predicate"]["acknowledgements"] == [bound], "the evidence says who did it"
    request = ledger(small, f"rollouts/{name}/request.json")
    assert (given["release"], given["requestDigest"], given["reason"]) == (
        "gpu-operator",
        request["digest"],
        "a test did it",
    )


def test_a_blocked_transition_stops_whatever_anybody_approves(small: SmallMachine) -> None:
    first = small.installed()
    small.start(recorded(small, small.plan(upgraded, of=first), BLOCKED))
    ended = small.ended()
    outcome = small.outcome(ended.name)
    assert (ended.status, ended.error, outcome["outcome"]) == ("FAILED", "TransitionBlocked", "Failed")
    assert "gpu-operator must not go from" in outcome["message"]
    assert "1. Drain the queue." in outcome["message"], "it says what to do instead"
    said = terminal(small)
    assert f"rollout {ended.name} stalled: gpu-operator must not go from" in said
    assert "Stalled          True    TransitionBlocked" in said
    assert ledger(small, f"rollouts/{ended.name}/request.json") is None, "nobody was asked"


def test_a_revocation_ends_the_wait_for_an_acknowledgement(small: SmallMachine) -> None:
    first = small.installed()
    small.start(recorded(small, small.plan(upgraded, of=first), MANUAL))
    small.approve()
    told = small.offset
    held(small, 2, "AwaitingAcknowledgement")
    page = small.revoke(after=told)
    assert 'data-state="revoked"' in page
    ended = small.ended()
    outcome = small.outcome(ended.name)
    assert (ended.status, ended.error) == ("FAILED", "RolloutRevoked"), ended.cause
    assert outcome["message"].startswith("step 2/3 gpu-operator (Upgrade): Revoked by")


@contextmanager
def bundle_with(small: SmallMachine, upgrades: Json) -> Iterator[None]:
    """AICR's bundle carries upgrade records, for a while."""
    folder = small.pipeline.options.bundle
    assert folder is not None
    (folder / "upgrades.yaml").write_text(json.dumps(upgrades))
    seal(folder)
    try:
        yield
    finally:
        (folder / "upgrades.yaml").unlink()
        seal(folder)


def test_a_record_in_the_bundle_is_resolved_through_jobs_and_holds_its_step(small: SmallMachine) -> None:
    """From AICR's Jobs to the hold, and on: nothing of the plan is made by the test."""

    def older(state: Json) -> None:
        state["releases"][1]["chart"]["version"] = "v1.0.0"

    small.installed(older)
    sent = small.offset
    with bundle_with(small, document(gpu_operator=[transition("<2.0.0", ">=2.0.0 <=99.0.0")])):
        resolved = small.resolve(runtime(validation={"deployment": "Disabled"}))
    assert resolved.status == "SUCCEEDED", resolved.cause
    page = small.page(after=sent)
    assert "Verdict: manual" in page and "Jobs would be lost." in page
    small.approve(after=sent)
    told = small.offset
    name = held(small, 2, "AwaitingAcknowledgement")
    assert ledger(small, step_key(name, 2)) is None
    small.acknowledge(after=told)
    ended = small.ended()
    assert ended.status == "SUCCEEDED", (ended.error, ended.cause)
    assert small.outcome(name)["installed"] == list(RELEASES)
    (record_,) = ledger(small, f"plans/{resolved.output['plan']['digest'][7:]}.json")["upgrades"]
    assert record_["component"] == "gpu-operator"
