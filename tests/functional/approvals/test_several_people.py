"""Quorums, and people who decide at the same moment."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from aicr_pipeline.actions.approval_site import Answer, Link, Post
from aicr_pipeline.actions.approval_site import Site as Pages
from aicr_pipeline.actions.serve_approvals import submit
from aicr_pipeline.adapters.approvals import approval_record_key
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.clock import now, parse_time, rfc3339
from aicr_pipeline.model.config import parse_cluster_config
from botocore.exceptions import ClientError

from tests.functional.approvals.conftest import Site
from tests.functional.approvals.support import (
    BASE_URL,
    BUCKET,
    KEY,
    Waiting,
    config,
    decision_of,
    forget,
    seed,
)


def test_a_quorum_counts_distinct_people(site: Site) -> None:
    site.configure(minApprovals=2)
    waiting = seed(site.s3, min_approvals=2)
    kims = site.form(waiting, "kim", expiry="1h", reason="kim's reason")
    mine = site.form(waiting, reason="alex's reason")
    page = site.follow(site.post(waiting, mine))
    assert page.state == "awaiting-others" and "1 of 2 people approved: alex" in page.body
    assert site.post(waiting, mine).status == 303, "again is the same"
    assert waiting.read("decision") is None and approval_record_key(waiting.name, "alex") in waiting.written()
    assert "1 did so far (alex)" in site.get(waiting, "kim").body
    page = site.follow(site.post(waiting, kims, "kim"))
    assert page.state == "approved"
    found = decision_of(waiting)
    assert found["by"] == ["alex", "kim"]
    assert found["reason"] == "alex: alex's reason; kim: kim's reason"
    assert parse_time(found["expiresAt"]) - parse_time(found["at"]) == timedelta(hours=1), "the shorter one"
    assert site.get(waiting).state == "approved"


def test_the_stricter_quorum_holds(site: Site, waiting: Waiting) -> None:
    site.configure(minApprovals=2)
    assert site.follow(site.post(waiting, site.form(waiting))).state == "awaiting-others"
    assert waiting.read("decision") is None


def test_a_rejection_needs_one(site: Site) -> None:
    site.configure(minApprovals=2)
    waiting = seed(site.s3, min_approvals=2)
    kims = site.form(waiting, "kim")
    assert site.follow(site.post(waiting, site.form(waiting, decision="Rejected"))).state == "rejected"
    page = site.post(waiting, kims, "kim")
    assert (page.status, page.state) == (409, "rejected") and decision_of(waiting)["by"] == ["alex"]


def test_an_approval_of_somebody_who_left_does_not_count(site: Site) -> None:
    site.configure(minApprovals=2, approvers=[{"name": "alex"}, {"name": "kim"}, {"name": "robin"}])
    waiting = seed(site.s3, min_approvals=2, asked=("alex", "kim", "robin"))
    robins = site.form(waiting, "robin")
    assert site.post(waiting, site.form(waiting)).status == 303
    site.configure(minApprovals=2, approvers=[{"name": "kim"}, {"name": "robin"}])
    assert site.follow(site.post(waiting, robins, "robin")).state == "awaiting-others"
    assert waiting.read("decision") is None
    assert site.follow(site.post(waiting, site.form(waiting, "kim"), "kim")).state == "approved"
    assert decision_of(waiting)["by"] == ["robin", "kim"]


def test_an_approval_that_ran_out_does_not_count(site: Site) -> None:
    site.configure(minApprovals=2)
    waiting = seed(site.s3, min_approvals=2)
    assert site.post(waiting, site.form(waiting)).status == 303
    key = approval_record_key(waiting.name, "alex")
    record = json.loads(site.s3.get_object(Bucket="ledger", Key=key)["Body"].read())
    record["expiresAt"] = rfc3339(datetime.now(UTC) - timedelta(seconds=1))
    site.s3.put_object(Bucket="ledger", Key=key, Body=json.dumps(record).encode())
    forget()  # a record that is written again is of another world
    assert site.post(waiting, site.form(waiting, "kim"), "kim").status == 303
    assert waiting.read("decision") is None


@pytest.mark.parametrize("again", ["alex", "kim", "robin"])
def test_a_quorum_whose_decision_was_not_written_is_completed_by_anybody(site: Site, again: str) -> None:
    """The function of whoever was the last ended between their own record and the decision."""
    people = ("alex", "kim", "robin")
    site.configure(minApprovals=2, approvers=[{"name": name} for name in people])
    waiting = seed(site.s3, min_approvals=2, asked=people)
    assert site.post(waiting, site.form(waiting)).status == 303
    key = approval_record_key(waiting.name, "alex")
    record = json.loads(site.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) | {"by": ["kim"]}
    key = approval_record_key(waiting.name, "kim")
    site.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(record).encode())
    page = site.get(waiting, again)
    assert page.state == "open" and "They are enough" in page.body
    assert site.follow(site.post(waiting, site.form(waiting, again), again)).state == "approved"
    assert set(decision_of(waiting)["by"]) == {"alex", "kim", again}


class _Meeting:
    """S3 whose puts wait for each other before the first is made, and are then made one at a time.

    As S3 makes them: one of two conditional puts of a key wins. Both writers have read everything by then.
    """

    def __init__(self, s3: Any, writers: int) -> None:
        self._s3 = s3
        self._barrier = threading.Barrier(writers, timeout=20)
        self._lock = threading.Lock()
        self._met = threading.local()
        self.puts: list[str] = []

    def put_object(self, **request: Any) -> Any:
        if not getattr(self._met, "done", False):
            self._met.done = True
            self._barrier.wait()
        with self._lock:
            self.puts.append(request["Key"])
            return self._s3.put_object(**request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s3, name)


def _pages(s3: Any, document: dict[str, Any]) -> Pages:
    key: Callable[[], bytes] = KEY.encode
    return Pages(parse_cluster_config(document, "test"), Ledger(s3, BUCKET), key, BASE_URL, now)


def _submit(pages: Pages, waiting: Waiting, form: dict[str, str], approver: str) -> Answer:
    headers = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
    link = Link(waiting.name, approver, waiting.secret(approver))
    return submit(link, Post(headers, urlencode(form), False), pages)


@pytest.mark.parametrize("attempt", range(5))
def test_two_contrary_decisions_at_once_are_one(site: Site, attempt: int) -> None:
    waiting = seed(site.s3, cluster=f"r{attempt}")
    forms = {
        "alex": site.form(waiting, "alex"),
        "kim": site.form(waiting, "kim", decision="Rejected"),
    }
    s3 = _Meeting(site.s3, 2)
    pages = _pages(s3, config())
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda who: _submit(pages, waiting, forms[who], who), forms))
    assert len(s3.puts) == 2, "both tried to write"
    assert sorted(answer.status for answer in answers) == [303, 409]
    loser = next(answer for answer in answers if answer.status == 409)
    assert loser.view is not None and loser.view.decision is not None
    assert list(loser.view.decision.by) == decision_of(waiting)["by"]


def test_the_same_decision_of_two_at_once_is_one(site: Site, waiting: Waiting) -> None:
    forms = {who: site.form(waiting, who) for who in ("alex", "kim")}
    pages = _pages(_Meeting(site.s3, 2), config())
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda who: _submit(pages, waiting, forms[who], who), forms))
    assert [answer.status for answer in answers] == [303, 303]
    assert len(decision_of(waiting)["by"]) == 1


@pytest.mark.parametrize("attempt", range(5))
def test_a_quorum_that_completes_twice_at_once_is_one_decision(site: Site, attempt: int) -> None:
    waiting = seed(site.s3, cluster=f"q{attempt}", min_approvals=2)
    forms = {who: site.form(waiting, who) for who in ("alex", "kim")}
    pages = _pages(_Meeting(site.s3, 2), config(minApprovals=2))
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda who: _submit(pages, waiting, forms[who], who), forms))
    assert [answer.status for answer in answers] == [303, 303]
    assert sorted(decision_of(waiting)["by"]) == ["alex", "kim"], "never nobody: one of them counted both"


class _Colliding:
    """S3 that refuses conditional puts as it does when two collide, a number of times."""

    def __init__(self, s3: Any, times: int) -> None:
        self._s3 = s3
        self.left = times

    def put_object(self, **request: Any) -> Any:
        if self.left:
            self.left -= 1
            raise ClientError({"Error": {"Code": "ConditionalRequestConflict"}}, "PutObject")
        return self._s3.put_object(**request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s3, name)


def test_a_collision_is_tried_again(site: Site, waiting: Waiting) -> None:
    form = site.form(waiting)
    assert _submit(_pages(_Colliding(site.s3, 1), config()), waiting, form, "alex").status == 303
    assert decision_of(waiting)["by"] == ["alex"]


def test_a_collision_that_lasts_loses_nothing(site: Site, waiting: Waiting) -> None:
    form = site.form(waiting, reason="typed with care")
    answer = _submit(_pages(_Colliding(site.s3, 9), config()), waiting, form, "alex")
    assert answer.status == 503 and waiting.read("decision") is None
    assert answer.form is not None and answer.form.typed.reason == "typed with care"
    assert "send it again" in answer.form.alert
