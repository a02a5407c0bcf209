"""What a link shows: every state, every header, and nothing changed by looking."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.decide.approval import form_nonce, link_secret

from tests.functional.approvals.answers import assert_headers, refused
from tests.functional.approvals.conftest import Page, Site
from tests.functional.approvals.support import KEY, Waiting, release, seed
from tests.functional.approvals.support import plan as plan_of


def test_the_page_shows_what_is_asked(site: Site, waiting: Waiting) -> None:
    page = site.get(waiting)
    assert page.status == 200 and page.state == "open"
    for text in (
        "demo", waiting.name, waiting.short, "nW3hGl7vZ.example", str(waiting.report.from_plan),
        waiting.report.to_plan, waiting.request.digest, "alex, kim", "four eyes is not enforced",
        "evidence from here never qualifies", "whoever holds it can decide",
        "left installed as they are: kai-scheduler",
        "Asked because:", "the configuration always asks",
        "gpu-operator", "Upgrade", "v25.3.0", "v25.3.1", "no upgrade record exists", "4 changed values",
        "driver.version", "&#34;570.148.08&#34;", "&#34;580.65.06&#34;", "not set",
        "nodewright", "Move", "the release moves", "kubeflow-trainer", "Install", "1 unchanged release",
        "cert-manager", "5 h 59 min left", "Rollout started", "Asked alex, kim",
    ):  # fmt: skip
        assert text in page.body, text
    assert "<script" not in page.body, "values are escaped"
    assert "&lt;script&gt;" in page.body
    assert not re.search(r"""\s(style|on\w+)=["']""", page.body), "the policy would block it"
    assert not re.search(r"(src|href)=\"(?!#)", page.body), "nothing is loaded from elsewhere"


def test_the_secret_is_not_in_the_page(site: Site, waiting: Waiting) -> None:
    assert waiting.secret() not in site.get(waiting).body


def test_reading_changes_nothing(site: Site, waiting: Waiting) -> None:
    before = waiting.everything()
    for number in range(100):
        assert site.get(waiting, method="GET" if number % 2 else "HEAD").status == 200
    assert waiting.everything() == before
    assert site.get(waiting).state == "open", "opening does not spend the link"


def test_a_decision_in_the_address_decides_nothing(site: Site, waiting: Waiting) -> None:
    before = waiting.everything()
    assert site.get(waiting, **site.form(waiting)).status == 200
    assert waiting.everything() == before


def test_head_is_get_without_a_body(site: Site, waiting: Waiting) -> None:
    head, get = site.get(waiting, method="HEAD"), site.get(waiting)
    assert head.body == "" and head.status == 200
    assert set(head.headers) == set(get.headers)


