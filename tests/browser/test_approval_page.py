"""A person approves on a phone, with a keyboard, at night; a scanner does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.assess import request_digest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.conftest import PHONE, WIDE, Browser, Front
from tests.functional.approvals.conftest import Site
from tests.functional.approvals.support import Waiting, decision_of, hold, seed, started


@pytest.fixture
def waiting(site: Site) -> Waiting:
    return seed(site.s3)


def wait_for(browser: Browser, condition: Callable[[], object]) -> None:
    WebDriverWait(browser.driver, 15, poll_frequency=0.05).until(lambda _: condition())


def field(browser: Browser, name: str) -> Any:
    return browser.driver.find_element(By.NAME, name)


def press(browser: Browser, decision: str) -> None:
    browser.driver.find_element(By.CSS_SELECTOR, f'button[value="{decision}"]').click()


def test_approve_on_a_phone(browser: Browser, front: Front, waiting: Waiting) -> None:
    link = front.link(waiting)
    browser.driver.get(link)
    assert browser.state() == "open"
    browser.picture("open-phone-light")
    width = browser.driver.execute_script("return document.documentElement.scrollWidth")
    assert width <= PHONE[0], "nothing scrolls sideways"
    browser.driver.find_element(By.CSS_SELECTOR, 'input[value="Planned maintenance"]').click()
    field(browser, "expiry").send_keys("2h")
    field(browser, "shortName").send_keys(waiting.short)
    press(browser, "Approved")
    wait_for(browser, lambda: browser.state() == "approved")
    browser.picture("approved-phone-light")
    assert browser.driver.current_url == link, "the same link shows the true state"
    assert decision_of(waiting)["reason"] == "Planned maintenance"
    _, headers, status = next(seen for seen in front.requests if seen[0] == "POST")
    assert status == 303
    assert headers["sec-fetch-site"] == "same-origin" and headers["origin"] == front.url, "never null"


def test_approve_with_the_keyboard_only(browser: Browser, front: Front, waiting: Waiting) -> None:
    browser.looks(WIDE)
    browser.driver.get(front.link(waiting))

    def focused() -> Any:
        return browser.driver.switch_to.active_element

    order: list[str] = []

    def tab_to(wanted: Callable[[Any], bool]) -> Any:
        for _ in range(40):
            focused().send_keys(Keys.TAB)
            element = focused()
            order.append(element.get_attribute("name") or element.tag_name)
            if wanted(element):
                return element
        raise AssertionError(f"the keyboard does not get there: {order}")

    summary = tab_to(lambda e: e.tag_name == "summary")
    summary.send_keys(Keys.ENTER)
    assert browser.driver.find_element(By.CSS_SELECTOR, "details[open] pre").is_displayed()
    browser.picture("values-wide-light")
    tab_to(lambda e: e.get_attribute("name") == "preset").send_keys(Keys.ARROW_UP)
    tab_to(lambda e: e.get_attribute("name") == "reason").send_keys("read every value")
    tab_to(lambda e: e.get_attribute("name") == "shortName").send_keys(waiting.short)
    focused().send_keys(Keys.ENTER)
    assert browser.state() == "open" and waiting.read("decision") is None, "Enter in a field decides nothing"
    tab_to(lambda e: e.get_attribute("value") == "Approved").send_keys(Keys.SPACE)
    wait_for(browser, lambda: browser.state() == "approved")
    assert decision_of(waiting)["reason"] == "The changes need more review: read every value"
    inputs = [name for name in order if name in ("preset", "reason", "expiry", "shortName", "decision")]
    assert inputs == ["preset", "reason", "expiry", "shortName", "decision"]


def test_reject(browser: Browser, front: Front, waiting: Waiting) -> None:
    browser.driver.get(front.link(waiting))
    field(browser, "reason").send_keys("Not while the\ntraining run is on")
    field(browser, "shortName").send_keys(waiting.short)
    press(browser, "Rejected")
    wait_for(browser, lambda: browser.state() == "rejected")
    browser.picture("rejected-phone-light")
    assert decision_of(waiting)["decision"] == "Rejected"
    assert decision_of(waiting)["reason"] == "Not while the\ntraining run is on"


def test_a_refused_form_keeps_what_was_typed(browser: Browser, front: Front, waiting: Waiting) -> None:
    browser.driver.get(front.link(waiting))
    field(browser, "reason").send_keys("\nTwo lines,\n<b>kept</b>")
    field(browser, "expiry").send_keys("9d")
    field(browser, "shortName").send_keys("something else")
    press(browser, "Approved")
    wait_for(browser, lambda: browser.driver.find_elements(By.CSS_SELECTOR, "[role=alert]"))
    browser.picture("refused-phone-light")
    assert browser.driver.title.startswith("Not sent: ")
    assert field(browser, "reason").get_property("value") == "\nTwo lines,\n<b>kept</b>"
    assert field(browser, "expiry").get_property("value") == "9d"
    active = browser.driver.switch_to.active_element
    assert active.get_attribute("role") == "alert", "reading goes on where the problem is told"
    active.send_keys(Keys.TAB)
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(browser, lambda: browser.driver.current_url.endswith("#expiry"))
    field(browser, "expiry").clear()
    field(browser, "shortName").clear()
    field(browser, "shortName").send_keys(waiting.short)
    assert waiting.read("decision") is None
    press(browser, "Approved")
    wait_for(browser, lambda: browser.state() == "approved")


def test_a_double_click_is_one_decision(browser: Browser, front: Front, waiting: Waiting) -> None:
    browser.driver.get(front.link(waiting))
    field(browser, "reason").send_keys("once")
    field(browser, "shortName").send_keys(waiting.short)
    browser.driver.execute_script(
        "const b = document.querySelector('button[value=Approved]'); b.click(); b.click();"
    )
    wait_for(browser, lambda: browser.state() == "approved")
    assert [key for key in waiting.written() if "decision" in key] == [
        f"rollouts/{waiting.name}/decision.json"
    ]


def test_a_double_click_in_two_tabs_is_one_decision(browser: Browser, front: Front, waiting: Waiting) -> None:
    first = browser.driver.current_window_handle
    browser.driver.get(front.link(waiting))
    browser.driver.switch_to.new_window("tab")
    try:
        browser.driver.get(front.link(waiting))
        for reason in ("the second tab", "the first tab"):
            field(browser, "reason").send_keys(reason)
            field(browser, "shortName").send_keys(waiting.short)
            press(browser, "Approved")
            wait_for(browser, lambda: browser.state() == "approved")
            once = decision_of(waiting)
            assert once["reason"] == "the second tab"
            if reason == "the second tab":
                browser.driver.close()
                browser.driver.switch_to.window(first)
    finally:
        browser.driver.switch_to.window(first)
    assert [status for method, _, status in front.requests if method == "POST"] == [303, 303]


def test_revoke_while_it_runs(browser: Browser, front: Front, waiting: Waiting) -> None:
    waiting.decide("Approved")
    started(waiting, 2, "gpu-operator")
    browser.driver.get(front.link(waiting))
    assert browser.state() == "approved"
    browser.picture("running-phone-light")
    browser.driver.find_element(By.PARTIAL_LINK_TEXT, "Stop this rollout").click()
    browser.driver.find_element(By.CSS_SELECTOR, 'input[value="It should wait"]').click()
    field(browser, "shortName").send_keys(waiting.short)
    press(browser, "Revoked")
    wait_for(browser, lambda: browser.state() == "revoked")
    browser.picture("revoked-running-phone-light")
    text = browser.driver.find_element(By.TAG_NAME, "main").text
    assert "Step 2 of 5, gpu-operator" in text and "not torn down" in text
    found = waiting.read("revocation")
    assert found is not None and (found["by"], found["reason"]) == ("alex", "It should wait")
    assert browser.driver.find_elements(By.TAG_NAME, "form") == []


def test_acknowledge_with_the_keyboard_while_it_waits(browser: Browser, front: Front, site: Site) -> None:
    held = hold(site.s3)
    browser.driver.get(front.link(held))
    browser.picture("held-phone-light")
    width = browser.driver.execute_script("return document.documentElement.scrollWidth")
    assert width <= PHONE[0], "nothing scrolls sideways"
    text = browser.driver.find_element(By.ID, "held").text
    assert "Step 2 of 5 waits: gpu-operator" in text and "Drain the queue." in text
    card = browser.driver.find_element(By.ID, "held")
    card.find_element(By.NAME, "reason").send_keys("Drained it")
    card.find_element(By.NAME, "shortName").send_keys(held.short, Keys.TAB, Keys.ENTER)
    wait_for(browser, lambda: not browser.driver.find_elements(By.ID, "held"))
    found = held.read("acknowledgements/gpu-operator")
    assert found is not None and (found["by"], found["reason"]) == ("alex", "Drained it")
    assert browser.state() == "approved"


def test_what_is_asked_changed_meanwhile(browser: Browser, front: Front, waiting: Waiting) -> None:
    browser.driver.get(front.link(waiting))
    field(browser, "reason").send_keys("kept")
    field(browser, "shortName").send_keys(waiting.short)
    deadline = rfc3339(waiting.deadline + timedelta(hours=1))
    digest = request_digest(waiting.report, deadline)
    waiting.put("rollout", waiting.rollout.model_copy(update={"deadline": deadline}))
    changed = waiting.request.model_copy(update={"digest": digest, "deadline": deadline})
    waiting.put("request", changed)
    press(browser, "Approved")
    wait_for(browser, lambda: browser.driver.find_elements(By.CSS_SELECTOR, "[role=alert]"))
    browser.picture("superseded-digest-phone-light")
    assert front.requests[-1][2] == 409 and waiting.read("decision") is None
    assert field(browser, "reason").get_property("value") == "kept"
    press(browser, "Approved")
    wait_for(browser, lambda: browser.state() == "approved")
    assert decision_of(waiting)["requestDigest"] == digest


def test_our_own_page_with_a_null_origin_is_still_our_own(
    browser: Browser, front: Front, waiting: Waiting
) -> None:
    """As with an extension that takes the referrer away: Fetch Metadata says whose form it is."""
    browser.driver.get(front.link(waiting))
    browser.driver.execute_script(
        "const m = document.createElement('meta'); m.name = 'referrer'; m.content = 'no-referrer';"
        "document.head.append(m);"
    )
    field(browser, "reason").send_keys("no referrer")
    field(browser, "shortName").send_keys(waiting.short)
    press(browser, "Approved")
    wait_for(browser, lambda: browser.state() == "approved")
    _, headers, status = next(seen for seen in front.requests if seen[0] == "POST")
    assert (headers["origin"], headers["sec-fetch-site"], status) == ("null", "same-origin", 303)


def test_a_scanner_that_presses_everything_decides_nothing(
    browser: Browser, front: Front, waiting: Waiting
) -> None:
    before = waiting.everything()
    browser.driver.get(front.link(waiting))
    count = len(browser.driver.find_elements(By.CSS_SELECTOR, "a, button, summary, input"))
    for number in range(count):
        browser.driver.get(front.link(waiting))
        # Even one that takes what the browser itself would refuse out of the way.
        browser.driver.execute_script(
            "document.querySelector('form').noValidate = true;"
            "document.querySelectorAll('a, button, summary, input')[arguments[0]].click();",
            number,
        )
    browser.driver.get(front.link(waiting))
    assert browser.state() == "open" and waiting.everything() == before
    assert {status for method, _, status in front.requests if method == "POST"} == {422}


def test_another_sites_form_is_refused(browser: Browser, front: Front, waiting: Waiting) -> None:
    link = front.link(waiting)
    browser.driver.get("data:text/html,<form method=post><input name=decision value=Approved></form>")
    browser.driver.execute_script(
        "const f = document.querySelector('form'); f.action = arguments[0]; f.submit();", link
    )
    wait_for(browser, lambda: "Nothing was recorded" in browser.driver.title)
    assert front.requests[-1][2] == 403 and waiting.read("decision") is None
    browser.picture("cross-site-phone-light")


def test_the_page_works_under_its_own_policy(browser: Browser, front: Front, waiting: Waiting) -> None:
    browser.driver.get(front.link(waiting))
    said = [entry["message"] for entry in browser.driver.get_log("browser")]  # type: ignore[no-untyped-call]
    assert not [line for line in said if "Content Security Policy" in line and "favicon" not in line], said
    background = browser.driver.execute_script(
        "return getComputedStyle(document.querySelector('.approve')).backgroundColor"
    )
    assert background == "rgb(15, 106, 49)", "the style was let in"


def test_targets_are_large_enough(browser: Browser, front: Front, waiting: Waiting) -> None:
    browser.driver.get(front.link(waiting))
    small = browser.driver.execute_script(
        "return [...document.querySelectorAll('a, button, summary, input:not([type=hidden]), textarea')]"
        ".filter(e => e.offsetParent).map(e => e.type === 'radio' ? e.closest('label') : e)"
        ".filter(e => e.getBoundingClientRect().height < 44).map(e => e.outerHTML)"
    )
    assert small == []


STATES = ("open", "refused", "approved", "held", "rejected", "expired", "failed", "succeeded", "revoked",
          "superseded", "not-found")  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_every_page_is_accessible(
    browser: Browser, front: Front, site: Site, state: str, scheme: str
) -> None:
    waiting = seed(site.s3, left=timedelta(seconds=-5) if state == "expired" else timedelta(hours=6))
    if state in ("approved", "rejected"):
        waiting.decide(state.capitalize())
    if state in ("failed", "succeeded", "revoked", "superseded"):
        waiting.decide("Approved")
        reasons = {"succeeded": "RolledOut", "revoked": "RolloutRevoked", "superseded": "RolloutSuperseded"}
        reason = reasons.get(state, "RolloutFailed")
        waiting.end(state.capitalize(), reason, "step 2/5 gpu-operator (Upgrade): the sync failed: timed out")
    if state == "held":
        waiting = hold(site.s3)
    browser.looks(PHONE, scheme)
    link = front.link(waiting)
    browser.driver.get(link[:-1] if state == "not-found" else link)
    if state == "refused":
        browser.driver.execute_script("document.querySelector('form').noValidate = true")
        press(browser, "Approved")
        wait_for(browser, lambda: browser.driver.find_elements(By.CSS_SELECTOR, "[role=alert]"))
    elif state != "not-found":
        assert browser.state() == ("approved" if state == "held" else state)
    browser.driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.picture(f"{state}-phone-{scheme}")
    assert browser.violations() == []
