"""Saying that a manual step's work was done: on the page, over the signed routes, guarded as a decision."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.approval import form_nonce
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import PlanWaits
from moto.s3.models import s3_backends

from tests.functional.approvals.conftest import Page, Site
from tests.functional.approvals.support import BUCKET, KEY, MANUAL, Waiting, hold, seed, started
from tests.functional.approvals.test_operators import AS_ALEX, AS_KIM, STRANGER, Api, api, configuration

__all__ = ["api", "configuration"]

RELEASE = "gpu-operator"


@pytest.fixture
def held(site: Site) -> Waiting:
    return hold(site.s3)


class Forms(HTMLParser):
    """Each form's hidden fields, by the value of its button."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.found: dict[str, dict[str, str]] = {}
        self._fields: dict[str, str] = {}
        self.ids: list[str] = []
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if named.get("id"):
            self.ids.append(named["id"])
        if tag == "form":
            self._fields = {}
        elif tag == "input" and named.get("type") == "hidden":
            self._fields[named["name"]] = named["value"]
        elif tag == "button" and named.get("name") == "decision":
            self.found[named["value"]] = self._fields


def form(site: Site, waiting: Waiting, approver: str = "alex", **changes: str) -> dict[str, str]:
    """A good form, from the page itself."""
    fields = Forms(site.get(waiting, approver).body).found["Acknowledged"]
    filled = {**fields, "decision": "Acknowledged", "reason": "Drained it", "shortName": waiting.short}
    return {name: value for name, value in {**filled, **changes}.items() if value != "(absent)"}


def given(waiting: Waiting) -> dict[str, Any] | None:
    return waiting.read(f"acknowledgements/{RELEASE}")


def test_the_page_shows_the_step_that_waits_and_its_records_words(site: Site, held: Waiting) -> None:
    page = site.get(held)
    assert (page.status, page.state) == (200, "approved")
    for words in (
        "Waits for a person",
        "Step 2 of 5 waits: gpu-operator",
        "do what the record says",
        "Drain the queue.",
        "Jobs would be lost.",
        "&lt;25.3.1",
        "Acknowledge gpu-operator",
        "Revoke",
        "It goes on once the step below may begin; the approval holds",
    ):
        assert words in page.body, words
    assert "The rollout runs" not in page.body
    forms = Forms(page.body)
    assert set(forms.found) == {"Acknowledged", "Revoked"}
    assert len(set(forms.ids)) == len(forms.ids), "an id stands once"


def test_it_is_recorded_once(site: Site, held: Waiting) -> None:
    mine, kims = form(site, held), form(site, held, "kim", reason="me too")
    page = site.follow(site.post(held, mine))
    assert "Acknowledge gpu-operator" not in page.body
    assert "Step of gpu-operator acknowledged by alex: Drained it" in page.body
    found = given(held) or {}
    assert found.pop("at")
    assert found == {
        "rollout": held.name, "release": RELEASE, "requestDigest": held.request.digest, "by": "alex",
        "identity": "link", "issuer": "link", "reason": "Drained it",
    }  # fmt: skip
    for again, who in ((mine, "alex"), (kims, "kim")):
        assert site.post(held, again, who).status == 303, "twice is once"
    assert (given(held) or {})["by"] == "alex"


def nonce(waiting: Waiting, bound: str, minutes: float = 0, approver: str = "alex") -> str:
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    return form_nonce(KEY.encode(), waiting.name, approver, bound, at)


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"reason": ""}, 422, "Give a reason"),
        ({"reason": "x" * 1025}, 422, "1025 characters"),
        ({"preset": "Planned maintenance", "reason": ""}, 422, "Choose one of the reasons offered"),
        ({"shortName": "other"}, 422, "Type the short name exactly"),
        ({"nonce": "(absent)"}, 403, "is not ours"),
        ({"release": "(absent)"}, 403, "is not ours"),
        ({"release": "nodewright"}, 403, "is not ours"),
        ({"digest": "sha256:" + "1" * 64}, 403, "is not ours"),
        ({"decision": "Acknowledge"}, 400, "Nothing was recorded"),
        ({"surprise": "1"}, 400, "Nothing was recorded"),
    ],
)
def test_a_form_that_is_not_right_changes_nothing(
    site: Site, held: Waiting, changes: dict[str, str], status: int, words: str
) -> None:
    page = site.post(held, form(site, held, **changes))
    assert (page.status, words in page.body, given(held)) == (status, True, None), page.body