def test_headers_of_every_answer(site: Site, waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    form = site.form(waiting)
    answers = [
        site.get(waiting),
        site.get(waiting, method="HEAD"),
        site.send("GET", "/favicon.ico", {}),
        site.send("DELETE", f"/approvals/{waiting.name}/alex", {}),
        site.post(waiting, form, secret="x"),
        site.post(waiting, form, headers={"sec-fetch-site": "cross-site"}),
        site.post(waiting, {**form, "decision": "Maybe"}),
        site.post(waiting, {**form, "reason": ""}),
        site.post(waiting, form),
    ]
    monkeypatch.setenv("APPROVAL_URL", "")
    answers.append(site.get(waiting))
    for page in answers:
        assert_headers(page.headers, page.body)
    assert [page.status for page in answers] == [200, 200, 404, 404, 404, 403, 400, 422, 303, 500]
    nonces = {page.headers["content-security-policy"] for page in answers}
    assert len(nonces) == len(answers), "a style nonce is used once"


@pytest.mark.parametrize(
    ("rollout", "approver", "secret"),
    [
        ("{name}", "alex", ""),
        ("{name}", "alex", "short"),
        ("{name}", "alex", "é" * 32),
        ("{name}", "alex", "A" * 200),
        ("{name}", "a" * 200, "{secret}"),
        ("{name}", "Alex", "{secret}"),
        ("{name}", "-alex", "{secret}"),
        ("r" * 200, "alex", "{secret}"),
        ("..", "alex", "{secret}"),
        ("_x", "alex", "{secret}"),
        ("a.b", "alex", "{secret}"),
        ("{name}\n", "alex", "{secret}"),
    ],
)
def test_malformed_links_are_refused_before_any_read(
    site: Site, waiting: Waiting, rollout: str, approver: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_read(*_: object, **__: object) -> None:
        raise AssertionError("something was read")

    monkeypatch.setattr("aicr_pipeline.adapters.ledger.Ledger.get", no_read)
    monkeypatch.setenv("APPROVAL_KEY_ARN", "")
    path = f"/approvals/{rollout.format(name=waiting.name)}/{approver}"
    query = {"s": secret.format(secret=waiting.secret())}
    same_origin = {"sec-fetch-site": "same-origin"}
    assert site.send("GET", path, query).status == 404
    assert site.send("POST", path, query, same_origin, b"decision=Approved").status == 404


def test_wrong_links_look_all_the_same(site: Site, waiting: Waiting) -> None:
    def body(page: Page) -> str:
        assert page.status == 404
        return re.sub(r'nonce="[^"]+"', "", page.body)

    other = waiting.name.rpartition("-")[0] + "-2"
    unknown = site.send("GET", f"/approvals/{other}/alex", {"s": link_secret(KEY.encode(), other, "alex")})
    wrong = site.send("GET", f"/approvals/{waiting.name}/alex", {"s": "A" * 32})
    others = site.send("GET", f"/approvals/{waiting.name}/alex", {"s": waiting.secret("kim")})
    absent = site.send("GET", f"/approvals/{waiting.name}/alex", {})
    assert body(unknown) == body(wrong) == body(others) == body(absent) == body(site.send("GET", "/x", {}))


def test_long_names_fit(site: Site) -> None:
    long = seed(
        site.s3,
        cluster="c" * 40,
        old=None,
        new=plan_of(release("r" * 53, "1.0.0-" + "v" * 200, {"k" * 200: "w" * 5000}, "n" * 63)),
    )
    assert len(long.name) <= 80
    page = site.get(long)
    assert page.status == 200 and "r" * 53 in page.body and "v" * 200 in page.body


def test_a_first_install_has_no_old_plan(site: Site) -> None:
    page = site.get(seed(site.s3, old=None))
    assert page.status == 200 and "none: the first install" in page.body and "first install" in page.body


def test_what_one_page_holds_is_bounded(site: Site) -> None:
    def big(word: str) -> Any:
        values = {f"key{n}": word * 3000 for n in range(60)}
        return plan_of(*(release(f"r{n}", "1.0.0", values) for n in range(60)))

    page = site.get(seed(site.s3, old=big("<"), new=big(">")))
    assert page.status == 200
    assert len(page.body.encode()) < 6_000_000, "a function answers at most 6 MB"
    assert "more are not shown here" in page.body and "more characters" in page.body


def test_states_after_the_outcome(site: Site) -> None:
    cases = [
        ("Succeeded", "RolledOut", "succeeded", 200, "Rolled out"),
        ("Failed", "RolloutFailed", "failed", 200, "The rollout failed"),
        ("Expired", "RolloutExpired", "expired", 410, "Expired"),
        ("Revoked", "RolloutRevoked", "revoked", 200, "Revoked"),
        ("Rejected", "RolloutRejected", "rejected", 200, "Rejected"),
        ("Superseded", "RolloutSuperseded", "superseded", 200, "Superseded"),
    ]
    for number, (outcome, reason, state, status, title) in enumerate(cases):
        waiting = seed(site.s3, cluster=f"c{number}")
        form = site.form(waiting)
        waiting.end(outcome, reason, f"what happened in {outcome}")
        page = site.get(waiting)
        assert (page.status, page.state) == (status, state)
        assert f"<h1>{title}</h1>" in page.body and f"what happened in {outcome}" in page.body
        assert reason in page.body and "<form" not in page.body
        sent = site.post(waiting, form)
        assert (sent.status, sent.state) == (410 if state == "expired" else 409, state)
        assert waiting.read("decision") is None


def test_states_of_a_decision(site: Site) -> None:
    approved, rejected, over = (seed(site.s3, cluster=name) for name in ("a", "b", "c"))
    approved.decide("Approved")
    rejected.decide("Rejected", reason="Not tonight")
    over.decide("Approved", timedelta(minutes=10))
    page = site.get(approved)
    assert (page.status, page.state) == (200, "approved") and "By <strong>kim</strong>" in page.body
    page = site.get(rejected)
    assert (page.status, page.state) == (200, "rejected") and "Not tonight" in page.body
    page = site.get(over)
    assert (page.status, page.state) == (410, "approval-expired")
    for waiting in (approved, rejected, over):
        body = site.get(waiting).body
        assert 'value="Approved"' not in body, "nothing is left to decide"
        assert ('value="Revoked"' in body) == (waiting is not rejected), "until the outcome it can be stopped"


def test_past_the_deadline_is_gone(site: Site) -> None:
    waiting = seed(site.s3, left=timedelta(seconds=-1))
    page = site.get(waiting)
    assert (page.status, page.state) == (410, "expired") and "<form" not in page.body
    now = datetime.now(UTC)
    nonce = form_nonce(KEY.encode(), waiting.name, "alex", waiting.request.digest, now)
    form = {"decision": "Approved", "nonce": nonce, "digest": waiting.request.digest, "reason": "r"}
    sent = site.post(waiting, {**form, "shortName": waiting.short})
    refused(waiting, sent, 410, "Nobody can answer any more")


def test_before_anybody_was_asked(site: Site, waiting: Waiting) -> None:
    form = site.form(waiting)
    site.s3.delete_object(Bucket="ledger", Key=f"rollouts/{waiting.name}/request.json")
    assert site.get(waiting).state == "preparing"
    refused(waiting, site.post(waiting, form), 409, "Not ready to be decided")
    site.s3.delete_object(Bucket="ledger", Key=f"rollouts/{waiting.name}/report.json")
    assert site.get(waiting).state == "preparing"
    quiet = waiting.report.model_copy(update={"approval_needed": False})
    waiting.put("report", quiet)
    assert site.get(waiting).state == "not-needed"


def test_a_changed_report_is_never_offered(site: Site, waiting: Waiting) -> None:
    form = site.form(waiting)
    waiting.put("report", waiting.report.model_copy(update={"removed": ("other",)}))
    assert site.get(waiting).status == 500
    refused(waiting, site.post(waiting, form), 500, "could not be shown")
