"""Slack through real HTTP: what is sent, what its answers mean, and that secrets stay where they are."""

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from aicr_pipeline.adapters.http import Patience, Transport
from aicr_pipeline.adapters.slack import Slack, reader
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from tests.functional.actions.support import aws_error
from tests.functional.registry.fake import Fake, Reply, faking
from tests.unit.samples import refused

TOKEN = "xoxb-secret-token"
HOOK = "/services/T0/B0/secret-path"
OK = Reply(200, b'{"ok":true}')


@pytest.fixture
def fake() -> Iterator[Fake]:
    with faking() as made:
        yield made


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def slack(fake: Fake, slept: list[float]) -> Iterator[Slack]:
    host = fake.host
    transport = Transport(
        frozenset({host}), Patience(attempts=3, budget=10), sleep=slept.append, pick=lambda low, high: 0.0
    )
    yield Slack(
        transport,
        lambda: TOKEN,
        lambda: f"http://{host}{HOOK}",
        api=f"http://{host}/api",
        is_webhook=lambda url: url.startswith(f"http://{host}/services/"),
    )
    transport.close()


def sent(fake: Fake) -> list[dict[str, Any]]:
    return [json.loads(seen.body) for seen in fake.seen]


def test_a_direct_message_is_plain_and_unfurls_nothing(fake: Fake, slack: Slack) -> None:
    fake.on("POST /api/chat.postMessage", OK)
    slack.direct("U1", "a < b & c\nhttps://x.example/approvals/r/a?s=1")
    assert sent(fake) == [
        {
            "channel": "U1",
            "text": "a &lt; b &amp; c\nhttps://x.example/approvals/r/a?s=1",
            "mrkdwn": False,
            "unfurl_links": False,
            "unfurl_media": False,
        }
    ]
    assert fake.seen[0].headers["Authorization"] == f"Bearer {TOKEN}"


def test_a_channels_message_goes_to_the_webhook_without_the_bots_token(fake: Fake, slack: Slack) -> None:
    fake.on("POST /services/", Reply(200, b"ok"))
    slack.channel("hello")
    assert [seen.path for seen in fake.seen] == [HOOK]
    assert "Authorization" not in fake.seen[0].headers
    assert sent(fake)[0]["unfurl_links"] is False


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(200, b'{"ok":false,"error":"channel_not_found"}'), "channel_not_found"),
        (Reply(200, f'{{"ok":false,"error":"{TOKEN}"}}'.encode()), "status 200"),
        (Reply(200, b"<html>proxy</html>"), "status 200"),
        (Reply(200, b"[]"), "status 200"),
        (Reply(200, b'{"ok":"true"}'), "status 200"),
        (Reply(403, b'{"ok":true}'), "status 403"),
    ],
)
def test_what_slack_refuses_is_no_success(fake: Fake, slack: Slack, reply: Reply, said: str) -> None:
    fake.on("POST", reply)
    with refused(Reason.InvalidConfiguration, said) as caught:
        slack.direct("U1", "text")
    assert TOKEN not in str(caught.info.value)


def test_it_waits_as_long_as_slack_says(fake: Fake, slack: Slack, slept: list[float]) -> None:
    fake.on("POST", Reply(429, b"", {"Retry-After": "2"}), OK)
    slack.direct("U1", "text")
    assert slept == [2.0]


@pytest.mark.parametrize(
    "reply", [Reply(429, b"", {"Retry-After": "3600"}), Reply(503)], ids=["throttled", "down"]
)
def test_attempts_are_bounded_and_the_others_do_not_wait_again(
    fake: Fake, slack: Slack, slept: list[float], reply: Reply
) -> None:
    fake.on("POST", reply)
    for _ in range(3):
        with pytest.raises(PipelineError):
            slack.direct("U1", "text")
    assert len(fake.seen) <= 3
    assert sum(slept) < 10


def test_what_was_down_is_tried_again_by_a_later_run_of_the_same_process(fake: Fake, slack: Slack) -> None:
    """A process is kept warm by the clock, so it may live for hours."""
    now = [0.0]
    slack.monotonic = lambda: now[0]
    fake.on("POST", Reply(503), Reply(503), Reply(503), OK)
    with pytest.raises(PipelineError):
        slack.direct("U1", "text")
    now[0] = 59.0
    with pytest.raises(PipelineError):
        slack.direct("U2", "text")
    now[0] = 61.0
    slack.direct("U1", "text")
    assert len(fake.seen) == 4


def test_an_address_that_is_no_webhook_is_not_written_to_and_not_told(fake: Fake, slack: Slack) -> None:
    slack.webhook = lambda: f"http://{fake.host}/elsewhere/secret-path"
    with refused(Reason.InvalidConfiguration, "no https://hooks.slack.com/ address") as caught:
        slack.channel("hello")
    assert "secret-path" not in str(caught.info.value)
    assert fake.seen == []


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("https://hooks.slack.com/services/T0/B0/x", True),
        ("https://hooks.slack-gov.com/services/T0/B0/x", True),
        ("http://hooks.slack.com/services/T0/B0/x", False),
        ("https://hooks.slack.com.example.com/x", False),
        ("https://hooks.slack.com@example.com/x", False),
        ("https://hooks.slack.com/services/x?y", False),
    ],
)
def test_webhooks_are_slacks_and_tls(url: str, is_one: bool) -> None:
    assert Slack(Transport()).is_webhook(url) is is_one


def test_a_token_that_breaks_the_header_is_refused_unsent(fake: Fake, slack: Slack) -> None:
    slack.token = lambda: "xoxb-a\r\nX-Other: 1"
    with refused(Reason.InvalidConfiguration, "no token"):
        slack.direct("U1", "text")
    assert fake.seen == []


def test_secrets_are_read_once_and_named_when_they_cannot_be() -> None:
    class Secrets:
        asked = 0

        def get_secret_value(self, SecretId: str) -> dict[str, str]:
            self.asked += 1
            if SecretId == "none":
                raise aws_error("ResourceNotFoundException")
            return {"SecretString": " value\n"}

    secrets = Secrets()
    read = reader(secrets, "arn", "the bot's token")
    assert read is not None and read() == "value"
    assert reader(secrets, None, "the bot's token") is None
    broken = reader(secrets, "none", "the bot's token")
    assert broken is not None
    with refused(Reason.InvalidConfiguration, "ResourceNotFoundException"):
        broken()


def test_nothing_secret_is_logged_or_shown(
    fake: Fake, slack: Slack, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.on("POST /api", OK)
    fake.on("POST", Reply(404, HOOK.encode()))
    with caplog.at_level(logging.DEBUG):
        slack.direct("U1", "https://x.example/approvals/r/a?s=link-secret")
        with pytest.raises(PipelineError) as caught:
            slack.channel("text")
    out = capfd.readouterr()
    kept = "\n".join(record.getMessage() for record in caplog.records)
    text = kept + out.out + out.err + str(caught.value) + repr(slack)
    for secret in (TOKEN, "secret-path", "link-secret"):
        assert not re.search(re.escape(secret), text), secret