def test_guards_of_the_door(site: Site, held: Waiting) -> None:
    good = form(site, held)
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "(absent)"}):
        assert site.post(held, good, headers=headers).status == 403
    assert site.post(held, good, secret="x" * 32).status == 404
    assert site.post(held, good, "kim").status == 403, "another person's nonce"
    for bound in ("revoke", held.request.digest, f"acknowledge nodewright {held.request.digest}"):
        assert site.post(held, {**good, "nonce": nonce(held, bound)}).status == 403
    old = nonce(held, f"acknowledge {RELEASE} {held.request.digest}", minutes=61)
    page = site.post(held, {**good, "nonce": old, "reason": "typed with care"})
    assert page.status == 403 and "typed with care" in page.body, "nothing that was typed is lost"
    assert given(held) is None


def test_what_was_typed_stands_in_its_own_form(site: Site, held: Waiting) -> None:
    page = site.post(held, form(site, held, shortName="wrong", reason="typed with care"))
    first, second = page.body.split('id="revoke"')
    assert "typed with care" in first and "typed with care" not in second
    assert 'href="#held-short-name"' in first and 'id="held-short-name"' in first


@pytest.mark.parametrize(
    ("document", "state"), [("revocation", "revoked"), ("outcome", "failed"), (None, "approved")]
)
def test_nothing_is_acknowledged_that_does_not_wait(
    site: Site, held: Waiting, document: str | None, state: str
) -> None:
    mine = form(site, held)
    if document == "outcome":
        held.end("Failed", "RolloutFailed", "x")
    elif document == "revocation":
        body = {"rollout": held.name, "by": "kim", "identity": "link", "issuer": "link", "reason": "x",
                "at": rfc3339(datetime.now(UTC))}  # fmt: skip
        key = f"rollouts/{held.name}/revocation.json"
        site.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(body).encode())
    else:
        started(held, 2, RELEASE)  # somebody was quicker: the step runs
    page = site.post(held, mine)
    assert (page.status, page.state, given(held)) == (409, state, None)
    assert "Acknowledge gpu-operator" not in site.get(held).body


def test_a_pause_is_shown_and_has_nothing_to_acknowledge(site: Site) -> None:
    paused = hold(site.s3, Reason.Paused)
    page = site.get(paused)
    assert "Step 2 of 5 waits: gpu-operator" in page.body
    assert set(Forms(page.body).found) == {"Revoked"}


def test_before_its_turn_the_record_is_shown_to_who_approves(site: Site) -> None:
    waiting = seed(site.s3, new=MANUAL)
    page = site.get(waiting)
    assert page.state == "open" and "Upgrade record" in page.body and "Drain the queue." in page.body
    assert "an upgrade record describes exactly this move" in page.body
    assert "Acknowledged" not in Forms(page.body).found


def say(api: Api, who: str | None, waiting: Waiting, **changes: Any) -> tuple[int, Any]:
    return api.decide(who, waiting, "Acknowledged", **{"release": RELEASE, "reason": "Drained it", **changes})


def test_over_the_signed_routes(api: Api) -> None:
    waiting = hold(api.s3)
    status, found = api.ask(AS_KIM, "GET", f"/operators/rollouts/{waiting.name}")
    assert status == 200
    assert (found["held"]["release"], found["held"]["digest"]) == (RELEASE, waiting.request.digest)
    assert found["held"]["guidance"]["steps"][0]["description"] == "Drain the queue."
    for who, changes, expected in (
        (STRANGER, {}, 403),
        (AS_ALEX, {"reason": " "}, 422),
        (AS_ALEX, {"digest": None}, 409),
        (AS_ALEX, {"digest": "sha256:" + "1" * 64}, 409),
        (AS_ALEX, {"release": "nodewright"}, 409),
        (AS_ALEX, {"release": None}, 409),
        (AS_ALEX, {"release": "../x"}, 400),
    ):
        assert say(api, who, waiting, **changes)[0] == expected, changes
    assert given(waiting) is None
    status, found = say(api, AS_KIM, waiting)
    assert (status, found["status"], found["held"]) == (200, "recorded", None)
    record_ = given(waiting) or {}
    assert (record_["by"], record_["identity"], record_["principal"]) == (
        "kim",
        "aws-iam",
        "arn:aws:iam::111122223333:role/kim",
    )
    assert say(api, AS_ALEX, waiting)[0] == 200, "it stands"
    assert (given(waiting) or {})["by"] == "kim"


