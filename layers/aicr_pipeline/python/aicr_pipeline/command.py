"""What the commands that read the ledger share: options, who reads it, and how an error is said."""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.ledger import Ledger, LedgerReader
from aicr_pipeline.adapters.ledger_folder import LedgerFolder
from aicr_pipeline.adapters.lookup import PLAN_NAME, find_plan
from aicr_pipeline.decide.plan import read_plan
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason

USAGE, INTERRUPTED = 2, 130
#: Every reason has its line there.
PAGE = "docs/runbook.md"
MOST_PLAN_BYTES = 64 << 20

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def add_ledger_options(parser: argparse.ArgumentParser) -> None:
    """``--ledger BUCKET`` or ``--from DIR``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--ledger", metavar="BUCKET", help="the stack's output LedgerBucket, read as you")
    where.add_argument(
        "--from", dest="folder", type=Path, metavar="DIR",
        help="a folder with the ledger's objects (aws s3 sync), or what make demo leaves (out)",
    )  # fmt: skip


def open_ledger(parser: argparse.ArgumentParser, options: argparse.Namespace) -> LedgerReader | None:
    """The ledger that the options name, None when they name none."""
    if options.ledger is not None:
        if not _BUCKET.fullmatch(options.ledger):
            parser.error("--ledger is not the name of a bucket")
        from botocore.exceptions import BotoCoreError

        try:
            return Ledger(aws.client("s3"), options.ledger)
        except BotoCoreError as error:
            known = aws.unread(error)
            parser.error(known.message if known else type(error).__name__)
    if options.folder is None:
        return None
    folder: Path = options.folder / "ledger" if is_folder(options.folder / "ledger") else options.folder
    if not any(is_folder(folder / part) for part in ("plans", "rollouts", "resolves")):
        parser.error("--from is no folder with the ledger's plans/, rollouts/ and resolves/")
    return LedgerFolder(folder)


def named_plan(ledger: LedgerReader | None, name: str) -> Plan:
    """A plan by file or by digest.

    Raises
    ------
    PipelineError
        ``PlanUnreadable``; ``InvalidConfiguration`` when a ledger would be needed and none is named.
    """
    if is_file(Path(name)):
        return _plan_file(Path(name))
    if not PLAN_NAME.fullmatch(name):
        raise PipelineError(
            Reason.PlanUnreadable, "That is neither a file nor a plan's digest (at least 8 hexes of it)."
        )
    return find_plan(required(ledger), name)


def required(ledger: LedgerReader | None) -> LedgerReader:
    """The ledger, which is needed here. Raises PipelineError ``InvalidConfiguration`` without one."""
    if ledger is None:
        raise PipelineError(Reason.InvalidConfiguration, "Name the ledger: --ledger BUCKET or --from DIR.")
    return ledger


def guarded(work: Callable[[], int], codes: tuple[int, int], as_json: bool) -> int:
    """Run a command's work; errors go to stderr as a sentence, with ``--json`` as an object too.

    Parameters
    ----------
    codes:
        Exit statuses for what a person must change, and for what may pass by itself. A region or a profile of
        AWS that is missing is a command line that is not understood.
    """
    refused, passing = codes
    try:
        return work()
    except aws.AwsSettingsError as error:
        _say(error, as_json)
        return USAGE
    except PipelineError as error:
        _say(error, as_json)
        return passing if error.retry else refused
    except BrokenPipeError:
        sys.stderr.close()
        return refused
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - outermost: people get a sentence, scripts their exit status
        known = _of_aws(error)
        _say(known, as_json)
        if isinstance(known, aws.AwsSettingsError):
            return USAGE
        return passing if known.retry else refused


def is_file(path: Path) -> bool:
    """Whether it is one; a name too long to be one is not."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether it is one; a name too long to be one is not."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _plan_file(file: Path) -> Plan:
    try:
        if file.stat().st_size > MOST_PLAN_BYTES:
            raise PipelineError(Reason.ContentTooLarge, f"{file} is above {MOST_PLAN_BYTES >> 20} MiB.")
        text = file.read_bytes()
    except OSError as error:
        raise PipelineError(Reason.PlanUnreadable, f"{file} cannot be read ({error.strerror}).") from error
    try:
        want = str(json.loads(text)["desiredStateDigest"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PipelineError(Reason.PlanUnreadable, f"{file} is not a plan document.") from None
    return read_plan(text, want)


def _of_aws(error: Exception) -> PipelineError:
    """What boto3 raises, as a sentence; anything else is a defect of ours."""
    known = aws.unread(error)
    if known is not None:
        return known
    name = f"{type(error).__name__}{f': {error.strerror}' if isinstance(error, OSError) else ''}"
    return PipelineError(Reason.PlanUnreadable, f"Stopped unexpectedly ({name}); please report it.")


def _say(error: PipelineError, as_json: bool) -> None:
    if as_json:
        refusal = {"status": "transient" if error.retry else "refused", "reason": str(error.reason)}
        print(json.dumps(refusal | {"message": error.message, "see": PAGE}, indent=2))
    word = "try again" if error.retry else "refused"
    print(f"{word}: {error.reason}\n  {error.message}", file=sys.stderr, flush=True)
