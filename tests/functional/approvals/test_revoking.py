"""Stopping a rollout from its page: until the outcome, before the next step, once, and told honestly."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.decide.approval import form_nonce
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Outcome, RolloutOutcome

from tests.functional.approvals.conftest import Page, Site
from tests.functional.approvals.support import BUCKET, KEY, Waiting, decision_of, seed, started


def form(site: Site, waiting: Waiting, approver: str = "alex", **changes: str) -> dict[str, str]:
    """A good form to revoke with, of the page as it is once somebody approved."""
    return site.form(
        waiting, approver, **{"decision": "Revoked", "reason": "The nodes look wrong", **changes}
    )


def nonce(waiting: Waiting, approver: str = "alex", minutes: float = 0) -> str:
    """One that the page would have given, so many minutes ago."""
    return form_nonce(
        KEY.encode(), waiting.name, approver, "revoke", datetime.now(UTC) - timedelta(minutes=minutes)
    )


def untouched(waiting: Waiting, page: Page, status: int, words: str) -> None:
    assert (page.status, words in page.body) == (status, True), (page.status, page.body)
    assert waiting.read("revocation") is None


@pytest.mark.parametrize("which", ["from_plan", "to_plan"])
def test_a_plan_that_cannot_be_read_keeps_nobody_from_stopping_its_rollout(
    site: Site, waiting: Waiting, which: str
) -> None:
    plan = getattr(waiting.report, which)
    site.s3.put_object(Bucket=BUCKET, Key=plan_key(plan), Body=b"{}")
    assert site.get(waiting).status == 500, "nobody answers what cannot be shown"
    waiting.decide("Approved")
    page = site.get(waiting)
    assert (page.status, page.state) == (200, "approved")
    assert "Versions and values are not shown: Plan sha256:" in page.body
    page = site.follow(site.post(waiting, form(site, waiting)))
    assert (page.status, page.state) == (200, "revoked")
    assert waiting.read("revocation") is not None


def test_a_running_rollout_is_revoked_once(site: Site, waiting: Waiting) -> None:
    waiting.decide("Approved")
    started(waiting, 1, "cert-manager")
    started(waiting, 2, "gpu-operator")
    page = site.get(waiting)
    assert page.state == "approved" and "<strong>Step 2 of 5</strong>: gpu-operator" in page.body
    mine = form(site, waiting, preset="It should wait")
    page = site.follow(site.post(waiting, mine))
    assert (page.status, page.state, page.fields) == (200, "revoked", {})
    for words in (
        "By <strong>alex</strong>",
        "It should wait: The nodes look wrong",
        "<strong>Step 2 of 5, gpu-operator</strong>, had started",
        "It is not torn down",
        "Ready before it:\ncert-manager. Not reached: nodewright, gpu-operator-readiness, kubeflow-trainer",
        "Revoked by alex: It should wait: The nodes look wrong",
    ):
        assert words in page.body, words
    found = waiting.read("revocation")
    assert found is not None and found.pop("at")
    assert found == {
        "rollout": waiting.name,
        "by": "alex",
        "identity": "link",
        "issuer": "link",
        "reason": "It should wait: The nodes look wrong",
    }
    before = waiting.everything()
    again = site.post(waiting, {**mine, "reason": "another"})
    kims = site.post(waiting, {**mine, "nonce": nonce(waiting, "kim")}, "kim")
    assert again.status == kims.status == 303 and waiting.everything() == before, "once, by whoever was first"
    assert decision_of(waiting)["decision"] == "Approved", "what was decided stays recorded"


def test_revoking_before_anybody_decided_ends_the_question(site: Site, waiting: Waiting) -> None:
    approval = site.form(waiting, "kim")
    sent = {"decision": "Revoked", "nonce": nonce(waiting), "reason": "Not now", "shortName": waiting.short}
    page = site.follow(site.post(waiting, sent))
    assert page.state == "revoked" and "No step had started, so nothing was changed" in page.body
    page = site.post(waiting, approval, "kim")
    assert (page.status, page.state) == (409, "revoked") and waiting.read("decision") is None


def test_who_approved_may_take_it_back_while_others_are_asked(site: Site) -> None:
    site.configure(minApprovals=2)
    waiting = seed(site.s3, min_approvals=2)
    page = site.follow(site.post(waiting, site.form(waiting)))
    assert page.state == "awaiting-others"
    kims = site.form(waiting, "kim")
    assert site.follow(site.post(waiting, form(site, waiting))).state == "revoked"
    assert site.post(waiting, kims, "kim").status == 409 and waiting.read("decision") is None


def test_an_approval_that_ran_out_counts_no_more_and_its_rollout_can_be_stopped(site: Site) -> None:
    site.configure(minApprovals=2)
    waiting = seed(site.s3, min_approvals=2)
    site.post(waiting, site.form(waiting, expiry="1s", reason="short"))
    at = datetime.now(UTC) + timedelta(seconds=2)
    site.monkeypatch.setattr(site.module, "now", lambda: at)
    page = site.get(waiting, "kim")
    assert "0 did so far" in page.body
    site.post(waiting, site.form(waiting, "kim"), "kim")
    assert waiting.read("decision") is None, "one of the two has run out"
    assert site.follow(site.post(waiting, form(site, waiting, "kim"), "kim")).state == "revoked"


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"nonce": "(absent)"}, 403, "open for more than an hour"),
        ({"nonce": "1." + "A" * 32}, 403, "open for more than an hour"),
        ({"shortName": "(absent)"}, 422, "Type the short name exactly"),
        ({"shortName": "demo"}, 422, "Type the short name exactly"),
        ({"reason": "(absent)"}, 422, "Give a reason"),
        ({"reason": "x" * 1025}, 422, "1025 characters"),
        ({"preset": "Planned maintenance"}, 422, "one of the reasons offered"),
        ({"decision": "revoked"}, 400, "this was neither"),
        ({"surprise": "x"}, 400, "did not give it"),
    ],
)
def test_a_wrong_form_stops_nothing(
    site: Site, waiting: Waiting, changes: dict[str, str], status: int, words: str
) -> None:
    waiting.decide("Approved")
    untouched(waiting, site.post(waiting, form(site, waiting, **changes)), status, words)


def test_only_a_fresh_form_of_this_page_stops_it(site: Site, waiting: Waiting) -> None:
    deciding = site.form(waiting)["nonce"]
    waiting.decide("Approved")
    for wrong in (deciding, nonce(waiting, "kim"), nonce(waiting, minutes=61), nonce(waiting, minutes=-5)):
        page = site.post(waiting, form(site, waiting, nonce=wrong, reason="kept"))
        untouched(waiting, page, 403, "Look again")
        assert page.fields["reason"] == "kept"
    headers = {"sec-fetch-site": "cross-site"}
    untouched(waiting, site.post(waiting, form(site, waiting), headers=headers), 403, "its own page")
    untouched(waiting, site.post(waiting, form(site, waiting), secret="A" * 32), 404, "nothing here")
    site.configure(approvers=[{"name": "kim"}])
    untouched(waiting, site.post(waiting, {"decision": "Revoked"}), 403, "not asked any more")
    # And a form that revokes decides nothing.
    other = seed(site.s3, cluster="other")
    sent = {"decision": "Approved", "nonce": nonce(other, "kim"), "digest": other.request.digest}
    assert site.post(other, {**sent, "reason": "r", "shortName": other.short}, "kim").status == 403
    assert other.read("decision") is None


@pytest.mark.parametrize(
    ("state", "status"),
    [("rejected", 409), ("expired", 410), ("succeeded", 409), ("failed", 409), ("superseded", 409)],
)
def test_what_is_over_is_not_revoked(site: Site, state: str, status: int) -> None:
    waiting = seed(site.s3, left=timedelta(seconds=-5) if state == "expired" else timedelta(hours=6))
    if state == "rejected":
        waiting.decide("Rejected")
    elif state != "expired":
        waiting.decide("Approved")
        waiting.end(state.capitalize(), "RolledOut" if state == "succeeded" else "RolloutFailed", "m")
    assert site.get(waiting).fields == {}, "no form"
    sent = {"decision": "Revoked", "nonce": nonce(waiting), "reason": "r", "shortName": waiting.short}
    page = site.post(waiting, sent)
    untouched(waiting, page, status, "")
    assert page.state == state


def test_the_outcome_of_a_revoked_rollout_says_what_is_installed(site: Site, waiting: Waiting) -> None:
    waiting.decide("Approved")
    site.post(waiting, form(site, waiting))
    waiting.end("Revoked", "RolloutRevoked", "step 2/5 gpu-operator (Upgrade): Revoked by alex")
    page = site.get(waiting)
    assert page.state == "revoked" and "By <strong>alex</strong>" in page.body
    assert "1 release ready (cert-manager); not reached:\ngpu-operator" in page.body.replace("\n (", " (")


@pytest.mark.parametrize(
    ("unfinished", "words"),
    [
        ((), "1 release ready (cert-manager); not reached: gpu-operator, nfd."),
        (
            ("gpu-operator",),
            "1 release ready (cert-manager); begun, not seen ready: gpu-operator; not reached: nfd.",
        ),
        (
            ("gpu-operator", "nfd"),
            "1 release ready (cert-manager); begun, not seen ready: gpu-operator, nfd; not reached: none.",
        ),
    ],
    ids=["none begun", "one begun", "all begun"],
)
def test_what_was_begun_is_not_said_to_be_not_reached(
    site: Site, waiting: Waiting, unfinished: tuple[str, ...], words: str
) -> None:
    waiting.decide("Approved")
    waiting.put(
        "outcome",
        RolloutOutcome(
            rollout=waiting.name, outcome=Outcome.Failed, reason=Reason.RolloutFailed, message="m",
            finished_at="2026-01-01T12:00:00.000Z", installed=("cert-manager",),
            not_installed=("gpu-operator", "nfd"), unfinished=unfinished,
        ),
    )  # fmt: skip
    assert words in " ".join(site.get(waiting).body.split())


def test_a_revocation_after_the_last_step_does_not_hide_a_success(site: Site, waiting: Waiting) -> None:
    waiting.decide("Approved")
    site.post(waiting, form(site, waiting))
    waiting.end("Succeeded", "RolledOut", "5 releases are ready")
    page = site.get(waiting)
    assert page.state == "succeeded" and "nothing was left to stop" in page.body


def test_an_approval_of_an_earlier_rollout_is_told_as_such(site: Site, waiting: Waiting) -> None:
    earlier: dict[str, Any] = {"rollout": "demo-1-1"}
    waiting.put("rollout", waiting.rollout.model_copy(update={"inherits": "demo-1-1"}))
    assert site.get(waiting).state == "open"
    waiting.decide("Approved", **earlier)
    body = json.dumps(decision_of(waiting)).encode()
    waiting.s3.put_object(Bucket=BUCKET, Key="rollouts/demo-1-1/decision.json", Body=body)
    waiting.s3.delete_object(Bucket=BUCKET, Key=f"rollouts/{waiting.name}/decision.json")
    page = site.get(waiting)
    assert page.state == "approved" and "which asked exactly the same until the same deadline" in page.body
