"""Finding what a person names: a plan by part of its digest, a rollout with all its records, each checked."""

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

from aicr_pipeline.adapters.ledger import LedgerReader
from aicr_pipeline.adapters.order import newest_first
from aicr_pipeline.adapters.rollouts import (
    load_outcome,
    load_plan,
    load_report,
    load_request,
    load_revocation,
    load_rollout,
    standing_decision,
)
from aicr_pipeline.decide.assess import request_digest
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import (
    ApprovalRequest,
    Decision,
    Report,
    Revocation,
    Rollout,
    RolloutOutcome,
    rollout_key,
)

#: A plan is named by its digest or by the beginning of it.
PLAN_NAME = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})")
#: Of what a refusal lists.
MOST_NAMED = 5
#: As in ``model/rollout.py``; nothing else becomes part of a key.
ROLLOUT_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,79}")


@dataclass(frozen=True)
class RolloutRecords:
    """What the ledger says of one rollout; None for what is not written yet."""

    rollout: Rollout
    report: Report | None
    request: ApprovalRequest | None
    decision: Decision | None
    revocation: Revocation | None
    outcome: RolloutOutcome | None
    evidence: dict[str, Any] | None
    stalls: tuple[dict[str, Any], ...]


def find_plan(ledger: LedgerReader, name: str) -> Plan:
    """The plan whose digest begins with ``name``, its content checked.

    Parameters
    ----------
    name:
        ``sha256:`` and 64 hexes, or at least 8 of them with or without ``sha256:``.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when there is none, more than one, or its content is another.
    """
    hexes = name.removeprefix("sha256:")
    if len(hexes) == 64:
        return load_plan(ledger, f"sha256:{hexes}")
    found = [key.removeprefix("plans/").removesuffix(".json") for key, _ in ledger.keys(f"plans/{hexes}")]
    if not found:
        raise PipelineError(Reason.PlanUnreadable, f"No plan in the ledger begins with {hexes}.")
    if len(found) > 1:
        raise PipelineError(
            Reason.PlanUnreadable,
            f"{len(found)} plans begin with {hexes}; name more of it: {', '.join(sorted(found)[:5])}.",
        )
    return load_plan(ledger, f"sha256:{found[0]}")


def what_there_is(ledger: LedgerReader) -> str:
    """The newest rollouts and the plans of a ledger, for who named none that is there."""
    rollouts = list(islice(newest_first(ledger), MOST_NAMED))
    plans = sorted((written, key[6:18]) for key, written in ledger.keys("plans/") if key.endswith(".json"))
    if not rollouts and not plans:
        return "The ledger has no rollout and no plan yet."
    names = ", ".join(rollouts) or "none"
    digests = ", ".join(digest for _, digest in reversed(plans[-MOST_NAMED:])) or "none"
    return f"There are rollouts, the newest first: {names}. Plans: {digests}."


def load_records(ledger: LedgerReader, name: str) -> RolloutRecords:
    """All records of a rollout, which must fit each other.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when the rollout is not there, or one of its records is not about the others.
    """
    rollout = load_rollout(ledger, name)
    report, request = load_report(ledger, name), load_request(ledger, name)
    decision, outcome = standing_decision(ledger, rollout), load_outcome(ledger, name)
    revocation = load_revocation(ledger, name)
    # A decision may be that of the rollout it inherits from; its digest is compared below.
    if {record.rollout for record in (request, revocation, outcome) if record} | {rollout.name} != {name}:
        raise _misfit(name, "one of its records is of another rollout")
    if report and (report.from_plan, report.to_plan) != (rollout.from_plan, rollout.to_plan):
        raise _misfit(name, "its report is of other plans")
    if request and (report is None or request.digest != request_digest(report, rollout.deadline)):
        raise _misfit(name, "what was asked is not its report")
    if decision and (request is None or decision.request_digest != request.digest):
        raise _misfit(name, "what was decided is not what was asked")
    stalls = [_json(ledger, key) for key, _ in ledger.keys(f"rollouts/{name}/stalls/")]
    return RolloutRecords(
        rollout, report, request, decision, revocation, outcome, _evidence(ledger, name),
        tuple(sorted(stalls, key=lambda stall: str(stall.get("at")))),
    )  # fmt: skip


def recorded_file(ledger: LedgerReader, key: str, want: str | None) -> bytes | None:
    """A file that a plan recorded by digest (None: it records none); None when it is not in the ledger.

    Raises
    ------
    PipelineError
        ``PlanUnreadable`` when it is there with another digest.
    """
    text = ledger.get(key)
    if text is not None and want is not None and sha256(text) != want:
        raise PipelineError(
            Reason.PlanUnreadable, f"{key} was changed after it was written: it is not {want}."
        )
    return text


def _evidence(ledger: LedgerReader, name: str) -> dict[str, Any] | None:
    """The binding, its envelope being what its key says; whether it holds, ``verify`` tells."""
    if ledger.get(rollout_key(name, "binding")) is None:
        return None
    pointer = _json(ledger, rollout_key(name, "binding"))
    key = str(pointer.get("key"))
    if not re.fullmatch(rf"evidence/[a-z0-9-]+/{re.escape(name)}/[0-9a-f]{{64}}\.intoto\.json", key):
        raise _misfit(name, "its binding names no evidence of its own")
    hexes = key.rpartition("/")[2].partition(".")[0]
    if recorded_file(ledger, key, f"sha256:{hexes}") is None:
        raise _misfit(name, f"its evidence {key} is not in the ledger")
    return pointer


def _json(ledger: LedgerReader, key: str) -> dict[str, Any]:
    try:
        data = json.loads(ledger.get(key) or b"")
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise PipelineError(Reason.PlanUnreadable, f"Ledger key {key} is not a JSON object.")
    return data


def _misfit(name: str, problem: str) -> PipelineError:
    return PipelineError(Reason.PlanUnreadable, f"Rollout {name} cannot be believed: {problem}.")
