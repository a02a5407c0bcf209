"""Tell how the cluster's runtime is: its four conditions, the rollout that is on, and what is not ready.

Exit status: 0 told, whatever it says; 1 refused: a person must act; 2 the command line is not understood;
3 it may pass by itself: try again.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from aicr_pipeline import command
from aicr_pipeline.adapters.signed_api import SignedApi
from aicr_pipeline.decide.text_table import table
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.operators import DONE, REFUSED, TRY_AGAIN, add_api_options, open_api, require_api, shown

PATH = "/operators/status"
#: So long a fresh status is waited for, and between two looks whether it is there.
PATIENCE_SECONDS, LOOK_SECONDS = 60.0, 0.5


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. What argparse refuses is ``SystemExit(2)``."""
    parser = argparse.ArgumentParser(
        prog="python -m aicr_pipeline.status", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="have it made anew, from ledger and cluster alone; wait for it"
    )
    add_api_options(parser)
    options = parser.parse_args(arguments)
    require_api(parser, options)
    return command.guarded(lambda: _run(options), (REFUSED, TRY_AGAIN), options.json)


def _run(options: argparse.Namespace) -> int:
    api = open_api(options)
    found = _fresh(api) if options.rebuild else api.ask("GET", PATH)
    lines = told(found)
    print(json.dumps(found, indent=2) if options.json else "\n".join(map(shown, lines)), flush=True)
    return DONE


def _fresh(api: SignedApi) -> Any:
    """Ask for a new one, and wait until it is there."""
    at = str(api.ask("POST", PATH)["at"])
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = _kept(api)
        if found is not None and str(found["observedAt"]) >= at:
            return found
        if time.monotonic() > until:
            raise TransientError(
                Reason.Resolving,
                "No fresh status came within a minute; look at the log of update_status.",
            )
        time.sleep(LOOK_SECONDS)


def _kept(api: SignedApi) -> Any:
    try:
        return api.ask("GET", PATH)
    except PipelineError as error:
        if error.reason is Reason.NoActivePlan:
            return None  # none yet
        raise


def told(found: Mapping[str, Any]) -> list[str]:
    """The document as lines for a terminal."""
    conditions = found["conditions"]
    ready = next(one for one in conditions if one["type"] == "Ready")
    stalled = next(one for one in conditions if one["type"] == "Stalled")
    reason = f" ({ready['reason']})" if ready.get("reason") else ""
    said = f"{ready['message']}\n{stalled['message']}"
    lines = [
        f"cluster {found['cluster']}: Ready={ready['status']}{reason}",
        f"  {ready['message']}",
        *([f"  {stalled['message']}"] if stalled["message"] not in ready["message"] else []),
        "",
        *table(
            ("condition", "status", "reason", "since"),
            [
                (one["type"], one["status"], one.get("reason", "-"), one["lastTransitionTime"])
                for one in conditions
            ],
            None,
        ),
    ]
    lines += [
        f"{one['type']:16} {one['message']}"
        for one in conditions
        if one["type"] in ("Resolved", "EngineAvailable") and one["message"] not in said
    ]
    lines += ["", *_plans(found)]
    lines += [f"{one['state']:10} {one['message']}" for one in found["releases"] if one["state"] != "Ready"]
    lines += [f"no message reaches {one['name']}: {one['why']}" for one in found["unreachable"]]
    return [*lines, f"seen at {found['observedAt']}"]


def _plans(found: Mapping[str, Any]) -> Iterable[str]:
    yield f"active plan   {found.get('activePlan') or 'none yet'}"
    yield f"resolved plan {found.get('resolvedPlan') or 'none'}"
    rollout = found.get("rollout")
    if rollout:
        step = f", step {rollout['step']}/{rollout['of']}" if rollout.get("step") else ""
        yield f"rollout       {rollout['name']}: {rollout.get('outcome') or 'on'}{step}"
        if rollout.get("newerPlan"):
            yield f"newer plan    {rollout['newerPlan']} waits for the end of this rollout"
    ready = sum(one["state"] == "Ready" for one in found["releases"])
    if found["releases"]:
        yield f"releases      {ready} of {len(found['releases'])} are ready"


if __name__ == "__main__":
    sys.exit(main())
