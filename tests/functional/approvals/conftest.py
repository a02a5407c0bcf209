"""The real handler on moto's S3 and Secrets Manager, in this process."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from joserfc.jwk import RSAKey
from moto import mock_aws

from tests.functional.approvals.answers import fields
from tests.functional.approvals.support import (
    BASE_URL,
    CONTEXT,
    Waiting,
    config,
    event,
    forget,
    load_handler,
    make_stores,
    seed,
    settings,
)

if TYPE_CHECKING:
    from tests.functional.approvals.signing_in import Liar, SignIn


@dataclass
class Page:
    """What the API would answer."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def fields(self) -> dict[str, str]:
        return fields(self.body)

    @property
    def state(self) -> str:
        return self.body.partition('data-state="')[2].partition('"')[0]


@dataclass
class Site:
    """The pages, and the stores behind them."""

    s3: Any
    module: ModuleType
    folder: Path
    secret_arn: str
    monkeypatch: pytest.MonkeyPatch
    logs: io.StringIO

    def configure(self, **approvals: Any) -> None:
        """Deploy another configuration."""
        for name, value in settings(self.folder, BASE_URL, self.secret_arn, config(**approvals)).items():
            self.monkeypatch.setenv(name, value)
        forget()

    def send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> Page:
        host = {"host": urlsplit(BASE_URL).netloc}
        answer = self.module.handler(event(method, path, query, {**host, **(headers or {})}, body), CONTEXT)
        found = {**{k.lower(): v for k, v in answer.get("headers", {}).items()}}
        return Page(answer["statusCode"], found, answer.get("body") or "")

    def get(self, waiting: Waiting, approver: str = "alex", method: str = "GET", **query: str) -> Page:
        path = f"/approvals/{waiting.name}/{approver}"
        return self.send(method, path, {"s": waiting.secret(approver), **query})

    def form(self, waiting: Waiting, approver: str = "alex", **changes: str) -> dict[str, str]:
        """A good form, from the page itself."""
        page = self.get(waiting, approver)
        filled = {**page.fields, "reason": "Looks right", "shortName": waiting.short, "decision": "Approved"}
        return {name: value for name, value in {**filled, **changes}.items() if value != "(absent)"}

    def post(
        self,
        waiting: Waiting,
        form: dict[str, str],
        approver: str = "alex",
        *,
        headers: dict[str, str] | None = None,
        secret: str | None = None,
    ) -> Page:
        sent = {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
        path = f"/approvals/{waiting.name}/{approver}"
        query = {"s": waiting.secret(approver) if secret is None else secret}
        extra = {name: value for name, value in {**sent, **(headers or {})}.items() if value != "(absent)"}
        return self.send("POST", path, query, extra, urlencode(form).encode())

    def follow(self, page: Page) -> Page:
        assert page.status == HTTPStatus.SEE_OTHER, page.body
        target = urlsplit(page.headers["location"])
        assert not target.netloc, "the redirect stays where the form came from"
        return self.send("GET", target.path, dict(parse_qsl(target.query)))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with mock_aws():
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
        s3, secret_arn = make_stores()
        for name, value in settings(tmp_path, BASE_URL, secret_arn, config()).items():
            monkeypatch.setenv(name, value)
        forget()
        module = load_handler()
        logs = io.StringIO()
        catcher = logging.StreamHandler(logs)
        catcher.setFormatter(module.logger.registered_formatter)
        module.logger.addHandler(catcher)
        logging.getLogger().addHandler(catcher)
        yield Site(s3, module, tmp_path, secret_arn, monkeypatch, logs)
        module.logger.removeHandler(catcher)
        logging.getLogger().removeHandler(catcher)
        forget()


@pytest.fixture
def waiting(site: Site) -> Waiting:
    return seed(site.s3)


@pytest.fixture
def pages(site: Site, tmp_path: Path) -> Iterator[SignIn]:
    """The pages behind a front, for browsers that people sign in with."""
    from tests.functional.approvals import signing_in  # which needs ``Site``

    front = signing_in.open_front(site.module.handler, tmp_path)
    yield signing_in.SignIn(site, front.url)
    front.stop()
    signing_in.forget_issuer()


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The address of a real OpenID provider."""
    from tests.functional.approvals import signing_in

    with signing_in.real_provider() as url:
        yield url


@pytest.fixture(scope="module")
def key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})


@pytest.fixture
def liar(key: RSAKey) -> Iterator[Liar]:
    """A provider that says whatever a test wants."""
    from tests.functional.approvals import signing_in

    with signing_in.lying(signing_in.Liar(key=key)) as found:
        yield found
