"""Whatever people, time, retries and a newer wish do, and in whatever order: one decision, set once, and
the state machine's answer, the records and the page agree.

The handlers and adapters are the real ones. S3 is a dictionary with its conditional write, the table moto's.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import boto3
from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.actions.approval_site import Link, Post, Site
from aicr_pipeline.actions.check_gate import check_gate
from aicr_pipeline.actions.look_at_waiters import World
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.actions.serve_approvals import show, submit
from aicr_pipeline.actions.sweep_waiters import Sweep
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination, Waiter
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.rollouts import load_decision
from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.application import new_application
from aicr_pipeline.decide.approval import form_nonce
from aicr_pipeline.decide.ending import outcome_of
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import ClusterConfig, parse_cluster_config
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Decision, RolloutOutcome, rollout_key
from aicr_pipeline.model.step import StepEvent
from botocore.exceptions import ClientError
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from moto import mock_aws

from tests.functional.approvals.support import BASE_URL, BUCKET, KEY, OLD, REGION, Waiting, config, seed
from tests.unit.samples import DEPLOYED

#: A failure is told at once: making it smaller takes minutes, and its steps are few anyway.
PHASES = (Phase.explicit, Phase.generate)
PEOPLE = st.sampled_from(["alex", "kim", "sam"])
#: What each page means for the gate before a step.
GATE = {
    "approved": None,
    "open": Reason.RolloutFailed,
    "awaiting-others": Reason.RolloutFailed,
    "rejected": Reason.RolloutRejected,
    "revoked": Reason.RolloutRevoked,
    "expired": Reason.RolloutExpired,
    "approval-expired": Reason.RolloutExpired,
}
ENDED = {
    "RolloutRejected": "rejected",
    "RolloutRevoked": "revoked",
    "RolloutExpired": "expired",
    "RolloutSuperseded": "superseded",
}


def aws_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "x"}}, "Call")


class Objects:
    """S3, as far as the ledger uses it. A key is written once or refused; nothing is deleted."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}

    def put_object(self, Bucket: str, Key: str, Body: bytes, **conditions: Any) -> None:
        if Key in self.bodies and conditions.get("IfNoneMatch") == "*":
            raise aws_error("PreconditionFailed")
        self.bodies[Key] = Body

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:
        if Key not in self.bodies:
            raise aws_error("NoSuchKey")
        return {"Body": io.BytesIO(self.bodies[Key])}

    def list_objects_v2(self, Bucket: str, Prefix: str = "", MaxKeys: int | None = None) -> dict[str, Any]:
        found = sorted(key for key in tuple(self.bodies) if key.startswith(Prefix))[:MaxKeys]
        return {"Contents": [{"Key": key, "LastModified": datetime.now(UTC)} for key in found]}

    def get_paginator(self, _: str) -> Any:
        return SimpleNamespace(paginate=lambda **asked: iter([self.list_objects_v2(**asked)]))


@dataclass
class Seen:
    """What the sweep that decided an answer could see."""

    decision: Decision | None
    revoked: bool
    superseded: bool
    at: datetime


class Tokens:
    """Step Functions: each token is taken once; ``throttled`` calls are refused before that."""

    def __init__(self) -> None:
        self.answers: dict[str, dict[str, Any]] = {}
        self.throttled = 0

    def send_task_success(self, taskToken: str, output: str) -> None:
        if self.throttled:
            self.throttled -= 1
            raise aws_error("ThrottlingException")
        assert taskToken not in self.answers, "a token is answered once"
        self.answers[taskToken] = json.loads(output)


