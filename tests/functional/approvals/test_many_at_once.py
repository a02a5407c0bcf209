"""Two hundred rollouts wait, and everybody answers at once: every decision is accounted for, none is lost."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlencode

import boto3
import pytest
from aicr_pipeline.actions.approval_site import Link, Post, Site
from aicr_pipeline.actions.look_at_waiters import World
from aicr_pipeline.actions.serve_approvals import submit
from aicr_pipeline.actions.sweep_waiters import Sweep
from aicr_pipeline.adapters.coordination import Coordination, Waiter
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.approval import form_nonce
from aicr_pipeline.model.config import parse_cluster_config
from aicr_pipeline.model.rollout import rollout_key
from moto import mock_aws

from tests.functional.approvals.signing_in import make_table
from tests.functional.approvals.support import BASE_URL, BUCKET, KEY, Waiting, config, seed
from tests.functional.approvals.test_interleavings import Objects, aws_error

ROLLOUTS, PEOPLE = 200, 8
HEADERS = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}


class Shared(Objects):
    """S3 that several write to: of two conditional puts of a key one wins."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def put_object(self, **request: Any) -> None:  # type: ignore[override]
        with self._lock:
            super().put_object(**request)


class Tokens:
    """Step Functions: every third call is throttled, and a token is taken once."""

    def __init__(self) -> None:
        self.calls = 0
        self.answers: dict[str, dict[str, Any]] = {}

    def send_task_success(self, taskToken: str, output: str) -> None:
        self.calls += 1
        if self.calls % 3 == 0:
            raise aws_error("ThrottlingException")
        assert taskToken not in self.answers, "a token is answered once"
        self.answers[taskToken] = json.loads(output)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordination]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    boto3.DEFAULT_SESSION = None
    with mock_aws():
        yield Coordination(make_table(), "coordination")


def test_two_hundred_decisions_at_once_are_all_accounted_for(table: Coordination) -> None:
    s3 = Shared()
    ledger, tokens, now = Ledger(s3, BUCKET), Tokens(), datetime.now(UTC)
    site = Site(
        parse_cluster_config(config(), "demo"), ledger, KEY.encode, BASE_URL, lambda: datetime.now(UTC)
    )
    waiting = [seed(s3, cluster=f"c{number}") for number in range(ROLLOUTS)]
    for one in waiting:
        wanted = {"rollout": one.name, "digest": one.request.digest, "toPlan": one.rollout.to_plan}
        order = f"{rfc3339(now)}#0001"
        table.register(Waiter(one.name, "approval", one.name, order, one.rollout.deadline, wanted), now)

    def answer(one: Waiting, who: str, word: str) -> tuple[str, str, str, int]:
        form = {
            "decision": word, "digest": one.request.digest, "reason": f"{who} at {one.name}",
            "shortName": one.short,
            "nonce": form_nonce(KEY.encode(), one.name, who, one.request.digest, datetime.now(UTC)),
        }  # fmt: skip
        link = Link(one.name, who, one.secret(who))
        return one.name, who, word, submit(link, Post(HEADERS, urlencode(form), False), site).status

    # Everybody is answered by two people, every third time contrarily; alex clicks twice.
    sent = [
        (one, who, "Rejected" if who == "kim" and number % 3 == 0 else "Approved")
        for number, one in enumerate(waiting)
        for who in ("alex", "kim", "alex")
    ]
    nothing = cast(Any, None)
    world = World(ledger, table, nothing, nothing, lambda: datetime.now(UTC), nothing, nothing)

    def sweep() -> None:
        Sweep(world, tokens, "one", 0.0, 0.0, lambda *_: None, lambda _: None).run()

    with ThreadPoolExecutor(PEOPLE + 1) as pool:
        during = pool.submit(sweep)
        answers = list(pool.map(lambda given: answer(*given), sent))
        during.result()
    for _ in range(20):
        sweep()
        if not table.waiters():
            break
    assert table.waiters() == []
    assert Counter(status for *_, status in answers).keys() <= {303, 409}
    assert len(tokens.answers) == ROLLOUTS
    for one in waiting:
        decision = json.loads(s3.bodies[rollout_key(one.name, "decision")])
        (who,) = decision["by"]
        mine = {(name, word): status for rollout, name, word, status in answers if rollout == one.name}
        # Who recorded what counts was told so, and everybody who wanted otherwise was told of it.
        assert mine[who, decision["decision"]] == 303 and decision["reason"] == f"{who} at {one.name}"
        assert all((status == 303) == (word == decision["decision"]) for (_, word), status in mine.items())
        told = tokens.answers[one.name]
        if decision["decision"] == "Approved":
            assert told == {"decision": "Approved", "by": [who]}
        else:
            assert told["outcome"]["reason"] == "RolloutRejected"
