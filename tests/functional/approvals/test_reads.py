"""What a page costs in S3: it is looked at again and again, and its records never change."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from aicr_pipeline import wiring
from aicr_pipeline.adapters.ledger import Ledger, ListedLedger, RememberingLedger

from tests.functional.approvals.conftest import Site
from tests.functional.approvals.support import BUCKET, Waiting


@pytest.fixture
def calls(site: Site) -> Iterator[Counter[str]]:
    """S3 calls of the pages' function, by name."""
    found: Counter[str] = Counter()
    events = wiring.remembering_ledger()._s3.meta.events

    def count(model: Any, **_: Any) -> None:
        found[model.name] += 1

    events.register("before-call.s3", count)
    yield found
    events.unregister("before-call.s3", count)


def test_a_page_that_was_looked_at_takes_one_listing(
    site: Site, waiting: Waiting, calls: Counter[str]
) -> None:
    assert site.get(waiting).status == 200
    assert calls["ListObjectsV2"] == 1
    assert calls["GetObject"] == 5, "rollout, report, request and two plans"
    calls.clear()
    assert site.get(waiting).state == "open"
    assert calls == {"ListObjectsV2": 1}


def test_what_is_written_meanwhile_is_seen_at_once(site: Site, waiting: Waiting, calls: Counter[str]) -> None:
    form = site.form(waiting)
    assert site.get(waiting).state == "open"
    assert site.post(waiting, form).status == 303
    calls.clear()
    assert site.get(waiting).state == "approved"
    assert calls == {"ListObjectsV2": 1, "GetObject": 1}, "the decision"


def test_what_is_kept_is_bounded_and_absence_is_not_kept(site: Site) -> None:
    ledger = RememberingLedger(site.s3, BUCKET, most_bytes=250)
    keys = [f"rollouts/many/{number}.json" for number in range(5)]
    assert [ledger.get(key) for key in keys] == [None] * 5
    for key in keys:
        assert ledger.put_once(key, b"x" * 100)
    assert [ledger.get(key) for key in keys] == [b"x" * 100] * 5
    assert (len(ledger._kept), ledger._size) == (2, 200)
    ledger.put_once("rollouts/many/large.json", b"y" * 300)
    assert ledger.get("rollouts/many/large.json") == b"y" * 300
    assert (len(ledger._kept), ledger._size) == (0, 0)


def test_a_listed_folder_says_what_the_bucket_says(site: Site, waiting: Waiting) -> None:
    whole = Ledger(site.s3, BUCKET)
    listed = ListedLedger(whole, f"rollouts/{waiting.name}/")
    for prefix in (f"rollouts/{waiting.name}/", f"rollouts/{waiting.name}/steps/", "plans/", ""):
        assert list(listed.keys(prefix)) == list(whole.keys(prefix)), prefix
    for key in [key for key, _ in whole.keys("")] + [f"rollouts/{waiting.name}/decision.json", "plans/none"]:
        assert listed.get(key) == whole.get(key), key
