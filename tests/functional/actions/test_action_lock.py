"""The rollout lock, whatever comes in whatever order: it never leaks, and two rollouts never write.

The actions are the real ones, on moto's table and a ledger in memory. Each may die at any of its calls.
"""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta
from typing import Any

import boto3
from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.actions.record_outcome import record_outcome
from aicr_pipeline.actions.record_stall import record_stall
from aicr_pipeline.actions.start_rollout import start_rollout
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.executions import Executions
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.order import newest_first
from aicr_pipeline.adapters.rollouts import is_over, load_outcome, load_rollout
from aicr_pipeline.clock import rfc3339
from botocore.exceptions import ClientError
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from moto import mock_aws

from tests.functional.actions.support import BEGAN, MACHINE, TABLE, Events, StepFunctions, Topics
from tests.functional.actions.support import step as step_of
from tests.functional.approvals.test_interleavings import PHASES, Objects
from tests.unit.samples import config, plan

PLANS = [plan(**{"recipe": f"recipe-{number}"}) for number in range(3)]
DIGESTS = [made.desired_state_digest for made in PLANS]
BADLY = ("FAILED", "ABORTED", "TIMED_OUT")


class Dying:
    """A client of a caller that dies at one of its calls, before it is done or after."""

    def __init__(self, client: Any, life: Life) -> None:
        self._client, self._life = client, life

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if not callable(call) or name == "exceptions":
            return call

        def made(*given: Any, **more: Any) -> Any:
            self._life.countdown -= 1
            if self._life.countdown == 0 and not self._life.is_done_before:
                raise DeadError
            result = call(*given, **more)
            if self._life.countdown == 0:
                raise DeadError
            return result

        return made


class Wish:
    """The inbox's S3: a runtime that is there, paused or not."""

    def __init__(self) -> None:
        self.paused = False

    def head_object(self, Bucket: str, Key: str) -> dict[str, Any]:
        return {"VersionId": "v1"}

    def get_object(self, Bucket: str, Key: str, VersionId: str) -> dict[str, Any]:
        body = json.dumps({"spec": {"paused": self.paused}}).encode()
        return {"ContentLength": len(body), "Body": io.BytesIO(body)}


class DeadError(Exception):
    """The function's process is gone."""


