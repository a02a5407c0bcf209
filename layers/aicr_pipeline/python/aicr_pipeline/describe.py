"""Tell what a plan installs, what changes against another plan, and how a rollout went.

PLAN is a file, a digest or at least 8 hexes of one; nothing: the active plan. ROLLOUT is a rollout's name.
Exit status: 0 told; 1 not there, or not what its digest says; 2 the command line is not understood;
3 AWS cannot be reached: try again.
"""

import argparse
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aicr_pipeline import command
from aicr_pipeline.adapters.ledger import LedgerReader
from aicr_pipeline.adapters.lookup import PLAN_NAME, ROLLOUT_NAME, RolloutRecords, load_records, what_there_is
from aicr_pipeline.adapters.rollouts import active_plan, load_plan
from aicr_pipeline.decide.compare_plans import Comparison, compare
from aicr_pipeline.decide.describe import plan_wire, tell
from aicr_pipeline.decide.redact import redact
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key

TOLD, REFUSED, TRY_AGAIN = 0, 1, 3
#: Of a terminal; wider lines are hard to read.
MOST_COLUMNS = 110
LEAST_COLUMNS = 80


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. What argparse refuses is ``SystemExit(2)``."""
    parser = argparse.ArgumentParser(
        prog="python -m aicr_pipeline.describe", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("name", nargs="?", default="", metavar="PLAN|ROLLOUT")
    parser.add_argument(
        "--against", metavar="PLAN", help="compare with this plan; without it a rollout's own from-plan"
    )
    command.add_ledger_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object, refused or not")
    options = parser.parse_args(arguments)
    ledger = command.open_ledger(parser, options)
    if ledger is None and not command.is_file(Path(options.name or ".")):
        parser.error("name the ledger: --ledger BUCKET or --from DIR")
    return command.guarded(lambda: _tell(options, ledger), (REFUSED, TRY_AGAIN), options.json)


@dataclass(frozen=True)
class _Found:
    """What the name means."""

    plan: Plan
    before: Plan | None = None
    #: Whether there is something to compare with; a first install compares with nothing.
    compared: bool = False
    from_is_whole: bool = True
    records: RolloutRecords | None = None
    #: Whether it is the active plan, found as that, and whether the cluster is known to run it.
    active: bool = False
    whole: bool = True


def _tell(options: argparse.Namespace, ledger: LedgerReader | None) -> int:
    found = _find(options.name, ledger)
    comparison = _compare(options.against, found, ledger)
    document: dict[str, Any] = {
        "plan": plan_wire(found.plan),
        "comparison": comparison.wire() if comparison else None,
        "rollout": _records(found.records) if found.records else None,
    }
    if found.active:
        document["plan"] |= {"active": True, "whole": found.whole}
    if options.json:
        print(json.dumps(document, indent=2), flush=True)
    else:
        print("\n".join(tell(document, comparison, _width())), flush=True)
    return TOLD


def _find(name: str, ledger: LedgerReader | None) -> _Found:
    if not name:
        active = active_plan(command.required(ledger))
        if active.digest is None:
            raise PipelineError(
                Reason.NoActivePlan,
                "No rollout has succeeded yet; name a plan or a rollout. "
                f"{what_there_is(command.required(ledger))}",
            )
        plan = load_plan(command.required(ledger), active.digest)
        return _Found(plan, active=True, whole=active.is_whole)
    if command.is_file(Path(name)) or PLAN_NAME.fullmatch(name) or name.startswith("sha256:"):
        return _Found(command.named_plan(ledger, name))
    if not ROLLOUT_NAME.fullmatch(name):
        raise PipelineError(
            Reason.PlanUnreadable,
            "That is no file, no plan's digest (8 hexes or more) and no rollout's name.",
        )
    if command.required(ledger).get(rollout_key(name, "rollout")) is None:
        raise PipelineError(
            Reason.PlanUnreadable,
            f"Rollout {name} is not in the ledger. {what_there_is(command.required(ledger))}",
        )
    records = load_records(command.required(ledger), name)
    rollout = records.rollout
    plan = load_plan(command.required(ledger), rollout.to_plan)
    before = load_plan(command.required(ledger), rollout.from_plan) if rollout.from_plan else None
    return _Found(plan, before, True, rollout.from_is_whole, records)


def _compare(against: str | None, found: _Found, ledger: LedgerReader | None) -> Comparison | None:
    if against is not None:
        return compare(command.named_plan(ledger, against), found.plan)
    if not found.compared:
        return None
    return compare(found.before, found.plan, from_is_whole=found.from_is_whole)


def _records(records: RolloutRecords) -> dict[str, Any]:
    """A rollout's records as JSON; words that people and programs wrote are without credentials."""
    made: dict[str, Any] = records.rollout.wire()
    for name in ("report", "request", "decision", "revocation", "outcome"):
        record = getattr(records, name)
        made[name] = record.wire() if record else None
    for name in ("decision", "revocation"):
        if made[name]:
            made[name]["reason"] = redact(made[name]["reason"])
    if made["outcome"]:
        made["outcome"]["message"] = redact(made["outcome"]["message"])
    return made | {"evidence": records.evidence, "stalls": list(records.stalls)}


def _width() -> int | None:
    if not sys.stdout.isatty():
        return None
    return max(LEAST_COLUMNS, min(MOST_COLUMNS, shutil.get_terminal_size((MOST_COLUMNS, 24)).columns))


if __name__ == "__main__":
    sys.exit(main())
