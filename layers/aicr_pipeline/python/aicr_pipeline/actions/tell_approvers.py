"""One message to each approver, by every way the configuration names; what became of each is recorded."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from aicr_pipeline.adapters.aws import error_code
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.clock import Clock, rfc3339
from aicr_pipeline.decide.approval import approval_url, link_secret, signed_in_url
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.reasons import Reason

if TYPE_CHECKING:  # with it comes an HTTP client, which most clusters do not need here
    from aicr_pipeline.adapters.slack import Slack

MESSAGE_FAILED = "Message Failed"
#: So often a state is tried again when not one message was taken; then it waits.
MOST_RETRIES = 3

#: An approver's own message; of None, the one for a channel.
Letters = Callable[[str | None], str]


@dataclass(frozen=True)
class Delivery:
    """What became of one message; ``to`` is an approver or ``channel``, ``error`` None when it was taken."""

    to: str
    way: str
    error: str | None = None


@dataclass(frozen=True)
class Ways:
    """Everything that carries messages. ``failed`` is told of each that was not taken."""

    notifier: Notifier
    slack: "Slack | None"
    bus: Bus
    failed: Callable[[Delivery], None] = lambda delivery: None


def tell(
    ways: Ways, config: ClusterConfig, approvers: Iterable[str], subject: str, letter: Letters
) -> tuple[Delivery, ...]:
    """Write to each of ``approvers``, and to the channel if there is one; one that fails stops no other."""
    return tuple(
        Delivery(to, way, _error(send))
        for to, way, send in _messages(ways, config, approvers, subject, letter)
    )


def letters(
    config: ClusterConfig, key: bytes, base_url: str, rollout: str, text: Callable[[str], str]
) -> Letters:
    """Each approver's message around their own link; only identity ``link`` puts a secret into it.

    A channel's message with a secret is refused with ``InvalidConfiguration``.
    """

    def letter(approver: str | None) -> str:
        if config.approvals.identity == "signed-in":
            return text(signed_in_url(base_url, rollout))
        if approver is None:
            raise PipelineError(
                Reason.InvalidConfiguration,
                "approvals.slack.webhookSecretArn: everybody in the channel could use the link's secret.",
            )
        return text(approval_url(base_url, rollout, approver, link_secret(key, rollout, approver)))

    return letter


def record(
    ways: Ways,
    ledger: Ledger,
    rollout: str,
    kind: str,
    name: str,
    deliveries: Iterable[Delivery],
    clock: Clock,
) -> None:
    """Keep who was written to by which way; count and announce each failure."""
    found = list(deliveries)
    for delivery in found:
        if delivery.error is not None:
            ways.failed(delivery)
            ways.bus.announce(MESSAGE_FAILED, {"rollout": rollout, "kind": kind, **asdict(delivery)})
    body = {"kind": kind, "at": rfc3339(clock()), "messages": [asdict(delivery) for delivery in found]}
    ledger.put_once(messages_key(rollout, name), json.dumps(body, sort_keys=True).encode())


@dataclass(frozen=True)
class Message:
    """One message about a rollout to several people, each with their own link.

    ``kind`` is ``request`` or ``hold``; ``name`` is that of its record; ``about`` is the reason for waiting.
    """

    rollout: str
    kind: str
    name: str
    about: Reason
    people: tuple[str, ...]
    subject: str
    letter: Letters


def tell_or_try_again(
    message: Message, ways: Ways, config: ClusterConfig, ledger: Ledger, retries: int, clock: Clock
) -> None:
    """Write to each of ``people`` and keep what became of it. What is kept under its name is not sent again.

    Raises
    ------
    TransientError
        When not one message was taken, so that the state is tried again; after MOST_RETRIES the wait goes
        on all the same: page and status show it.
    """
    rollout, name = message.rollout, message.name
    if ledger.get(messages_key(rollout, name)) is not None:
        return
    deliveries = tell(ways, config, message.people, message.subject, message.letter)
    missed = bool(deliveries) and all(delivery.error for delivery in deliveries)
    again = missed and retries < MOST_RETRIES
    record(ways, ledger, rollout, message.kind, f"{name}-{retries}" if again else name, deliveries, clock)
    if again:
        raise TransientError(
            message.about,
            f"Not one message ({message.kind}) about rollout {rollout} was taken: {deliveries[0].error}. It "
            "is tried again.",
        )


def tell_everybody(bus: Bus, notifier: Notifier, subject: str, text: str, **about: str) -> None:
    """The same text to every approver, where nothing waits for an answer.

    Somebody whose topic takes nothing keeps nobody from being told, and nobody is told twice for it: that is
    the event ``Message Failed``. Raises what SNS said when nobody could be told.
    """
    for to, error in notifier.send_all(subject, text).items():
        if error is not None:
            with suppress(PipelineError, ClientError, BotoCoreError):  # the others are told already
                bus.announce(MESSAGE_FAILED, {**about, "to": to, "way": "topic", "error": error})


def messages_key(rollout: str, name: str) -> str:
    """``rollouts/<rollout>/messages/<name>.json``."""
    return f"rollouts/{rollout}/messages/{name}.json"


def _messages(
    ways: Ways, config: ClusterConfig, approvers: Iterable[str], subject: str, letter: Letters
) -> Iterator[tuple[str, str, Callable[[], None]]]:
    users = {approver.name: approver.slack for approver in config.approvals.approvers}
    for name in approvers:
        text = letter(name)
        if name in ways.notifier.topics:
            yield name, "topic", partial(ways.notifier.send, name, subject, text)
        user = users.get(name)
        if user is not None and ways.slack is not None:
            yield name, "slack", partial(ways.slack.direct, user, text)
    slack = config.approvals.slack
    if ways.slack is not None and slack is not None and slack.webhook_secret_arn is not None:
        yield "channel", "slack", partial(_to_channel, ways.slack, letter)


def _to_channel(slack: "Slack", letter: Letters) -> None:
    slack.channel(letter(None))


def _error(send: Callable[[], None]) -> str | None:
    """Run one; what went wrong, in words that hold neither address nor text."""
    try:
        send()
    except PipelineError as error:
        return error.message[:500]
    except (ClientError, BotoCoreError) as error:
        return error_code(error) or type(error).__name__
    return None
