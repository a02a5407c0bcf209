"""List, describe, approve, reject and revoke rollouts, and acknowledge their manual steps, from a terminal,
as who you are in AWS.

Exit status: 0 told, or recorded; 1 refused: a person must act; 2 the command line is not understood; 3 it may
pass by itself: try again. Nothing is recorded unless it says so.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from aicr_pipeline import command
from aicr_pipeline.adapters.lookup import ROLLOUT_NAME
from aicr_pipeline.adapters.signed_api import SignedApi
from aicr_pipeline.decide.approval_message import guidance_lines
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.upgrades import Guidance
from aicr_pipeline.operators import DONE, REFUSED, TRY_AGAIN, add_api_options, open_api, require_api, shown

#: A verb, and the decision that it records; None for those that only read.
VERBS = {
    "list": None,
    "describe": None,
    "approve": "Approved",
    "reject": "Rejected",
    "revoke": "Revoked",
    "acknowledge": "Acknowledged",
}
_LEAST_DIGEST = 8


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. What argparse refuses is ``SystemExit(2)``."""
    parser = argparse.ArgumentParser(
        prog="python -m aicr_pipeline.approvals", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("verb", choices=tuple(VERBS))
    parser.add_argument("rollout", nargs="?", default="", metavar="ROLLOUT")
    parser.add_argument(
        "release", nargs="?", default="", metavar="RELEASE", help="whose manual step to acknowledge"
    )
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="why; needed by whatever records something"
    )
    parser.add_argument(
        "--expires", default="", metavar="2h", help="how long an approval holds; else until the deadline"
    )
    parser.add_argument(
        "--digest", default="", metavar="HEX", help="answer only if this is what is asked (from describe)"
    )
    add_api_options(parser)
    # Intermixed: else ``approve --reason … ROLLOUT`` would not be understood.
    options = parser.parse_intermixed_args(arguments)
    _check(parser, options)
    return command.guarded(lambda: _run(options), (REFUSED, TRY_AGAIN), options.json)


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    decides = VERBS[options.verb] is not None
    if (options.verb == "list") == bool(options.rollout):
        parser.error("list takes no rollout" if options.rollout else f"{options.verb} which rollout?")
    if options.rollout and not ROLLOUT_NAME.fullmatch(options.rollout):
        parser.error("that is no rollout's name")
    if (options.verb == "acknowledge") != bool(options.release):
        parser.error(
            f"{options.verb} takes no release"
            if options.release
            else "acknowledge the step of which release?"
        )
    if decides != bool(options.reason.strip()):
        parser.error(f"{options.verb} {'needs' if decides else 'takes no'} --reason")
    if options.expires and options.verb != "approve":
        parser.error("--expires is for approve")
    digest = options.digest.removeprefix("sha256:")
    if options.digest and (options.verb in ("describe", "list", "revoke") or len(digest) < _LEAST_DIGEST):
        parser.error(
            f"--digest is for approve, reject and acknowledge, and has at least {_LEAST_DIGEST} hexes"
        )
    require_api(parser, options)


def _run(options: argparse.Namespace) -> int:
    api = open_api(options)
    if options.verb == "list":
        found = api.ask("GET", "/operators/rollouts")
        return _print(found, _listed(found), options.json)
    path = f"/operators/rollouts/{options.rollout}"
    if VERBS[options.verb] is None:
        found = api.ask("GET", path)
        return _print(found, _described(found), options.json)
    found = _decide(api, path, options)
    return _print(found, [f"recorded: {options.rollout} is {found['state']}"], options.json)


def _decide(api: SignedApi, path: str, options: argparse.Namespace) -> Any:
    wish = {"decision": VERBS[options.verb], "reason": options.reason, "expiry": options.expires}
    if options.verb != "revoke":
        # The digest of what describe shows goes back: should it change meanwhile, nothing is recorded.
        found = api.ask("GET", path)
        # What was acknowledged already waits no more: the request is named, and the answer is that it stands.
        held = (found["held"] or {}).get("digest")
        asks = found["held"] if options.verb == "acknowledge" and held else found
        asked, wanted = str(asks.get("digest") or ""), options.digest.removeprefix("sha256:").lower()
        if not asked.removeprefix("sha256:").startswith(wanted):
            message = (
                f"What is asked is not {options.digest}. Describe the rollout again. Nothing was recorded."
            )
            raise PipelineError(Reason.Conflict, message)
        wish |= {"digest": asked} if asked else {}
        wish |= {"release": options.release} if options.release else {}
        if not options.json:
            print("\n".join(shown(line) for line in _described(found)), file=sys.stderr, flush=True)
    return api.ask("POST", f"{path}/decision", json.dumps(wish).encode())


def _listed(found: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{one['state']:17}  {one['rollout']}  until {one['deadline']}  submitted by {one['submitter']}"
        for one in found["rollouts"]
    ]
    more = [f"and {found['more']} older"] if found["more"] else []
    return [*lines, *more] or ["no rollout yet"]


def _described(found: Mapping[str, Any]) -> list[str]:
    rollout, report, you = found["rollout"], found["report"], found["you"]
    eyes, people = found["fourEyes"], ", ".join(found["approvedBy"])
    left = f", {found['remaining']} left" if found["remaining"] else ""
    lines = [
        f"rollout     {rollout['name']} of cluster {rollout['cluster']}: {found['state']}",
        f"from        {rollout.get('fromPlan') or 'nothing: a first install'}",
        f"to          {rollout['toPlan']}",
        f"submitted   by {rollout['submitter']}",
        f"four eyes   {'enforced' if eyes['enforced'] else 'not enforced: ' + eyes['because']}",
        f"deadline    {rollout['deadline']}{left}",
        f"asked       {found['digest'] or 'nobody yet'}",
        f"approvals   {len(found['approvedBy'])} of {found['needed']} {people}".rstrip(),
        f"you         {you['approver'] or 'no approver'}{'' if you['mayApprove'] else ', may not approve'}"
        f" ({you['principal']})",
        f"changes     {found['summary']}",
    ]
    lines += [f"because     {why}" for why in found["because"]]
    lines += _held(found["held"])
    lines += [f"mind this   {warning}" for warning in found["warnings"]]
    lines += [f"  {_step(step)}" for step in (report or {}).get("steps", ()) if step["action"] != "Unchanged"]
    return [*lines, *(f"{moment['at']}  {moment['text']}" for moment in found["history"])]


def _held(held: Mapping[str, Any] | None) -> list[str]:
    """The step that waits for a person, with its record's own words."""
    if held is None:
        return []
    lines = [f"waits       step {held['index']}/{held['of']} {held['release']}: {held['message']}"]
    guidance = Guidance.model_validate_json(json.dumps(held["guidance"])) if held["guidance"] else None
    return [*lines, *(f"  {line}" for line in guidance_lines(guidance))]


def _step(step: Mapping[str, Any]) -> str:
    came = f"{step['fromVersion']} -> " if step.get("fromVersion") else ""
    verdict = f"  {step['verdict']}" if step.get("verdict") else ""
    values = f"  values: {', '.join(step['changedValues'])}" if step.get("changedValues") else ""
    return f"{step['action']:12} {step['release']}  {came}{step['toVersion']}{verdict}{values}"


def _print(found: Mapping[str, Any], lines: list[str], as_json: bool) -> int:
    print(json.dumps(found, indent=2) if as_json else "\n".join(map(shown, lines)), flush=True)
    return DONE


if __name__ == "__main__":
    sys.exit(main())
