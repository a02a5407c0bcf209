"""Messages to Slack: a bot's direct message to a person, or a webhook of one channel.

The token and the webhook's address are secrets of Secrets Manager; neither stands in a message or a log.
A message is plain: a link with a secret must not be unfurled, which would open it, nor formatted.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from aicr_pipeline.adapters.aws import error_code
from aicr_pipeline.adapters.http import (
    Answer,
    Counters,
    Patience,
    ThrottledError,
    Transport,
    UnreachableError,
)
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

API = "https://slack.com/api"
_WEBHOOKS = re.compile(r"^https://hooks\.slack(-gov)?\.com/[A-Za-z0-9/_-]+$")
#: Slack's own names for what is wrong with a call, such as ``channel_not_found``.
_CODE = re.compile(r"^[a-z_]{1,64}$")
_MOST_ANSWER = 64 * 1024
#: A whole rollout's question waits for it, and the function has a minute.
PATIENCE = Patience(attempts=3, base=0.3, longest=3.0, budget=12.0, connect=3.0, read=8.0)
#: So long the others of one run are not kept waiting for what just failed; a process outlives many runs.
DOWN_SECONDS = 60.0


def reader(secretsmanager: Any, arn: str | None, what: str) -> Callable[[], str] | None:
    """How a secret that holds nothing but one text is read; None without an ARN.

    The reader raises PipelineError ``InvalidConfiguration`` when it cannot be read.
    """
    if arn is None:
        return None

    def read() -> str:
        try:
            return str(secretsmanager.get_secret_value(SecretId=arn).get("SecretString", "")).strip()
        except (ClientError, BotoCoreError) as error:
            raise PipelineError(
                Reason.InvalidConfiguration,
                f"Reading {what} from {arn} failed ({error_code(error) or type(error).__name__}).",
            ) from None

    return read


@dataclass
class Slack:
    """One workspace.

    Parameters
    ----------
    token, webhook:
        Read what is secret when it is first needed, and once; None where the configuration has none.
    api:
        Where the Web API is; ``is_webhook`` says which addresses a webhook may have.
    """

    transport: Transport
    token: Callable[[], str] | None = None
    webhook: Callable[[], str] | None = None
    api: str = API
    is_webhook: Callable[[str], bool] = lambda url: _WEBHOOKS.match(url) is not None
    monotonic: Callable[[], float] = time.monotonic
    _down: tuple[float, PipelineError] | None = field(default=None, init=False, repr=False)
    _read: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def direct(self, user: str, text: str) -> None:
        """Write to a person as the bot (scope ``chat:write``).

        Raises
        ------
        PipelineError
            With Slack's own word for what is wrong, or when it cannot be reached. After that the others
            are not waited for again, for a minute.
        """
        doing = f"Writing to {user} in Slack"
        token = self._secret("token", self.token, doing)
        if not re.fullmatch(r"[\x21-\x7e]+", token):
            raise PipelineError(
                Reason.InvalidConfiguration, f"{doing}: the secret of botTokenSecretArn is no token."
            )
        body = _plain(text) | {"channel": user}
        headers = {"Authorization": f"Bearer {token}"}
        answer = self._post(f"{self.api}/chat.postMessage", body, headers, doing)
        said = _json(answer.read(_MOST_ANSWER))
        if answer.status != 200 or said.get("ok") is not True:
            # Slack answers 200 to what it refuses.
            code = str(said.get("error", ""))
            why = code if _CODE.match(code) else f"status {answer.status}"
            raise PipelineError(Reason.InvalidConfiguration, f"{doing} was refused: {why}.")

    def channel(self, text: str) -> None:
        """Write to the webhook's channel, where everybody reads it: no secret may be in the text.

        Raises
        ------
        PipelineError
            As ``direct`` does.
        """
        doing = "Writing to the channel of webhookSecretArn"
        url = self._secret("webhook", self.webhook, doing)
        if not self.is_webhook(url):
            # Not the address itself: it is what lets anybody write.
            raise PipelineError(
                Reason.InvalidConfiguration, f"{doing}: the secret holds no https://hooks.slack.com/ address."
            )
        answer = self._post(url, _plain(text), {}, doing)
        answer.discard()
        if answer.status != 200:
            raise PipelineError(Reason.InvalidConfiguration, f"{doing} was refused: status {answer.status}.")

    def _secret(self, name: str, read: Callable[[], str] | None, doing: str) -> str:
        if read is None:
            raise PipelineError(
                Reason.InvalidConfiguration, f"{doing}: approvals.slack does not name its secret."
            )
        if name not in self._read:
            self._read[name] = read()
        return self._read[name]

    def _post(self, url: str, body: Mapping[str, Any], headers: Mapping[str, str], doing: str) -> Answer:
        if self._down is not None and self.monotonic() < self._down[0] + DOWN_SECONDS:
            raise self._down[1]
        try:
            return self.transport.send(
                "POST",
                url,
                doing=doing,
                counters=Counters(),
                headers={"Content-Type": "application/json; charset=utf-8", **headers},
                body=json.dumps(body).encode(),
            )
        except (UnreachableError, ThrottledError) as error:
            self._down = (self.monotonic(), error)
            raise


def _plain(text: str) -> dict[str, Any]:
    """What Slack shows as it stands: three characters begin its own markup."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}


def _json(body: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(body or b"")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