class Life(RuleBasedStateMachine):
    """A cluster's rollouts: wishes, ends, stalls, redrives, and functions that die."""

    @initialize()
    def begin(self) -> None:
        self.mock = mock_aws()
        self.mock.start()
        dynamodb = boto3.client(
            "dynamodb", region_name="us-west-2", aws_access_key_id="testing", aws_secret_access_key="testing"
        )
        names = ("pk", "sk")
        dynamodb.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
            KeySchema=[
                {"AttributeName": n, "KeyType": k} for n, k in zip(names, ("HASH", "RANGE"), strict=True)
            ],
        )
        self.dynamodb = dynamodb
        self.countdown, self.is_done_before = 0, True
        self.now: datetime = BEGAN
        self.config = config()
        self.events, self.topics, self.sfn = Events(), Topics(), StepFunctions()
        self.ledger = Ledger(Dying(Objects(), self), "ledger")
        self.runtime = Wish()
        self.inbox = Inbox(Dying(self.runtime, self), "inbox")
        self.table = Coordination(Dying(dynamodb, self), TABLE)
        self.executions = Executions(Dying(self.sfn, self), f"{MACHINE}:live")
        self.bus = Bus(Dying(self.events, self), "default", "demo")
        self.notifier = Notifier(Dying(self.topics, self), {"alex": "topic"})
        self.wishes = 0
        #: Events that were put; each may be delivered again at any time.
        self.put: list[dict[str, Any]] = []
        self._taken = 0

    def teardown(self) -> None:
        if hasattr(self, "mock"):
            try:
                self._finish()
            finally:
                self.mock.stop()

    # What happens

    @rule(number=st.integers(0, 2), dies=st.integers(0, 25), done=st.booleans())
    def wish(self, number: int, dies: int, done: bool) -> None:
        self._wish(number)
        self._start(self.put[-1], dies, done)

    @rule(paused=st.booleans())
    def the_runtime_is_paused_or_goes_on(self, paused: bool) -> None:
        self.runtime.paused = paused

    @rule(which=st.integers(0, 30), dies=st.integers(0, 25), done=st.booleans())
    def an_event_comes_again(self, which: int, dies: int, done: bool) -> None:
        if self.put:
            self._start(self.put[which % len(self.put)], dies, done)

    @rule(which=st.integers(0, 5), dies=st.integers(0, 12), done=st.booleans(), good=st.booleans())
    def a_rollout_ends(self, which: int, dies: int, done: bool, good: bool) -> None:
        """Record outcome runs; it may die, and then its execution failed there."""
        name = self._running(which)
        if name is None:
            return
        ended = self._record(name, dies, done, good)
        self.sfn.executions[name] = ("SUCCEEDED" if good else "FAILED") if ended else "FAILED"
        if not ended or not good:
            self._stall(name)

    @rule(which=st.integers(0, 5), status=st.sampled_from(BADLY), told=st.booleans())
    def an_execution_is_stopped(self, which: int, status: str, told: bool) -> None:
        name = self._running(which)
        if name is not None:
            self.sfn.executions[name] = status
            if told:
                self._stall(name)

    @rule(which=st.integers(0, 5))
    def a_stalled_one_is_redriven(self, which: int) -> None:
        stopped = [name for name, status in self.sfn.executions.items() if status in BADLY]
        if stopped:
            self.sfn.executions[stopped[which % len(stopped)]] = "RUNNING"

    @rule()
    def the_table_is_lost(self) -> None:
        """While no function runs: it is made anew, and the last wish submitted again."""
        for found in self.dynamodb.scan(TableName=TABLE)["Items"]:
            self.dynamodb.delete_item(TableName=TABLE, Key={"pk": found["pk"], "sk": found["sk"]})

    @rule(which=st.integers(0, 5))
    def an_execution_is_forgotten(self, which: int) -> None:
        """90 days after it ended."""
        stopped = [name for name, status in self.sfn.executions.items() if status != "RUNNING"]
        if stopped:
            self.now += timedelta(days=90)
            del self.sfn.executions[stopped[which % len(stopped)]]

    # What holds

    @invariant()
    def at_most_one_rollout_may_write(self) -> None:
        """Of those that run, the gate opens for the lock's holder only, or for one that has no rival."""
        holder = self.table.lock_holder()
        running = [name for name, status in self.sfn.executions.items() if status == "RUNNING"]
        may_write = [name for name in running if holder in (None, name) and not is_over(self.ledger, name)]
        assert len(may_write) <= 1, (holder, self.sfn.executions)

    @invariant()
    def the_order_is_whole(self) -> None:
        """Each rollout that began has one place, and all but the newest are over."""
        places = list(newest_first(self.ledger))
        assert len(set(places)) == len(places)
        assert all(is_over(self.ledger, name) for name in places[1:])
        assert set(self.sfn.inputs) <= set(places), "what was started is found"

    @invariant()
    def an_end_is_final(self) -> None:
        assert all(
            load_outcome(self.ledger, name) is not None
            for name in self.sfn.executions
            if self.sfn.executions[name] == "SUCCEEDED"
        )

    # How

    def _wish(self, number: int) -> None:
        self.wishes += 1
        fact = {"plan": DIGESTS[number], "runtimeVersion": "v1", "run": f"run-{self.wishes}"}
        self.table.put_fact(TARGET, fact)
        self.put.append({"detail-type": "Plan Ready", "detail": fact})

    def _start(self, event: dict[str, Any], dies: int = 0, done: bool = True) -> bool:
        """One delivery, and what the bus got of it; False when the function died."""
        self.countdown, self.is_done_before = dies, done
        before = set(self.sfn.executions)
        try:
            start_rollout(
                event, self.config, self.ledger, self.inbox, self.table, self.executions, lambda: self.now
            )
        except (DeadError, ClientError):
            return False
        finally:
            self.countdown = 0
            self._collect()
            assert not self.runtime.paused or set(self.sfn.executions) == before
        return True

    def _record(self, name: str, dies: int, done: bool, good: bool) -> bool:
        rollout = load_rollout(self.ledger, name)
        state: dict[str, Any] = {"rollout": name, "toPlan": rollout.to_plan}
        state["assessment"] = {"validation": "Required"}
        state |= {"steps": [], "evidence": {"key": "k"}} if good else {
            "ended": {"Error": "RolloutFailed", "Cause": "step 1/2 gpu-operator (Install): boom"}
        }  # fmt: skip
        made = step_of("Record outcome", input=state, token=None, execution=name)
        self.countdown, self.is_done_before = dies, done
        try:
            record_outcome(
                made, self.config, self.ledger, self.table, self.bus, self.notifier, lambda: self.now
            )
        except (DeadError, ClientError):
            return False
        finally:
            self.countdown = 0
            self._collect()
        return True

    def _stall(self, name: str) -> None:
        detail = {
            "executionArn": f"arn:{name}",
            "stateMachineArn": MACHINE,
            "name": name,
            "status": self.sfn.executions[name],
        }
        event = {"detail": detail, "time": rfc3339(self.now)}
        record_stall(event, self.config, self.ledger, self.bus, self.notifier)
        self._collect()

    def _collect(self) -> None:
        for entry in self.events.entries[self._taken :]:
            self.put.append({"detail-type": entry["DetailType"], "detail": json.loads(entry["Detail"])})
        self._taken = len(self.events.entries)

    def _running(self, which: int) -> str | None:
        running = [name for name, status in self.sfn.executions.items() if status == "RUNNING"]
        return running[which % len(running)] if running else None

    def _finish(self) -> None:
        """Whatever came before: the next wish has its rollout once none is at work, and it ends well."""
        for name, status in list(self.sfn.executions.items()):
            if status == "RUNNING":
                self.sfn.executions[name] = "ABORTED"
        self.now += timedelta(minutes=1)
        self.runtime.paused = False
        self._wish(2)
        assert self._start(self.put[-1])
        started = [name for name, status in self.sfn.executions.items() if status == "RUNNING"]
        if not started:
            # Step Functions may have forgotten it; the ledger does not.
            active = [load_outcome(self.ledger, name) for name in newest_first(self.ledger)]
            assert any(found and found.outcome == "Succeeded" for found in active), "nothing was started"
            return
        (name,) = started
        assert self.table.lock_holder() == name
        assert self._record(name, 0, True, True)
        assert self.table.lock_holder() is None


Life.TestCase.settings = settings(
    max_examples=12, stateful_step_count=14, deadline=None, database=None, phases=PHASES
)
TestLife = Life.TestCase
