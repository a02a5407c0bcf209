"""Answers an approval link as a person does: opens the page, fills in its form, sends it. No short cut."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import urllib3

_TIMEOUT = urllib3.Timeout(connect=5, read=30)


@dataclass
class _Form:
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)


class _Forms(HTMLParser):
    """Collects the page's forms: where each goes, what stands in its fields, which buttons it has."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[_Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(_Form(found.get("action", "")))
        elif tag == "input" and found.get("type", "text") not in ("submit", "radio", "checkbox"):
            self.forms[-1].fields[found.get("name", "")] = found.get("value", "")
        elif tag == "button" and self.forms:
            self.forms[-1].buttons.append(found.get("value", ""))


def approve(link: str, short_name: str, reason: str) -> None:
    """Approve at the link. Raises as ``answer`` does."""
    answer(link, short_name, reason, "Approved")


def answer(link: str, short_name: str, reason: str, decision: str) -> str:
    """Send the form of the page that has the button ``decision``: ``Approved``, ``Rejected``, ``Revoked`` or
    ``Acknowledged``.

    Returns
    -------
    str
        The page as it is then.

    Raises
    ------
    RuntimeError
        When the page has no such form, or does not take the answer; with its status.
    """
    http = urllib3.PoolManager(timeout=_TIMEOUT, retries=urllib3.Retry(3, redirect=0))
    page = http.request("GET", link)
    forms = _Forms()
    forms.feed(page.data.decode())
    form = next((found for found in forms.forms if decision in found.buttons), None)
    if page.status != 200 or form is None:
        raise RuntimeError(f"The approval page answers {page.status} and shows no form for {decision}.")
    fields = form.fields | {"shortName": short_name, "reason": reason, "decision": decision}
    site = urlsplit(link)
    sent = http.request(
        "POST",
        urljoin(link, form.action) if form.action else link,
        fields=fields,
        encode_multipart=False,
        redirect=False,
        headers={"Origin": f"{site.scheme}://{site.netloc}", "Sec-Fetch-Site": "same-origin"},
    )
    if sent.status not in (200, 303):
        raise RuntimeError(f"The approval page answers {sent.status} to the form: {sent.data.decode()[:500]}")
    return http.request("GET", link).data.decode()