#: Who was asked, where kim was not: she is told of the hold all the same, as an approver of today.
LATE = pytest.mark.parametrize("asked", ["alex", "nobody"], ids=["kim came later", "bypassed"])


@LATE
def test_whoever_is_told_of_the_hold_may_acknowledge_it(site: Site, held: Waiting, asked: str) -> None:
    held.put("request", held.request.model_copy(update={"asked": (asked,)}))
    assert site.post(held, form(site, held, "kim"), "kim").status == 303
    assert (given(held) or {})["by"] == "kim"


@LATE
def test_so_may_they_over_the_signed_routes(api: Api, asked: str) -> None:
    waiting = hold(api.s3)
    waiting.put("request", waiting.request.model_copy(update={"asked": (asked,)}))
    assert say(api, AS_KIM, waiting)[0] == 200
    assert (given(waiting) or {})["by"] == "kim"


def test_two_at_once_make_one_record(site: Site, held: Waiting) -> None:
    forms = {who: form(site, held, who, reason=who) for who in ("alex", "kim")}
    pages: list[Page] = [site.post(held, sent, who) for who, sent in forms.items()]
    assert [page.status for page in pages] == [303, 303]
    assert (given(held) or {})["reason"] == "alex"


def stop(waiting: Waiting, minutes_ago: int = 0) -> None:
    """Its execution was stopped in the console."""
    at = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    record = {"execution": "arn:x", "status": "ABORTED", "error": "Stopped", "at": rfc3339(at)}
    key = f"rollouts/{waiting.name}/stalls/0123456789abcdef.json"
    waiting.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(record).encode())
    if minutes_ago:
        s3_backends["123456789012"]["aws"].buckets[BUCKET].keys[key].last_modified = at.replace(tzinfo=None)


def test_a_stopped_execution_is_not_approved_and_asks_for_nothing(site: Site, held: Waiting) -> None:
    mine = form(site, held)
    stop(held)
    page = site.get(held)
    assert (page.status, page.state) == (200, "stalled")
    for words in (
        "Stopped in the middle",
        "ABORTED (Stopped)",
        "does not go on by itself",
        "that holds until",
    ):
        assert words in page.body, words
    assert set(Forms(page.body).found) == {"Revoked"}, "it can still be ended for good"
    answer = site.post(held, mine)
    assert (answer.status, given(held)) == (409, None)


def test_a_stopped_execution_from_a_terminal(api: Api) -> None:
    held = hold(api.s3)
    stop(held)
    listed = api.ask(AS_ALEX, "GET", "/operators/rollouts")[1]["rollouts"]
    assert [one["state"] for one in listed if one["rollout"] == held.name] == ["stalled"]
    described = api.ask(AS_ALEX, "GET", f"/operators/rollouts/{held.name}")[1]
    assert described["state"] == "stalled" and described["held"] is None
    assert any("Stopped: ABORTED" in moment["text"] for moment in described["history"])


def test_what_a_redriven_execution_does_shows_that_it_goes_on(site: Site, held: Waiting) -> None:
    stop(held, minutes_ago=5)
    assert site.get(held).state == "approved", "the hold is newer"
    assert "Acknowledged" in Forms(site.get(held).body).found


def test_a_stop_while_people_are_asked_is_said_and_their_answer_is_kept(site: Site, waiting: Waiting) -> None:
    stop(waiting)
    page = site.get(waiting)
    assert page.state == "open" and "An answer is kept, and counts once somebody redrives it" in page.body
    waiting.decide("Rejected")
    assert site.get(waiting).state == "rejected"


def test_a_newer_plan_that_waits_is_said_on_the_page(site: Site, held: Waiting) -> None:
    newer = PlanWaits(rollout=held.name, plan=f"sha256:{'7' * 64}", at=rfc3339(datetime.now(UTC)))
    key = f"rollouts/{held.name}/waiting/{'7' * 64}.json"
    held.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(newer.wire()).encode())
    assert f"A newer plan, sha256:{'7' * 64}, was wanted on" in site.get(held).body
