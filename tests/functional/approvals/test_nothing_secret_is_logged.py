"""Logs and metrics hold neither link, nonce, address nor anything typed."""

from __future__ import annotations

import pytest

from tests.functional.approvals.conftest import Site
from tests.functional.approvals.support import KEY, Waiting


def test_logs_hold_nothing_secret(
    site: Site, waiting: Waiting, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Even where somebody switched event logging and debugging on.
    for name in ("POWERTOOLS_LOGGER_LOG_EVENT", "POWERTOOLS_DEV", "POWERTOOLS_DEBUG"):
        monkeypatch.setenv(name, "true")
    form = site.form(waiting, reason="a private reason", expiry="3h")
    site.post(waiting, {**form, "shortName": "typed-wrong"})
    site.post(waiting, form, secret="B" * 32)
    site.post(waiting, form, headers={"sec-fetch-site": "cross-site"})
    site.send("GET", f"/approvals/{waiting.name}/alex/more", {"s": waiting.secret()})
    site.post(waiting, form)
    site.s3.put_object(Bucket="ledger", Key=f"rollouts/{waiting.name}/decision.json", Body=b"{torn")
    assert site.get(waiting).status == 500
    captured = capfd.readouterr()
    text = site.logs.getvalue() + captured.out + captured.err
    assert "answered" in text and "decided" in text and "PlanUnreadable" in text, "the logs were captured"
    secret = [
        waiting.secret(),
        "B" * 32,
        form["nonce"],
        form["digest"],
        "a private reason",
        "typed-wrong",
        KEY,
    ]
    for word in (*secret, "/approvals/", "203.0.113.9", "{torn", "rawQueryString", "execute-api"):
        assert word not in text, word


def test_metrics_count_pages_and_decisions(
    site: Site, waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    site.post(waiting, site.form(waiting))
    out = capsys.readouterr().out
    assert '"DecisionsRecorded"' in out and '"ApprovalPages"' in out and waiting.secret() not in out
