"""Debian's Chromium over its own chromedriver, and a loopback front of the real handler."""

from __future__ import annotations

import base64
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from tests.functional.approvals.conftest import Site, site
from tests.functional.approvals.support import CONTEXT, ROOT, Waiting, event
from tests.npm import installed

__all__ = ["site"]

CHROMIUM, CHROMEDRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
)  # fmt: skip
PHONE = (390, 844)
WIDE = (1200, 900)


@dataclass
class Front:
    """The pages over HTTP."""

    url: str
    requests: list[tuple[str, dict[str, str], int]]

    def link(self, waiting: Waiting, approver: str = "alex") -> str:
        return f"{self.url}/approvals/{waiting.name}/{approver}?s={waiting.secret(approver)}"


@dataclass
class Browser:
    """A window of a size and colour scheme, and its pictures."""

    driver: webdriver.Chrome

    def looks(self, size: tuple[int, int] = PHONE, scheme: str = "light") -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": size[0], "height": size[1], "deviceScaleFactor": 2, "mobile": size == PHONE},
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, name: str) -> None:
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        folder = ROOT / "out" / "approval-pages"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))

    def violations(self) -> list[Any]:
        """What axe finds on the page, of WCAG 2.2 AA and of good practice."""
        self.driver.execute_script((installed("axe-core", "4.14.1") / "axe.min.js").read_text())
        found: list[Any] = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
            ".then(r => done(r.violations.map("
            "v => [v.id, v.nodes.map(n => n.html + ' ' + n.failureSummary)])));"
        )
        return found

    def state(self) -> str:
        # In one round trip: between two, the page may be another one.
        script = "return document.querySelector('[data-state]')?.dataset.state ?? ''"
        return str(self.driver.execute_script(script))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if not (CHROMIUM.exists() and CHROMEDRIVER.exists()):
        pytest.skip(f"{CHROMIUM} or {CHROMEDRIVER} is missing: apt-get install chromium chromium-driver")
    profile = tmp_path_factory.mktemp("chromium")
    options = Options()
    options.binary_location = str(CHROMIUM)
    options.accept_insecure_certs = True  # of loopback, where cookies that are Secure need TLS
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(str(CHROMEDRIVER)))
    driver.set_page_load_timeout(30)
    yield driver
    driver.quit()
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def browser(chromium: webdriver.Chrome) -> Browser:
    chromium.get("about:blank")
    found = Browser(chromium)
    found.looks()
    return found


@pytest.fixture
def front(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    seen: list[tuple[str, dict[str, str], int]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(site.module.handler, seen))
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("APPROVAL_URL", url)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,))
    thread.start()
    yield Front(url, seen)
    server.shutdown()
    server.server_close()
    thread.join(timeout=10)


def _handler_class(
    handler: Callable[[dict[str, Any], Any], dict[str, Any]], seen: list[tuple[str, dict[str, str], int]]
) -> type[BaseHTTPRequestHandler]:
    one_at_a_time = threading.Lock()  # as a Lambda process is invoked

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            asked = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            length = int(headers.get("content-length", "0"))
            body = self.rfile.read(length) if length else None
            with one_at_a_time:
                made = event(self.command, asked.path, dict(parse_qsl(asked.query)), headers, body)
                answer = handler(made, CONTEXT)
                seen.append((self.command, headers, answer["statusCode"]))
            content = (answer.get("body") or "").encode()
            self.send_response(answer["statusCode"])
            for name, value in answer["headers"].items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_HEAD = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

    return Handler
