"""Render a plan again: write what is needed for it, or compare a bundle that somebody rendered.

PLAN is a file, a digest or at least 8 hexes of one. Exit status: 0 written, or equal; 1 different;
2 the command line is not understood, or something cannot be read; 3 written, but the ledger lacks
something that exactness needs, which is named.
"""

import argparse
import json
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aicr_pipeline import command
from aicr_pipeline.adapters.bundle_folder import read_folder
from aicr_pipeline.adapters.ledger import LedgerReader
from aicr_pipeline.adapters.ledger_folder import LedgerFolder
from aicr_pipeline.adapters.lookup import recorded_file
from aicr_pipeline.decide.describe import difference_lines
from aicr_pipeline.decide.reproduce import (
    IMAGE_REPOSITORY,
    RECIPE_FILE,
    BundleComparison,
    Rendering,
    command_script,
    compare_bundle,
    readme,
    rendering,
)
from aicr_pipeline.decide.text_table import plain
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import ClusterRuntime, parse_runtime

EQUAL, DIFFERENT, UNREADABLE, INCOMPLETE = 0, 1, 2, 3

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9.-]*(:\d+)?(/[a-z0-9._-]+)+")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. What argparse refuses is ``SystemExit(2)``."""
    parser = argparse.ArgumentParser(
        prog="python -m aicr_pipeline.reproduce", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("plan", metavar="PLAN")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="write into this folder, new or empty")
    parser.add_argument("--bundle", type=Path, metavar="DIR", help="compare this rendered bundle")
    command.add_ledger_options(parser)
    parser.add_argument(
        "--image", default=IMAGE_REPOSITORY, metavar="REPOSITORY",
        help=f"where AICR's image is, without tag or digest (default {IMAGE_REPOSITORY})",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object, refused or not")
    options = parser.parse_args(arguments)
    if options.dir is None and options.bundle is None:
        parser.error("name what to do: --dir DIR, --bundle DIR, or both")
    if not _REPOSITORY.fullmatch(options.image):
        parser.error("--image is not host/path, without tag, digest, user or password")
    if options.bundle is not None and not command.is_folder(options.bundle):
        parser.error("--bundle is no folder")
    if options.dir is not None and not _is_free(options.dir):
        parser.error("--dir is there and not empty; name a new folder")
    ledger = command.open_ledger(parser, options)
    if ledger is None and not command.is_file(Path(options.plan)):
        parser.error("name the ledger: --ledger BUCKET or --from DIR")
    return command.guarded(lambda: _reproduce(options, ledger), (UNREADABLE, UNREADABLE), options.json)


@dataclass(frozen=True)
class _Recorded:
    """What the plan's run left in the ledger, each None where it did not."""

    runtime: bytes | None = None
    recipe: bytes | None = None
    content: bytes | None = None


def _reproduce(options: argparse.Namespace, ledger: LedgerReader | None) -> int:
    plan = command.named_plan(ledger, options.plan)
    recorded = _recorded(plan, ledger) if ledger is not None else _beside(plan, Path(options.plan))
    document: dict[str, Any] = {"plan": plan.desired_state_digest}
    code, lines = EQUAL, []
    if options.dir is not None:
        runtime = parse_runtime(recorded.runtime) if recorded.runtime is not None else None
        made = _write(options.dir, plan, runtime, recorded, options.image)
        document["rendering"] = made.wire() | {"dir": str(options.dir)}
        lines += _told(made, options.dir)
        code = INCOMPLETE if made.missing else EQUAL
        for what in made.missing:
            print(f"missing: {what}", file=sys.stderr)
    if options.bundle is not None:
        compared = compare_bundle(plan, read_folder(options.bundle), recorded.content)
        findings = [finding.wire() for finding in compared.findings]
        document |= {"equal": not findings, "differences": findings, "notes": list(compared.notes)}
        lines += _compared(compared)
        code = DIFFERENT if findings else code
    print(json.dumps(document, indent=2) if options.json else "\n".join(lines), flush=True)
    return code


def _recorded(plan: Plan, ledger: LedgerReader) -> _Recorded:
    base, said = f"resolves/{plan.recorded.run}", plan.recorded
    if not re.fullmatch(r"[0-9A-Za-z_-]{1,80}", said.run):
        raise PipelineError(Reason.PlanUnreadable, "The plan's recorded run is not the name of a run.")
    return _Recorded(
        runtime=recorded_file(ledger, f"{base}/runtime.yaml", said.runtime_digest),
        recipe=recorded_file(ledger, f"{base}/{RECIPE_FILE}", said.recipe_digest),
        content=recorded_file(ledger, f"{base}/content.sha256", plan.desired_state.bundle_content_digest),
    )


def _beside(plan: Plan, file: Path) -> _Recorded:
    """Without a ledger: the content list that ``--dir`` wrote beside the plan."""
    want = plan.desired_state.bundle_content_digest
    return _Recorded(content=recorded_file(LedgerFolder(file.parent), "content.sha256", want))


def _write(
    folder: Path, plan: Plan, runtime: ClusterRuntime | None, recorded: _Recorded, repository: str
) -> Rendering:
    made = rendering(plan, runtime, recorded.recipe is not None, repository)
    files: dict[str, bytes | None] = {
        "plan.json": (json.dumps(plan.wire(), sort_keys=True, indent=1) + "\n").encode(),
        "runtime.yaml": recorded.runtime,
        RECIPE_FILE: recorded.recipe,
        "content.sha256": recorded.content,
        "command.sh": command_script(plan, made).encode(),
        "README.md": readme(plan, made, recorded.content is not None).encode(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            if content is not None:
                (folder / name).write_bytes(content)
        (folder / "command.sh").chmod(0o755)
    except OSError as error:
        raise PipelineError(
            Reason.InvalidConfiguration, f"{folder} cannot be written ({error.strerror}); name another --dir."
        ) from error
    return made


def _told(made: Rendering, folder: Path) -> list[str]:
    return [
        f"written     {folder}: read README.md, run command.sh",
        f"image       {made.image}",
        f"recipe      aicr {shlex.join(made.recipe)}",
        f"bundle      aicr {shlex.join(made.bundle)}",
    ]


def _compared(compared: BundleComparison) -> list[str]:
    width = shutil.get_terminal_size((110, 24)).columns if sys.stdout.isatty() else None
    lines = ["EQUAL" if not compared.findings else f"DIFFERENT in {len(compared.findings)} places"]
    for finding in compared.findings:
        of = (
            f" of {plain(finding.release)}"
            if finding.release and finding.release != finding.difference.path
            else ""
        )
        lines.append(f"{finding.what}{of}")
        lines += difference_lines(finding.difference, width)
    return [*lines, *(f"note: {plain(note)}" for note in compared.notes)]


def _is_free(folder: Path) -> bool:
    try:
        return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(main())
