"""Tell whether what runs is qualified: the profile, the evidence that counts, and what differs by which row.

Evidence is read from the ledger and verified against --key; what does not verify is named and ignored. What
runs is what the pipeline says of itself. Exit status: 0 qualified, and what runs is what was; 1 not
qualified, or stale; 2 something given or read is not what it should be, or the command line; 3 incomplete:
something is not known, or AWS cannot be reached.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aicr_pipeline import command
from aicr_pipeline.adapters.evidence_reader import clusters, newest_snapshot, pinned_key, read_evidence
from aicr_pipeline.adapters.ledger import Ledger, LedgerReader
from aicr_pipeline.adapters.rollouts import active_plan, load_plan
from aicr_pipeline.adapters.signed_api import OUTPUT, SignedApi, find_endpoint, stack_outputs
from aicr_pipeline.decide.checking import check
from aicr_pipeline.decide.dsse import as_der, fingerprint, once, read_key
from aicr_pipeline.decide.qualification import INCOMPLETE, INVALID, Now, newest_counting, qualify
from aicr_pipeline.decide.qualification_words import document, told
from aicr_pipeline.decide.tuple_reader import read_tuple
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.base import DocumentT, parse
from aicr_pipeline.model.evidence import BoundTuple
from aicr_pipeline.model.plan import Plan, plan_key
from aicr_pipeline.model.qualification import Running
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.release import Release
from aicr_pipeline.model.status import Status
from aicr_pipeline.operators import session_of, shown

RUNNING_PATH, STATUS_PATH = "/operators/running", "/operators/status"
#: What ``make demo`` leaves of the pipeline's own word, beside ``ledger``.
RUNNING_FILE = "running.json"
MOST_BYTES = 1 << 20


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. What argparse refuses is ``SystemExit(2)``."""
    parser = argparse.ArgumentParser(
        prog="python -m aicr_pipeline.qualification", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("cluster", nargs="?", default="", metavar="CLUSTER", help="its stack is asked")
    parser.add_argument(
        "--key", action="append", type=Path, default=[], metavar="PUBLIC_KEY",
        help="a public key that is trusted, PEM or DER; again for a key of earlier evidence",
    )  # fmt: skip
    parser.add_argument(
        "--fingerprint", action="append", default=[], metavar="HEX",
        help="of a key that is trusted, which the ledger keeps",
    )  # fmt: skip
    command.add_ledger_options(parser)
    parser.add_argument(
        "--running", type=Path, metavar="FILE", help="what the pipeline says it runs, kept in a file"
    )
    parser.add_argument("--release", type=Path, metavar="FILE", help="compare with this release.json")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the page there, too")
    parser.add_argument("--json", action="store_true", help="print one JSON object, refused or not")
    options = parser.parse_args(arguments)
    if not options.key and not options.fingerprint:
        parser.error("name a key that is trusted: --key PUBLIC_KEY or --fingerprint HEX")
    if not all(re.fullmatch("[0-9a-f]{64}", mark) for mark in options.fingerprint):
        parser.error("--fingerprint is 64 lower-case hexes")
    ledger = command.open_ledger(parser, options)
    if ledger is None and not options.cluster:
        parser.error("name the CLUSTER, or the ledger: --ledger BUCKET or --from DIR")
    return command.guarded(lambda: _run(options, ledger), (INVALID, INCOMPLETE), options.json)


@dataclass(frozen=True)
class _Told:
    """What the pipeline says of itself, where it could be asked."""

    running: Running | None
    status: Status | None


def _run(options: argparse.Namespace, ledger: LedgerReader | None) -> int:
    keys = [_key(file) for file in options.key]
    release = _file(options.release, Release) if options.release else None
    said = _Told(_kept(options), None)
    if ledger is None:
        ledger, said = _of_stack(options.cluster, said)
    keys += [_pinned(ledger, mark) for mark in options.fingerprint]
    now = _now(options, ledger, said.running)
    evidence = read_evidence(ledger, keys, lambda proven: newest_counting(proven, now) is not None)
    found = qualify(evidence.proven, evidence.left, now)
    lines = check(now, release, evidence.proven, said.status)
    marks = [fingerprint(key) for key in keys]
    _print(options, document(found, lines, marks, release) | {"older": evidence.older})
    return found.code


def _print(options: argparse.Namespace, made: dict[str, Any]) -> None:
    if options.html is not None:
        from aicr_pipeline.pages import render

        # A file: nobody is signed in, and no header carries a policy.
        page = render("qualification", page=made, answer={"signed_in_as": None}, style_nonce="")
        try:
            options.html.write_text(page)
        except OSError as error:
            message = f"Writing the page: {options.html} cannot be written ({error.strerror})."
            raise PipelineError(Reason.InvalidConfiguration, message) from None
    print(json.dumps(made, indent=2) if options.json else "\n".join(map(shown, told(made))), flush=True)


def _of_stack(cluster: str, said: _Told) -> tuple[LedgerReader, _Told]:
    """The ledger and the pipeline's word, of a deployed stack."""
    session = session_of()
    outputs = stack_outputs(cluster, session)
    bucket = outputs.get("LedgerBucket", "")
    if not bucket:
        message = f"The stack aicr-pipeline-{cluster} has no output LedgerBucket; deploy it again."
        raise PipelineError(Reason.InvalidConfiguration, message)
    api = SignedApi(find_endpoint(outputs.get(OUTPUT, ""), cluster, session), session)
    running = said.running
    if running is None:
        answer = api.ask("GET", RUNNING_PATH)
        running = parse(Running, dict(answer), Reason.InvalidConfiguration, "what the pipeline says it runs")
    return Ledger(session.client("s3"), bucket), _Told(running, _status(api))


def _status(api: SignedApi) -> Status | None:
    """Without one the charts are compared all the same, with what was rolled out."""
    try:
        return parse(Status, dict(api.ask("GET", STATUS_PATH)), Reason.PlanUnreadable, "the status")
    except TransientError:
        raise
    except PipelineError:
        return None


def _kept(options: argparse.Namespace) -> Running | None:
    if options.running is not None:
        return _file(options.running, Running)
    beside = options.folder / RUNNING_FILE if options.folder is not None else None
    return _file(beside, Running) if beside is not None and command.is_file(beside) else None


def _now(options: argparse.Namespace, ledger: LedgerReader, running: Running | None) -> Now:
    active = active_plan(ledger)
    rollout = active.outcome.rollout if active.outcome else None
    plan = None
    if active.digest is not None and ledger.get(plan_key(active.digest)) is not None:
        plan = load_plan(ledger, active.digest)
    named = {options.cluster, running.cluster if running else ""} - {""}
    if len(named) > 1:
        message = f"What is said to run is of another cluster than {options.cluster}."
        raise PipelineError(Reason.InvalidConfiguration, message)
    cluster = named.pop() if named else _only_cluster(ledger)
    return Now(cluster, plan, rollout, active.is_whole, running, _tuple(ledger, plan))


def _only_cluster(ledger: LedgerReader) -> str:
    """A ledger is of one cluster; its evidence says which."""
    found = clusters(ledger)
    if len(found) > 1:
        message = f"The ledger holds evidence of {', '.join(found)}; name the CLUSTER."
        raise PipelineError(Reason.InvalidConfiguration, message)
    return found.pop() if found else ""


def _tuple(ledger: LedgerReader, plan: Plan | None) -> BoundTuple | None:
    snapshot = newest_snapshot(ledger) if plan is not None else None
    return read_tuple(snapshot, plan.desired_state, ()) if snapshot and plan else None


def _key(file: Path) -> bytes:
    try:
        return as_der(read_key(_bytes(file)))
    except ValueError as error:
        raise PipelineError(Reason.InvalidConfiguration, f"Reading --key {file}: {error}.") from None


def _pinned(ledger: LedgerReader, mark: str) -> bytes:
    found = pinned_key(ledger, mark)
    if found is None:
        message = f"The ledger has no public key with fingerprint {mark}; give the key itself with --key."
        raise PipelineError(Reason.InvalidConfiguration, message)
    return found


def _file(file: Path, model: type[DocumentT]) -> DocumentT:
    try:
        data: Any = json.loads(_bytes(file), object_pairs_hook=once)
    except (ValueError, RecursionError):
        message = f"{file} is not JSON, or has a name twice in one object."
        raise PipelineError(Reason.InvalidConfiguration, message) from None
    return parse(model, data, Reason.InvalidConfiguration, str(file))


def _bytes(file: Path) -> bytes:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise PipelineError(Reason.ContentTooLarge, f"{file} is above {MOST_BYTES >> 20} MiB.")
        return file.read_bytes()
    except OSError as error:
        message = f"{file} cannot be read ({error.strerror})."
        raise PipelineError(Reason.InvalidConfiguration, message) from None


if __name__ == "__main__":
    sys.exit(main())
