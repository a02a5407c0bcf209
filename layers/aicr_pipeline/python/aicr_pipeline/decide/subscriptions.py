"""Whether a message can reach an approver, from what SNS lists for their topic."""

from collections.abc import Iterable
from dataclasses import dataclass

from aicr_pipeline.model.approvers import Approver


@dataclass(frozen=True)
class Subscription:
    """One of a topic's. ``confirmed`` is False while AWS waits for the person to follow its link."""

    endpoint: str
    confirmed: bool


@dataclass(frozen=True)
class Reachability:
    """``why`` is ``""`` for who can be reached."""

    approver: str
    why: str

    @property
    def reachable(self) -> bool:
        """Whether one way at least is there."""
        return not self.why


def reachability(approver: Approver, listed: Iterable[Subscription]) -> Reachability:
    """What is wrong with an approver's topic. The words name no address.

    An approver with an e-mail address needs that one confirmed, also beside Slack: the configuration
    promises it. Without an address, any confirmed subscription or a Slack user will do.
    """
    found = list(listed)
    if approver.email is not None:
        mine = [one for one in found if one.endpoint.casefold() == approver.email.casefold()]
        if any(one.confirmed for one in mine):
            return Reachability(approver.name, "")
        if mine:
            return Reachability(
                approver.name,
                "the e-mail subscription is not confirmed; it expires three days after it was made",
            )
        return Reachability(
            approver.name,
            "the e-mail subscription is gone (expired unconfirmed, or unsubscribed); a deployment does not "
            "make it again by itself",
        )
    if approver.slack is not None or any(one.confirmed for one in found):
        return Reachability(approver.name, "")
    return Reachability(approver.name, "nobody has a confirmed subscription to the topic")
