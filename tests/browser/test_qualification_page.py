"""The page that the qualification's command writes, as a file in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aicr_pipeline.qualification import main
from selenium.webdriver.common.by import By

from tests.browser.conftest import PHONE, WIDE, Browser
from tests.unit.qualified import PIPELINE, RUNNING, TUPLE, bare, put_bound, put_evidence, qualified, seal
from tests.unit.samples import sha


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Stale by three rows, with evidence that is ignored, a release that differs, and a hostile name."""
    folder = qualified(tmp_path)
    changed = PIPELINE.model_copy(update={"functions": PIPELINE.functions | {"check_gate": sha("rebuilt")}})
    (folder / "running.json").write_text(json.dumps(RUNNING.model_copy(update={"pipeline": changed}).wire()))
    hostile = bare()
    hostile["predicate"]["tuple"] = TUPLE.wire() | {
        "fabrics": ["<img src=x onerror=alert(1)>"],
        "kernels": ["x"],
    }
    hostile["predicate"]["boundAt"] = "2026-01-02T10:00:00.000Z"
    put_bound(folder, seal(hostile))
    put_evidence(folder, b"{}")
    monkeypatch.chdir(folder)
    arguments = ["--from", ".", "--key", "key.der", "--release", "release.json", "--html", "page.html"]
    assert main(arguments) == 1
    capsys.readouterr()
    return folder / "page.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_stands_alone_and_is_accessible(browser: Browser, page: Path, scheme: str) -> None:
    browser.looks(PHONE if scheme == "light" else WIDE, scheme)
    browser.driver.get(page.as_uri())
    assert browser.state() == "stale"
    headings = [one.text for one in browser.driver.find_elements(By.CSS_SELECTOR, "h3")]
    assert [one.partition(":")[0] for one in headings] == [
        "Any rebuild of the operator image or chart, or a changed manifest",
        "The profile's hardware or software tuple",
    ]
    differs = browser.driver.find_elements(By.CSS_SELECTOR, "[data-check=differs]")
    assert [one.text.splitlines()[:2] for one in differs] == [["function check_gate", "differs"]]
    loaded = "return performance.getEntriesByType('resource').map(e => e.name)"
    assert browser.driver.execute_script(loaded) == [], "nothing is loaded from anywhere"
    assert browser.driver.find_elements(By.CSS_SELECTOR, "script, img") == []
    wide = "return document.documentElement.scrollWidth > window.innerWidth"
    assert not browser.driver.execute_script(wide), "nothing is cut off"
    browser.picture(f"qualification-{scheme}")
    assert browser.violations() == []
