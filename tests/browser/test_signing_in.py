"""A person signs in at an OpenID provider on the phone, and approves; a session that ended loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from local.kube.tls import Tls
from tests.browser.conftest import PHONE, Browser
from tests.functional.approvals import signing_in
from tests.functional.approvals.conftest import Site
from tests.functional.approvals.support import Waiting, decision_of, seed

SESSION = "__Host-aicr-session"


@pytest.fixture
def pages(site: Site, tmp_path: Path) -> Iterator[signing_in.SignIn]:
    with signing_in.real_provider() as provider:
        front = signing_in.open_front(site.module.handler, tmp_path, Tls.self_signed().context())
        made = signing_in.SignIn(site, front.url.replace("http://", "https://"))
        made.configure(provider)
        yield made
        front.stop()
    signing_in.forget_issuer()


@pytest.fixture
def waiting(site: Site) -> Waiting:
    return seed(site.s3)


def wait_for(browser: Browser, condition: Callable[[], object]) -> None:
    WebDriverWait(browser.driver, 15, poll_frequency=0.05).until(lambda _: condition())


def at_the_provider(browser: Browser, subject: str) -> None:
    """Press the person's button; the browser comes back by itself."""
    find = f'button[name="sub"][value="{subject}"]'
    wait_for(browser, lambda: browser.driver.find_elements(By.CSS_SELECTOR, find))
    browser.driver.find_element(By.CSS_SELECTOR, find).click()


def field(browser: Browser, name: str) -> Any:
    return browser.driver.find_element(By.NAME, name)


def press(browser: Browser, decision: str) -> None:
    browser.driver.find_element(By.CSS_SELECTOR, f'button[value="{decision}"]').click()


def assert_accessible(browser: Browser) -> None:
    assert browser.violations() == []


def test_sign_in_on_a_phone_and_approve(browser: Browser, pages: signing_in.SignIn, waiting: Waiting) -> None:
    browser.looks(PHONE)
    link = f"{pages.url}/approvals/{waiting.name}"
    browser.driver.get(link)
    at_the_provider(browser, "sub-eve")
    wait_for(browser, lambda: "not an approver" in browser.driver.title)
    browser.picture("not-an-approver-phone-light")
    assert_accessible(browser)
    browser.driver.find_element(By.CSS_SELECTOR, "a.jump").click()
    at_the_provider(browser, "sub-alex")
    wait_for(browser, lambda: browser.state() == "open")
    assert browser.driver.current_url == link, "the same link for everybody, without a secret"
    browser.picture("signed-in-phone-light")
    assert_accessible(browser)
    cookies = {cookie["name"]: cookie for cookie in browser.driver.get_cookies()}
    session = cookies[SESSION]
    assert session["httpOnly"] and session["secure"] and session["sameSite"] == "Lax"
    assert browser.driver.execute_script("return document.cookie") == ""

    # The session ends while the form is filled in.
    field(browser, "reason").send_keys("Read every value")
    field(browser, "expiry").send_keys("2h")
    browser.driver.delete_cookie(SESSION)
    press(browser, "Approved")
    wait_for(browser, lambda: browser.state() == "signed-out")
    browser.picture("signed-out-phone-light")
    assert_accessible(browser)
    first = browser.driver.current_window_handle
    browser.driver.find_element(By.CSS_SELECTOR, "a.jump").click()
    wait_for(browser, lambda: len(browser.driver.window_handles) == 2)
    (second,) = set(browser.driver.window_handles) - {first}
    browser.driver.switch_to.window(second)
    at_the_provider(browser, "sub-alex")
    wait_for(browser, lambda: browser.state() == "open")
    browser.driver.close()
    browser.driver.switch_to.window(first)
    browser.driver.find_element(By.ID, "go-on").click()
    wait_for(browser, lambda: browser.state() == "open")
    assert field(browser, "reason").get_property("value") == "Read every value"
    assert field(browser, "expiry").get_property("value") == "2h"
    assert waiting.read("decision") is None
    press(browser, "Approved")
    wait_for(browser, lambda: browser.state() == "approved")
    decision = decision_of(waiting)
    assert decision["by"] == ["alex"] and decision["identity"] == "signed-in"
    assert decision["reason"] == "Read every value"


def test_a_scanner_without_a_session_decides_nothing(
    browser: Browser, pages: signing_in.SignIn, waiting: Waiting
) -> None:
    """It opens every address of ours, runs scripts, and presses every button of the page it is left with."""
    before = waiting.everything()
    link = f"{pages.url}/approvals/{waiting.name}"
    for path in (link, f"{link}?decision=Approved&reason=x", f"{pages.url}/login/{waiting.name}"):
        browser.driver.get(path)
        assert not browser.driver.current_url.startswith(pages.url), "it is at the issuer, and no further"
    browser.driver.get(f"{pages.url}/callback?state=x&code=y")
    # From a page of ours it can even send a form of its own making.
    for _ in range(2):
        browser.driver.execute_script(
            "const f = document.createElement('form'); f.method = 'post'; f.action = arguments[0];"
            "for (const [n, v] of [['decision', 'Approved'], ['reason', 'x'], ['nonce', ''], ['digest', '']])"
            " { const i = document.createElement('input'); i.name = n; i.value = v; f.append(i); }"
            "document.body.append(f); f.submit();",
            link,
        )
        wait_for(browser, lambda: browser.state() == "signed-out")
        browser.driver.find_element(By.ID, "go-on").click()
        wait_for(browser, lambda: browser.state() == "signed-out")
    assert waiting.everything() == before and pages.rows() == []
