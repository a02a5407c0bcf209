"""The order in which a cluster's rollouts began, as the ledger keeps it: one place after the other.

A place is a key that is written once, and written only when the rollout at the place before is over
(``actions/start_rollout``). So no clock makes the order, all rollouts but the newest have an outcome, and
they ended in the order in which they began. The newest sorts first: finding it takes one request, however
many there are (docs/decisions/0019-the-order-of-rollouts.md).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from aicr_pipeline.adapters.ledger import Ledger, LedgerReader
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

FOLDER = "order/"
_LAST = 99_999_999
_KEY = re.compile(r"order/([0-9]{8})\.json")


@dataclass(frozen=True)
class Place:
    """A rollout that began as the ``number``-th of its cluster, from 1; all numbers below are taken."""

    number: int
    rollout: str


def place_key(number: int) -> str:
    """Ledger key of a place: what is left to 99,999,999, so a listing begins with the newest."""
    return f"{FOLDER}{_LAST - number:08}.json"


def newest_place(ledger: LedgerReader) -> Place | None:
    """The rollout that began last; None before the first. It is the only one that may have no outcome.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when what stands there is no place.
    """
    key = ledger.first_key(FOLDER)
    if key is None:
        return None
    found = _KEY.fullmatch(key)
    if found is None:
        raise PipelineError(Reason.PlanUnreadable, f"Ledger key {key} is no place in the order of rollouts.")
    return _place(ledger, _LAST - int(found[1]))


def newest_first(ledger: LedgerReader) -> Iterator[str]:
    """The names of all rollouts, the one that began last first. Each costs one request: stop when done.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when a place is missing or cannot be read.
    """
    newest = newest_place(ledger)
    if newest is None:
        return
    yield newest.rollout
    for number in range(newest.number - 1, 0, -1):
        yield _place(ledger, number).rollout


def take_place(ledger: Ledger, number: int, rollout: str) -> None:
    """Make a rollout the ``number``-th; for who saw that the one before is over.

    Raises
    ------
    TransientError
        ``Conflict`` when another rollout took that place: whoever wanted it has to look anew.
    """
    if ledger.put_once(place_key(number), json.dumps({"rollout": rollout}).encode()):
        return
    there = _place(ledger, number).rollout
    if there != rollout:
        message = f"Starting rollout {rollout}: {there} began meanwhile. The event is delivered again."
        raise TransientError(Reason.Conflict, message)


def _place(ledger: LedgerReader, number: int) -> Place:
    key = place_key(number)
    text = ledger.get(key)
    if text is None:
        message = (
            f"Ledger key {key} is missing, a place in the order of rollouts. Restore the object's version."
        )
        raise PipelineError(Reason.PlanUnreadable, message)
    try:
        rollout = json.loads(text)["rollout"]
    except (ValueError, RecursionError, KeyError, TypeError):
        rollout = None
    if not isinstance(rollout, str) or not rollout:
        raise PipelineError(Reason.PlanUnreadable, f"Ledger key {key} does not name a rollout.")
    return Place(number, rollout)
