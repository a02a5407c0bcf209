"""What the pages answer: their form as a browser reads it, their headers, and refusals."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from tests.functional.approvals.support import Waiting


class _Fields(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self.area = ""
        self._in_area = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "textarea":
            self._in_area = True
        elif tag == "input" and (found.get("type") != "radio" or "checked" in found):
            self.values[str(found["name"])] = found.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._in_area = False

    def handle_data(self, data: str) -> None:
        if self._in_area:
            self.area += data


def fields(page: str) -> dict[str, str]:
    """The form of a page as a browser would send it, without the button."""
    parser = _Fields()
    parser.feed(page)
    # A browser drops the first line end of a textarea.
    return {**parser.values, "reason": re.sub(r"\A\n", "", parser.area)} if parser.values else {}


def assert_headers(headers: dict[str, str], body: str) -> None:
    """What every answer of the pages has, whatever it says."""
    policy = headers["content-security-policy"]
    found = re.fullmatch(
        r"default-src 'none'; style-src 'nonce-([\w-]{20,})'; form-action 'self'; frame-ancestors 'none'; "
        r"base-uri 'none'",
        policy,
    )
    assert found, policy
    if body:
        assert f'<style nonce="{found[1]}">' in body
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["strict-transport-security"].startswith("max-age=63072000")
    assert headers["content-type"] == "text/html; charset=utf-8"


def refused(waiting: Waiting, page: Any, status: int, words: str) -> None:
    assert (page.status, words in page.body) == (status, True), (page.status, page.body)
    assert waiting.read("decision") is None
    assert not any("/decisions/" in key for key in waiting.written())
