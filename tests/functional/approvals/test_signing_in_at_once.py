"""Two tabs that sign in side by side, and what an issuer may call somebody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.functional.approvals import signing_in
from tests.functional.approvals.conftest import Site
from tests.functional.approvals.signing_in import Liar, SignIn
from tests.functional.approvals.support import Waiting, decision_of, seed


@pytest.fixture
def liar() -> Iterator[Liar]:
    with signing_in.lying(Liar()) as found:
        yield found


@pytest.fixture
def waiting(site: Site) -> Waiting:
    return seed(site.s3, groups=("platform",))


@pytest.mark.parametrize("between", ["signs in", "is refused", "goes astray"])
def test_a_tab_comes_back_whatever_another_did(
    pages: SignIn, liar: Liar, waiting: Waiting, between: str
) -> None:
    """Two questions at once: the mails of two rollouts, each opened, then one sign-in after the other."""
    other = seed(pages.site.s3, cluster="other")
    pages.configure(liar.url)
    alex = pages.person()
    first, second = (
        liar.code_for(alex.get(f"/approvals/{rollout.name}").location) for rollout in (waiting, other)
    )
    strays = {
        "signs in": first,
        "is refused": {**first, "error": "access_denied"},
        "goes astray": {**first, "state": "x"},
    }
    assert alex.get(f"/callback?{urlencode(strays[between])}").status == (
        303 if between == "signs in" else 403
    )
    back = alex.get(f"/callback?{urlencode(second)}")
    assert (back.status, back.location) == (303, f"/approvals/{other.name}")
    assert 'data-state="open"' in alex.get(back.location).body


@pytest.mark.parametrize("claim", ["kim", "@", "kim@", "@kim", "a\nb@c.example", "x" * 250 + "@c.example", 5])
def test_a_claim_that_is_no_address_names_nobody(
    pages: SignIn, liar: Liar, waiting: Waiting, claim: Any
) -> None:
    """A member of a group whose user name is an approver's: nobody decides in that approver's name."""
    liar.changes = {"sub": "sub-new", "email": claim, "groups": ["platform"]}
    pages.configure(liar.url, groups=["platform"])
    member = pages.person()
    answer = liar.code_for(member.get(f"/approvals/{waiting.name}").location)
    page = member.get(member.get(f"/callback?{urlencode(answer)}").location)
    assert member.send("POST", f"/approvals/{waiting.name}", pages.form(page)).status == 303
    assert decision_of(waiting)["by"] == ["sub:sub-new"]
