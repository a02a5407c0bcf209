"""On the page, too, whoever submitted a runtime may reject it but not approve it."""

from __future__ import annotations

from tests.functional.approvals.conftest import Site
from tests.functional.approvals.support import Waiting

SSO = "arn:aws:sts::111122223333:assumed-role/AWSReservedSSO_Approve_0123456789abcdef"
ALEX = "arn:aws:iam::111122223333:user/alex"


def submitted(waiting: Waiting, by: str) -> None:
    waiting.put("rollout", waiting.rollout.model_copy(update={"submitter": by}))


def test_the_submitter_is_refused_by_principal(site: Site, waiting: Waiting) -> None:
    site.configure(approvers=[{"name": "alex", "iam": ALEX}, {"name": "kim"}])
    submitted(waiting, ALEX)
    page = site.post(waiting, site.form(waiting))
    assert page.status == 403
    assert "You submitted this runtime" in page.body
    assert "Looks right" in page.body, "what was typed is kept"
    assert waiting.read("decision") is None
    assert site.post(waiting, site.form(waiting, "kim"), "kim").status == 303


def test_the_submitter_is_refused_by_address_and_may_reject(site: Site, waiting: Waiting) -> None:
    site.configure(approvers=[{"name": "alex", "email": "alex@example.com"}, {"name": "kim"}])
    submitted(waiting, f"{SSO}/Alex@example.com")
    assert site.post(waiting, site.form(waiting)).status == 403
    assert site.post(waiting, site.form(waiting, decision="Rejected")).status == 303


def test_the_configuration_may_let_the_submitter_approve(site: Site, waiting: Waiting) -> None:
    site.configure(approvers=[{"name": "alex", "iam": ALEX}, {"name": "kim"}], excludeSubmitter=False)
    submitted(waiting, ALEX)
    assert site.post(waiting, site.form(waiting)).status == 303


def test_an_unknown_submitter_excludes_nobody_and_the_page_says_so(site: Site, waiting: Waiting) -> None:
    site.configure(approvers=[{"name": "alex", "iam": ALEX}, {"name": "kim"}])
    assert "four eyes is not enforced" in site.get(waiting).body
    assert site.post(waiting, site.form(waiting)).status == 303
