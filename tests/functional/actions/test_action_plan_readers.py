"""Every state that reads a plan checks its content first: one changed byte, and it does nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from aicr_pipeline.actions.bind_evidence import Binder, bind_evidence
from aicr_pipeline.adapters.rollouts import load_plan
from aicr_pipeline.decide.plan import read_plan
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason

from local.kube import APPLICATIONS, JOBS
from tests.functional.actions import test_action_apply, test_action_ask, test_action_gate, test_action_jobs
from tests.functional.actions.support import LEDGER, PLAN, ROLLOUT, Place, step
from tests.unit.samples import ASSETS, plan, refused, release

OTHER = plan(release("gpu-operator", "2.0.0"), release("kai-scheduler"))


def _bind(place: Place) -> Any:
    # The plan is read before anything of the registry is, and nothing is signed.
    nothing: Any = None
    binder = Binder(
        config=place.config,
        ledger=place.ledger,
        registry=nothing,
        signer=nothing,
        pipeline=ASSETS,
        public_key_of=lambda uri: b"",
        clock=place.clock,
        local_engine=False,
    )
    return bind_evidence(step("Bind evidence", input={"toPlan": PLAN.desired_state_digest}), binder)


READERS: dict[str, Callable[[Place], Any]] = {
    "Assess transition": test_action_ask.assessed,
    "Check gate": test_action_gate.gate,
    "Apply release": test_action_apply.apply,
    "Validate deployment": test_action_jobs.validate,
    "Confirm criteria": test_action_jobs.confirm,
    "Bind evidence": _bind,
}
CHANGES = {
    "a version": (b'"1.0.0"', b'"1.0.1"'),
    "a value": (b'"replicas": 1', b'"replicas": 2'),
    "a digest": (b'"manifestDigest": "sha256:', b'"manifestDigest": "sha256:0'),
    "a mode": (b'"Required"', b'"Disabled"'),
    "a name": (b'"kai-scheduler"', b'"kai-schedules"'),
    "the digest itself": (b'"desiredStateDigest": "sha256:', b'"desiredStateDigest": "sha512:'),
    "a brace": (b"{", b"["),
}


def overwrite(place: Place, digest: str, text: bytes) -> None:
    """What an administrator of the bucket could do."""
    place.s3.put_object(Bucket=LEDGER, Key=plan_key(digest), Body=text)


@pytest.fixture
def recorded(place: Place) -> Place:
    """A rollout whose records are all there."""
    place.submit()
    place.approve(place.put_rollout(PLAN))
    test_action_gate.fresh(place)
    place.ledger.put_once(f"rollouts/{ROLLOUT}/snapshot.yaml", test_action_jobs.SNAPSHOT)
    return place


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_believes_a_changed_plan(recorded: Place, reader: str) -> None:
    digest = PLAN.desired_state_digest
    good = recorded.ledger.get(plan_key(digest)) or b""
    for change, (before, after) in CHANGES.items():
        assert before in good, change
        overwrite(recorded, digest, good.replace(before, after, 1))
        with refused(Reason.PlanUnreadable):
            READERS[reader](recorded)
    assert recorded.store.list(APPLICATIONS, "argocd") == []
    assert recorded.store.list(JOBS, "aicr-validation") == recorded.store.list(JOBS, "aicr-system") == []
    assert recorded.ledger_keys("evidence/") == []


def test_the_plan_that_a_rollout_comes_from_is_checked_too(place: Place) -> None:
    place.submit()
    place.start_rollout(OTHER, PLAN)
    good = place.ledger.get(plan_key(PLAN.desired_state_digest)) or b""
    overwrite(place, PLAN.desired_state_digest, good.replace(b'"1.0.0"', b'"1.0.1"', 1))
    with refused(Reason.PlanUnreadable, PLAN.desired_state_digest, "was changed"):
        test_action_ask.assessed(
            place, input={"toPlan": OTHER.desired_state_digest, "fromPlan": PLAN.desired_state_digest}
        )


def test_how_the_bytes_are_laid_out_does_not_matter(place: Place) -> None:
    place.put_plan(PLAN)
    digest = PLAN.desired_state_digest
    good = place.ledger.get(plan_key(digest)) or b""
    overwrite(place, digest, good.replace(b": ", b" :\n  "))
    assert load_plan(place.ledger, digest) == read_plan(good, digest) == PLAN