class Life(RuleBasedStateMachine):
    """One rollout, from the question to its end."""

    @initialize(needed=st.integers(1, 2))
    def begin(self, needed: int) -> None:
        self.mock = mock_aws()
        self.mock.start()
        dynamodb = boto3.client(
            "dynamodb", region_name=REGION, aws_access_key_id="testing", aws_secret_access_key="testing"
        )
        names = ("pk", "sk")
        dynamodb.create_table(
            TableName="table",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
            KeySchema=[
                {"AttributeName": n, "KeyType": k} for n, k in zip(names, ("HASH", "RANGE"), strict=True)
            ],
        )
        self.objects, self.tokens = Objects(), Tokens()
        self.ledger, self.table = Ledger(self.objects, BUCKET), Coordination(dynamodb, "table")
        people = [{"name": name} for name in ("alex", "kim", "sam")]
        self.config = parse_cluster_config(config(approvers=people, minApprovals=needed), "demo")
        self.waiting: Waiting = seed(self.objects, min_approvals=needed, asked=("alex", "kim", "sam"))
        self.now = datetime.now(UTC)
        self.attempts = 0
        self.answered: dict[str, dict[str, Any]] = {}
        self.set: dict[str, bytes] = {}
        self.superseded = False
        self._want(self.waiting.rollout.to_plan)
        far = rfc3339(self.now + timedelta(days=2))
        self.table.put_fact(CREDENTIALS, {"mintedAt": rfc3339(self.now), "expiresAt": far})
        self.enter_again()

    def teardown(self) -> None:
        if hasattr(self, "mock"):
            try:
                self._finish()
            finally:
                self.mock.stop()

    # What happens

    @rule(who=PEOPLE, hours=st.sampled_from(["", "1h"]))
    def approve(self, who: str, hours: str) -> None:
        self._send(who, "Approved", self.waiting.request.digest, expiry=hours)

    @rule(who=PEOPLE)
    def reject(self, who: str) -> None:
        self._send(who, "Rejected", self.waiting.request.digest)

    @rule(who=PEOPLE)
    def revoke(self, who: str) -> None:
        self._send(who, "Revoked", "revoke")

    @rule(who=PEOPLE, word=st.sampled_from(["Approved", "Rejected"]))
    def answer_another_question(self, who: str, word: str) -> None:
        before = dict(self.objects.bodies)
        assert self._send(who, word, "sha256:" + "1" * 64) in (409, 410)
        assert self.objects.bodies == before

    @rule(minutes=st.sampled_from([1, 61, 400]))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule()
    def newer_plan(self) -> None:
        self.superseded = True
        self._want("sha256:" + "2" * 64)

    @rule()
    def enter_again(self) -> None:
        """The state is entered again, by a retry or redrive, with a new token."""
        self.attempts += 1
        wanted = {
            "rollout": self.waiting.name,
            "digest": self.waiting.request.digest,
            "toPlan": self.waiting.rollout.to_plan,
        }
        token, order = f"token {self.attempts}", f"{rfc3339(self.now)}#{self.attempts:04}"
        deadline = self.waiting.rollout.deadline
        self.table.register(Waiter("ask", "approval", token, order, deadline, wanted), self.now)

    @rule(throttled=st.integers(0, 1))
    def sweep(self, throttled: int) -> None:
        self.tokens.throttled = throttled
        self._sweep()
        self.tokens.throttled = 0

    # What holds

    @invariant()
    def records_are_set_once(self) -> None:
        for name in ("decision", "revocation"):
            body = self.objects.bodies.get(rollout_key(self.waiting.name, name))
            if body is not None:
                assert self.set.setdefault(name, body) == body

    @invariant()
    def every_answer_is_what_the_records_say(self) -> None:
        for token, answer in self.tokens.answers.items():
            if token in self.answered:
                assert answer == self.answered[token]
                continue
            self.answered[token] = answer
            assert token == f"token {self.attempts}", "only the newest token is answered"
            seen = self.seen
            if "decision" in answer:
                assert seen.decision and answer == {"decision": "Approved", "by": list(seen.decision.by)}
                assert len(set(seen.decision.by)) >= self.waiting.request.min_approvals
                assert parse_time(seen.decision.expires_at) > seen.at and not seen.revoked
                continue
            reason = answer["outcome"]["reason"]
            rejected = seen.decision is not None and seen.decision.decision == "Rejected"
            assert reason in ENDED
            assert (reason == "RolloutRevoked") == seen.revoked
            assert (reason == "RolloutRejected") == (rejected and not seen.revoked)
            assert reason != "RolloutSuperseded" or (seen.superseded and seen.decision is None)

    @invariant()
    def page_and_gate_agree(self) -> None:
        gate = self._gate()
        state = show(self._link("alex"), self._site()).name
        overdue = self.now >= self.waiting.deadline and state != "revoked"
        assert gate == (Reason.RolloutExpired if overdue else GATE[state]), state

    # How

    def _want(self, plan: str) -> None:
        self.table.put_fact(TARGET, {"plan": plan, "runtimeVersion": "v1", "run": "r"})

    def _site(self) -> Site:
        return Site(self.config, self.ledger, lambda: KEY.encode(), BASE_URL, lambda: self.now)

    def _link(self, who: str) -> Link:
        return Link(self.waiting.name, who, self.waiting.secret(who))

    def _send(self, who: str, word: str, bound: str, **more: str) -> int:
        nonce = form_nonce(KEY.encode(), self.waiting.name, who, bound, self.now)
        digest = {} if word == "Revoked" else {"digest": bound}
        form = {
            "decision": word,
            "nonce": nonce,
            "reason": who,
            "shortName": self.waiting.short,
            **digest,
            **more,
        }
        headers = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
        page = submit(self._link(who), Post(headers, urlencode(form), False), self._site())
        assert page.status in (303, 409, 410, 422), page
        return page.status

    def _sweep(self) -> None:
        waiters = self.table.waiters()
        if waiters and all(waiter.answer is None for waiter in waiters):
            # An answer that was throttled stays what it was decided to be.
            decision = load_decision(self.ledger, self.waiting.name)
            self.seen = Seen(decision, "revocation" in self.set, self.superseded, self.now)
        nothing = cast(Any, None)
        world = World(self.ledger, self.table, *[nothing] * 2, lambda: self.now, *[nothing] * 2)
        Sweep(world, self.tokens, "one", 0.0, 0.0, lambda problem, waiter: None, lambda seconds: None).run()

    def _gate(self) -> Reason | None:
        step = StepEvent.model_validate(
            {
                "state": "Check gate", "execution": self.waiting.name, "machineVersion": "7",
                "enteredAt": rfc3339(self.now), "retries": 0, "token": None,
                "input": {
                    "rollout": self.waiting.name,
                    "cluster": "demo",
                    "deadline": self.waiting.rollout.deadline,
                    "fromPlan": self.waiting.rollout.from_plan,
                    "toPlan": self.waiting.rollout.to_plan,
                },
                "item": {"index": 2, "of": 5, "release": "gpu-operator", "action": "Upgrade"},
            }
        )  # fmt: skip
        argocd = cast(ArgoCd, _engine(self.config))
        inbox = cast(Inbox, SimpleNamespace(current_version=lambda key: "v1", read=lambda *asked: None))
        bus = Bus(SimpleNamespace(put_events=lambda Entries: {"FailedEntryCount": 0}), "default", "demo")
        try:
            check_gate(
                step, self.config, self.ledger, inbox, argocd, self.table, bus, lambda: self.now, DEPLOYED
            )
        except PipelineError as error:
            return error.reason
        return None

    def _finish(self) -> None:
        """At the latest at the deadline the newest token has its answer, and the outcome is the page's."""
        self.now = max(self.now, self.waiting.deadline)
        for _ in range(2):
            self._sweep()
        self.every_answer_is_what_the_records_say()
        self.records_are_set_once()
        answer = self.tokens.answers[f"token {self.attempts}"]
        if "outcome" not in answer:
            return
        reason = Reason(answer["outcome"]["reason"])
        outcome = RolloutOutcome(
            rollout=self.waiting.name, outcome=outcome_of(reason), reason=reason, message="m",
            finished_at=rfc3339(self.now),
        )  # fmt: skip
        self.waiting.put("outcome", outcome)
        assert show(self._link("alex"), self._site()).name == ENDED[reason]


def _engine(config: ClusterConfig) -> SimpleNamespace:
    """Argo CD as the active plan left it."""
    release = OLD.release("gpu-operator")
    assert release is not None
    application = new_application(release, config, OLD.desired_state_digest, "earlier/002")
    spec = application["spec"]
    compared = {"source": spec["source"], "destination": spec["destination"]}
    application["status"] = {"sync": {"status": "Synced", "comparedTo": compared}}
    return SimpleNamespace(
        is_installed=lambda: True,
        project=lambda: {},
        controllers=lambda: [],
        application=lambda name: application,
    )


Life.TestCase.settings = settings(
    max_examples=15, stateful_step_count=12, deadline=None, database=None, phases=PHASES
)
TestLife = Life.TestCase
